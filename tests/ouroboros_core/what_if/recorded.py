"""Recorded runs, priced on the machine whose numbers are fitted to them."""

from collections import defaultdict
from statistics import median

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery

FITTED, TARGET = "xeon", "qwen2.5-1.5b"
"""The machine whose numbers are fitted to the recorded runs, and their larger target."""
WIDEST = 3
"""The passes of the greatest numbers of rows, which give the FLOPS."""


def names() -> list[str]:
    """Return the recorded runs that have a plain run beside them."""
    return [name for name in gallery.runs() if gallery.baseline(name) is not None]


def error(run: Trace) -> float | None:
    """Return by how much the seconds by bandwidth and FLOPS differ from the measured ones, prefill
    apart; None for models of unknown shape."""
    try:
        quoted = machines.quote(run, machines.machine(FITTED), machines.OWN)
    except InvalidInput:
        return None
    return quoted.priced.decode_seconds / metrics.decode_seconds(run) - 1


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
