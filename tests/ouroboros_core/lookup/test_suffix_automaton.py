"""The suffix automaton against brute force: the longest suffix that ended earlier, and the most
recent position where it did."""

import random
from collections.abc import Sequence

from ouroboros_core.lookup.suffix_automaton import Match, SuffixAutomaton


def brute(text: Sequence[int]) -> Match | None:
    """Every length from the longest on, every position from the newest on."""
    size = len(text)
    for length in range(size - 1, 0, -1):
        for end in range(size - 1, length - 1, -1):
            if text[end - length : end] == text[size - length :]:
                return Match(length, end)
    return None


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


def test_after_every_token_recent_and_first_matches_are_those_of_brute_force() -> None:
    """The first one has so many tokens behind it where that is possible."""
    rng = random.Random(4)
    shorter = 0
    for number in range(3000):
        letters = rng.choice((1, 2, 3, 5))
        text = [rng.randrange(letters) for _ in range(rng.randrange(1, 40))]
        automaton = SuffixAutomaton()
        for end, token in enumerate(text, 1):
            automaton.append(token)
            assert automaton.recent == brute(text[:end])
            for following in (0, 1, 4, 9) if number < 1000 else ():
                assert automaton.first(following) == first(text[:end], following)
            shorter += automaton.first(9) != automaton.first()
    assert shorter > 1000
