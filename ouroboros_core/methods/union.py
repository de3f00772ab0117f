"""Union: one tree a step from all sources at once, as large as is worth checking. Our own.

Copies from the text, a corpus and the text that is expected, recycled candidates, phrases of a lookahead window, and an
EAGLE-2 tree or a draft with its candidate suffixes hang off one root; equal prefixes are merged. Each node has a chance, measured
by where it comes from and whether another source agrees, and the tree is cut where further nodes cost more time than they can be
expected to save. The draft is asked last, and only if what it may add to the rest is worth its passes.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto
from ouroboros_core.memory.chances import kind_of
from ouroboros_core.memory.governor import Governor
from ouroboros_core.memory.window import LookaheadWindow, open_window
from ouroboros_core.methods.base import Context, Method, Need, Resources, Verdict
from ouroboros_core.models.language_model import FeatureDrafter, LanguageModel, Output
from ouroboros_core.tree import Learned, Provenance, Source, TokenTree, TreeBuilder

NGRAM_SIZE = 5
GUESS_SET_SIZE = 7
"""Of the window's phrases, as in lookahead decoding."""


class Union(Method):
    """Members offer; one governor, which they share, chooses."""

    id = "union"
    name = "Union of all sources"
    paper = ""
    summary = "Copies, recycled candidates, phrases and a draft in one tree, as large as is worth checking."
    order = 29
    reads_corpus = True
    takes_prediction = True

    class Hyperparameters(hyperparameters.Hyperparameters):
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[12], description="Nodes that the target checks, the likeliest first."
        )
        window_size: Annotated[int, Ge(0), Le(60)] | Auto = Field(
            AUTO, examples=[0], description="Columns of the target's lookahead window (W); auto has one where its rows pay."
        )
        drafting: bool = Field(True, description="Ask the EAGLE head, or else the draft model, where there is one.")
        copying: bool = Field(True, description="Copy from the text, from a corpus and from the text that is expected.")
        recycling: bool = Field(True, description="Propose the target's runners-up of earlier passes.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        self.knobs = hyperparameters
        super().__init__(hyperparameters, resources)
        drafts = {Need.HEAD: "eagle2", Need.DRAFT_MODEL: "ouroboros"}
        drafting = next((name for need, name in drafts.items() if resources.has(need)), None)
        self.draft = self._member(drafting) if drafting and self.knobs.drafting else None
        self.free: list[Method] = []
        if self.knobs.copying:
            self.free.append(self._member("sam", auxiliary="none"))
        if self.knobs.recycling:
            self.free.append(self._member("token_recycling", read_prompt=False))
        self.window: LookaheadWindow | None = None
        self._last_level: list[int] = []

    def _member(self, name: str, **knobs: Any) -> Method:
        from ouroboros_core import methods

        kind = methods.get(name)
        return kind(kind.Hyperparameters(**knobs), self.resources)

    @property
    def members(self) -> list[Method]:
        return [*([self.draft] if self.draft else []), *self.free]

    @property
    def drafter(self) -> LanguageModel | FeatureDrafter | None:
        return self.draft.drafter if self.draft else None

    def _new_governor(self) -> Governor:
        size = None if self.knobs.tree_size == AUTO else self.knobs.tree_size
        return Governor(self.resources.costs, automatic=True, size=size)

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        for member in self.members:
            member.start(prompt, max_new_tokens)
            member.governor = self.governor.join(member.governor)
        resources = self.resources
        self.window = open_window(self.knobs.window_size, NGRAM_SIZE, resources.costs.target.of, prompt, resources.rng())
        self.pool = self.draft.pool if self.draft else None
        if self.window:
            self.pool = self._make_pool(NGRAM_SIZE, GUESS_SET_SIZE, prompt, False)

    def asked(self) -> dict[int, Output]:
        return self.draft.asked() if self.draft else {}

    def offer(self, context: Context) -> TokenTree:
        free = [member.offer(context) for member in self.free]
        depth = context.budget - 1
        builder = TreeBuilder(context.root, max_depth=depth)
        if self.draft:
            for tree in free:
                self.governor.cover_all(tree)
            builder = TreeBuilder.onto(self.draft.offer(context), max_depth=depth)  # each node keeps its number
        for tree in free:
            builder.graft(tree, self._better)
        self._attach_window(builder)
        return builder.build()

    def _better(self, new: Provenance, old: Provenance, depth: int) -> bool:
        chances = self.governor.chances
        return chances.of(kind_of(new, depth)) > chances.of(kind_of(old, depth))

    def _attach_window(self, builder: TreeBuilder) -> None:
        self._last_level = []
        if self.window and self.knobs.window_size == AUTO and self.governor.losing:
            self.window, self.governor.window = None, 0
        if self.window:
            self.governor.window = self.window.window_size
            assert self.pool is not None
            self.pool.hang(builder, 0, GUESS_SET_SIZE, Source.PHRASE)
            self._last_level = self.window.attach(builder)

    def learn(self, verdict: Verdict) -> None:
        for member in self.members:
            member.learn(verdict)
        if self.window:
            assert self.pool is not None
            outputs = verdict.evaluation.argmax()
            last_level = [outputs[node] for node in self.governor.places(self._last_level)]
            for key, phrase in self.window.advance(verdict.context.root, last_level):
                self.pool.insert(key, phrase, Learned.LOOKAHEAD, verdict.context.step)
