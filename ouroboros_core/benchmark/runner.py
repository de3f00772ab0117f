"""The loop of a benchmark and of a sweep: prompt by prompt, all entrants in a mixed order.

Entrants are interleaved so that a machine that gets slower slows all of them, and mixed so that
none always comes first or after the same other one: an earlier run leaves its own data in the
processor's caches. A unit of work is one question in one repeat, with all its turns and all
entrants; it is stored as soon as it is finished, so that an interrupted measurement can continue.
If all amounts are fixed, it then has the counts of an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import random
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ouroboros_core.benchmark.entrants import Entrant, MethodEntrant, Outcome, Request, left_out
from ouroboros_core.benchmark.prompts import Question
from ouroboros_core.benchmark.store import Measurement, Store, Stretch, Unit
from ouroboros_core.decoding.text import decode_all
from ouroboros_core.errors import InvalidInput, NotEnoughMemory
from ouroboros_core.lookup.memory import read_memory
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence, compare

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

WARM_UP_TOKENS = 8


@dataclass(frozen=True)
class EntrantRun:
    """A run of an entrant, and the megabytes that it needed at most; 0 if they are not known."""

    entrant: Entrant
    outcome: Outcome
    peak_memory_mb: float


@dataclass(frozen=True)
class Turn:
    """A turn of a question in a repeat, and what every entrant gets of it.

    encoded  token ids of the prompt
    """

    question: Question
    repeat: int
    index: int
    request: Request
    encoded: Sequence[int]


class MemoryPeak:
    """Peak memory of some work: the accelerator's if there is one, else this process's resident
    set. Usage: reset, work, read the peak."""

    def __init__(self, device: str) -> None:
        """device: a torch device type, such as cpu or cuda."""
        self._cuda = device == "cuda"

    def reset(self) -> None:
        """Reset the peak; outside Linux a process's peak covers the whole run."""
        if self._cuda:
            import torch

            for number in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(number)
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")

    def megabytes(self) -> float:
        """The peak since the last reset, in MB (10**6 bytes)."""
        if self._cuda:
            import torch

            return (
                sum(torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count()))
                / 1e6
            )
        with contextlib.suppress(OSError, StopIteration):
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            return (
                int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
                * 1024
                / 1e6
            )
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6


@contextlib.contextmanager
def naming(question: Question, turn: int = 0, who: str = "") -> Iterator[None]:
    """Adds the question's id, and who runs it, to the message of bad input."""
    try:
        yield
    except InvalidInput as error:
        location = ", ".join(filter(None, (f"question {question.id}, turn {turn + 1}", who)))
        raise type(error)(f"{location}: {error}") from None


def stretch(outcome: Outcome, plain: Sequence[int] | None, limit: int) -> Stretch:
    """Count a run as far as the text of plain decoding reaches, in at most `limit` tokens and
    without a loop; an entrant that writes another text is counted in the same way. Without a text
    of plain decoding the whole run counts."""
    cut = 0
    if plain is not None:
        text = plain[:limit]
        start = metrics.loop_start(text)
        cut = 0 if start is None else len(text) - start
        outcome = outcome.before(len(text) - cut)
    first = outcome.first
    return Stretch(
        **vars(outcome.total),
        limit=limit,
        first_tokens=first.tokens,
        first_seconds=first.seconds.prefill + first.seconds.decode,
        cut=cut,
    )


class Runner:
    """Runs the remaining units of a benchmark or a sweep."""

    def __init__(
        self, pair: Pair, entrants: Sequence[Entrant], questions: Sequence[Question], store: Store
    ) -> None:
        """Leave out questions that cannot run; raises InvalidInput if there are no others, and for
        a method that can run none of them."""
        labels = {entrant.label for entrant in entrants}
        assert all(entrant.plain in labels for entrant in entrants), "the baseline always runs"
        self.pair = pair
        self.entrants = list(entrants)
        methods = (entrant for entrant in entrants if isinstance(entrant, MethodEntrant))
        self.samplings = {method.label: method.sampling for method in methods}
        self.store = store
        self.settings = store.settings
        self.memory = MemoryPeak(pair.target.device.type)
        able = self._check(questions)
        repeats = range(self.settings.repeats)
        work = [(repeat, question) for repeat in repeats for question in questions]
        self.work = [(n, *unit) for n, unit in enumerate(work) if unit[1].id in able]
        self.host = ""
        remark = left_out(pair)
        self.notes = [remark] if remark else []
        self.remarks = [str(rival.remark) for rival in entrants if hasattr(rival, "remark")]
        self._warmed_up = False

    def _check(self, questions: Sequence[Question]) -> set[int | str]:
        """The ids of the questions whose first turn can run; the others are left out before any
        work."""
        if not questions:
            raise InvalidInput("there is no prompt to measure on: name at least one")
        chat = bool(self.pair.tokenizer.chat_template)
        able = []
        for question in questions:
            if self.settings.turns and len(question.turns) > 1 and not chat:
                raise InvalidInput(
                    f"{self.pair.target.name} has no chat template, which later turns need: leave "
                    "--turns out"
                )
            try:
                with naming(question):
                    self._request(question).ids(self.pair)
            except InvalidInput as error:
                self.store.leave_out(question.id, 0, str(error))
            else:
                able.append(question)
        if not able:
            raise InvalidInput(self.store.left_out[0].reason)
        for entrant in self.entrants:
            if isinstance(entrant, MethodEntrant):
                self._check_method(entrant, able)
        return {question.id for question in able}

    def _check_method(self, entrant: MethodEntrant, questions: Sequence[Question]) -> None:
        """Raise InvalidInput for a method that can run none of the questions."""
        refused: InvalidInput | None = None
        for question in questions:
            try:
                entrant.generation(self._request(question))
            except InvalidInput as error:
                refused = refused or error
            else:
                return
        raise InvalidInput(f"{entrant.label}: {refused}") from None

    def _request(self, question: Question, turn: int = 0, history: Sequence[str] = ()) -> Request:
        prediction = "" if turn else question.prediction
        return Request(question.turns[turn], self.settings.max_new_tokens, history, prediction)

    @property
    def total(self) -> int:
        return len(self.work)

    @property
    def done(self) -> int:
        return len(self.work) - len(self.left)

    @property
    def tasks(self) -> list[int]:
        """Numbers of the units that are not done."""
        return [number for number, *_ in self.left]

    @property
    def left(self) -> list[tuple[int, int, Question]]:
        done = {*self.store.units}
        barred = {skipped.question for skipped in self.store.left_out if skipped.turn == 0}
        return [
            (n, repeat, question)
            for n, repeat, question in self.work
            if (repeat, question.id) not in done and question.id not in barred
        ]

    def warm_up(self, prompt: str) -> None:
        """Generates a few tokens with each entrant, so that first calls are not timed; warm
        memories are restored afterwards. prompt: one whose characters the tokenizer knows."""
        for entrant in self.entrants:
            with contextlib.suppress(InvalidInput):  # the question is then left out
                entrant.run(Request(prompt, min(WARM_UP_TOKENS, self.settings.max_new_tokens)))
            if isinstance(entrant, MethodEntrant):
                entrant.reset()
                if entrant.memory is not None and entrant.label in self.store.memories:
                    entrant.memory = read_memory(self.store.memories[entrant.label])

    def run(self, progress: Callable[[str], None] = lambda _: None) -> Iterator[Unit]:
        """Run and store the remaining units; `progress` gets the name of every run."""
        for number in self.tasks:
            yield from self.run_task(number, progress)

    def run_task(
        self, number: int, progress: Callable[[str], None] = lambda _: None
    ) -> Iterator[Unit]:
        _, repeat, question = next(unit for unit in self.work if unit[0] == number)
        if not self._warmed_up:
            progress("warming up")
            self.warm_up(question.turns[0])
            self._warmed_up = True
        measured = self._unit(number, repeat, question, progress)
        memories = {
            e.label: e.memory.to_json()
            for e in self.entrants
            if isinstance(e, MethodEntrant) and e.memory is not None
        }
        self.store.add((repeat, question.id), measured, memories)
        yield repeat, question.id

    def _unit(
        self, number: int, repeat: int, question: Question, progress: Callable[[str], None]
    ) -> list[Measurement]:
        """Run all turns that every entrant can run; others are left out for all."""
        order = self.entrants  # as tables have them; later units always mix them in one way
        if number:
            order = random.Random(number).sample(order, len(order))
        history: list[str] = []
        measured: list[Measurement] = []
        for index, prompt in enumerate(
            question.turns if self.settings.turns else question.turns[:1]
        ):
            try:
                with naming(question, index):
                    request = self._request(question, index, tuple(history))
                    turn = Turn(question, repeat, index, request, request.ids(self.pair))
                runs = [self._run(entrant, turn, progress) for entrant in order]
            except NotEnoughMemory:  # another time there may be enough
                raise
            except InvalidInput as error:
                self.store.leave_out(question.id, index, str(error))
                return measured
            texts = {run.entrant.label: run.outcome.tokens for run in runs}
            measured += [self._measurement(run, turn, texts[run.entrant.plain]) for run in runs]
            plain = list(texts[order[0].plain])
            history += [prompt, self.pair.tokenizer.decode(plain, skip_special_tokens=True)]
        return measured

    def _run(self, entrant: Entrant, turn: Turn, progress: Callable[[str], None]) -> EntrantRun:
        name = " ".join(filter(None, (entrant.label, entrant.setting)))
        progress(f"question {turn.question.id}, {name}")
        self.memory.reset()
        with naming(turn.question, turn.index, name):
            outcome = entrant.run(turn.request)
        return EntrantRun(entrant, outcome, 0.0 if entrant.separate else self.memory.megabytes())

    def _measurement(self, run: EntrantRun, turn: Turn, plain: Sequence[int]) -> Measurement:
        """Return the record of a run; `plain`: the baseline's tokens."""
        entrant, outcome = run.entrant, run.outcome
        limits = self.settings.max_new_tokens, *self.settings.shorter
        difference = None
        if entrant.repeats_plain_text:
            difference = self._difference(entrant, turn.encoded, outcome, plain)
        reaching = plain if self.settings.cuts_loops else None
        full, *shorter = (stretch(outcome, reaching, limit) for limit in limits)
        return Measurement(
            **full.counts,
            method=entrant.label,
            setting=entrant.setting,
            repeat=turn.repeat,
            question=turn.question.id,
            turn=turn.index,
            group=turn.question.group,
            peak_memory_mb=round(run.peak_memory_mb, 1),
            compared=entrant.repeats_plain_text,
            difference=difference,
            explanation=None
            if difference is None
            else difference.sentence(self._pieces(difference)),
            host=self.host,
            shorter=tuple(shorter),
            lossless=entrant.lossless,
        )

    def _difference(
        self, entrant: Entrant, prompt: Sequence[int], outcome: Outcome, plain: Sequence[int]
    ) -> Divergence | None:
        dtype = self.settings.environment["dtype"]
        sampling = self.samplings[entrant.plain]
        return compare(self.pair.target, prompt, outcome.tokens, plain, dtype, sampling)

    def _pieces(self, difference: Divergence) -> dict[int, str]:
        return {
            t: decode_all(self.pair.tokenizer, [t])
            for t in (difference.token, difference.other)
            if t is not None
        }
