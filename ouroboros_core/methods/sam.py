"""SAM-Decoding: copies after an earlier occurrence of the longest suffix of the text; without one
another method drafts (arXiv 2411.10666).

Every step looks into three sources: prompt and output (a growing suffix automaton; section 3.1), a
corpus, and a predicted output, which the paper does not have. The longest match decides how many
tokens are copied; if no match is long enough, an auxiliary method drafts (section 3.3). With
`extended` all copies and the auxiliary draft form one tree, which one pass checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.methods.parts.base import Adjustable, Guesser, Method, Resources, Shape
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.methods.parts.copying import Copying
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source

LONGEST = 24
"""Tokens copied at most if their number is 'auto'."""

THRESHOLD = 5
"""Shortest match that is followed if an auxiliary could draft instead, as in the paper."""

AUXILIARY = "auxiliary"
"""The role of the member that drafts."""


class Sam(Combination):
    """The longest match wins; the length of a draft grows with its match, without padding."""

    id = "sam"
    name = "SAM-Decoding"
    paper = "https://arxiv.org/abs/2411.10666"
    summary = (
        "Copies what followed the longest match in the text, a corpus or a predicted output; if "
        "there is none, another method drafts."
    )
    order = 27
    on_map = (Guesser.TEXT, Shape.CHAIN)
    uses = frozenset({Need.CORPUS, Need.PREDICTED_OUTPUT, Need.MEMORY})

    published = fixed_values(
        n_predicts=40,
        len_threshold=5,
        len_bias=5,
        alpha=16.0,
        copy_from="first",
        auxiliary="token_recycling",
        auxiliary_size=60,
        extended=False,
    )
    """Settings of the authors' code (github.com/hyx1999/SAM-Decoding, samd), in which a copy always
    has its full length: 16 times 5 tokens are more than 40. Without an auxiliary, their code uses
    n_predicts=59, len_threshold=1, len_bias=0 and alpha=4."""

    class Hyperparameters(settings.Hyperparameters):
        n_predicts: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[15], description="Most tokens copied in a step."
        )
        len_threshold: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO,
            examples=[THRESHOLD],
            description=(
                "Shortest match that is followed; auto: 5, and 1 in a predicted output or where "
                "nothing drafts instead."
            ),
        )
        len_bias: int = Field(
            5,
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
        copy_from: Literal["newest", "first"] = Field(
            "first",
            description=(
                "The occurrence of a match that is copied: the first, as in the authors' code; or, "
                "beyond the paper, the newest, and in a corpus what is most frequent."
            ),
        )
        auxiliary: Literal[
            "token_recycling", "speculative", "ouroboros", "eagle2", "eagle3", "none"
        ] = Field(
            "token_recycling",
            description=(
                "The method that drafts where no match is long enough, at its default settings; "
                "Token Recycling reads the prompt, too, as in the authors' code."
            ),
        )
        auxiliary_size: Annotated[int, Ge(1), Le(80)] | Auto = Field(
            AUTO,
            examples=[8],
            description=(
                "Nodes of Token Recycling's static tree, where that drafts; 60 are those of the "
                "authors' code."
            ),
        )
        extended: bool = Field(
            False,
            description=(
                "Beyond the paper: all copies and the auxiliary's tree in one tree, instead of "
                "either or; the auxiliary is extended, too."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        self.settings = hyperparameters
        auxiliary, extended = resources.members.get(AUXILIARY), hyperparameters.extended
        shortest = hyperparameters.len_threshold
        threshold = trusting = upto(shortest, 1)
        if shortest == AUTO and auxiliary is not None and not extended:
            threshold = THRESHOLD
        copies = Copying(
            resources,
            longest=upto(hyperparameters.n_predicts, LONGEST),
            threshold=threshold,
            trusting=trusting,
            bias=hyperparameters.len_bias,
            alpha=hyperparameters.alpha,
            several=extended,
            only_source=auxiliary is None,
            first=hyperparameters.copy_from == "first",
        )
        members: list[Method] = [copies]
        if auxiliary is not None:
            members = [auxiliary, copies] if extended else [copies, auxiliary]
        super().__init__(hyperparameters, resources, members, merge=extended)

    @classmethod
    def members(
        cls, hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the auxiliary; as in the authors' code, Token Recycling reads the prompt."""
        name = hyperparameters.auxiliary
        if name == "none":
            return {}
        extended = hyperparameters.extended or name == "token_recycling"
        fixed = hyperparameters.n_predicts != AUTO
        settings: dict[str, Any] = {"fixed": fixed, "extended": extended}
        if name == "token_recycling" and hyperparameters.auxiliary_size != AUTO:
            settings["tree_size"] = hyperparameters.auxiliary_size
        return {AUXILIARY: (name, settings)}

    @property
    def adjustable(self) -> Adjustable | None:
        if self.settings.n_predicts != AUTO:
            return None
        fixed_size = self.settings.auxiliary_size != AUTO
        return Adjustable(always=frozenset({Source.RECYCLED} if fixed_size else ()))
