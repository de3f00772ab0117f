"""Suffix counts against brute force: every suffix length, every position, in quadratic time."""

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import floor

import pytest

from ouroboros_core.lookup.suffix_counts import Continuation, Cursor, Scoring, SuffixCounts

Path = tuple[int, list[int], list[float]]


def occurrences(text: Sequence[int], phrase: Sequence[int]) -> list[int]:
    """Return the positions behind every occurrence, by a scan."""
    size, phrase = len(phrase), list(phrase)
    return [end for end in range(size, len(text) + 1) if list(text[end - size : end]) == phrase]


def path(text: Sequence[int], suffix: list[int], scoring: Scoring, depth: int) -> list[float]:
    """Return the reaches of the path that follows the most frequent next token, of equals the one
    seen first."""
    exact = Fraction(str(scoring.alpha)) * len(suffix) + Fraction(str(scoring.offset))
    limit = min(scoring.most, floor(exact))
    phrase, reaches = list(suffix), [1.0]
    while len(reaches) <= min(limit, depth - len(suffix)):
        ends = occurrences(text, phrase)
        followed = Counter(text[end] for end in ends if end < len(text) and text[end] >= 0)
        if not followed:
            break
        token, times = followed.most_common(1)[0]
        reaches.append(reaches[-1] * times / len(ends))
        if reaches[-1] < scoring.least:
            return reaches[1:-1]
        phrase.append(token)
    return reaches[1:]


def brute(text: Sequence[int], query: Sequence[int], scoring: Scoring, depth: int) -> float:
    """Return the largest score over all suffixes of `query` that the text contains."""
    suffixes = [list(query[-size:]) for size in range(min(depth, len(query)), 0, -1)]
    known = [suffix for suffix in suffixes if occurrences(text, suffix)]
    return max((sum(path(text, suffix, scoring, depth)) for suffix in known), default=0.0)


def random_scoring(rng: random.Random) -> Scoring:
    most, alpha = rng.randint(1, 8), rng.choice((0.5, 1.0, 4.0))
    return Scoring(most, alpha, rng.choice((0, 2)), rng.choice((0.0, 0.1, 0.4)))


def consistent(text: Sequence[int], suffix: list[int], found: Continuation) -> None:
    """Check every reach against the counts of the strings it is made of."""
    strings: dict[int, tuple[list[int], float]] = {-1: (suffix, 1.0)}
    for index, (token, parent) in enumerate(zip(found.tokens, found.parents, strict=True)):
        phrase, reach = strings[parent]
        share = len(occurrences(text, [*phrase, token])) / len(occurrences(text, phrase))
        strings[index] = ([*phrase, token], reach * share)
        assert found.reaches[index] == pytest.approx(reach * share)
        assert found.positions[index] == occurrences(text, [*phrase, token])[0] - 1


def test_after_every_token_the_best_path_has_the_score_of_brute_force() -> None:
    rng = random.Random(3)
    for _ in range(300):
        letters, depth = rng.choice((1, 2, 3, 5)), rng.choice((2, 4, 9, 64))
        scoring = random_scoring(rng)
        counts = SuffixCounts(depth)
        text: list[int] = []
        for _ in range(rng.randrange(2, 22)):
            text.append(rng.randrange(letters))
            counts.extend(text[-1:])
            found = counts.best(None, scoring)
            assert found.score == pytest.approx(brute(text, text, scoring, depth))
            if found.tokens:
                consistent(text, text[len(text) - found.match :], found)


def test_the_most_tokens_behind_a_match_are_rounded_as_the_numbers_are_written() -> None:
    text = [*range(90), *range(50)]
    assert 0.58 * 50 < 29, "as a float"
    found = SuffixCounts(128).extend(text).best(None, Scoring(64, 0.58))
    assert (found.match, list(found.tokens)) == (50, [*range(50, 79)])
    assert found.score == brute(text, text, Scoring(64, 0.58), 128)


def test_the_counts_of_all_strings_are_those_of_brute_force_up_to_the_depth() -> None:
    rng = random.Random(5)
    for _ in range(100):
        letters, depth = rng.choice((1, 2, 3)), rng.choice((1, 3, 6))
        text = [rng.randrange(letters) for _ in range(rng.randrange(1, 30))]
        counts = SuffixCounts(depth).extend(text)
        for start in range(len(text)):
            for end in range(start + 1, min(start + depth, len(text)) + 1):
                phrase = text[start:end]
                state = 0
                for token in phrase:
                    state = counts._next[state][token]
                assert counts._count[state] == len(occurrences(text, phrase))


def test_another_text_is_matched_as_by_brute_force_and_no_path_crosses_a_border() -> None:
    rng = random.Random(8)
    for _ in range(200):
        letters, depth = rng.choice((2, 3)), rng.choice((3, 8))
        past = [rng.randrange(letters) if rng.random() < 0.9 else -n - 1 for n in range(25)]
        counts = SuffixCounts(depth).extend(past)
        query = [rng.randrange(letters) for _ in range(12)]
        cursor = Cursor(counts)
        scoring = random_scoring(rng)
        for size, token in enumerate(query, 1):
            cursor.follow(token)
            known = [query[size - n : size] for n in range(min(depth, size), 0, -1)]
            longest = next((len(one) for one in known if occurrences(past, one)), 0)
            assert cursor.length == longest
            found = counts.best(cursor, scoring)
            assert found.score == pytest.approx(brute(past, query[:size], scoring, depth))
            assert min(found.tokens, default=0) >= 0
            if found.tokens:
                consistent(past, query[size - found.match : size], found)


def test_a_tree_has_the_most_probable_tokens_and_at_least_the_score_of_the_path() -> None:
    rng = random.Random(13)
    for _ in range(200):
        text = [rng.randrange(3) for _ in range(30)]
        counts = SuffixCounts(12).extend(text)
        limits = rng.randint(1, 6), 4.0, 2.0, rng.choice((0.0, 0.2))
        tree = counts.best(None, Scoring(*limits, branching=True))
        assert tree.score >= counts.best(None, Scoring(*limits)).score - 1e-9
        assert list(tree.reaches) == sorted(tree.reaches, reverse=True)
        assert all(parent < index for index, parent in enumerate(tree.parents))
        siblings = list(zip(tree.parents, tree.tokens, strict=True))
        assert len(set(siblings)) == len(siblings)
        if tree.tokens:
            consistent(text, text[len(text) - tree.match :], tree)


def test_one_repeated_token_costs_at_most_the_depth_for_each() -> None:
    counts = SuffixCounts(16).extend([7] * 3000)
    found = counts.best(None, Scoring(most=4))
    assert found.tokens == (7, 7, 7, 7)
    assert sum(counts._count) < 3000 * 18
