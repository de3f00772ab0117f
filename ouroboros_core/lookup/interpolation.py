"""Interpolated n-gram models: the probability of a token after the last few, from counts in prompt,
text and corpus (Jelinek and Mercer 1980; Superposed Decoding, arXiv 2405.18400, section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.ngrams import Counts

OCCURRENCES = 128
"""Corpus occurrences of a context that are counted, spread evenly over all of them."""


class Interpolation:
    """Counts over a growing text and, if given, over a corpus."""

    def __init__(self, weights: Sequence[float], corpus: Corpus | None = None) -> None:
        """weights: one for each model of 1, 2, ... context tokens; their sum is at most 1."""
        self.weights, self.corpus = tuple(weights), corpus
        self._counts = Counts(len(weights) + 1)
        self._text: list[int] = []
        self._retrieved: dict[tuple[int, ...], Counter[int]] = {}

    def __len__(self) -> int:
        return len(self._text)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._text:
                self._counts.note(self._text[-len(self.weights) :], token)
            self._text.append(token)

    def of(
        self, before: Sequence[int], tokens: Sequence[int], otherwise: Sequence[float]
    ) -> list[float]:
        """Return the probability of each of `tokens` after the text `before`.

        otherwise: their probabilities by another model. It gets the remaining weight, and the
        weight of each n-gram model that has not seen its context.
        """
        counts_by_length = self._counts.by_length(before)
        shares, rest = [0.0] * len(tokens), 1.0
        for length, weight in enumerate(self.weights, 1):
            counts = counts_by_length.get(length, Counter()) + self._corpus(tuple(before[-length:]))
            total = counts.total()
            if not total or length > len(before):
                break  # a longer context has not been seen, either
            rest -= weight
            shares = [
                share + weight * counts[token] / total
                for share, token in zip(shares, tokens, strict=True)
            ]
        return [share + rest * p for share, p in zip(shares, otherwise, strict=True)]

    def _corpus(self, context: tuple[int, ...]) -> Counter[int]:
        """Return how often each token follows a context in the corpus."""
        if self.corpus is None:
            return Counter()
        if context not in self._retrieved:
            match = self.corpus.cursor(len(context)).extend(context).match
            followed: list[tuple[int, ...]] = []
            if match is not None and match.length == len(context):
                followed = self.corpus.continuations(match, 1, OCCURRENCES)
            self._retrieved[context] = Counter(token for tokens in followed for token in tokens)
        return self._retrieved[context]
