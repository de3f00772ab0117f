"""N-gram models of several lengths, interpolated: how likely a token is behind the last few, by
counts of prompt, text and corpus (Jelinek and Mercer 1980; as in Superposed Decoding, arXiv
2405.18400, section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.ngrams import Counts

OCCURRENCES = 128
"""Places of a corpus that are counted behind a context; of more, as many spread evenly over all."""


class Interpolation:
    """Counts over a growing text, and over a corpus where there is one."""

    def __init__(self, weights: Sequence[float], corpus: Corpus | None = None) -> None:
        """weights: of the models that look at 1, 2 ... tokens; they add up to 1 at most."""
        self.weights, self.corpus = tuple(weights), corpus
        self._counts = Counts(len(weights) + 1)
        self._text: list[int] = []
        self._retrieved: dict[tuple[int, ...], Counter[int]] = {}

    def __len__(self) -> int:
        """Tokens of the text so far."""
        return len(self._text)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._text:
                self._counts.note(self._text[-len(self.weights) :], token)
            self._text.append(token)

    def of(
        self, before: Sequence[int], tokens: Sequence[int], otherwise: Sequence[float]
    ) -> list[float]:
        """The probability of each of some tokens behind the text `before`.

        otherwise: their probabilities by another model, which takes the weights that are over, and
        those of the models that do not know what stands before.
        """
        known = self._counts.known(before)
        shares, rest = [0.0] * len(tokens), 1.0
        for length, weight in enumerate(self.weights, 1):
            counts = known.get(length, Counter()) + self._corpus(tuple(before[-length:]))
            total = counts.total()
            if not total or length > len(before):
                break  # what is longer is not known, either
            rest -= weight
            shares = [
                share + weight * counts[token] / total
                for share, token in zip(shares, tokens, strict=True)
            ]
        return [share + rest * other for share, other in zip(shares, otherwise, strict=True)]

    def _corpus(self, context: tuple[int, ...]) -> Counter[int]:
        """What follows a context in the corpus."""
        if self.corpus is None:
            return Counter()
        if context not in self._retrieved:
            found = self.corpus.cursor(len(context)).extend(context).found
            whole = found is not None and found.length == len(context)
            followed = self.corpus.continuations(found, 1, OCCURRENCES) if found and whole else []
            self._retrieved[context] = Counter(token for tokens in followed for token in tokens)
        return self._retrieved[context]
