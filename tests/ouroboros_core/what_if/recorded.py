"""Recorded runs, priced with the costs of passes that were timed beside each of them."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.beside import PassesBeside
from ouroboros_core.what_if.estimate import Measured, price, skipping
from visualize.gallery import runs as gallery

FITTED, TARGET = "xeon", "qwen2.5-1.5b"
"""The machine whose numbers are fitted to the recorded runs, and their larger target."""
WIDEST = 3
"""The passes of the greatest numbers of rows, which give the FLOPS."""


@dataclass(frozen=True)
class PricedRun:
    """Measured and modelled seconds of a recorded run, prefill apart."""

    measured: float
    modelled: float
    by_sheet: float | None
    """Seconds by bandwidth and FLOPS alone; None for models of unknown shape."""

    @property
    def error(self) -> float:
        return self.modelled / self.measured - 1

    @property
    def sheet_error(self) -> float | None:
        return None if self.by_sheet is None else self.by_sheet / self.measured - 1


def names() -> list[str]:
    """Return the recorded runs that have a plain run beside them."""
    return [name for name in gallery.runs() if gallery.baseline(name) is not None]


def price_run(name: str) -> PricedRun:
    """Price a recorded run. Lookups, choices and random drawing are copied from the run."""
    run, measured = gallery.trace(name), gallery.measured()[name]
    passes = {
        model: PassesBeside(tuple(rows), tuple(seconds), behind=sum(behind))
        for model, (rows, seconds, *behind) in measured["costs"].items()
    }
    target, draft, host = passes["target"], passes.get("draft"), float(measured["proposing"])
    if draft:
        host += draft.behind * sum(1 for step in run.steps if step.draft_passes)
    skipped = target.scaled(machines.kept_share(run)) if skipping(run) else None
    drafter = skipped or draft
    priced = price(run, Measured(target), Measured(drafter) if drafter else None)
    drawing = sum(step.seconds.draft_sampling + step.seconds.verify_sampling for step in run.steps)
    seconds = priced.decode_seconds + host + drawing
    return PricedRun(metrics.decode_seconds(run), seconds, seconds_by_sheet(run))


def seconds_by_sheet(run: Trace) -> float | None:
    try:
        quoted = machines.quote(run, machines.machine(FITTED), machines.OWN)
    except InvalidInput:
        return None
    return quoted.priced.decode_seconds


def fit() -> tuple[float, float]:
    """Return bytes/s by the larger target's passes over one row, FLOPS by the widest passes."""
    seconds: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for name in names():
        run, plain = gallery.trace(name), gallery.baseline(name)
        assert plain is not None
        target = machines.known_as(run.target) or ""
        for step in (*run.steps, *plain.steps):
            seconds[step.width, target].append(step.seconds.verify - step.seconds.verify_sampling)
    flops = median(
        2 * machines.model(target).parameters * rows / median(seconds[rows, target])
        for rows, target in sorted(seconds)[-WIDEST:]
    )
    return machines.model(TARGET).weight_bytes / median(seconds[1, TARGET]), flops
