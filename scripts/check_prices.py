"""Checks `what-if` in two ways: against the recorded runs, and against what papers publish.

    python -m scripts.check_prices --runs      # every recorded run, with the costs of its minute
    python -m scripts.check_prices --papers    # speedups published for known GPUs and models
    python -m scripts.check_prices --fit       # bandwidth and FLOPS of the recording CPUs

What passes cost was timed right beside each run, apart from it (`scripts.record`).

Some runs were recorded before passes were timed. Their costs are fitted to the other runs of the
same target on the same processor: of the target's passes the median seconds by rows, of drafting
what a pass, a further row in it and a proposed token take. The plain run beside each tells the pace
of its minute: its passes over one row wait for memory, and its prompt's rows for arithmetic. No
pass is faster than one over a single row, and a drafter's passes are multiplied by that. Of a pass
over more rows, what goes beyond one over a single row is multiplied by the pace of arithmetic.

So no run's passes are priced with their own times. What is computed beside them - looking up,
choosing among what the draft says, learning, drawing at random - is copied from the run; in the
fitted runs, choosing is a part of what a proposed token takes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import Any

import numpy as np

from ouroboros_core.adaptive.cost_model import PassCosts
from ouroboros_core.decoding import machines, metrics
from ouroboros_core.decoding.trace import Step, Trace
from ouroboros_core.decoding.what_if import (
    Measured,
    Work,
    price,
    skipping,
    work_of,
)
from ouroboros_core.errors import InvalidInput
from scripts import published_prices
from visualize import gallery

FEWEST = 3
"""Passes over a number of rows, to say what it costs."""
GOAL = 0.10


@dataclass(frozen=True)
class Checked:
    """A recorded run: measured and modelled seconds, and speedup over the plain run beside it."""

    name: str
    measured: float
    modelled: float
    speedup: float
    modelled_speedup: float
    by_sheet: float | None = None
    """Seconds by the roofline model with the two numbers that are fitted to its processor, see
    `FITTED`; None where a model's shape is not known."""

    @property
    def error(self) -> float:
        """Of the seconds: modelled / measured - 1."""
        return self.modelled / self.measured - 1

    @property
    def sheet_error(self) -> float | None:
        """The same of `by_sheet`."""
        return None if self.by_sheet is None else self.by_sheet / self.measured - 1


def recorded() -> list[str]:
    """The recorded runs that have a plain run beside them."""
    return [name for name in gallery.runs() if gallery.baseline(name) is not None]


def pace(plain: Trace) -> float:
    """Median seconds of a plain pass."""
    return median(_verifying(step) for step in plain.steps)


def _verifying(step: Step) -> float:
    """Seconds of a step's target pass."""
    return step.seconds.verify - step.seconds.verify_sampling


def arithmetic(plain: Trace) -> float:
    """Seconds of a token of the prompt."""
    return plain.steps[0].seconds.prefill / len(plain.prompt.tokens)


def target_costs(others: Sequence[str], beside: Trace) -> PassCosts:
    """Seconds of the target's passes by rows, in the minute of the plain run `beside`: over one row
    its own, over more the median of the others, and never fewer for more rows."""
    unit = pace(beside)
    found: defaultdict[int, list[float]] = defaultdict(list)
    for name in others:
        run, plain = gallery.trace(name), gallery.baseline(name)
        assert plain is not None
        single, faster = pace(plain), arithmetic(beside) / arithmetic(plain)
        for step in (*run.steps, *plain.steps):
            more = max(0.0, _verifying(step) - single)
            found[step.width].append(_verifying(step) - more + more * faster)
    known = sorted(rows for rows, taken in found.items() if rows > 1 and len(taken) >= FEWEST)
    seconds = accumulate((median(found[rows]) for rows in known), max, initial=unit)
    return PassCosts((1, *known), tuple(seconds))


@dataclass(frozen=True)
class Drafting:
    """Seconds of a drafter's pass over one row, of each row more, and of each proposed token; a
    pass over one row in those of plain decoding."""

    first: float
    row: float
    token: float

    def passes(self, unit: float) -> PassCosts:
        """Costs where a plain pass takes `unit` seconds."""
        first = self.first * unit
        return PassCosts((1, 32), (first, first + 31 * self.row))


def drafting_costs(run: Trace, others: Sequence[str]) -> Drafting | None:
    """Least squares over the steps of all other runs that have the drafter, each run with the same
    weight; None where there is no other one."""
    work, taken = [], []
    for name in others:
        other, plain = gallery.trace(name), gallery.baseline(name)
        assert plain is not None
        if other.draft != run.draft or skipping(other):
            continue
        share = len(other.steps) ** -0.5
        for step, one in drafted(other):
            more = one.draft_passes * (one.draft_rows - 1)
            amounts = one.draft_passes * pace(plain), more, len(step.tree) - 1
            work.append([share * amount for amount in amounts])
            taken.append(share * (step.seconds.draft - step.seconds.draft_sampling))
    return Drafting(*_least_squares(np.array(work), np.array(taken))) if work else None


def _least_squares(table: Any, wanted: Any) -> list[float]:
    """Factors of the columns; one that would be negative is 0, and the others are fitted anew."""
    kept = list(range(table.shape[1]))
    while True:
        found, *_ = np.linalg.lstsq(table[:, kept], wanted, rcond=None)
        if (found >= 0).all():
            break
        kept = [column for column, factor in zip(kept, found, strict=True) if factor > 0]
    factors = [0.0] * table.shape[1]
    for column, factor in zip(kept, found, strict=True):
        factors[column] = float(factor)
    return factors


def timed(name: str) -> dict[str, PassCosts]:
    """What passes of `target` and `draft` took in the minute of a run, timed apart from it; empty
    for a run that was recorded before that was done."""
    kept = gallery.measured().get(name, {}).get("costs", {})
    return {
        model: PassCosts(tuple(rows), tuple(seconds), behind=sum(behind))
        for model, (rows, seconds, *behind) in kept.items()
    }


def drafted(run: Trace) -> list[tuple[Step, Work]]:
    """Steps with draft passes, and what they ask of a machine."""
    steps = zip(run.steps, work_of(run), strict=True)
    return [(step, work) for step, work in steps if work.draft_passes]


def proposing(name: str) -> float:
    """What proposing took beside the draft passes, in seconds, in a run whose passes were timed."""
    found: float = gallery.measured()[name]["proposing"]
    return found


def _alike(name: str, other: str) -> bool:
    """Whether a pass of the one costs what it costs in the other."""
    run, beside = gallery.trace(name), gallery.trace(other)
    return (run.target, run.environment.processor) == (beside.target, beside.environment.processor)


def costs(name: str) -> tuple[PassCosts, PassCosts | None, float] | None:
    """Of the passes of target and draft, and the seconds of proposing beside them, with what taking
    turns costs the two models; None where no run beside tells that."""
    run = gallery.trace(name)
    steps = drafted(run)
    if beside := timed(name):
        target, draft, more = beside["target"], beside.get("draft"), proposing(name)
        more += len(steps) * draft.behind if draft else 0.0
    else:
        others = [one for one in recorded() if one != name and _alike(name, one)]
        if not others:
            return None
        target, draft, more = _fitted(name, others)
    if skipping(run):
        draft = target.part(machines.kept_share(run))
    return None if steps and draft is None else (target, draft, more)


def _fitted(name: str, others: Sequence[str]) -> tuple[PassCosts, PassCosts | None, float]:
    run, plain = gallery.trace(name), gallery.baseline(name)
    assert plain is not None
    target, steps = target_costs(others, plain), drafted(run)
    drafting = drafting_costs(run, others) if steps else None
    if drafting is None:
        return target, None, 0.0
    proposed = sum(len(step.tree) - 1 for step, _ in steps)
    return target, drafting.passes(pace(plain)), drafting.token * proposed


def check(name: str) -> Checked | None:
    """A recorded run, priced with what passes cost in its minute; None where that is not known."""
    run, plain, known = gallery.trace(name), gallery.baseline(name), costs(name)
    assert plain is not None
    if known is None:
        return None
    target, draft, beside = known
    priced = price(run, Measured(target), Measured(draft) if draft else None)
    modelled = priced.decode_seconds + beside + _drawing(run)
    more = len(run.tokens) / len(plain.tokens)
    modelled_plain = priced.plain_decode_seconds + _drawing(plain) * more
    measured, measured_plain = metrics.decode_seconds(run), metrics.decode_seconds(plain) * more
    speedups = measured_plain / measured, modelled_plain / modelled
    return Checked(name, measured, modelled, *speedups, by_sheet(run))


def by_sheet(run: Trace) -> float | None:
    """Seconds of a run's steps on the machine that is fitted to its processor, with its own
    models."""
    ids = [one for one, (processor, _) in FITTED.items() if processor in run.environment.processor]
    try:
        quoted = machines.quote(run, machines.machine(ids[0]), machines.OWN) if ids else None
    except InvalidInput:
        return None
    return quoted.priced.decode_seconds if quoted else None


def _drawing(run: Trace) -> float:
    """Seconds of drawing at random."""
    return sum(step.seconds.draft_sampling + step.seconds.verify_sampling for step in run.steps)


def runs() -> list[str]:
    """The table of all recorded runs, in Markdown."""
    lines = [
        "| recorded run | measured | modelled | error | measured speedup | modelled speedup | "
        "error by bandwidth and FLOPS alone |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    checked = [check(name) for name in recorded()]
    found = [one for one in checked if one is not None]
    for one in found:
        lines.append(
            f"| {one.name} | {one.measured:.2f} s | {one.modelled:.2f} s | {one.error:+.1%} | "
            f"{one.speedup:.2f} | {one.modelled_speedup:.2f} | {_percent(one.sheet_error)} |"
        )
    for what, some in (
        ("whose passes were timed", [one for one in found if timed(one.name)]),
        ("whose costs are fitted", [one for one in found if not timed(one.name)]),
    ):
        near = sum(abs(one.error) <= GOAL for one in some)
        middle = median(abs(one.error) for one in some)
        lines += ["", f"Of the runs {what}, {near} of {len(some)} are within {GOAL:.0%}; "]
        lines[-1] += f"the median error is {middle:.1%}."
    off = [abs(one.sheet_error) for one in found if one.sheet_error is not None]
    lines += ["", "By bandwidth and FLOPS of their processor alone the median error is "]
    lines[-1] += f"{median(off):.0%}."
    if missing := len(checked) - len(found):
        lines += ["", f"{missing} cannot be checked: what drafting costs is not known."]
    return lines


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.0%}"


FITTED = {"epyc": ("EPYC", "qwen2.5-1.5b"), "xeon": ("Xeon", "smollm2-135m")}
"""Machines whose numbers are fitted to recorded runs: what is in the processor's name, and the
target."""


def fit() -> list[str]:
    """Bandwidth from passes over one row, FLOPS from the widest ones."""
    lines = []
    for machine, (processor, target) in FITTED.items():
        size = machines.model(target)
        found: defaultdict[int, list[float]] = defaultdict(list)
        for name in recorded():
            run, plain = gallery.trace(name), gallery.baseline(name)
            same = machines.known_as(run.target) == target
            if same and processor in run.environment.processor and plain is not None:
                for step in (*run.steps, *plain.steps):
                    found[step.width].append(_verifying(step))
        wide = [2 * size.parameters * rows / median(found[rows]) for rows in found if rows >= 12]
        lines.append(
            f"{machine}: bandwidth {size.weight_bytes / median(found[1]):.3g} bytes/s, "
            f"FLOPS {median(wide):.3g}/s over passes of 12 rows and more"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("runs", "papers", "fit"):
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    for name, table in (("runs", runs), ("papers", published_prices.papers), ("fit", fit)):
        if getattr(arguments, name):
            print("\n".join(table()))


if __name__ == "__main__":
    main()
