"""Costs that were timed in other conditions are put right by the passes that run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import Controller
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.adaptive.pace import Pace, Rates
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import CLOCK, Pair, load_pair
from ouroboros_core.methods.adjustable import Adjustable
from ouroboros_core.methods.base import (
    Context,
    Method,
    Resources,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, chain
from tests import tiny
from tests.folders import save

MEASURED = PassCosts((1, 8, 32), (0.020, 0.027, 0.080))
paces = st.floats(0.5, 3.0)


def seconds_of(pace: Pace, rows: int) -> float:
    rates = pace.rates("cape")
    return pace.costs.target.at(rates.memory, rates.arithmetic).of(rows)


@given(paces, paces, st.integers(0, 9))
def test_the_pace_of_memory_and_that_of_arithmetic_are_told_apart(
    memory: float, arithmetic: float, seed: int
) -> None:
    """The oracle makes up the seconds, one pass in four over one row, with 5% noise."""

    def true(rows: int) -> float:
        return memory * MEASURED.of(1) + arithmetic * (MEASURED.of(rows) - MEASURED.of(1))

    pace, noise = Pace(Costs(MEASURED)), random.Random(seed)
    for number in range(160):
        rows = 1 if number % 4 == 0 else noise.randrange(2, 17)
        pace.note_pass(rows, 100, true(rows) * noise.uniform(0.95, 1.05))
    for rows in (1, 4, 8, 16):
        assert seconds_of(pace, rows) == pytest.approx(true(rows), rel=0.1)


def test_what_was_measured_counts_until_a_plain_pass_is_seen() -> None:
    pace = Pace(Costs(MEASURED))
    assert pace.rates("cape") == Rates()
    for _ in range(9):
        pace.note_pass(8, 100, 0.080)
    assert pace.rates("cape") == Rates(), "nobody knows whether memory or arithmetic is slower"
    assert MEASURED.at(1, 1).seconds == pytest.approx(MEASURED.seconds)


def test_a_pass_that_something_interrupted_changes_little() -> None:
    pace = Pace(Costs(MEASURED))
    for rows in (1, 8) * 20:
        pace.note_pass(rows, 100, MEASURED.of(rows))
    pace.note_pass(8, 100, 3.0)
    assert seconds_of(pace, 8) == pytest.approx(MEASURED.of(8), rel=0.1)


def test_a_slower_machine_makes_drafts_slower_too_until_they_are_seen() -> None:
    """Otherwise a draft would look cheap or dear beside a target that was put right."""
    pace = Pace(Costs(MEASURED))
    for _ in range(200):
        pace.note_pass(1, 100, 2 * MEASURED.of(1))
    rates = pace.rates("cape")
    assert rates.memory == pytest.approx(2, rel=0.05)
    assert rates.drafting == pytest.approx(rates.memory)
    for _ in range(200):
        pace.note_drafting("cape", 0.004, 0.004)
    assert pace.rates("cape").drafting == pytest.approx(1, rel=0.1)
    assert pace.rates("graph").drafting == pytest.approx(rates.memory)


@given(st.floats(0.2, 5), st.floats(0.2, 5), st.integers(1, 31))
def test_more_rows_never_take_less(memory: float, arithmetic: float, rows: int) -> None:
    for costs in (
        MEASURED,
        PassCosts((1, 8, 32), (1.0, 1.0, 1.2), (1.3, 1.3, 1.5)),
        PassCosts((1, 8, 32), (1.0, 0.9, 1.2)),
    ):
        there = costs.at(memory, arithmetic)
        assert there.of(rows, 9000) >= there.of(1, 9000) - 1e-9 and there.of(1, 9000) > 0
        assert there.of(rows + 1) >= there.of(rows) - 1e-12


@pytest.mark.parametrize("rows", [1, 8])
def test_many_passes_of_one_kind_leave_what_is_known_of_the_other(rows: int) -> None:
    def true(count: int) -> float:
        return 0.6 * MEASURED.of(1) + 2 * (MEASURED.of(count) - MEASURED.of(1))

    pace = Pace(Costs(MEASURED))
    for count in (*(1, 8) * 20, *[rows] * 500):
        pace.note_pass(count, 100, true(count))
    assert seconds_of(pace, 1) == pytest.approx(true(1), rel=0.1)
    assert seconds_of(pace, 8) == pytest.approx(true(8), rel=0.1)


class Guessing(Method):
    """Proposes seven tokens in a row always."""

    id = "guessing"
    adjustable = Adjustable()

    def propose(self, context: Context) -> TokenTree:
        return chain(context.root, [5] * 7, Provenance(Source.PHRASE))


def tokens_per_second(method: Method, true: Callable[[int], float], pace: Pace) -> float:
    """Of a run in a world where a pass over so many rows takes so long, and of every seven steps
    one accepts the first token. The pace is told of every pass."""
    steps = 300
    method.start(TokenizedPrompt((1,)), 4 * steps)
    text: tuple[int, ...] = (1,)
    spent = 0.0
    for number in range(steps):
        context = Context(text, 4 * steps - len(text), number)
        tree = method.propose(context)
        path = (1,) if tree.proposals > 1 and number % 7 == 3 else ()
        unread: Any = None
        result = VerificationResult.whole_step(context, tree, unread, path, 9)
        method.learn(result)
        pace.note_pass(len(tree), len(text), true(len(tree)))
        text += result.emitted
        spent += true(len(tree))
    return (len(text) - 1) / spent


def test_costs_of_a_busy_machine_are_put_right_by_a_plain_run_and_one_of_the_method() -> None:
    """Passes over one row were timed while other work kept the memory busy, so that more rows seem
    to cost nothing. In truth guesses cost more than they bring."""

    def true(rows: int) -> float:
        return 0.020 + 0.006 * (rows - 1)

    wrong = Costs(PassCosts((1, 8, 32), (0.034, 0.047, 0.144)))
    pace, plain = Pace(wrong), 1 / true(1)
    misled = tokens_per_second(Controller(Guessing(None, Resources()), wrong), true, pace)
    assert misled < 0.92 * plain
    for _ in range(100):
        pace.note_pass(1, 100, true(1))
    corrected = Controller(Guessing(None, Resources()), wrong, pace.rates("guessing"))
    assert tokens_per_second(corrected, true, pace) > 0.95 * plain


def loaded(folder: Path, clock: str) -> Pair:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(CLOCK, clock)
        names = (str(folder / name) for name in ("target", "draft"))
        return load_pair(*names, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pace")
    for seed, name in enumerate(("target", "draft")):
        save(folder / name, tiny.target("llama", seed=seed))
    return folder


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return loaded(folder, "1")


def test_without_the_clock_the_costs_decide_alone(pair: Pair, folder: Path) -> None:
    still = loaded(folder, "0")
    assert still.pace is None and still.costs == pair.costs
    assert generation(still).rates == Rates()


def generation(pair: Pair, acceptance: str = "match", **more: Any) -> Generation:
    kind = methods.get("speculative")
    sampling = Sampling(temperature=0.7 if acceptance != "match" else 0.0, acceptance=acceptance)
    task = Task("Once", kind.id, kind.Hyperparameters(), sampling, 24, chat=False)
    return Generation(pair, task, **more)


def test_a_run_tells_the_pace_and_is_repeated_by_the_rates_that_it_had(pair: Pair) -> None:
    assert pair.pace is not None
    first = generation(pair)
    assert first.rates == pair.pace.rates("speculative") != Rates(), "a look was taken at loading"
    first.run()
    assert pair.pace.rates("speculative") != first.rates
    again = generation(pair, rates=first.rates)
    again.run()
    assert [step.width for step in again.steps] == [step.width for step in first.steps]


@pytest.mark.parametrize("acceptance", ["rejection", "block", "typical"])
def test_where_a_text_depends_on_what_is_drafted_it_depends_on_no_clock(
    pair: Pair, acceptance: str
) -> None:
    assert generation(pair, acceptance).rates == Rates()


def test_a_pace_is_not_taken_for_that_of_other_costs(pair: Pair) -> None:
    other = replace(pair, costs=Costs(MEASURED))
    assert generation(other).rates == Rates()
