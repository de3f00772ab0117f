"""Where a text begins to repeat itself until it ends."""

from __future__ import annotations

import random

import pytest

from ouroboros_core.trace.metrics import LOOP_ROUNDS, LOOP_TOKENS, loop_start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("ab" + "cd" * 6, 4),
        ("ab" + "cd" * 5 + "c", None),  # eleven tokens
        ("ab" + "cd" * 6 + "c", 4),
        ("a" * 12, 1),
        ("a" * 11, None),
        ("xy" + "abcde" * 3, 7),
        ("xy" + "abcdef" * 2 + "abcde", None),  # not three rounds
        ("cd" * 9 + ".", None),  # it goes on, or ends by itself
        ("a", None),
        ("", None),
    ],
)
def test_the_worked_examples(text: str, start: int | None) -> None:
    assert loop_start([ord(letter) for letter in text]) == start


def test_a_search_by_brute_force_finds_the_same() -> None:
    """The definition, word for word, over every tail and every cycle."""
    chance = random.Random(5)
    looped = 0
    for _ in range(400):
        cycle = [chance.randrange(3) for _ in range(chance.randint(1, 6))]
        text = [chance.randrange(3) for _ in range(chance.randint(0, 8))]
        text += (cycle * 6)[: chance.randint(0, 24)]
        starts = [
            tail + long
            for tail in range(len(text))
            for long in range(1, len(text) + 1)
            if len(text) - tail >= max(LOOP_ROUNDS * long, LOOP_TOKENS)
            and all(text[n] == text[n - long] for n in range(tail + long, len(text)))
        ]
        assert loop_start(text) == min(starts, default=None)
        looped += bool(starts)
    assert 40 < looped < 360
