"""Prompt lookup decoding: proposes the tokens that followed the last words earlier in the text
(Saxena 2023).

As in the author's function, the tokens come from the first occurrence with enough tokens after it.
With `extended` they come from the newest occurrences, and two different continuations form a tree.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field, model_validator

from ouroboros_core import settings
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.lookup.session_text import SessionText
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.copying import copy_of
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.tree import TokenTree, TreeBuilder

LONGEST = 10
"""Tokens copied if their number is 'auto', the author's number; a controller checks fewer."""

CONTINUATIONS = 2
"""Different continuations proposed in one step if it is extended."""

OCCURRENCES = 32
"""Occurrences searched for different continuations."""


class PromptLookup(Method):
    """A copy after the longest n-gram: after its first occurrence or, extended, the newest ones."""

    id = "prompt_lookup"
    name = "Prompt lookup"
    paper = "https://github.com/apoorvumang/prompt-lookup-decoding"
    summary = (
        "No draft model: finds the last few tokens earlier in the text and proposes what followed "
        "them there."
    )
    order = 12
    on_map = (Guesser.TEXT, Shape.CHAIN)
    uses = frozenset({Need.MEMORY})

    published = fixed_values(
        num_tokens=10,
        max_ngram=3,
        min_ngram=1,
        extended=False,
    )
    """Defaults of the function in the author's repository."""
    auto_setting = "num_tokens"

    class Hyperparameters(settings.Hyperparameters):
        num_tokens: Annotated[int, Ge(1), Le(64)] | Auto = Field(
            AUTO, examples=[5], description="Tokens copied from each occurrence."
        )
        max_ngram: int = Field(3, ge=1, le=16, description="Longest n-gram that is looked for.")
        min_ngram: int = Field(1, ge=1, le=16, description="Shortest n-gram that is looked for.")
        extended: bool = Field(
            False,
            description=(
                "Beyond the original: copy from the two newest occurrences that go on differently."
            ),
        )

        @model_validator(mode="after")
        def _check(self) -> PromptLookup.Hyperparameters:
            if self.min_ngram > self.max_ngram:
                raise ValueError(
                    f"min_ngram must be at most max_ngram, got {self.min_ngram} and "
                    f"{self.max_ngram}"
                )
            return self

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.count = upto(hyperparameters.num_tokens, LONGEST)

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> SessionText:
        return SessionText(fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        memory, longest = of_kind(self.resources.memory, SessionText), self.settings.max_ngram
        self.session = SessionText() if memory is None else memory
        self.session.begin_run(prompt.tokens)
        self.text = self.session.index("occurrences", lambda: Occurrences(longest), longest)

    def propose(self, context: Context) -> TokenTree:
        settings, text = self.settings, self.text
        self.session.follow(context.tokens)
        text.extend(self.session.tokens[len(text.tokens) :])
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        copies = 0
        if settings.extended:
            occurrences = text.earlier(settings.min_ngram, OCCURRENCES)
        else:
            occurrences = text.first_full(settings.min_ngram, self.count)
        for length, end in occurrences:
            grown = len(builder)
            copy = [
                (token, copy_of(position, length, rank=copies))
                for position, token in self.session.copied(end, self.count)
            ]
            builder.add_chain(copy, self.resources.stop_tokens)
            copies += len(builder) > grown
            if copies == CONTINUATIONS:
                break
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        """Keep the last tokens of a text as well."""
        self.session.follow((*result.context.tokens, *result.emitted))
