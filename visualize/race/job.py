"""A race as a job: named tasks run one after another, the first of them plain decoding."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ouroboros_core.benchmark.protocol import Measured, measure
from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import counted
from ouroboros_core.trace.summary import Summary
from visualize.run import live
from visualize.run import view as views
from visualize.run.view import View
from visualize.server.jobs import Turn, Update
from visualize.server.queue import Rank
from visualize.what_if import view as what_if_view

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class RaceUpdate(Update):
    """Base of the updates that change the picture of a race."""

    view: View


@dataclass(frozen=True)
class RaceProgress(RaceUpdate):
    """A lane has new steps, or a round of all lanes has ended."""


@dataclass(frozen=True)
class LaneFinished(RaceUpdate):
    """A lane has ended for the first time; `trace` is its run."""

    pausable = True
    trace: Trace


@dataclass(frozen=True)
class RaceJob(live.TimedJob):
    """Run named tasks in rounds and show the first round while it computes.

    A task that cannot run is left out and named, if another one can. Updates: one lane after the
    other, each with a LaneFinished at its end; then Comparing through the further rounds. A
    RaceProgress follows every round; the last one ends the race.
    """

    kind = "race"
    rank = Rank.SERIES
    lanes: Sequence[tuple[str, Task]]
    """Name and task of each lane, plain decoding first."""

    @property
    def tasks(self) -> list[Task]:
        return [task for _, task in self.lanes]

    @property
    def cost(self) -> float:
        return sum(task.max_new_tokens for task in self.tasks)

    @property
    def facts(self) -> dict[str, Any]:
        return {"methods": [task.method for task in self.tasks]}

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        generations, refused = _able(pair, self.lanes)
        view: View = {
            "race": turn.name,
            "badge": views.LIVE,
            "title": f"{pair.target.name}, on {pair.environment.where}",
            "names": list(generations),
            "length": max(task.max_new_tokens for task in self.tasks),
            "done": False,
        }
        race = Race(view, [*generations.values()], refused, turn)
        rounds = measure(len(generations), race.run, seconds=turn.seconds, clock=turn.clock)
        for update in rounds:
            yield race.measured(update) if isinstance(update, Measured) else update


def _able(
    pair: Pair, lanes: Sequence[tuple[str, Task]]
) -> tuple[dict[str, Generation], dict[str, str]]:
    """Return by name the generations that can run, and why others cannot.

    Raises InvalidInput if plain decoding cannot run, or no lane beside it.
    """
    from ouroboros_core.decoding.generation import Generation

    generations: dict[str, Generation] = {}
    refused: dict[str, str] = {}
    for name, task in lanes:
        try:
            generations[name] = Generation(pair, task)
        except InvalidInput as error:
            if not generations:
                raise
            refused[name] = str(error)
    if len(generations) == 1 and refused:
        raise InvalidInput(next(iter(refused.values())))
    return generations, refused


class Race:
    """Makes the updates of a race: of each lane in the first round, of all after every round."""

    def __init__(
        self,
        view: View,
        generations: Sequence[Generation],
        refused: Mapping[str, str],
        turn: Turn,
    ) -> None:
        """
        view     what all updates show
        refused  by name, why a lane could not run
        """
        self._view, self._generations, self._refused = view, generations, refused
        self._turn = turn
        self._traces: list[Trace] = []
        self._differences: list[Divergence | None] = []

    def run(self, number: int, lane: int) -> Generator[Update, None, Trace]:
        """Run a lane of a round, for `protocol.measure`."""
        generation, count = self._generations[lane], len(self._generations)
        if number:
            from ouroboros_core.decoding.generation import Generation

            make = partial(Generation, generation.pair, generation.task)
            return (yield from live.silently(make, self._turn))
        yield from self._progress(generation, lane)
        trace = generation.trace()
        self._traces.append(trace)
        self._differences.append(
            live.difference_from_plain(generation, trace, self._traces[0]) if lane else None
        )
        view = self._view | self._lanes(Measured.once(*self._traces))
        view |= {"status": f"Lane {lane + 1} of {count} has run."}
        yield LaneFinished(
            trace,
            view=view,
            tokens=sum(len(run.tokens) for run in self._traces),
            steps=sum(len(run.steps) for run in self._traces),
        )
        return trace

    def _progress(self, generation: Generation, lane: int) -> Generator[RaceProgress, None, None]:
        """Generate a lane; yield its new steps as often as the text may move.

        No clock runs between the steps, so a pause follows each update, as in a run.
        """
        name = f"Lane {lane + 1} of {len(self._generations)}, {self._view['names'][lane]}"
        sent = 0

        def progress(status: str) -> RaceProgress:
            steps = live.steps_from(generation, sent)
            changed = {"lane": lane, "from": sent, "steps": steps, "status": f"{name}: {status}"}
            return RaceProgress(view={**self._view, "seq": time.time_ns(), **changed})

        yield progress("reading the prompt …")
        for _ in live.paced(generation):
            passes = len(generation.steps)
            tokens = counted(len(generation.texts), "token")
            yield progress(f"{tokens} in {passes} forward {'pass' if passes == 1 else 'passes'}")
            sent = passes
            time.sleep(live.TEXT_PAUSE)

    def measured(self, rounds: Measured) -> RaceProgress:
        """Return the update after a round, perhaps the last."""
        lanes = self._lanes(rounds)
        if rounds.more:
            status = f"All lanes have run; {rounds.doing} …"
        elif any(lane["busy"] for lane in lanes["lanes"]):
            status = (
                "All lanes have run; this is the replay. The machine was busy meanwhile: press "
                "Race to measure again."
            )
        else:
            status = "All lanes have run; this is the replay."
        if not rounds.more:
            for name, reason in self._refused.items():
                status += f" Left out: {name} ({reason})."
        over = {"done": not rounds.more, "play": not rounds.more}
        return RaceProgress(view=self._view | lanes | over | {"status": status})

    def _lanes(self, rounds: Measured) -> View:
        """Return the lanes that have run, each in the round of its median speedup."""
        lanes = []
        for lane, (name, difference) in enumerate(
            zip(self._view["names"], self._differences, strict=False)
        ):
            middle = rounds.middle(lane)
            run = middle.traces[lane]
            summary = Summary(run, middle.plain, difference, rounds.speedup(lane))
            lanes.append(views.lane_view(name, summary) | {"modelled": what_if_view.clocks(run)})
        return {"seq": time.time_ns(), "lanes": lanes}
