"""What the tabs share on the server: the models, loaded in the background, and the runs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.sampling import Sampling
from ouroboros_core.words import say
from visualize import figures, views
from visualize.panels.baselines import Baselines

if TYPE_CHECKING:
    from ouroboros_core.benchmark.sweep import Run, Sweep
    from ouroboros_core.decoding.equality import Divergence
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.decoding.trace import Step, Trace
    from ouroboros_core.memory.pool import PhrasePool
    from ouroboros_core.models.pairs import Pair

log = logging.getLogger(__name__)

TEXT_INTERVAL = 1 / 16
TEXT_PAUSE, CHART_PAUSE = 0.02, 0.12
"""No clock runs meanwhile: so that sending an update, and on one's own machine drawing it, slows no step down."""
STATUS_INTERVAL = 1 / 2
WARM_UP_TOKENS = 8


def draw_anew(steps: int, drawn: int) -> bool:
    """Whether charts of the first `drawn` steps are to be drawn anew: once there are twice as many, so that all drawings of a
    run together send and cost about twice what the last one does."""
    return steps >= max(4, 2 * drawn)


class Studio:
    """The pair of models and what is done with it. One run computes at a time; the page's queue sees to that."""

    def __init__(self, load: Callable[[], Pair]) -> None:
        self._load = load
        self._pair: Future[Pair] = Future()
        self._baselines = Baselines()
        self._lane = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Load the models in the background."""
        self._thread = threading.Thread(target=self._run_load, name="load-models", daemon=True)
        self._thread.start()

    def _run_load(self) -> None:
        try:
            pair = self._load()
            self._warm_up(pair)
            self._pair.set_result(pair)
        except BaseException as error:
            log.error("the models could not be loaded: %s", error)
            self._pair.set_exception(error)

    @staticmethod
    def _warm_up(pair: Pair) -> None:
        """A few tokens, so that the first visitor's clock measures no first calls."""
        from ouroboros_core.decoding.generation import Generation, Task, lacking

        for method in methods.available().values():
            knobs = method.Hyperparameters()
            if lacking(pair, method, knobs) is None:
                Generation(pair, Task("Hello", method.id, knobs, Sampling(), WARM_UP_TOKENS, chat=False)).run()

    @property
    def ready(self) -> bool:
        return self._pair.done()

    @property
    def health(self) -> str:
        """loading, ready, or failed."""
        if not self.ready:
            return "loading"
        return "failed" if self._pair.exception() else "ready"

    async def until_ready(self) -> None:
        """Polls, because a thread a visitor would be too many."""
        while not self.ready:
            await asyncio.sleep(0.5)

    def pair(self) -> Pair:
        """The models; waits for them. A failure to load is said to every visitor who asks."""
        try:
            return self._pair.result()
        except OuroborosError:
            raise
        except Exception as error:
            raise InvalidInput(say("models.broken", error=error)) from error

    def state(self) -> str:
        """Loading, ready, or what went wrong, in a sentence."""
        if not self._pair.done():
            return say("models.loading")
        error = self._pair.exception()
        if error is not None:
            return say("models.failed", error=error)
        pair = self.pair()
        parts = ("draft", pair.draft), ("head", pair.head), ("corpus", pair.corpus)
        beside = ", ".join(say(f"models.{what}", name=part.name) for what, part in parts if part) or say("models.none")
        return say("models.ready", target=pair.target.name, beside=beside, where=pair.environment.where)

    def run(
        self, task: Task, compare: bool, charts: bool = True, pool: Callable[[], PhrasePool] | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Run a task and then, unless already measured, plain decoding; yields what is new.

        Each update has a `view` for the token view and, where they changed, `charts`; the last has `trace`, `baseline` and
        `difference`, too. While the models load or another run computes, the updates only say so.

        pool  phrases of the visitor's earlier runs, for a warm start
        """
        name = uuid.uuid4().hex
        for status in self._wait_for_turn():
            yield {
                "view": {
                    "seq": 0,
                    "run": name,
                    "from": 0,
                    "steps": [],
                    "status": status,
                    "badge": say("view.waiting"),
                    "tiles": [],
                }
            }
        try:
            yield from self._run(self.pair(), task, name, compare, charts, pool)
        finally:
            self._lane.release()

    def race(self, tasks: Sequence[tuple[str, Task]]) -> Generator[dict[str, Any], None, None]:
        """Run named tasks in turn, the first of them plain decoding; yields what the race view shows, lane by lane."""
        name = uuid.uuid4().hex
        for seq, status in enumerate(self._wait_for_turn()):
            yield {"seq": seq, "race": name, "lanes": [], "status": status, "badge": say("view.waiting"), "done": False}
        try:
            yield from self._race(self.pair(), tasks, name)
        finally:
            self._lane.release()

    def _race(self, pair: Pair, tasks: Sequence[tuple[str, Task]], name: str) -> Iterator[dict[str, Any]]:
        from ouroboros_core.decoding.generation import Generation

        title = say("race.title", target=pair.target.name, where=pair.environment.where)
        view: dict[str, Any] = {"race": name, "badge": say("view.live"), "title": title}
        lanes: list[dict[str, Any]] = []
        baseline, due = None, 0.0
        generations = [(lane, Generation(pair, task)) for lane, task in tasks]  # what cannot run is said before anything does
        for number, (lane, generation) in enumerate(generations, 1):
            for step in generation:
                now = time.monotonic()
                if now >= due:
                    due = now + STATUS_INTERVAL
                    facts = {"lane": lane, "step": step.index + 1, "tokens": len(generation.texts)}
                    status = say("race.status", n=number, all=len(tasks), **facts)
                    yield {**view, "seq": time.time_ns(), "status": status, "done": False}
            trace = generation.trace()
            baseline = baseline or trace
            difference = self._judge(generation, trace, baseline) if number > 1 else None
            lanes.append(views.lane_view(lane, trace, baseline, difference))
            over = number == len(tasks)
            status = say("race.over") if over else say("race.lane.over", n=number, all=len(tasks))
            yield {**view, "seq": time.time_ns(), "lanes": list(lanes), "status": status, "done": over, "play": over}

    def sweep(self, make: Callable[[Pair], Sweep]) -> Iterator[tuple[str, Sweep | None, Run | None]]:
        """Make a sweep and do what is left of it; yields what is measured now, the sweep, and a run that has just ended."""
        for status in self._wait_for_turn():
            yield status, None, None
        try:
            sweep, said, due = make(self.pair()), [""], 0.0
            yield "", sweep, None
            for done in sweep.ticks(lambda what: said.__setitem__(0, what)):
                now = time.monotonic()
                if done is not None or now >= due:
                    due = now + STATUS_INTERVAL
                    yield said[0], sweep, done
        finally:
            self._lane.release()

    def _wait_for_turn(self) -> Iterator[str]:
        """Take the one compute lane. A stopped run may hold it until its pass has ended, so the queue alone is not enough."""
        while not self.ready:
            yield say("generate.loading")
            time.sleep(STATUS_INTERVAL)
        while not self._lane.acquire(timeout=STATUS_INTERVAL):
            yield say("generate.turn")

    def _run(
        self, pair: Pair, task: Task, name: str, compare: bool, charts: bool, pool: Callable[[], PhrasePool] | None
    ) -> Iterator[dict[str, Any]]:
        from ouroboros_core.decoding.generation import Generation

        generation = Generation(pair, task, pool() if pool else None)
        begun = generation.trace()
        title = views.describe(begun.method, begun.hyperparameters, begun.target, begun.draft, begun.corpus)
        common = {"run": name, "badge": say("view.live"), "title": title, "prompt": task.prompt, "chat": task.chat}
        yield {
            "generation": generation,
            "view": {**common, "seq": 1, "from": 0, "steps": [], "status": say("generate.prompt"), "tiles": []},
            "charts": dict.fromkeys(self._growing(()), figures.empty(say("generate.first"))),
        }
        seq, shown, text_due, drawn = 2, 0, 0.0, 0
        for step in generation:
            now = time.monotonic()
            if now < text_due:
                continue
            text_due = now + TEXT_INTERVAL
            steps = views.steps_view(generation.steps, generation.texts, task.sampling, generation.piece, shown)
            status = say("generate.status", n=step.index + 1, tokens=len(generation.texts))
            update: dict[str, Any] = {"view": {"run": name, "seq": seq, "from": shown, "steps": steps, "status": status}}
            if charts and draw_anew(len(generation.steps), drawn):
                drawn = len(generation.steps)
                update["charts"] = self._growing(generation.steps)
            shown, seq = len(generation.steps), seq + 1
            yield update
            if charts:
                time.sleep(CHART_PAUSE if "charts" in update else TEXT_PAUSE)
        trace = generation.trace()
        baseline = None
        if compare and trace.steps and task.method != "autoregressive":
            waiting = views.run_view(trace, None, run=name, seq=seq, badge_text=say("view.live"), start=shown)
            told = say("generate.comparing", status=waiting["status"], plain=task.sampling.kind)
            waiting |= {"status": told, "done": False}
            yield {"view": waiting, "charts": self._growing(trace.steps) if charts else {}}
            baseline = yield from self._baseline(pair, task)
        difference = self._judge(generation, trace, baseline) if baseline else None
        view = views.run_view(trace, baseline, run=name, seq=seq + 1, badge_text=say("view.live"), difference=difference)
        finished = self.charts(trace, baseline) if charts else {}
        yield {"view": view, "charts": finished, "trace": trace, "baseline": baseline, "difference": difference}

    def _baseline(self, pair: Pair, task: Task) -> Generator[dict[str, Any], None, Trace]:
        """The plain run of a task: measured now, or within the last ten minutes. A generator, so that Stop reaches it."""
        from ouroboros_core.decoding.generation import Generation

        generation = Generation(pair, task.plain())
        key = Baselines.key(generation)
        known = self._baselines.get(key)
        if known is not None:
            return known
        due = 0.0
        for _ in generation:
            now = time.monotonic()
            if now >= due:
                due = now + STATUS_INTERVAL
                yield {}
        baseline = generation.trace()
        self._baselines.put(key, baseline)
        return baseline

    @staticmethod
    def _judge(generation: Generation, trace: Trace, baseline: Trace) -> Divergence | None:
        """The first difference from plain decoding, where the two ought to be equal."""
        from ouroboros_core.decoding.equality import divergence

        return divergence(generation.pair.target, trace, baseline) if generation.repeats_plain_text else None

    @staticmethod
    def _growing(steps: Sequence[Step]) -> dict[str, Any]:
        """The chart that grows with a run; the others are drawn at its end."""
        return {"acceptance": figures.acceptance_length(steps)}

    @staticmethod
    def charts(trace: Trace, baseline: Trace | None) -> dict[str, Any]:
        """The charts of a finished run."""
        speedup = (
            figures.speedup_by_token(trace, baseline)
            if baseline is not None and trace.steps
            else figures.empty(say("generate.uncompared"))
        )
        return {
            **Studio._growing(trace.steps),
            "choices": figures.choices(trace.steps),
            "pool": figures.pool_growth(trace.steps),
            "time": figures.tokens_against_time(trace, baseline),
            "speedup": speedup,
            "where": figures.time_breakdown(trace, baseline),
            "positions": figures.acceptance_by_position(trace),
            "even": figures.break_even(trace, baseline),
        }
