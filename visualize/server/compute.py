"""Runs, races, proofs and games, as generators of plain data: they may be carried out in another
process (see `lent`)."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ouroboros_core.benchmark.protocol import Measured, measure
from visualize import play, proof, views
from visualize.chi_square import LEAST
from visualize.server import showing
from visualize.server.counting import Counting, searching
from visualize.server.models import Models
from visualize.server.showing import METHOD, PLAIN, Live, Race
from visualize.server.updates import Counted, Played, RaceUpdate, RunUpdate, View

if TYPE_CHECKING:
    from ouroboros_core.benchmark.protocol import RunLane
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.decoding.trace import Trace
    from ouroboros_core.lookup.memory import Memory

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
        shown while it goes on. seconds: in which rounds must end, see `protocol.measure`."""
        from ouroboros_core.decoding.generation import Generation

        here = self._models.loaded(pair)
        title = f"{here.target.name}, on {here.environment.where}"
        names = [lane for lane, _ in tasks]
        length = max(task.max_new_tokens for _, task in tasks)
        view: View = {"race": name, "badge": views.LIVE, "title": title}
        view |= {"names": names, "length": length, "done": False}
        generations = [
            Generation(here, task) for _, task in tasks
        ]  # what cannot run is said before anything does
        racing = Race(view, generations)
        for update in measure(len(tasks), racing.run, seconds=seconds):
            yield racing.measured(update) if isinstance(update, Measured) else update

    def play(
        self, pair: str, beginning: str, context: tuple[int, ...], typed: str
    ) -> Generator[Played, None, None]:
        """A round of "Be the draft" behind a context, which is the beginning's where it is
        empty."""
        from ouroboros_core.decoding import guessing
        from ouroboros_core.decoding.text import decode_all, split_text

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
        texts = tuple(split_text(decoder, context + own.emitted)[len(context) :])
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
        from ouroboros_core.decoding.proof import likely_texts

        here, until = self._models.loaded(pair), time.monotonic() + seconds
        prompt = Generation(here, task).prompt.tokens  # what cannot run is said before anything
        yield Counted(name, None, "Computing the target's own probabilities …")
        least = LEAST / seeds
        how = (here.target, prompt, task.sampling, length, least, here.stop_tokens)
        chances, passes = yield from searching(likely_texts(*how), name, until)
        if chances is None:
            tally = proof.Tally((), (), (), 0, seeds, late=True)
            said = f"The time was over before a seed was drawn. Plain passes so far: {passes}."
            yield Counted(name, tally, said, passes)
            return
        counting = Counting(here, chances, seeds)
        for update in counting.run(task, length, name, until):
            yield replace(update, passes=passes)


def _lanes_of_run(shown: Generation, memory: Memory | None, counts: bool) -> RunLane[RunUpdate]:
    """The lanes of a run that is compared: plain decoding and its method, which begins every time
    with what `memory` holds. counts: the run that was shown is the first of its lane."""

    def run(number: int, lane: int) -> Generator[RunUpdate, None, Trace]:
        if counts and lane == METHOD and number == 0:
            return shown.trace()
        task = shown.task if lane == METHOD else shown.task.plain()
        known = copy.deepcopy(memory) if lane == METHOD else None
        rates = shown.rates if lane == METHOD else None
        again = type(shown)(shown.pair, task, known, rates=rates)
        return (yield from showing.silently(again))

    return run
