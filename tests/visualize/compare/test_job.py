"""Comparisons with tiny models: the order of the runs, the estimate, and the rows they give."""

import csv
import io
from typing import Any

import pytest

from ouroboros_core.decoding.generation import Generation
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sweeps.grid import Axis, Grid
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Verdict
from visualize.compare import view as compare_view
from visualize.compare.comparison import Comparison, Plan
from visualize.compare.job import CompareJob, CompareStarted, Pace, Ran, Running
from visualize.server.jobs import Turn
from visualize.server.runner import Runner

GRID = Grid("speculative", (Axis("gamma", ("1", "3")),))


def plan(**changes: Any) -> Plan:
    facts: dict[str, Any] = {"prompts": ("the cat sat",), "others": (), "tokens": 12, "rounds": 3}
    return Plan(**{"grid": GRID, "chat": False, **facts, **changes})


def measured(runner: Runner, compared: Plan) -> tuple[Comparison, list[Any]]:
    """Run a comparison; return it with the views of its runs."""
    comparison, views = Comparison(compared, ""), []
    for update in runner.submit(CompareJob(compared)):
        if isinstance(update, CompareStarted):
            comparison.refused = update.refused
        elif isinstance(update, Ran):
            views.append(compare_view.grown(comparison, update))
    return comparison, views


def test_all_faults_of_a_plan_are_named_at_once() -> None:
    axes = [["gamma", ["1", "none"]]]
    asked = {"prompts": [" "], "method": "speculative", "axes": axes, "tokens": 999}
    with pytest.raises(InvalidInput) as refused:
        Plan.read(asked, 12, 256)
    for fault in ("between 1 and 12 prompts", "gamma", "max_new_tokens"):
        assert fault in str(refused.value)


@pytest.mark.usefixtures("never_busy")
def test_lanes_run_in_rounds_and_a_speedup_is_of_two_runs_of_one_round(runner: Runner) -> None:
    """The oracle is `metrics.speedup` of the two traces."""
    comparison, views = measured(runner, plan(prompts=("the cat sat", "a dog"), others=("ngram",)))
    assert len(comparison.runs) == comparison.total == 3 * 2 * 4
    units = [unit for unit in comparison.runs if unit[0] == 1 and unit[1] == 0]
    assert [lane for _, _, lane in units] == [1, 2, 3, 0], "another lane begins the second round"
    for lane in (1, 2, 3):
        speedup = comparison.speedup(lane)
        assert speedup is not None and len(speedup.each) == 3
        shown = comparison.shown(lane)
        assert [*shown] == [0, 1] and comparison.verdict(lane) is Verdict.SAME
        seconds = sum(metrics.total_seconds(trace) for trace, _ in shown.values())
        plain = sum(metrics.total_seconds(plain) for _, plain in shown.values())
        assert speedup.median == pytest.approx(plain / seconds), "what is shown divides to it"
        row = compare_view.row(comparison, lane)
        assert row["plain"] == pytest.approx(plain)
        assert sum(step[0] for step in row["steps"]) == pytest.approx(seconds, abs=1e-3)
        assert [len(texts) for texts in row["runs"]] == [12, 12]
    assert [row.coordinates for row in comparison.rows] == [(1,), (3,)]
    speedups = [comparison.speedup(lane) for lane in (1, 2)]
    assert [row.repeats for row in comparison.rows] == [one and one.each for one in speedups]
    lines = list(csv.DictReader(io.StringIO(compare_view.table(comparison)["text"])))
    assert [line["row"] for line in lines] == comparison.names, "all rows, not only the cells"
    for line, lane in zip(lines, range(4), strict=True):
        quotient = float(line["tokens_per_second"]) / float(line["plain_tokens_per_second"])
        assert float(line["speedup"]) == pytest.approx(quotient)
        assert line["gamma"] == ("", "1", "3", "")[lane]
    lanes = [[row["lane"] for row in view.get("rows", ())] for view in views]
    assert lanes[:4] == [[0], [1], [2], [3]], "the first prompt shows at once, cell by cell"
    assert lanes[8:15] == [[]] * 7, "an unfinished round changes no row"


def test_a_lane_that_cannot_run_is_left_out_and_named(runner: Runner) -> None:
    comparison, _ = measured(runner, plan(others=("medusa",), rounds=1))
    assert sorted({lane for _, _, lane in comparison.runs}) == [0, 1, 2]
    (line,) = compare_view.ended(comparison)["notes"]
    assert line.startswith("Left out: Medusa (medusa needs")
    alone = Grid("medusa", (Axis("tree_depth", ("4",)),))
    with pytest.raises(InvalidInput, match="medusa needs"):
        list(runner.submit(CompareJob(plan(grid=alone))))


def test_a_comparison_ends_when_its_time_is_over_and_says_so(runner: Runner) -> None:
    compared = plan()
    job = CompareJob(compared).prepared(runner.models.loaded(""))
    comparison = Comparison(compared, "")
    for update in job.updates(runner.models.loaded(""), Turn("", 0.0)):
        if isinstance(update, Ran):
            compare_view.grown(comparison, update)
    assert len(comparison.runs) == 1
    assert "as long as it may" in compare_view.ended(comparison)["notes"][0]


def test_the_estimate_learns_from_the_runs_of_a_lane_and_then_of_all_lanes() -> None:
    pace = Pace(2.0, [0, 1], 3)
    assert pace.left == 12.0, "the guess"
    pace.ran(0, 5.0)
    assert pace.left == 2 * 5.0 + 3 * 5.0, "no run of lane 1 yet"
    pace.ran(1, 1.0)
    assert pace.left == 2 * 5.0 + 2 * 1.0
    pace.ran(1, 2.0)
    assert pace.left == 2 * 5.0 + 1 * 1.5


def test_the_first_runs_are_not_timed(runner: Runner, begun: list[Generation]) -> None:
    updates = list(runner.submit(CompareJob(plan(rounds=2))))
    lengths = [one.task.max_new_tokens for one in begun]
    assert lengths == [8, 12] * 3 + [12] * 3, "a few tokens before the first run of each lane"
    assert [update.lane for update in updates if isinstance(update, Running)] == [0, 1, 2, 1, 2, 0]
