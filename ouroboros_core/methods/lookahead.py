"""Lookahead decoding: the target finds its own phrases in a Jacobi window (arXiv 2402.02057)."""

from __future__ import annotations

from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.memory.window import LookaheadWindow
from ouroboros_core.methods.base import Context, Method, Resources, Verdict
from ouroboros_core.tree import Learned, Provenance, Source, TokenTree, TreeBuilder


class Lookahead(Method):
    """Every pass checks the phrases of the root's key and, in the same pass, moves the window that finds new ones."""

    id = "lookahead"
    name = "Lookahead decoding"
    paper = "https://arxiv.org/abs/2402.02057"
    summary = "No draft model: the target itself guesses phrases in a window beside the text and checks them later."
    order = 20
    learns_phrases = True

    class Hyperparameters(hyperparameters.Hyperparameters):
        window_size: int = Field(7, ge=1, le=60, description="Columns of the lookahead window (W).")
        ngram_size: int = Field(5, ge=3, le=10, description="Key token and phrase together (N).")
        guess_set_size: int = Field(7, ge=1, le=60, description="Phrases kept and checked per key (G).")
        prompt_phrases: bool = Field(False, description="Fill the pool with the prompt's own n-grams first.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.knobs = hyperparameters
        self._last_level: list[int] = []

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        knobs = self.knobs
        self.pool = self._make_pool(knobs.ngram_size, knobs.guess_set_size, prompt, knobs.prompt_phrases)
        self.window = LookaheadWindow(knobs.window_size, knobs.ngram_size, prompt, self.resources.rng())

    def propose(self, context: Context) -> TokenTree:
        assert self.pool is not None
        builder = TreeBuilder(context.root, max_depth=context.budget - 1)
        for phrase in self.pool.newest(context.root, self.knobs.guess_set_size):
            builder.add_path(phrase.tokens, 0, Provenance(Source.PHRASE, phrase.learned, phrase.step))
        self._last_level = self.window.attach(builder)
        return builder.build()

    def learn(self, verdict: Verdict) -> None:
        assert self.pool is not None
        outputs = verdict.evaluation.argmax()
        ngrams = self.window.advance(verdict.context.root, [outputs[node] for node in self._last_level])
        for key, phrase in ngrams:
            self.pool.insert(key, phrase, Learned.LOOKAHEAD, verdict.context.step)
