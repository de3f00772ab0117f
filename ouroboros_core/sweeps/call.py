"""A sweep by one call, for notebooks and scripts: one or two settings varied, every setting
measured alternately with plain decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ouroboros_core.benchmark.prompts import Question, own_prompts
from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.benchmark.report import equality, shown
from ouroboros_core.benchmark.store import Measurement, Store
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.messages import aligned
from ouroboros_core.progress import progress_bar
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Value
from ouroboros_core.sweeps import cells
from ouroboros_core.sweeps.grid import QUESTIONS, TOKENS, Axis, Grid, show
from ouroboros_core.sweeps.sweep import open_sweep

HEADS = "setting", "speedup", "tokens per pass", "accepted", "draft cost c", "tokens/s", "text"


@dataclass(frozen=True)
class SweepResult:
    """The result of `sweep`; a notebook shows it as a table with bars, two settings as a grid.

    points    every run, those of plain decoding among them
    repeats   how many were asked for
    left_out  in sentences, which prompts not every combination could run
    """

    grid: Grid
    target: str
    environment: Environment
    points: tuple[Measurement, ...]
    repeats: int
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, grid: Grid, store: Store) -> SweepResult:
        """Return the result of the runs so far."""
        settings = store.settings
        environment = Environment(**settings.environment)
        runs, left_out = tuple(store.fair), tuple(store.lines)
        return cls(grid, settings.target, environment, runs, settings.repeats, left_out)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Return the varied settings."""
        return self.grid.axes

    @cached_property
    def rows(self) -> list[cells.CellRow]:
        """One for each combination of values, in the order of the grid."""
        return cells.summary(self.points, self.grid)

    @cached_property
    def ideals(self) -> list[cells.Ideal]:
        """The draft lengths that should be fastest by theory."""
        return cells.ideal(self.points, self.grid)

    @property
    def best(self) -> cells.CellRow | None:
        """The fastest."""
        return cells.best(self.rows)

    @property
    def about(self) -> str:
        """The measured settings, models and machine."""
        where = f"{self.target}, on {self.environment.where}"
        return f"{self.grid.label} over plain decoding; {where}"

    @property
    def conclusions(self) -> list[str]:
        """The best setting in words: as it was measured, and by theory."""
        lines = cells.conclusions(self.rows, self.ideals, self.grid, self.repeats)
        return [*lines, *self.left_out]

    @property
    def text(self) -> str:
        """The table and the conclusions in letters."""
        table = aligned([HEADS, *map(self._texts, self.rows)])
        return "\n".join([self.about, *table, *self.conclusions])

    def _texts(self, row: cells.CellRow) -> tuple[str, ...]:
        rate = "–" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}"
        return (
            self.grid.describe(row.coordinates),
            f"{row.speedup:.2f}×{cells.interval(row)}{row.between}",
            shown(row.acceptance_length),
            rate,
            shown(row.draft_cost),
            row.speeds,
            equality(row),
        )


def sweep(
    method: str,
    varied: Mapping[str, Sequence[Value]],
    *,
    prompts: Sequence[str] | str | None = None,
    settings: Mapping[str, Value] | None = None,
    pair: Pair | None = None,
    max_new_tokens: int = TOKENS,
    repeats: int = ROUNDS,
    sampling: Sampling | None = None,
) -> SweepResult:
    """Measure a method under every combination of the values of one or two settings.

    It is the loop of `ouroboros sweep`: prompt by prompt, plain decoding and every combination in a
    mixed order.

    varied    `{"gamma": [1, 2, 4]}`; settings of the method or of the sampling, or `draft`
    prompts   six of the project's own where they are left out; a single text is one prompt
    settings  values of settings that are not varied
    pair      of models; the embedded one where it is left out

    Raises InvalidInput for an unknown method, an unknown setting, or a value out of bounds.
    """
    for name, value in (("repeats", repeats), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")
    axes = tuple(Axis(name, tuple(map(show, values))) for name, values in varied.items())
    fixed = ",".join(f"{name}={show(value)}" for name, value in (settings or {}).items())
    grid = Grid.read(method, axes, fixed, sampling)
    questions = _questions(prompts)
    pair = pair or load_pair()
    work = open_sweep(pair, grid, questions, repeats, max_new_tokens)
    with progress_bar("sweep", work.total) as tell:
        for _ in work.run(lambda doing: tell(work.done, doing)):
            pass
        tell(work.total, "done")
    return SweepResult.of(grid, work.store)


def _questions(prompts: Sequence[str] | str | None) -> list[Question]:
    if prompts is None:
        return own_prompts(QUESTIONS)
    texts = [prompts] if isinstance(prompts, str) else prompts
    return [Question(n, "given", (text,)) for n, text in enumerate(texts, 1)]
