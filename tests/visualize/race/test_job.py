"""Races: lanes one after another, rounds in changing order, medians, with tiny models."""

from __future__ import annotations

import pytest

from ouroboros_core.decoding.generation import Generation
from ouroboros_core.errors import InvalidInput
from tests.visualize.jobs import make_task, race
from visualize.race.job import LaneFinished, RaceProgress
from visualize.server.runner import Runner


def test_a_race_ends_with_each_lane_and_shows_all_of_them(runner: Runner) -> None:
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    updates = list(race(runner, tasks))
    ended = [update for update in updates if isinstance(update, LaneFinished)]
    assert [len(update.view["lanes"]) for update in ended] == [1, 2]
    assert ended[0].trace.tokens == ended[1].trace.tokens, "the oracle: plain decoding"
    assert isinstance(updates[-1], RaceProgress)
    done = [update.view["done"] for update in updates if hasattr(update, "view")]
    assert done == [False] * (len(done) - 1) + [True]


def test_a_race_goes_on_without_the_lane_that_cannot_run_and_names_it(runner: Runner) -> None:
    """A Medusa lane, where there are no heads. Where no other lane is left, the race is refused."""
    tasks = [(name, make_task(method=name)) for name in ("autoregressive", "medusa", "speculative")]
    *_, last = race(runner, tasks)
    assert isinstance(last, RaceProgress) and last.view["done"]
    assert [lane["name"] for lane in last.view["lanes"]] == ["autoregressive", "speculative"]
    assert "Left out: medusa (medusa needs" in last.view["status"]
    with pytest.raises(InvalidInput, match="medusa needs"):
        list(race(runner, tasks[:2]))


@pytest.mark.usefixtures("never_busy")
def test_a_race_ends_with_the_medians_of_three_rounds_in_changing_order(
    runner: Runner, begun: list[Generation]
) -> None:
    names = ["autoregressive", "speculative", "prompt_lookup"]
    tasks = [(method, make_task(method=method)) for method in names]
    updates = list(race(runner, tasks))
    plain, drafted, copied = names
    assert [one.task.method for one in begun] == [
        *names,
        drafted,
        copied,
        plain,
        copied,
        drafted,
        plain,
    ]
    rounds = [
        update.view
        for update in updates
        if isinstance(update, RaceProgress) and update.view.get("lanes")
    ]
    assert len(rounds) == 3
    assert [view["status"] for view in rounds[:2]] == [
        f"All lanes have run; measuring again, {n} of 3 …" for n in (2, 3)
    ]
    told = [[lane["row"][5].partition("×, ")[2] for lane in view["lanes"]] for view in rounds]
    assert told[0] == ["", "1 round", "1 round"], "plain decoding is compared with nothing"
    assert all(remark.endswith("), 3 rounds") for remark in told[2][1:])
    texts = [[step["tokens"] for step in lane["steps"]] for lane in rounds[0]["lanes"]]
    assert [[step["tokens"] for step in lane["steps"]] for lane in rounds[2]["lanes"]] == texts
    seconds = [[lane["row"][3] for lane in view["lanes"]] for view in rounds]
    sums = [f"{sum(sum(s['seconds']) for s in lane['steps']):.2f}" for lane in rounds[2]["lanes"]]
    assert seconds[2] == sums, "what is replayed and ranked is the median run"


def test_a_lane_is_shown_while_it_runs_and_every_lane_is_known_from_the_first_update(
    runner: Runner,
) -> None:
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    updates = list(race(runner, tasks))
    views = [update.view for update in updates if isinstance(update, RaceProgress)]
    assert views[0]["names"] == ["autoregressive", "speculative"] and not views[0]["steps"]
    ended = [update for update in updates if isinstance(update, LaneFinished)][-1].view
    for number, lane in enumerate(ended["lanes"]):
        grown = [view for view in views if view.get("lane") == number]
        assert "reading the prompt" in grown[0]["status"]
        steps = [step for view in grown for step in view["steps"]]
        assert steps and steps == lane["steps"][: len(steps)]
        assert all(view["from"] == view["steps"][0]["index"] for view in grown if view["steps"])
