"""Interpolated n-grams: the oracle counts every window of the text and of the documents."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.interpolation import Interpolation
from tests.ouroboros_core.lookup.test_suffix_counts import occurrences

WEIGHTS = (0.1, 0.2, 0.4)


def counted(texts: Sequence[Sequence[int]], context: Sequence[int]) -> Counter[int]:
    return Counter(text[end] for text in texts for end in occurrences(text[:-1], context))


@pytest.mark.parametrize("retrieve", [False, True])
def test_shares_of_all_lengths_are_weighted_and_what_is_unknown_goes_to_the_other_model(
    retrieve: bool,
) -> None:
    draws = np.random.default_rng(3)
    text = draws.integers(5, size=60).tolist()
    documents = draws.integers(5, size=(6, 12)).tolist() if retrieve else []
    ngrams = Interpolation(WEIGHTS, Corpus.build(documents) if retrieve else None)
    for part in (text[:1], text[1:20], text[20:]):
        ngrams.extend(part)
    assert len(ngrams) == 60
    tokens, otherwise = [4, 0, 2], [0.5, 0.3, 0.2]
    unknown = 0
    for before in ([7], [7, 1], [3, 7], *(draws.integers(5, size=3).tolist() for _ in range(60))):
        wanted, rest = np.zeros(3), 1.0
        for length, weight in enumerate(WEIGHTS, 1):
            counts = counted([text, *documents], before[-length:])
            if length <= len(before) and counts:
                wanted += [weight * counts[token] / counts.total() for token in tokens]
                rest -= weight
        unknown += rest > 0.31
        wanted += rest * np.array(otherwise)
        assert ngrams.of(before, tokens, otherwise) == pytest.approx(wanted.tolist())
    assert unknown > 3
