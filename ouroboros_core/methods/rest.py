"""REST: proposes a trie of tokens that followed the last words in a corpus (arXiv 2311.08252)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field, model_validator

from ouroboros_core import settings
from ouroboros_core.lookup.ngrams import most_frequent
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, until_stop

LARGEST = 32
"""Nodes proposed if their number is 'auto'."""

OCCURRENCES = 128
"""Occurrences that are read if their number is 'auto'."""


class Rest(Method):
    """The longest suffix of the text in the corpus, and its most frequent continuations there."""

    id = "rest"
    name = "REST"
    paper = "https://arxiv.org/abs/2311.08252"
    summary = (
        "No draft model: finds the end of the text in a corpus and proposes a tree of what most "
        "often followed it there."
    )
    order = 18
    on_map = (Guesser.TEXT, Shape.TREE)
    needs = frozenset({Need.CORPUS})

    published = fixed_values(
        max_suffix=16, min_suffix=2, span=10, occurrences=5000, spread=False, tree_size=64
    )
    """Settings of the authors' code (github.com/FasterDecoding/REST)."""
    auto_setting = "tree_size"

    class Hyperparameters(settings.Hyperparameters):
        max_suffix: int = Field(
            16, ge=1, le=64, description="Longest suffix that is looked for in the corpus."
        )
        min_suffix: int = Field(
            1, ge=1, le=64, description="Shortest suffix that is looked for in the corpus."
        )
        span: int = Field(8, ge=1, le=32, description="Tokens taken after each occurrence.")
        occurrences: Annotated[int, Ge(1), Le(5000)] | Auto = Field(
            AUTO,
            examples=[OCCURRENCES],
            description=f"Occurrences that are read, where there are more; auto: {OCCURRENCES}.",
        )
        spread: bool = Field(
            True,
            description=(
                "Read occurrences that are spread evenly over all; or else, as in the authors' "
                "code, the first in the order of what follows."
            ),
        )
        tree_size: Annotated[int, Ge(1), Le(64)] | Auto = Field(
            AUTO,
            examples=[6],
            description="Nodes of the trie that are kept, or as many of 32 as are worth checking.",
        )

        @model_validator(mode="after")
        def _check(self) -> Rest.Hyperparameters:
            if self.min_suffix > self.max_suffix:
                raise ValueError(
                    f"min_suffix must be at most max_suffix, got {self.min_suffix} and "
                    f"{self.max_suffix}"
                )
            return self

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.size = upto(hyperparameters.tree_size, LARGEST)
        self.occurrences = upto(hyperparameters.occurrences, OCCURRENCES)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        assert self.resources.corpus is not None
        self.end = self.resources.corpus.cursor(self.settings.max_suffix).extend(prompt.tokens)

    def propose(self, context: Context) -> TokenTree:
        corpus, settings = self.resources.corpus, self.settings
        assert corpus is not None
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        self.end.extend(context.tokens[self.end.read :])
        match = self.end.match
        if match and match.length >= settings.min_suffix and context.remaining > 1:
            span = min(settings.span, context.deepest)
            nodes: list[int] = []
            children: Counter[int] = Counter()
            at_most = self.occurrences
            followed = corpus.continuations(match, span, at_most, spread=settings.spread)
            continuations = (until_stop(tokens, self.resources.stop_tokens) for tokens in followed)
            for token, parent in most_frequent(continuations, self.size):
                origin = Provenance(
                    Source.CORPUS, step=context.step, match=match.length, rank=children[parent]
                )
                children[parent] += 1
                node = builder.add(token, nodes[parent] if parent >= 0 else 0, origin)
                assert node is not None
                nodes.append(node)
        return builder.build()
