"""Copies from wherever the longest end of the text occurred before: in the text itself, in earlier
ones where it is warm, a corpus, or a text that is expected.

A source for SAM-Decoding (arXiv 2411.10666) and for combinations; no method of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count

from ouroboros_core.lookup.memories import Memories
from ouroboros_core.lookup.memory import of_kind
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
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder
from ouroboros_core.verify import until_stop

RESUME_MATCH = 4
"""Tokens that must match for a lost prediction to be found again further away."""

OCCURRENCES = 32
"""Occurrences of a match in the corpus that are looked at; the chain follows what is most frequent
there."""

COUNTED = 5000
"""Occurrences that are counted for a tree of what follows them."""

WIDTH = 8
"""Nodes on a level of such a tree, as in the authors' code (K)."""

COPIES = "copies"
"""Its role among the memories of a combination."""


@dataclass(frozen=True)
class Copy:
    """Tokens that followed a match, each with where it comes from.

    rank     the match's length, what the choice goes by
    nodes    a chain, or with `parents` a tree
    parents  index of each node's parent, which stands before it; -1 for the root
    """

    rank: int
    nodes: Sequence[tuple[int, Provenance]]
    parents: Sequence[int] | None = None

    def add_to(self, builder: TreeBuilder, stop_tokens: AbstractSet[int]) -> None:
        """Hang it on the root."""
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
    """The longest match first; nothing is padded, and a copy is as long as its match makes
    likely."""

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
        alone: bool = True,
        first: bool = False,
    ) -> None:
        """What is copied.

        longest    tokens copied at most
        threshold  shortest match in text or corpus that is followed
        trusting   the same for the predicted output
        bias       by how much a match in the corpus must be longer than one in the text
        alpha      copied tokens for each matched one
        several    whether all copies are proposed, or the one with the longest match alone
        alone      whether nothing else drafts: the predicted output is then followed whatever the
                   length of its match
        first      whether the first occurrence in text and corpus is copied, as in the code of
                   SAM-Decoding's authors. With something else to draft, a shorter match is followed
                   where too few tokens stand behind the longest; `alone`, what is copied from the
                   corpus is a tree
        """
        super().__init__(None, resources)
        self.longest, self.threshold, self.bias, self.alpha = longest, threshold, bias, alpha
        self.trusting, self.several, self.alone, self.first = trusting, several, alone, first

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        memory = self.resources.memory
        if isinstance(memory, Memories):
            memory = memory.part(COPIES, SessionText)
        kept = of_kind(memory, SessionText)
        self.session = SessionText() if kept is None else kept
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
        """The last tokens of a text are kept, too."""
        self.session.follow((*result.context.tokens, *result.emitted))

    def _length(self, match: int, context: Context) -> int:
        return min(self.longest, 1 + int(self.alpha * match), context.deepest)

    def _copies(self, context: Context) -> list[Copy]:
        """Possible copies, the longest match first; on a tie the predicted output, then the text,
        then the corpus."""
        found = [self._expected(context), self._earlier(context), self._retrieved(context)]
        return sorted((copy for copy in found if copy and copy.nodes), key=lambda copy: -copy.rank)

    def _expected(self, context: Context) -> Copy | None:
        """From the predicted output; a match below the threshold is followed only if nothing else
        would draft."""
        prediction = self.prediction
        if not self.alone and prediction.trust < self.trusting:
            return None
        tokens = prediction.expected(self._length(prediction.trust, context))
        origins = (
            Provenance(Source.COPY, Learned.PREDICTION, None, position, prediction.matched)
            for position in count(prediction.at)
        )
        return Copy(prediction.trust, [*zip(tokens, origins, strict=False)])

    def _earlier(self, context: Context) -> Copy | None:
        """From the text itself, or from an earlier one."""
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
        """Where the longest match was first, or one that has more behind it."""
        match = self.text.first(following=0 if self.alone else self.longest)
        assert match is not None
        return match

    def _retrieved(self, context: Context) -> Copy | None:
        """From the corpus: what follows the first occurrence of the match; or step by step the most
        frequent of what follows it, at up to OCCURRENCES of them."""
        corpus, found = self.resources.corpus, self.retrieved.match if self.retrieved else None
        if corpus is None or found is None or found.length < self.threshold + self.bias:
            return None
        length, rank = self._length(found.length, context), found.length - self.bias
        origin = Provenance(Source.CORPUS, step=context.step, match=found.length)
        if self.first and self.alone:
            continuations = corpus.continuations(found, length, COUNTED)
            return self._most_frequent(continuations, length, rank, origin)
        if self.first:
            tokens: Sequence[int] = corpus.first_continuation(found, length)
        else:
            tokens = most_followed(corpus.continuations(found, length, OCCURRENCES))
        return Copy(rank, [(token, origin) for token in tokens])

    def _most_frequent(
        self, continuations: Sequence[Sequence[int]], size: int, rank: int, origin: Provenance
    ) -> Copy:
        """A tree of so many nodes of what follows a match, the most frequent first."""
        whole = (until_stop(tokens, self.resources.stop_tokens) for tokens in continuations)
        shape = most_frequent(whole, size, WIDTH)
        siblings: Counter[int] = Counter()
        nodes = []
        for token, parent in shape:
            nodes.append((token, replace(origin, rank=siblings[parent])))
            siblings[parent] += 1
        return Copy(rank, nodes, [parent for _, parent in shape])
