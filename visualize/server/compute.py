"""Runs and races, as generators of plain data: they may be carried out in another process (see
`lent`)."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from ouroboros_core.decoding import metrics
from ouroboros_core.words import say, several
from visualize import figures, views
from visualize.server.models import Models

if TYPE_CHECKING:
    from ouroboros_core.decoding.equality import Divergence
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.decoding.trace import Step, Trace
    from ouroboros_core.lookup.phrase_pool import PhrasePool

TEXT_INTERVAL = 1 / 16
TEXT_PAUSE, CHART_PAUSE = 0.02, 0.12
"""No clock runs meanwhile: so that sending an update, and on one's own machine drawing it, slows no
step down."""
STATUS_INTERVAL = 1 / 2

Update = dict[str, Any]


def draw_anew(steps: int, drawn: int) -> bool:
    """Whether charts of the first `drawn` steps are to be drawn anew: once there are twice as many,
    so that all drawings of a run together send and cost about twice what the last one does."""
    return steps >= max(4, 2 * drawn)


class Compute:
    """What is done with a pair that is in memory."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def run(
        self,
        pair: str,
        task: Task,
        name: str,
        compare: bool,
        charts: bool,
        pool: PhrasePool | None,
        known: Trace | None,
    ) -> Generator[Update, None, None]:
        """A task and then plain decoding, unless it is known already and was measured while the
        machine was as idle as now.

        Updates are those of `Studio.run`; the first has `begun`, the trace without a step, the
        others `grown`, what there is more: steps, texts, and the pieces of tokens; `written` is the
        trace before it is compared. First and last have `pool`.
        """
        from ouroboros_core.decoding.generation import Generation

        generation = Generation(self._models.loaded(pair), task, pool)
        begun = generation.trace()
        title = views.describe(
            begun.method, begun.hyperparameters, begun.target, begun.draft, begun.corpus
        )
        common = {
            "run": name,
            "badge": say("view.live"),
            "title": title,
            "prompt": task.prompt,
            "chat": task.chat,
        }
        yield {
            "begun": begun,
            "pool": pool,
            "view": {
                **common,
                "seq": 1,
                "from": 0,
                "steps": [],
                "status": say("generate.prompt"),
                "tiles": [],
            },
            "charts": dict.fromkeys(growing(()), figures.empty(say("generate.first"))),
        }
        seq, shown, text_due, drawn = 2, 0, 0.0, 0
        for step in generation:
            now = time.monotonic()
            if now < text_due:
                continue
            text_due = now + TEXT_INTERVAL
            steps = views.steps_view(
                generation.steps, generation.texts, task.sampling, generation.piece, shown
            )
            status = say(
                "generate.status",
                n=step.index + 1,
                tokens=several("run.tokens", len(generation.texts)),
            )
            update: Update = {
                "view": {"run": name, "seq": seq, "from": shown, "steps": steps, "status": status}
            }
            update["grown"] = _grown(generation, shown)
            if charts and draw_anew(len(generation.steps), drawn):
                drawn = len(generation.steps)
                update["charts"] = growing(generation.steps)
            shown, seq = len(generation.steps), seq + 1
            yield update
            if charts:
                time.sleep(CHART_PAUSE if "charts" in update else TEXT_PAUSE)
        trace = generation.trace()
        baseline = None
        if compare and trace.steps and task.method != "autoregressive":
            waiting = views.run_view(
                trace, None, run=name, seq=seq, badge_text=say("view.live"), start=shown
            )
            told = say("generate.comparing", status=waiting["status"], plain=task.sampling.kind)
            waiting |= {"status": told, "done": False}
            drawn_now = growing(trace.steps) if charts else {}
            yield {
                "view": waiting,
                "charts": drawn_now,
                "grown": _grown(generation, shown),
                "written": trace,
            }
            usable = known is not None and metrics.busy(trace, known) is None
            baseline = known if usable else (yield from _baseline(generation))
        difference = judge(generation, trace, baseline) if baseline else None
        badge = say("view.live")
        view = views.run_view(
            trace,
            baseline,
            run=name,
            seq=seq + 1,
            badge_text=badge,
            difference=difference,
            live=True,
        )
        finished = all_charts(trace, baseline) if charts else {}
        ended = {"trace": trace, "baseline": baseline, "difference": difference, "pool": pool}
        yield {"view": view, "charts": finished, **ended}

    def race(
        self, pair: str, tasks: Sequence[tuple[str, Task]], name: str
    ) -> Generator[Update, None, None]:
        """Named tasks in turn, the first of them plain decoding; yields what the race view shows,
        and `trace` of a lane's end."""
        from ouroboros_core.decoding.generation import Generation

        here = self._models.loaded(pair)
        title = say("race.title", target=here.target.name, where=here.environment.where)
        view: dict[str, Any] = {"race": name, "badge": say("view.live"), "title": title}
        lanes: list[dict[str, Any]] = []
        baseline, due = None, 0.0
        generations = [
            (lane, Generation(here, task)) for lane, task in tasks
        ]  # what cannot run is said before anything does
        for number, (lane, generation) in enumerate(generations, 1):
            for step in generation:
                now = time.monotonic()
                if now >= due:
                    due = now + STATUS_INTERVAL
                    facts = {
                        "lane": lane,
                        "step": step.index + 1,
                        "tokens": several("run.tokens", len(generation.texts)),
                    }
                    status = say("race.status", n=number, all=len(tasks), **facts)
                    yield {"view": {**view, "seq": time.time_ns(), "status": status, "done": False}}
            trace = generation.trace()
            baseline = baseline or trace
            difference = judge(generation, trace, baseline) if number > 1 else None
            lanes.append(views.lane_view(lane, trace, baseline, difference))
            over = number == len(tasks)
            told = say("race.over.busy") if any(one["busy"] for one in lanes) else say("race.over")
            status = told if over else say("race.lane.over", n=number, all=len(tasks))
            shown = {
                **view,
                "seq": time.time_ns(),
                "lanes": list(lanes),
                "status": status,
                "done": over,
                "play": over,
            }
            yield {"view": shown, "trace": trace}


def _baseline(generation: Generation) -> Generator[Update, None, Trace]:
    """The plain run of the same task. A generator, so that Stop reaches it."""
    plain = type(generation)(generation.pair, generation.task.plain())
    due = 0.0
    for _ in plain:
        now = time.monotonic()
        if now >= due:
            due = now + STATUS_INTERVAL
            yield {}
    return plain.trace()


def _grown(
    generation: Generation, start: int
) -> tuple[tuple[Step, ...], tuple[str, ...], dict[int, str]]:
    """Steps from `start` on, the texts of their tokens, and the pieces of all tokens that occur in
    them."""
    steps = tuple(generation.steps[start:])
    count = sum(len(step.tokens) for step in steps)
    pieces = {token: generation.piece(token) for step in steps for token in step.occurring}
    return steps, tuple(generation.texts[len(generation.texts) - count :]), pieces


def judge(generation: Generation, trace: Trace, baseline: Trace) -> Divergence | None:
    """The first difference from plain decoding, where the two ought to be equal."""
    from ouroboros_core.decoding.equality import divergence

    return (
        divergence(generation.pair.target, trace, baseline)
        if generation.repeats_plain_text
        else None
    )


def growing(steps: Sequence[Step]) -> dict[str, Any]:
    """The chart that grows with a run; the others are drawn at its end."""
    return {"acceptance": figures.acceptance_length(steps)}


def all_charts(trace: Trace, baseline: Trace | None) -> dict[str, Any]:
    """The charts of a finished run."""
    speedup = (
        figures.speedup_by_token(trace, baseline)
        if baseline is not None and trace.steps
        else figures.empty(say("generate.uncompared"))
    )
    return {
        **growing(trace.steps),
        "choices": figures.choices(trace.steps),
        "pool": figures.pool_growth(trace.steps),
        "time": figures.tokens_against_time(trace, baseline),
        "speedup": speedup,
        "where": figures.time_breakdown(trace, baseline),
        "positions": figures.acceptance_by_position(trace),
        "even": figures.break_even(trace, baseline),
    }
