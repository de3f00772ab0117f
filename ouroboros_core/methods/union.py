"""Union: one tree per step from all sources, as large as is worth checking. This project's method.

The children of one root are copies from the text, a corpus and a predicted output, recycled
candidates, an EAGLE-3 tree or a draft with candidate suffixes and, on request, phrases of a
lookahead window; equal prefixes are merged. Nodes are left out if they cost more time than they are
expected to save, and the draft is asked only while its passes are worth their time (`adaptive`).
Options beyond a paper are on here: Ouroboros' draft is `extended`. Prompt and text are copied in
any case, so recycled candidates and window need not learn from them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.lookahead_window import columns_within
from ouroboros_core.methods.parts.base import Adjustable, Method, Resources, StepNotes
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.methods.parts.copying import Copying
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto

NGRAM_SIZE = 5
GUESS_SET_SIZE = 7
"""The n-gram size of window and phrases, as in lookahead decoding."""

LONGEST = 24
"""Tokens copied at most."""


class Union(Combination):
    """All members propose; the controller keeps the nodes that are worth checking."""

    id = "union"
    name = "Union of all sources"
    paper = ""
    summary = (
        "Puts copies, recycled candidates and, if there is one, a draft into one tree, sized by "
        "what checking costs on this machine."
    )
    order = 29
    uses = frozenset({Need.CORPUS, Need.PREDICTED_OUTPUT, Need.MEMORY})

    class Hyperparameters(settings.Hyperparameters):
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[12], description="Nodes that the target checks, the likeliest first."
        )
        window_size: Annotated[int, Ge(0), Le(60)] | Auto = Field(
            0,
            examples=[0],
            description="Columns of the target's lookahead window (W), which rarely adds anything.",
        )
        drafting: bool = Field(
            True,
            description="Ask the EAGLE head, or else the draft model, where there is one.",
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
        by_role = resources.members
        members: list[Method] = [by_role["draft"]] if "draft" in by_role else []
        if hyperparameters.copying:
            members.append(Copying(resources, longest=LONGEST))
        members += [by_role[role] for role in ("recycled", "window") if role in by_role]
        super().__init__(hyperparameters, resources, members, merge=True)

    @property
    def notes(self) -> StepNotes:
        window = self.resources.members.get("window")
        columns = 0 if self.settings.window_size == AUTO else None
        return replace(super().notes, columns=window.notes.columns if window else columns)

    @classmethod
    def members(
        cls, hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        chosen: dict[str, tuple[str, dict[str, Any]]] = {}
        drafts: dict[Need, tuple[str, dict[str, Any]]] = {
            Need.EAGLE3: ("eagle3", {}),
            Need.EAGLE: ("eagle2", {}),
            Need.MTP_HEAD: ("mtp", {}),
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
