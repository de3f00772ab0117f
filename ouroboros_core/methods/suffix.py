"""SuffixDecoding: the continuation that was most frequent after any of the last tokens
(arXiv 2411.04975).

Two texts are counted: prompt and answer of this run, and the answers of earlier runs. For every
suffix of the text that occurred before, the most frequent next tokens make a draft, and its score
is the sum of the products of their frequencies (section 4.2). The largest score wins. The draft is
at most `alpha` times as long as the match, so a longer match dares more.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.lookup.session_text import Answers
from ouroboros_core.lookup.suffix_counts import Continuation, Cursor, Scoring, SuffixCounts
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder

LONGEST = 24
"""Draft tokens where that is 'auto', of which as many are checked as pay."""


class Suffix(Method):
    """Counts every string of the text and of earlier answers; follows what was most frequent."""

    id = "suffix"
    name = "SuffixDecoding"
    paper = "https://arxiv.org/abs/2411.04975"
    summary = (
        "No draft model: counts what followed earlier matches of the text's end, here and in "
        "earlier answers, and proposes the most frequent continuation."
    )
    order = 15
    on_map = (Guesser.TEXT, Shape.CHAIN)
    uses = frozenset({Need.MEMORY})

    published = fixed_values(
        num_tokens=32, max_depth=64, alpha=1.0, offset=0.0, min_probability=0.1, tree=False
    )
    """Those of the authors' code (github.com/snowflakedb/ArcticInference) and of its
    documentation for vLLM."""
    auto_setting = "num_tokens"

    class Hyperparameters(settings.Hyperparameters):
        num_tokens: Annotated[int, Ge(1), Le(64)] | Auto = Field(
            AUTO, examples=[8], description="Draft tokens at most."
        )
        max_depth: int = Field(
            64, ge=2, le=128, description="Match and draft together have at most this many tokens."
        )
        alpha: float = Field(
            1.0,
            ge=0.0,
            le=16.0,
            allow_inf_nan=False,
            description="Draft tokens for each matched token.",
        )
        offset: float = Field(
            0.0,
            ge=-16.0,
            le=16.0,
            allow_inf_nan=False,
            description="Draft tokens added to those of the match.",
        )
        min_probability: float = Field(
            0.1,
            ge=0.0,
            le=1.0,
            allow_inf_nan=False,
            description="Smallest product of frequencies that a draft token may have.",
        )
        tree: bool = Field(
            False, description="Propose a tree of the most probable tokens instead of one chain."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        settings = self.settings = hyperparameters
        self.scoring = Scoring(
            upto(settings.num_tokens, LONGEST),
            settings.alpha,
            settings.offset,
            settings.min_probability,
            settings.tree,
        )

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> Answers:
        return Answers(fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        depth, memory = self.settings.max_depth, of_kind(self.resources.memory, Answers)
        self.prompt_length = len(prompt.tokens)
        self.answers = Answers() if memory is None else memory
        self.answers.begin_run(())
        self.earlier = self.answers.index("suffix counts", lambda: SuffixCounts(depth), depth)
        self.in_earlier = Cursor(self.earlier, prompt.tokens)
        self.text = SuffixCounts(depth).extend(prompt.tokens)

    def propose(self, context: Context) -> TokenTree:
        written = context.tokens[len(self.text.tokens) :]
        self.text.extend(written)
        self.in_earlier.extend(written)
        drafts = (
            (self.text.best(None, self.scoring), None),
            (self.earlier.best(self.in_earlier, self.scoring), Learned.HISTORY),
        )
        draft, learned = max(drafts, key=lambda item: item[0].score)
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        self._add(builder, draft, learned)
        return builder.build()

    def _add(self, builder: TreeBuilder, draft: Continuation, learned: Learned | None) -> None:
        nodes: dict[int, int] = {-1: 0}
        ranks: dict[int, int] = {}
        for index, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
            if parent not in nodes:
                continue
            before = draft.reaches[parent] if parent >= 0 else 1.0
            rank = ranks[parent] = ranks.get(parent, -1) + 1
            origin = Provenance(
                Source.COPY,
                learned,
                position=None if learned else draft.positions[index],
                match=draft.match,
                rank=rank if self.settings.tree else None,
                confidence=round(draft.reaches[index] / before, 2),
            )
            node = builder.add(token, nodes[parent], origin)
            if node is not None and token not in self.resources.stop_tokens:
                nodes[index] = node

    def learn(self, result: VerificationResult) -> None:
        """Keep the answer so far for later runs."""
        text = (*result.context.tokens, *result.emitted)
        self.answers.follow(text[self.prompt_length :])
