"""Union: one tree a step from all sources at once, as large as is worth checking. Our own.

Copies from the text, a corpus and the text that is expected, recycled candidates, an EAGLE-2 tree
or a draft with its candidate suffixes and, if asked for, phrases of a lookahead window hang off one
root; equal prefixes are merged. The tree is cut where further nodes cost more time than they can be
expected to save, and the draft is asked only as long as its passes are worth their time
(`adaptive`). What methods named after a paper do beyond it only on request is on here:
Ouroboros' draft is `extended`. Prompt and text are copied from anyway, so that recycled candidates
and window need no more of them.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto
from ouroboros_core.lookup.lookahead_window import columns_within
from ouroboros_core.methods.parts.adjustable import Adjustable
from ouroboros_core.methods.parts.base import Method, Resources, TokenizedPrompt
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.methods.parts.copying import Copying
from ouroboros_core.methods.parts.needs import Need

NGRAM_SIZE = 5
GUESS_SET_SIZE = 7
"""The n-gram size of window and phrases, as in lookahead decoding."""

LONGEST = 24
"""Tokens copied at most."""


class Union(Combination):
    """All members propose; the controller keeps what is worth checking."""

    id = "union"
    name = "Union of all sources"
    paper = ""
    summary = (
        "Copies, recycled candidates and a draft, where there is one, in one tree, sized to what "
        "checking costs on this machine."
    )
    order = 29
    uses = frozenset({Need.CORPUS, Need.PREDICTED_OUTPUT, Need.MEMORY})

    class Hyperparameters(hyperparameters.Hyperparameters):
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[12], description="Nodes that the target checks, the likeliest first."
        )
        window_size: Annotated[int, Ge(0), Le(60)] | Auto = Field(
            0,
            examples=[0],
            description="Columns of the target's lookahead window (W), which rarely adds anything.",
        )
        drafting: bool = Field(
            True, description="Ask the EAGLE head, or else the draft model, where there is one."
        )
        copying: bool = Field(
            True,
            description="Copy from the text, from a corpus and from the text that is expected.",
        )
        recycling: bool = Field(
            True, description="Propose the target's runners-up of earlier passes."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        self.settings = hyperparameters
        given = resources.members
        members: list[Method] = [given["draft"]] if "draft" in given else []
        if hyperparameters.copying:
            members.append(Copying(resources, longest=LONGEST))
        members += [given[role] for role in ("recycled", "window") if role in given]
        super().__init__(hyperparameters, resources, members, merge=True)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        window = self.resources.members.get("window")
        self.columns = window.columns if window else None
        if window is None and self.settings.window_size == AUTO:
            self.columns = 0

    @classmethod
    def members(
        cls, hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        chosen: dict[str, tuple[str, dict[str, Any]]] = {}
        drafts: dict[Need, tuple[str, dict[str, Any]]] = {
            Need.EAGLE: ("eagle2", {}),
            Need.DRAFT_MODEL: ("ouroboros", {"lookahead_phrases": False, "extended": True}),
        }
        drafting = next((draft for need, draft in drafts.items() if resources.has(need)), None)
        if drafting and hyperparameters.drafting:
            chosen["draft"] = drafting
        if hyperparameters.recycling:
            chosen["recycled"] = "token_recycling", {}
        width = hyperparameters.window_size
        width = columns_within(resources.sizing.target_rows, NGRAM_SIZE) if width == AUTO else width
        if width:
            sizes = {
                "window_size": width,
                "ngram_size": NGRAM_SIZE,
                "guess_set_size": GUESS_SET_SIZE,
            }
            chosen["window"] = "lookahead", sizes
        return chosen

    @property
    def adjustable(self) -> Adjustable | None:
        size = self.settings.tree_size
        return Adjustable(size=None if size == AUTO else size)
