"""Lookahead decoding: the target finds its own phrases in a Jacobi window (arXiv 2402.02057)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto
from ouroboros_core.memory.window import LookaheadWindow, open_window
from ouroboros_core.methods.base import Context, Method, Resources, Verdict
from ouroboros_core.tree import Learned, Source, TokenTree, TreeBuilder


class Lookahead(Method):
    """Every pass checks the phrases of the root's key and, in the same pass, moves the window that finds new ones."""

    id = "lookahead"
    name = "Lookahead decoding"
    paper = "https://arxiv.org/abs/2402.02057"
    summary = "No draft model: the target itself guesses phrases in a window beside the text and checks them later."
    order = 20
    learns_phrases = True

    class Hyperparameters(hyperparameters.Hyperparameters):
        window_size: Annotated[int, Ge(1), Le(60)] | Auto = Field(
            AUTO, examples=[7], description="Columns of the lookahead window (W); auto may do without one."
        )
        ngram_size: int = Field(5, ge=3, le=10, description="Key token and phrase together (N).")
        guess_set_size: int = Field(7, ge=1, le=60, description="Phrases kept and checked per key (G).")
        prompt_phrases: bool = Field(True, description="Fill the pool with the prompt's own n-grams first.")
        text_phrases: bool = Field(True, description="Add the n-grams of the text as it is written.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.knobs = hyperparameters
        self.window: LookaheadWindow | None = None
        self._last_level: list[int] = []

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        knobs = self.knobs
        self.pool = self._make_pool(knobs.ngram_size, knobs.guess_set_size, prompt, knobs.prompt_phrases)
        self.window = open_window(
            knobs.window_size, knobs.ngram_size, self.resources.costs.target.of, prompt, self.resources.rng()
        )

    def offer(self, context: Context) -> TokenTree:
        assert self.pool is not None
        builder = TreeBuilder(context.root, max_depth=context.budget - 1)
        self.pool.hang(builder, 0, self.knobs.guess_set_size, Source.PHRASE)
        if self.window and self.governor.losing:
            self.window = None
        self.governor.window = self.window.window_size if self.window else 0
        self._last_level = self.window.attach(builder) if self.window else []
        return builder.build()

    def learn(self, verdict: Verdict) -> None:
        assert self.pool is not None
        if self.knobs.text_phrases:
            self._learn_written(verdict)
        if self.window is None:
            return
        outputs = verdict.evaluation.argmax()
        ngrams = self.window.advance(verdict.context.root, [outputs[node] for node in self.governor.places(self._last_level)])
        for key, phrase in ngrams:
            self.pool.insert(key, phrase, Learned.LOOKAHEAD, verdict.context.step)
