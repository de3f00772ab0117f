"""Lookahead decoding: the target finds phrases in a Jacobi window (arXiv 2402.02057).

With `extended` the pool also has the n-grams of prompt and text: the option POOL_FROM_PROMPT of the
authors' code, which is off by default there.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.lookahead_window import LookaheadWindow, columns_within
from ouroboros_core.lookup.phrase_pool import PhrasePool, open_pool
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    StepNotes,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, TokenTree, TreeBuilder

LONG_ENOUGH = 64
"""New tokens from which a window pays if the pool begins empty."""


class Lookahead(Method):
    """Every pass checks the phrases of the root's token and also moves the window, which finds new
    phrases."""

    id = "lookahead"
    name = "Lookahead decoding"
    paper = "https://arxiv.org/abs/2402.02057"
    summary = (
        "No draft model: the target itself guesses phrases in a window beside the text and checks "
        "them later."
    )
    order = 20
    on_map = (Guesser.TARGET, Shape.PHRASES)
    uses = frozenset({Need.MEMORY})

    published = fixed_values(
        window_size=15,
        ngram_size=5,
        guess_set_size=15,
        extended=False,
    )
    """W, N and G of a 7B model, table 1; phrases from the window only."""
    auto_setting = "window_size"

    class Hyperparameters(settings.Hyperparameters):
        window_size: Annotated[int, Ge(1), Le(60)] | Auto = Field(
            AUTO,
            examples=[7],
            description="Columns of the lookahead window (W); auto has one where it pays.",
        )
        ngram_size: int = Field(5, ge=3, le=10, description="Key token and phrase together (N).")
        guess_set_size: int = Field(
            7, ge=1, le=60, description="Phrases kept and checked per key (G)."
        )
        extended: bool = Field(
            False,
            description=(
                "Beyond the paper: phrases of the prompt and of the text as it is written, too."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.window: LookaheadWindow | None = None
        self._last_level: list[int] = []

    @property
    def notes(self) -> StepNotes:
        return StepNotes(len(self.pool), self.columns)

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> PhrasePool:
        sizes = hyperparameters.ngram_size, hyperparameters.guess_set_size
        return PhrasePool(*sizes, fingerprint=fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        settings, resources = self.settings, self.resources
        text = prompt.tokens if settings.extended else ()
        self.pool = open_pool(resources.pool, settings.ngram_size, settings.guess_set_size, text)
        columns = settings.window_size
        if columns == AUTO:
            pays = max_new_tokens >= LONG_ENOUGH or resources.pool is not None
            rows = resources.sizing.target_rows if pays else 1
            columns = columns_within(rows, settings.ngram_size)
        self.columns = columns
        self.window = (
            LookaheadWindow(columns, settings.ngram_size, prompt.tokens, resources.rng())
            if columns
            else None
        )

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        self.pool.attach(builder, 0, self.settings.guess_set_size, Source.PHRASE)
        self._last_level = self.window.attach(builder) if self.window else []
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        step = result.context.step
        if self.settings.extended:
            self.pool.learn_written(result.context.tokens, result.emitted, step)
        if self.window is None:
            return
        outputs = result.evaluation.argmax()
        for key, phrase in self.window.advance(
            result.context.root, [outputs[node] for node in self._last_level]
        ):
            self.pool.insert(key, phrase, Learned.LOOKAHEAD, step)
