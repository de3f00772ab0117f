"""Runs, races, proofs and games, as generators of plain data: on a Space with a lent GPU (ZeroGPU)
they are carried out in another process (see `runner.py`), otherwise in this one."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ouroboros_core.benchmark.protocol import Measured, measure
from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.summary import Summary
from ouroboros_core.words import counted
from visualize.draft_game import game as play
from visualize.proof import tally as proof
from visualize.proof.chi_square import LEAST
from visualize.proof.job import Counting, searching
from visualize.race import job as showing
from visualize.race.job import (
    METHOD,
    PLAIN,
    TEXT_INTERVAL,
    TEXT_PAUSE,
    Race,
    draw_anew,
    judge,
    same_steps,
)
from visualize.run import figures
from visualize.run import view as views
from visualize.run.view import View
from visualize.server.models import Models
from visualize.server.updates import (
    Charts,
    Compared,
    Counted,
    Finished,
    Played,
    Progress,
    RaceUpdate,
    RunUpdate,
    Started,
    Written,
)

if TYPE_CHECKING:
    from ouroboros_core.benchmark.protocol import RunLane
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.memory import Memory
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.trace import Step, Trace

CHART_PAUSE = 0.12
"""Behind an update with a chart, see `showing.TEXT_PAUSE`."""
UNHURRIED = 5
"""A run that is shown is timed once more where so many of its kind fit into the time: plain
decoding may take three times as long."""


class Compute:
    """What is done with a pair that is in memory."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def run(
        self,
        pair: str,
        task: Task,
        name: str,
        charts: bool,
        memory: Memory | None,
        rounds: int,
        seconds: float,
    ) -> Generator[RunUpdate, None, None]:
        """A task that is shown while it goes on; then it is timed against plain decoding, and
        nothing of that is shown: a browser on the same machine takes processor time for what it
        draws. (On two cores the run that was shown had 32 tokens a second, and 57 when nothing was
        drawn.) Where nobody draws, or time is short, the run that is shown is the first one that is
        timed.

        charts   whether a page draws it
        memory   what the run starts with; Finished has it again, with what it has learned
        rounds   how many are to count; 0: it is not compared
        seconds  in which all should end; the first round runs in any case
        """
        from ouroboros_core.decoding.generation import Generation

        cold = copy.deepcopy(memory)
        generation = Generation(self._models.loaded(pair), task, memory)
        live = Live(generation, name, charts)
        yield live.started(memory)
        began = time.monotonic()
        yield from live.progress()
        took = time.monotonic() - began
        counts = not charts or seconds < UNHURRIED * took
        plain = task.method == "autoregressive"
        if not rounds or (plain and counts):
            yield live.finished(None, memory)
            return
        yield live.written()
        run = _lanes_of_run(generation, cold, counts)
        if plain:
            alone = yield from run(0, METHOD)
            yield live.finished(None, memory, alone)
            return
        # Of the first round, too, both runs have to fit in.
        left = seconds - (2 if counts else 1) * took
        found = None
        first = METHOD if counts else PLAIN
        for update in measure(2, run, rounds=rounds, first=first, seconds=left):
            if not isinstance(update, Measured):
                yield update
            elif update.more:
                yield live.compared(update)
            else:
                found = update
        yield live.finished(found, memory)

    def race(
        self, pair: str, tasks: Sequence[tuple[str, Task]], name: str, seconds: float
    ) -> Generator[RaceUpdate, None, None]:
        """Named tasks in turn, the first of them plain decoding, in rounds of which the first is
        shown while it goes on. One that cannot run is left out and named, as long as another one
        can. seconds: in which rounds must end, see `protocol.measure`."""
        here = self._models.loaded(pair)
        title = f"{here.target.name}, on {here.environment.where}"
        able, refused = _able(here, tasks)
        length = max(task.max_new_tokens for _, task in tasks)
        view: View = {"race": name, "badge": views.LIVE, "title": title}
        view |= {"names": list(able), "length": length, "done": False}
        racing = Race(view, [*able.values()], refused)
        for update in measure(len(able), racing.run, seconds=seconds):
            yield racing.measured(update) if isinstance(update, Measured) else update

    def play(
        self, pair: str, beginning: str, context: tuple[int, ...], typed: str
    ) -> Generator[Played, None, None]:
        """A round of "Be the draft" behind a context, which is the beginning's where it is
        empty."""
        from ouroboros_core.decoding.text import TextStream, decode_all
        from visualize.draft_game import guesses as guessing

        here = self._models.loaded(pair)
        context = context or tuple(here.encode(beginning, chat=False))
        decoder = here.tokenizer
        written = guessing.spellings(here, decode_all(decoder, context), typed, play.MOST)
        guesses = guessing.play(here, context, written, play.MOST)
        own = guesses[play.YOU]
        pieces = {
            player: tuple(decode_all(decoder, [token]) for token in guess.tokens)
            for player, guess in guesses.items()
        }
        # A character that the round leaves unfinished comes with the next one.
        stream = TextStream(decoder)
        texts = tuple([stream.push(token) for token in context + own.emitted][len(context) :])
        wanted = "" if own.target_token is None else decode_all(decoder, [own.target_token])
        ended = own.emitted[-1] in here.stop_tokens
        how = play.spelling(written, own)
        yield Played(play.Round(context, guesses, pieces, texts, wanted, how, ended))

    def prove(
        self, pair: str, task: Task, seeds: int, length: int, seconds: float, name: str
    ) -> Generator[Counted, None, None]:
        """The first `length` tokens of a task with so many seeds from its own on, counted against
        the target's own probabilities; ends early after so many seconds."""
        from ouroboros_core.decoding.generation import Generation
        from visualize.proof.likely_texts import likely_texts

        here, until = self._models.loaded(pair), time.monotonic() + seconds
        asked = Generation(here, task)  # what cannot run is said before anything
        yield Counted(name, None, "Computing the target's own probabilities …")
        least = LEAST / seeds
        prompt, stops = asked.prompt.tokens, asked.stop_tokens
        how = (asked.target, prompt, task.sampling, length, least, stops)
        chances, passes = yield from searching(likely_texts(*how), name, until)
        if chances is None:
            tally = proof.Tally((), (), (), 0, seeds, late=True)
            said = f"The time was over before a seed was drawn. Plain passes so far: {passes}."
            yield Counted(name, tally, said, passes)
            return
        counting = Counting(here, chances, seeds)
        for update in counting.run(task, length, name, until):
            yield replace(update, passes=passes)


def _able(
    pair: Pair, tasks: Sequence[tuple[str, Task]]
) -> tuple[dict[str, Generation], dict[str, str]]:
    """The lanes of a race that can run, set up, and why the others cannot, by name. Raises
    InvalidInput where plain decoding cannot, or nothing beside it."""
    from ouroboros_core.decoding.generation import Generation

    able: dict[str, Generation] = {}
    refused: dict[str, str] = {}
    for name, task in tasks:
        try:
            able[name] = Generation(pair, task)
        except InvalidInput as error:
            if not able:
                raise
            refused[name] = str(error)
    if len(able) == 1 and refused:
        raise InvalidInput(next(iter(refused.values())))
    return able, refused


class Live:
    """Makes the updates of one run; of steps, those that were not sent yet."""

    def __init__(self, generation: Generation, name: str, charts: bool) -> None:
        self.generation, self._name, self._charts = generation, name, charts
        self._seq, self._sent = 1, 0

    def started(self, memory: Memory | None) -> Started:
        begun, task = self.generation.trace(), self.generation.task
        title = views.title(begun)
        view = {
            "run": self._name,
            "badge": views.LIVE,
            "title": title,
            "prompt": task.prompt,
            "chat": task.chat,
            "seq": self._seq,
            "from": 0,
            "steps": [],
            "status": "Reading the prompt …",
            "tiles": [],
        }
        charts = dict.fromkeys(figures.growing(()), figures.empty("The first step is under way."))
        return Started(self._name, begun, memory, view, charts)

    def progress(self) -> Generator[Progress, None, None]:
        """Generates; an update as often as the text is to move, and a pause behind it where there
        are charts."""
        steps = self.generation.steps  # this list grows while the loop goes on
        due, drawn = 0.0, 0
        for _ in self.generation:
            now = time.monotonic()
            if now < due:
                continue  # what is left at the end comes with `written`, or `finished`
            due = now + TEXT_INTERVAL
            charts: Charts = {}
            if self._charts and draw_anew(len(steps), drawn):
                drawn = len(steps)
                charts = figures.growing(steps)
            yield self._new_steps(charts)
            if self._charts:
                time.sleep(CHART_PAUSE if charts else TEXT_PAUSE)

    def _new_steps(self, charts: Charts) -> Progress:
        generation = self.generation
        tokens = counted(len(generation.texts), "token")
        status = f"Step {len(generation.steps)}: {tokens}"
        self._seq += 1
        view = {
            "run": self._name,
            "seq": self._seq,
            "from": self._sent,
            "steps": views.steps_view(
                generation.steps,
                generation.texts,
                generation.task.sampling,
                generation.piece,
                self._sent,
            ),
            "status": status,
        }
        steps, texts, pieces = _grown(generation, self._sent)
        self._sent = len(generation.steps)
        return Progress(steps=steps, texts=texts, pieces=pieces, view=view, charts=charts)

    def written(self) -> Written:
        trace = self.generation.trace()
        self._seq += 1
        view = views.run_view(
            Summary(trace),
            run=self._name,
            seq=self._seq,
            badge_text=views.LIVE,
            start=self._sent,
        )
        self._sent = len(trace.steps)
        compared = trace.method != "autoregressive"
        doing = "Now it is timed against plain decoding" if compared else "Now it is timed"
        view |= {
            "status": f"{view['status']}. {doing} …",
            "done": False,
        }
        return Written(trace, view, figures.growing(trace.steps) if self._charts else {})

    def compared(self, found: Measured) -> Compared:
        """The speedup so far, while another round is measured."""
        trace, baseline, difference = self._shown(found)
        assert baseline is not None
        self._seq += 1
        speedup = found.speedup(METHOD)
        view = views.run_view(
            Summary(trace, baseline, difference, speedup),
            run=self._name,
            seq=self._seq,
            badge_text=views.LIVE,
            start=self._sent,
        )
        doing = f"{found.doing[0].upper()}{found.doing[1:]}"
        view |= {"status": f"{view['status']}. {doing} …", "notices": [], "done": False}
        return Compared(trace, baseline, difference, speedup, view)

    def finished(
        self, found: Measured | None, memory: Memory | None, alone: Trace | None = None
    ) -> Finished:
        """found: None where the run is not compared; alone: then, the run that was timed."""
        trace, baseline, difference = self._shown(found)
        trace = alone or trace
        speedup = found.speedup(METHOD) if found else None
        summary = Summary(trace, baseline, difference, speedup)
        view = views.run_view(
            summary, run=self._name, seq=self._seq + 1, badge_text=views.LIVE, can_rerun=True
        )
        charts = figures.all_charts(summary) if self._charts else {}
        return Finished(trace, baseline, difference, memory, view, charts, speedup)

    def _shown(self, found: Measured | None) -> tuple[Trace, Trace | None, Divergence | None]:
        """The two runs of the median speedup and how their texts differ; the run that was seen,
        where the other one took other steps."""
        seen = self.generation.trace()
        if found is None:
            return seen, None, None
        baseline, trace = found.middle(METHOD).traces
        trace = trace if same_steps(trace, seen) else seen
        return trace, baseline, judge(self.generation, trace, baseline)


def _grown(
    generation: Generation, start: int
) -> tuple[tuple[Step, ...], tuple[str, ...], dict[int, str]]:
    """Steps from `start` on, the texts of their tokens, and the pieces of all tokens that occur in
    them."""
    steps = tuple(generation.steps[start:])
    count = sum(len(step.tokens) for step in steps)
    pieces = {token: generation.piece(token) for step in steps for token in step.occurring}
    return steps, tuple(generation.texts[len(generation.texts) - count :]), pieces


def _lanes_of_run(shown: Generation, memory: Memory | None, counts: bool) -> RunLane[RunUpdate]:
    """The lanes of a run that is compared: plain decoding and its method, which begins every time
    with what `memory` holds. counts: the run that was shown is the first of its lane."""
    from ouroboros_core.decoding.generation import Generation

    def run(number: int, lane: int) -> Generator[RunUpdate, None, Trace]:
        if counts and lane == METHOD and number == 0:
            return shown.trace()
        task = shown.task if lane == METHOD else shown.task.plain()
        known = copy.deepcopy(memory) if lane == METHOD else None
        return (yield from showing.silently(Generation(shown.pair, task, known)))

    return run
