"""Copies after earlier occurrences of the longest suffix of the text: in the text, in earlier texts
of a warm run, in a corpus, or in a predicted output.

A member of SAM-Decoding (arXiv 2411.10666) and other combinations, and not a method in the lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count

from ouroboros_core.lookup.memory import Memories, of_kind
from ouroboros_core.lookup.ngrams import most_followed, most_frequent
from ouroboros_core.lookup.predicted_output import Prediction
from ouroboros_core.lookup.session_text import SessionText
from ouroboros_core.lookup.suffix_automaton import Match, SuffixAutomaton
from ouroboros_core.methods.parts.base import (
    Context,
    Method,
    Resources,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder, until_stop

RESUME_MATCH = 4
"""Tokens that must match for a lost prediction to be found again further away."""

OCCURRENCES = 32
"""Occurrences of a match in the corpus that are read; the chain follows the most frequent token."""

COUNTED = 5000
"""Occurrences that are counted for a tree of their continuations."""

WIDTH = 8
"""Nodes on a level of such a tree, as in the authors' code (K)."""

COPIES = "copies"
"""Its role among the memories of a combination."""


@dataclass(frozen=True)
class Copy:
    """Tokens that followed a match, with their provenance.

    rank     the match's length, by which a copy is chosen
    nodes    a chain, or with `parents` a tree
    parents  index of each node's parent, which stands before it; -1 for the root
    """

    rank: int
    nodes: Sequence[tuple[int, Provenance]]
    parents: Sequence[int] | None = None

    def add_to(self, builder: TreeBuilder, stop_tokens: AbstractSet[int]) -> None:
        """Add the copy below the root."""
        if self.parents is None:
            builder.add_chain(self.nodes, stop_tokens)
            return
        numbers: list[int] = []
        for (token, origin), parent in zip(self.nodes, self.parents, strict=True):
            node = builder.add(token, numbers[parent] if parent >= 0 else 0, origin)
            assert node is not None
            numbers.append(node)


def copy_of(position: int | None, match: int, rank: int | None = None) -> Provenance:
    """A copied token: of the present text, or, without a position, of an earlier one."""
    learned = Learned.HISTORY if position is None else None
    return Provenance(Source.COPY, learned, position=position, match=match, rank=rank)


class Copying(Method):
    """Copies, the longest match first; the length of a copy grows with its match, without
    padding."""

    def __init__(
        self,
        resources: Resources,
        *,
        longest: int,
        threshold: int = 1,
        trusting: int = 1,
        bias: int = 2,
        alpha: float = 1.0,
        several: bool = True,
        only_source: bool = True,
        first: bool = False,
    ) -> None:
        """Set the limits of copies.

        longest    tokens copied at most
        threshold  shortest match in text or corpus that is followed
        trusting   shortest match in the predicted output that is followed
        bias       difference by which a match in the corpus must be longer than one in the text
        alpha      copied tokens for each matched one
        several    propose all copies, or only the one with the longest match
        only_source  nothing else drafts: the predicted output is followed after any match
        first      copy after the first occurrence in text and corpus, as the code of SAM-Decoding's
                   authors does. If something else drafts, a shorter match is followed if too few
                   tokens follow the longest one; as the only source, a corpus gives a tree
        """
        super().__init__(None, resources)
        self.longest, self.threshold, self.bias, self.alpha = longest, threshold, bias, alpha
        self.trusting, self.several, self.first = trusting, several, first
        self.only_source = only_source

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        memory = self.resources.memory
        if isinstance(memory, Memories):
            memory = memory.part(COPIES, SessionText)
        session = of_kind(memory, SessionText)
        self.session = SessionText() if session is None else session
        self.session.begin_run(prompt.tokens)
        self.text = self.session.index("automaton", SuffixAutomaton)
        corpus = self.resources.corpus
        self.retrieved = corpus.cursor().extend(prompt.tokens) if corpus else None
        self.prediction = Prediction(
            self.resources.prediction, min_match=max(RESUME_MATCH, self.trusting)
        )
        self._followed = len(prompt.tokens)

    def propose(self, context: Context) -> TokenTree:
        written = context.tokens[self._followed :]
        self._followed = len(context.tokens)
        self.prediction.extend(written)
        if self.retrieved is not None:
            self.retrieved.extend(written)
        self.session.follow(context.tokens)
        self.text.extend(self.session.tokens[len(self.text.tokens) :])
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        copies = self._copies(context)
        for copy in copies if self.several else copies[:1]:
            copy.add_to(builder, self.resources.stop_tokens)
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        """Keep the last tokens of a text as well."""
        self.session.follow((*result.context.tokens, *result.emitted))

    def _length(self, match: int, context: Context) -> int:
        return min(self.longest, 1 + int(self.alpha * match), context.deepest)

    def _copies(self, context: Context) -> list[Copy]:
        """Return possible copies, the longest match first; on a tie the predicted output, then the
        text, then the corpus."""
        copies = [self._expected(context), self._earlier(context), self._retrieved(context)]
        return sorted((copy for copy in copies if copy and copy.nodes), key=lambda copy: -copy.rank)

    def _expected(self, context: Context) -> Copy | None:
        """Return a copy from the predicted output; a match below the threshold is followed only if
        nothing else drafts."""
        prediction = self.prediction
        if not self.only_source and prediction.trust < self.trusting:
            return None
        tokens = prediction.expected(self._length(prediction.trust, context))
        origins = (
            Provenance(Source.COPY, Learned.PREDICTION, None, position, prediction.matched)
            for position in count(prediction.at)
        )
        return Copy(prediction.trust, [*zip(tokens, origins, strict=False)])

    def _earlier(self, context: Context) -> Copy | None:
        """Return a copy from the text, or from an earlier one."""
        match = self.text.recent
        if match is None or match.length < self.threshold:
            return None
        length, followed = self._length(match.length, context), match
        if self.first:
            followed = self._first_match()
            length = min(length, len(self.session.tokens) - followed.end)
        nodes = [
            (token, copy_of(position, followed.length))
            for position, token in self.session.copied(followed.end, length)
        ]
        return Copy(match.length, nodes)

    def _first_match(self) -> Match:
        """Return the first occurrence of the longest match that enough tokens follow."""
        match = self.text.first(following=0 if self.only_source else self.longest)
        assert match is not None
        return match

    def _retrieved(self, context: Context) -> Copy | None:
        """Return a copy from the corpus: the tokens after the first occurrence of the match, or
        token by token the most frequent continuation of up to OCCURRENCES of them."""
        corpus, match = self.resources.corpus, self.retrieved.match if self.retrieved else None
        if corpus is None or match is None or match.length < self.threshold + self.bias:
            return None
        length, rank = self._length(match.length, context), match.length - self.bias
        origin = Provenance(Source.CORPUS, step=context.step, match=match.length)
        if self.first and self.only_source:
            continuations = corpus.continuations(match, length, COUNTED)
            return self._most_frequent(continuations, length, rank, origin)
        if self.first:
            tokens: Sequence[int] = corpus.first_continuation(match, length)
        else:
            tokens = most_followed(corpus.continuations(match, length, OCCURRENCES))
        return Copy(rank, [(token, origin) for token in tokens])

    def _most_frequent(
        self, continuations: Sequence[Sequence[int]], size: int, rank: int, origin: Provenance
    ) -> Copy:
        """Return a tree of `size` nodes, the most frequent continuations of a match."""
        cut = (until_stop(tokens, self.resources.stop_tokens) for tokens in continuations)
        shape = most_frequent(cut, size, WIDTH)
        siblings: Counter[int] = Counter()
        nodes = []
        for token, parent in shape:
            nodes.append((token, replace(origin, rank=siblings[parent])))
            siblings[parent] += 1
        return Copy(rank, nodes, [parent for _, parent in shape])
