"""Copies from wherever the longest end of the text occurred before: in the text itself, in earlier
ones where it is warm, a corpus, or a text that is expected.

A source for SAM-Decoding (arXiv 2411.10666) and for combinations; no method of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from ouroboros_core.lookup.expected_text import Prediction
from ouroboros_core.lookup.memories import Memories
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.lookup.ngrams import most_followed
from ouroboros_core.lookup.session_text import SessionText
from ouroboros_core.lookup.suffix_automaton import SuffixAutomaton
from ouroboros_core.methods.base import (
    Context,
    Method,
    Resources,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder

RESUME_MATCH = 4
"""Tokens that must match for a lost prediction to be found again further away."""

OCCURRENCES = 32
"""Occurrences of a match in the corpus that are looked at; the chain follows what is most frequent
there."""


COPIES = "copies"
"""Its role among the memories of a combination."""


@dataclass(frozen=True)
class Copy:
    """Tokens that followed a match, each with where it comes from; `rank`, the match's length, is
    what the choice goes by."""

    rank: int
    nodes: Sequence[tuple[int, Provenance]]


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
    ) -> None:
        """What is copied.

        longest    tokens copied at most
        threshold  shortest match in text or corpus that is followed
        trusting   the same for the expected text
        bias       by how much a match in the corpus must be longer than one in the text
        alpha      copied tokens for each matched one
        several    whether all copies are proposed, or the one with the longest match alone
        alone      whether nothing else drafts: the expected text is then followed whatever the
                   length of its match
        """
        super().__init__(None, resources)
        self.longest, self.threshold, self.bias, self.alpha = longest, threshold, bias, alpha
        self.trusting, self.several, self.alone = trusting, several, alone

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
        builder = TreeBuilder(context.root, max_depth=context.remaining - 1)
        copies = self._copies(context)
        for copy in copies if self.several else copies[:1]:
            builder.add_chain(copy.nodes, self.resources.stop_tokens)
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        """The last tokens of a text are kept, too."""
        self.session.follow((*result.context.tokens, *result.emitted))

    def _length(self, match: int, context: Context) -> int:
        return min(self.longest, 1 + int(self.alpha * match), context.remaining - 1)

    def _copies(self, context: Context) -> list[Copy]:
        """Possible copies, the longest match first; on a tie the expected text, then the text, then
        the corpus."""
        found = [self._expected(context), self._earlier(context), self._retrieved(context)]
        return sorted((copy for copy in found if copy and copy.nodes), key=lambda copy: -copy.rank)

    def _expected(self, context: Context) -> Copy | None:
        """From the expected text; a match below the threshold is followed only if nothing else
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
        nodes = [
            (token, copy_of(position, match.length))
            for position, token in self.session.copied(
                match.end, self._length(match.length, context)
            )
        ]
        return Copy(match.length, nodes)

    def _retrieved(self, context: Context) -> Copy | None:
        """From the corpus: step by step the most frequent of what follows the match, at up to
        OCCURRENCES of them."""
        corpus, found = self.resources.corpus, self.retrieved.found if self.retrieved else None
        if corpus is None or found is None or found.length < self.threshold + self.bias:
            return None
        tokens = most_followed(
            corpus.continuations(found, self._length(found.length, context), OCCURRENCES)
        )
        origin = Provenance(Source.CORPUS, step=context.step, match=found.length)
        return Copy(found.length - self.bias, [(token, origin) for token in tokens])
