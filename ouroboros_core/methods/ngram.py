"""N-gram assisted decoding: proposes the token that most often followed the last words so far
(NASD and NAPD of romsto/Speculative-Decoding).

It counts like the code there (`ngram_assisted`): at each position that a step wrote, it counts the
written token once, and with fillers (NASD) each of the target's likeliest tokens once. The written
token, if it is one of them, counts twice. Contexts have 2 to N - 1 tokens; a single token is a
context only for N = 2.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.ngrams import Counts
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.settings import AUTO, Auto, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

LONGEST = 12
"""Draft tokens at most if their number is 'auto'."""


class Ngram(Method):
    """Counts over prompt and output; with fillers also of the target's likeliest tokens, so that
    there are alternatives."""

    id = "ngram"
    name = "N-gram assisted decoding"
    paper = "https://github.com/romsto/Speculative-Decoding"
    summary = (
        "No draft model: counts which tokens followed which in the text so far, and proposes the "
        "most frequent."
    )
    order = 14
    on_map = (Guesser.TEXT, Shape.CHAIN)
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[4], description="Draft tokens per step."
        )
        ngram_size: int = Field(3, ge=2, le=10, description="Context and token together (N).")
        storage: Literal["all_levels", "one_level"] = Field(
            "all_levels",
            description=(
                "Contexts of two tokens to N - 1, the longest known one first; or of N - 1 tokens "
                "alone."
            ),
        )
        filler_top_k: int = Field(
            3,
            ge=1,
            le=20,
            description=(
                "The target's likeliest tokens counted at each position beside its choice: 3 is "
                "NASD, 1 (none) NAPD."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        size, one_level = self.settings.ngram_size, self.settings.storage == "one_level"
        self.counts = Counts(size, one_level, shortest=min(2, size - 1))
        self.counts.note_text(prompt.tokens)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        text = list(context.tokens[1 - self.settings.ngram_size :])
        for _ in range(min(self.gamma, context.deepest)):
            likeliest = self.counts.likeliest(text)
            if likeliest is None:
                break
            token, length = likeliest
            builder.add(
                token, len(builder) - 1, Provenance(Source.NGRAM, step=context.step, match=length)
            )
            text.append(token)
            if token in self.resources.stop_tokens:
                break
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        fillers = self.settings.filler_top_k
        candidates = result.evaluation.likeliest(fillers) if fillers > 1 else {}
        text = list(result.context.tokens[1 - self.settings.ngram_size :])
        for node, token in zip((0, *result.path), result.emitted, strict=False):
            for counted in (token, *candidates.get(node, ())):
                self.counts.note(text, counted)
            text.append(token)
