"""The suffix automaton against brute force: the longest suffix that ended earlier, and the most
recent position where it did."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import pytest

from ouroboros_core.lookup.suffix_automaton import Match, SuffixAutomaton


def brute(text: Sequence[int]) -> Match | None:
    """Every length from the longest on, every position from the newest on."""
    size = len(text)
    for length in range(size - 1, 0, -1):
        for end in range(size - 1, length - 1, -1):
            if text[end - length : end] == text[size - length :]:
                return Match(length, end)
    return None


def test_after_every_token_of_three_thousand_texts_the_match_is_that_of_brute_force() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        letters = rng.choice((1, 2, 3, 5))
        text = [rng.randrange(letters) for _ in range(rng.randrange(1, 40))]
        automaton = SuffixAutomaton()
        for end, token in enumerate(text, 1):
            automaton.append(token)
            assert automaton.recent == brute(text[:end])


def first(text: Sequence[int], following: int) -> Match | None:
    """Every length from the longest on, every position from the oldest on. Of the suffixes that
    ended at the same positions only the longest counts, and the shortest of these classes is the
    last resort."""
    size = len(text)
    found: dict[tuple[int, ...], Match] = {}
    for length in range(size - 1, 0, -1):
        ends = [e for e in range(length, size) if text[e - length : e] == text[size - length :]]
        if ends:
            found.setdefault(tuple(ends), Match(length, ends[0]))
    enough = (match for match in found.values() if size - match.end >= following)
    return next(enough, [None, *found.values()][-1])


def test_the_first_occurrence_is_that_of_brute_force_and_has_so_many_tokens_behind_it() -> None:
    rng = random.Random(4)
    shorter = 0
    for _ in range(1000):
        letters = rng.choice((1, 2, 3, 5))
        text = [rng.randrange(letters) for _ in range(rng.randrange(1, 30))]
        automaton = SuffixAutomaton()
        for end, token in enumerate(text, 1):
            automaton.append(token)
            for following in (0, 1, 4, 9):
                assert automaton.first(following) == first(text[:end], following)
            shorter += automaton.first(9) != automaton.first()
    assert shorter > 1000


def test_a_worked_example() -> None:
    automaton = SuffixAutomaton().extend([1, 2, 3, 9, 1, 2])
    match = automaton.recent
    assert match == Match(length=2, end=2)
    assert automaton.tokens[match.end] == 3, "what followed the earlier 1 2"
    assert SuffixAutomaton().recent is None
    assert SuffixAutomaton().extend([1, 2, 3]).recent is None


TEXTS: dict[str, Callable[[random.Random], int]] = {
    "words of a book (Zipf)": lambda rng: int(rng.paretovariate(0.8)) % 5000,
    "one repeated token": lambda _: 7,
    "two letters": lambda rng: rng.randrange(2),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_two_hundred_thousand_tokens_are_indexed_and_looked_up_one_at_a_time(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints the cost of a token in each quarter; what must not happen is that it grows with the
    text, so it is only shown."""
    rng, automaton, quarters = random.Random(3), SuffixAutomaton(), []
    for _ in range(4):
        tokens = [TEXTS[kind](rng) for _ in range(50_000)]
        began = time.perf_counter()
        for token in tokens:
            automaton.append(token)
            found = automaton.recent
        quarters.append(f"{1e6 * (time.perf_counter() - began) / len(tokens):.1f}")
    assert found is not None
    text = automaton.tokens
    assert text[found.end - found.length : found.end] == text[len(text) - found.length :]
    if kind == "one repeated token":
        assert found == Match(199_999, 199_999)
    with capsys.disabled():
        print(f"\n{kind}: {', '.join(quarters)} µs a token, by quarters of 200,000")
