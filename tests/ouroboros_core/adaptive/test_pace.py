"""Costs that were timed in other conditions are put right by the passes that run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.adaptive.controller import Controller
from ouroboros_core.adaptive.cost_model import TYPICAL, Costs, PassCosts
from ouroboros_core.adaptive.pace import ASK_AGAIN, Pace
from ouroboros_core.methods.adjustable import Adjustable
from ouroboros_core.methods.base import Method, Resources
from ouroboros_core.methods.step import Context, TokenizedPrompt, VerificationResult
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, chain

MEASURED = PassCosts((1, 8, 32), (0.020, 0.027, 0.080))
paces = st.floats(0.5, 3.0)


@given(paces, paces, st.integers(0, 9))
def test_the_pace_of_memory_and_that_of_arithmetic_are_told_apart(
    memory: float, arithmetic: float, seed: int
) -> None:
    """The oracle makes up the seconds, one pass in four over one row, with 5% noise."""

    def true(rows: int) -> float:
        return memory * MEASURED.of(1) + arithmetic * (MEASURED.of(rows) - MEASURED.of(1))

    pace, noise = Pace(Costs(MEASURED), live=True), random.Random(seed)
    for number in range(120):
        rows = 1 if number % 4 == 0 else noise.randrange(2, 17)
        pace.note_pass(rows, 100, true(rows) * noise.uniform(0.95, 1.05))
    for rows in (1, 4, 8, 16):
        assert pace.of(rows, 100) == pytest.approx(true(rows), rel=0.1)


def test_what_is_measured_counts_until_something_else_is_seen() -> None:
    pace = Pace(Costs(MEASURED), live=True)
    assert [pace.of(rows, 100) for rows in (1, 8, 20)] == pytest.approx(
        [MEASURED.of(rows) for rows in (1, 8, 20)]
    )
    pace.note_drafting("cape", 0.004, 0.006)
    assert 1 < pace.drafting("cape") < 1.5 and pace.drafting("graph") == 1


def test_a_pass_that_something_interrupted_changes_little() -> None:
    pace = Pace(Costs(MEASURED), live=True)
    for rows in (1, 8) * 20:
        pace.note_pass(rows, 100, MEASURED.of(rows))
    pace.note_pass(8, 100, 3.0)
    assert pace.of(8, 100) == pytest.approx(MEASURED.of(8), rel=0.1)


def test_without_a_clock_nothing_moves() -> None:
    pace = Pace(TYPICAL)
    for _ in range(2 * ASK_AGAIN):
        pace.note_pass(8, 100, 99.0)
        pace.note_drafting("cape", 1.0, 9.0)
    assert not pace.wants_plain
    assert (pace.memory, pace.arithmetic, pace.drafting("cape")) == (1.0, 1.0, 1.0)


class Guessing(Method):
    """Proposes seven tokens in a row always."""

    id = "guessing"
    adjustable = Adjustable()

    def propose(self, context: Context) -> TokenTree:
        return chain(context.root, [5] * 7, Provenance(Source.PHRASE))


def tokens_per_second(
    method: Method, seconds: Callable[[int], float], steps: int = 600
) -> tuple[float, float]:
    """Of a run in a world where a pass over so many rows takes so long, and of every seven steps
    one accepts the first token; and the mean number of rows."""
    method.start(TokenizedPrompt((1,)), 4 * steps)
    text: tuple[int, ...] = (1,)
    tokens, spent, rows = 0, 0.0, 0
    for number in range(steps):
        context = Context(text, 4 * steps - tokens, number)
        tree = method.propose(context)
        path = (1,) if tree.proposals > 1 and number % 7 == 3 else ()
        taken = seconds(len(tree))
        unread: Any = None
        result = VerificationResult.whole_step(context, tree, unread, path, 9, taken)
        method.learn(result)
        text += result.emitted
        tokens, spent, rows = tokens + len(result.emitted), spent + taken, rows + len(tree)
    return tokens / spent, rows / steps


def test_costs_of_a_busy_machine_are_put_right_within_a_run() -> None:
    """Passes over one row were timed while other work kept the memory busy, so that more rows seem
    to cost nothing. In truth seven guesses cost more than they bring."""

    def true(rows: int) -> float:
        return 0.020 + 0.004 * (rows - 1)

    wrong = Costs(PassCosts((1, 8, 32), (0.034, 0.037, 0.144)))
    plain = 1 / true(1)
    misled, rows = tokens_per_second(Controller(Guessing(None, Resources()), wrong), true)
    assert misled < 0.9 * plain and rows > 2, (misled, rows)
    live = Controller(Guessing(None, Resources()), wrong, Pace(wrong, live=True))
    speed, rows = tokens_per_second(live, true)
    assert speed > max(0.95 * plain, 1.15 * misled) and rows < 1.5, (speed, rows)


def test_plain_decoding_is_timed_at_first_and_again_now_and_then() -> None:
    costs = Costs(PassCosts((1, 8, 32), (1.0, 1.0, 1.0)))
    live = Controller(Guessing(None, Resources()), costs, Pace(costs, live=True))
    widths: list[int] = []

    def seconds(rows: int) -> float:
        widths.append(rows)
        return 1.0

    tokens_per_second(live, seconds, steps=300)
    plain = [number for number, rows in enumerate(widths) if rows == 1]
    assert plain[:2] == [0, 1]
    assert 2 + 2 <= len(plain) <= 2 + 300 // ASK_AGAIN
