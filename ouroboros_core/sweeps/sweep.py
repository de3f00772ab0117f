"""The loop of a sweep: prompt by prompt, plain decoding, then every cell of a grid in a rotated
order.

Every run is stored as soon as it is finished. A resumed sweep measures the plain runs again that
the remaining cells need, in the same process as these cells. If all amounts are fixed, it then has
the counts of an uninterrupted sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ouroboros_core.benchmark.entrants import BASELINE, left_out
from ouroboros_core.benchmark.prompts import Question
from ouroboros_core.benchmark.runner import WARM_UP_TOKENS, naming
from ouroboros_core.benchmark.store import Conditions, Kind, Store, conditions
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput, NotEnoughMemory
from ouroboros_core.loading.pairs import Pair, with_draft
from ouroboros_core.sources import Source
from ouroboros_core.sweeps.cells import Point
from ouroboros_core.sweeps.grid import TOKENS, Cell, Grid
from ouroboros_core.trace.equality import divergence
from ouroboros_core.trace.trace import Trace


@dataclass(kw_only=True)
class SweepSettings(Conditions):
    """Settings that decide a sweep's numbers; `grid` has the axes as they are written."""

    method: str
    grid: list[str]
    knobs: dict[str, Any]

    @property
    def kind(self) -> Kind[Point]:
        return Kind("sweep", "run", "points", Point)


def _run_seconds(pair: Pair, question: Question, max_new_tokens: int) -> float:
    try:
        prompt = len(pair.encode(question.turns[0], chat=bool(pair.tokenizer.chat_template)))
    except InvalidInput:  # it will be left out
        return 0.0
    costs = pair.costs.target
    return costs.of(prompt) + max_new_tokens * costs.of(1)


def _plain(cell: Cell) -> str:
    """The same for all cells that are compared with the same plain run."""
    return cell.sampling.plain().model_dump_json()


Run = tuple[Point, Trace, Trace]
"""The record, the run, and the plain run that it is compared with."""


class Sweep:
    """Runs the remaining cells of a sweep."""

    def __init__(
        self,
        pair: Pair,
        grid: Grid,
        questions: Sequence[Question],
        repeats: int = 1,
        max_new_tokens: int = TOKENS,
        path: Path | None = None,
        *,
        resume: bool = False,
    ) -> None:
        """Load the drafts of the grid and check that everything can run; raises InvalidInput before
        any work.

        path, resume  JSON file of all runs, and whether to continue it
        """
        self.pair, self.grid, self.max_new_tokens = pair, grid, max_new_tokens
        self.host = ""
        remark = left_out(pair)
        self.notes = [remark] if remark else []
        self.remarks: list[str] = []
        self.settings = SweepSettings(
            method=grid.method,
            grid=[str(axis) for axis in grid.axes],
            knobs=dict(grid.settings),
            **conditions(pair, questions, grid.sampling, max_new_tokens, repeats),
        )
        self.store = Store.open(self.settings, path, resume=resume)
        names = dict.fromkeys(cell.draft for cell in grid.cells)
        self._pairs = {name: pair if name is None else with_draft(pair, name) for name in names}
        able = self._check(questions)
        self._warm: set[Hashable] = set()
        visits = [(repeat, question) for repeat in range(repeats) for question in questions]
        self._visits = [(n, *visit) for n, visit in enumerate(visits) if visit[1].id in able]

    def _check(self, questions: Sequence[Question]) -> set[int | str]:
        """The ids of the questions that plain decoding can run; the others are left out before any
        work. Nothing is run: raises InvalidInput if there are no others, and for a cell that can
        run none of them."""
        if not questions:
            raise InvalidInput("there is no prompt to measure on: name at least one")
        able = []
        for question in questions:
            try:
                with naming(question):
                    Generation(self.pair, self._task(self.grid.cells[0], question).plain())
            except NotEnoughMemory:  # another time there may be enough
                raise
            except InvalidInput as error:
                self.store.leave_out(question.id, 0, str(error))
            else:
                able.append(question)
        if not able:
            raise InvalidInput(self.store.left_out[0].reason)
        for cell in self.grid.cells:
            self._check_cell(cell, able)
        return {question.id for question in able}

    def _check_cell(self, cell: Cell, questions: Sequence[Question]) -> None:
        """Raise InvalidInput for a cell that can run none of the questions."""
        refused: InvalidInput | None = None
        for question in questions:
            try:
                Generation(self._pairs[cell.draft], self._task(cell, question))
            except InvalidInput as error:
                refused = refused or error
            else:
                return
        raise InvalidInput(f"{self.grid.describe(cell.coordinates)}: {refused}") from None

    def _task(self, cell: Cell, question: Question) -> Task:
        chat, count = bool(self.pair.tokenizer.chat_template), self.max_new_tokens
        asked = (question.turns[0], self.grid.method, cell.hyperparameters, cell.sampling)
        expected = question.expected_by(self.grid.kind)
        return Task(*asked, count, chat, prediction=expected, generation_config=False)

    @property
    def total(self) -> int:
        """Runs of cells, without runs of plain decoding."""
        return len(self._visits) * len(self.grid.cells)

    @property
    def done(self) -> int:
        return self.total - sum(len(cells) for *_, cells in self._left())

    @property
    def points(self) -> list[Point]:
        """Return all points so far of the questions that every cell can run."""
        return self.store.fair

    @property
    def seconds_left(self) -> float:
        """Return about how long the remaining runs take, each counted as plain decoding, by the
        costs of the target's passes: a method that works takes less."""
        return sum(
            _run_seconds(self.pair, question, self.max_new_tokens)
            * (len(cells) + len({_plain(cell) for cell in cells}))
            for *_, question, cells in self._left()
        )

    def _left(self) -> list[tuple[int, int, Question, list[Cell]]]:
        """Return number, repeat, question and remaining cells, in a rotated order."""
        finished, cells, left_visits = {*self.store.units}, self.grid.cells, []
        barred = {skipped.question for skipped in self.store.left_out}
        for number, repeat, question in self._visits:
            if question.id in barred:
                continue
            start = number % len(cells)
            left = [
                cell
                for cell in (*cells[start:], *cells[:start])
                if (repeat, question.id, cell.index) not in finished
            ]
            left_visits += [(number, repeat, question, left)] if left else []
        return left_visits

    def run(self, progress: Callable[[str], None] = lambda _: None) -> Iterator[Run]:
        """Run the remaining cells; each is stored before it is yielded, together with the plain
        run it is compared with.

        progress gets the name of every run before it begins.
        Closing the iterator ends the sweep; `run` continues it.
        """
        for number in self.tasks:
            yield from self.run_task(number, progress)

    @property
    def tasks(self) -> list[int]:
        """Numbers of the visits to a question that have cells left."""
        return [number for number, *_ in self._left()]

    def run_task(
        self, number: int, progress: Callable[[str], None] = lambda _: None
    ) -> Iterator[Run]:
        """Run what is left of one visit: plain decoding and cells on one question."""
        visits = (visit[1:] for visit in self._left() if visit[0] == number)
        repeat, question, cells = next(visits, (0, None, []))
        plain: dict[str, Trace] = {}
        for cell in cells:
            assert question is not None
            name, task = self.grid.describe(cell.coordinates), self._task(cell, question)
            if _plain(cell) not in plain:
                progress(f"question {question.id}, plain decoding")
                plain[_plain(cell)] = self._generate(BASELINE, self.pair, task.plain())
            progress(f"question {question.id}, {name}")
            try:
                with naming(question, who=name):
                    trace = self._generate(cell.index, self._pairs[cell.draft], task)
            except NotEnoughMemory:
                raise
            except InvalidInput as error:
                self.store.leave_out(question.id, 0, str(error))
                self.store.save({})
                return
            point = self._point(cell, question, repeat, trace, plain[_plain(cell)])
            self.store.add(point.unit, [point])
            yield point, trace, plain[_plain(cell)]

    def _generate(self, key: Hashable, pair: Pair, task: Task) -> Trace:
        """Run a task; the first of its kind warms up with a few tokens."""
        if key not in self._warm:
            count = min(WARM_UP_TOKENS, task.max_new_tokens)
            short = replace(task, max_new_tokens=count)
            Generation(pair, short).run()
            self._warm.add(key)
        return Generation(pair, task).run()

    def _point(
        self, cell: Cell, question: Question, repeat: int, trace: Trace, plain: Trace
    ) -> Point:
        checked = self.grid.kind.writer is Source.TARGET
        compared = checked and cell.sampling.repeats_plain_text
        return Point.of(
            (repeat, question.id, cell.index),
            trace,
            plain,
            compared=compared,
            difference=divergence(self.pair.target, trace, plain) if compared else None,
            host=self.host,
            lossless=checked and cell.sampling.lossless,
        )
