"""SAM-Decoding: copy from wherever the longest end of the text occurred before, else draft
otherwise (arXiv 2411.10666).

Three sources are looked into at every step: prompt and output (a suffix automaton that grows with
them; section 3.1), a corpus, and a text that is expected. The longest match decides how much is
copied; where none is long enough an auxiliary method drafts (section 3.3). With `merge`, the
default here, copies and auxiliary draft are put into one tree instead, which one pass checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, fixed_values, upto
from ouroboros_core.methods.base import Adjustable, Method, Need, Resources
from ouroboros_core.methods.combine import Combination
from ouroboros_core.methods.copying import Copying

LONGEST = 24
"""Tokens copied at most where that is 'auto'."""

AUXILIARY = "auxiliary"
"""The role of the member that drafts."""


class Sam(Combination):
    """The longest match wins; nothing is padded, and a draft is as long as its match makes
    likely."""

    id = "sam"
    name = "SAM-Decoding"
    paper = "https://arxiv.org/abs/2411.10666"
    summary = (
        "Copies what followed the longest match in text, corpus or expected text; without one, "
        "another method drafts."
    )
    order = 27
    uses = frozenset({Need.CORPUS, Need.EXPECTED_TEXT, Need.MEMORY})

    published = fixed_values(
        n_predicts=40,
        len_threshold=5,
        len_bias=5,
        alpha=16.0,
        auxiliary="token_recycling",
        merge=False,
    )
    """Those of the authors' code, where a copy has its full length whatever the match: 16 times 5
    tokens are more than 40."""

    class Hyperparameters(hyperparameters.Hyperparameters):
        n_predicts: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[15], description="Most tokens copied in a step."
        )
        len_threshold: int = Field(1, ge=1, le=32, description="Shortest match that is followed.")
        len_bias: int = Field(
            2,
            ge=0,
            le=32,
            description="By how much a match in the corpus must be longer than one in the text.",
        )
        alpha: float = Field(
            1.0,
            ge=0.0,
            le=16.0,
            allow_inf_nan=False,
            description="Copied tokens for each matched one.",
        )
        auxiliary: Literal["token_recycling", "speculative", "ouroboros", "eagle2", "none"] = Field(
            "token_recycling",
            description=(
                "The method that drafts where no match is long enough, at its default settings."
            ),
        )
        merge: bool = Field(
            True,
            description=(
                "Put all copies and the auxiliary's tree into one tree, instead of either or."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        self.settings = hyperparameters
        auxiliary = resources.members.get(AUXILIARY)
        copies = Copying(
            resources,
            longest=upto(hyperparameters.n_predicts, LONGEST),
            threshold=hyperparameters.len_threshold,
            bias=hyperparameters.len_bias,
            alpha=hyperparameters.alpha,
            several=hyperparameters.merge,
            alone=auxiliary is None,
        )
        members: list[Method] = [copies]
        if auxiliary is not None and hyperparameters.merge:
            members = [auxiliary, copies]
        elif auxiliary is not None:
            members = [copies, auxiliary]
        super().__init__(hyperparameters, resources, members, merge=hyperparameters.merge)

    @classmethod
    def members(
        cls, hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        if hyperparameters.auxiliary == "none":
            return {}
        return {
            AUXILIARY: (hyperparameters.auxiliary, {"fixed": hyperparameters.n_predicts != AUTO})
        }

    @property
    def adjustable(self) -> Adjustable | None:
        return Adjustable() if self.settings.n_predicts == AUTO else None
