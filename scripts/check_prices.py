"""Checks `what-if` in two ways: against the recorded runs, and against what papers publish.

    python -m scripts.check_prices --runs      # every recorded run, with the costs of its minute
    python -m scripts.check_prices --papers    # speedups published for known GPUs and models
    python -m scripts.check_prices --fit       # bandwidth and FLOPS of the recording CPU

What passes cost was timed right beside each run, apart from it (`scripts.record`), so that no run's
passes are priced with their own times. What is computed beside them - looking up, choosing among
what the draft says, learning, drawing at random - is copied from the run.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from ouroboros_core.adaptive.cost_model import PassCosts
from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.estimate import (
    Measured,
    price,
    skipping,
)
from scripts import published_prices
from scripts.record import PassesBeside
from visualize.gallery import runs as gallery

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


def _verifying(step: Step) -> float:
    """Seconds of a step's target pass."""
    return step.seconds.verify - step.seconds.verify_sampling


def timed(name: str) -> dict[str, PassesBeside]:
    """What passes of `target` and, where there is one, `draft` took in the minute of a run, timed
    apart from it."""
    kept = gallery.measured()[name]["costs"]
    return {
        model: PassesBeside(tuple(rows), tuple(seconds), behind=sum(behind))
        for model, (rows, seconds, *behind) in kept.items()
    }


def proposing(name: str) -> float:
    """What proposing took beside the draft passes of a run, in seconds."""
    found: float = gallery.measured()[name]["proposing"]
    return found


def costs(name: str) -> tuple[PassCosts, PassCosts | None, float]:
    """Of the passes of target and draft, and the seconds of proposing beside them, with what taking
    turns costs the two models."""
    run, beside = gallery.trace(name), timed(name)
    target, draft, more = beside["target"], beside.get("draft"), proposing(name)
    if draft:
        more += draft.behind * sum(1 for step in run.steps if step.draft_passes)
    skipped = target.scaled(machines.kept_share(run)) if skipping(run) else None
    return target, skipped or draft, more


def check(name: str) -> Checked:
    """A recorded run, priced with what passes cost in its minute."""
    run, plain = gallery.trace(name), gallery.baseline(name)
    assert plain is not None
    target, draft, beside = costs(name)
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
    try:
        quoted = machines.quote(run, machines.machine(FITTED), machines.OWN)
    except InvalidInput:
        return None
    return quoted.priced.decode_seconds


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
    found = [check(name) for name in recorded()]
    for one in found:
        lines.append(
            f"| {one.name} | {one.measured:.2f} s | {one.modelled:.2f} s | {one.error:+.1%} | "
            f"{one.speedup:.2f} | {one.modelled_speedup:.2f} | {_percent(one.sheet_error)} |"
        )
    near = sum(abs(one.error) <= GOAL for one in found)
    middle = median(abs(one.error) for one in found)
    lines += ["", f"{near} of {len(found)} runs are within {GOAL:.0%}; "]
    lines[-1] += f"the median error is {middle:.1%}."
    off = [abs(one.sheet_error) for one in found if one.sheet_error is not None]
    lines += ["", "By bandwidth and FLOPS of their processor alone the median error is "]
    lines[-1] += f"{median(off):.0%}."
    return lines


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.0%}"


FITTED, TARGET = "xeon", "qwen2.5-1.5b"
"""The machine whose numbers are fitted to the recorded runs, and the larger target of these."""

WIDEST = 3
"""So many of the greatest numbers of rows say how fast it computes."""


def fit() -> list[str]:
    """Bandwidth from the larger target's passes over one row, FLOPS from the widest passes of
    all."""
    found: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for name in recorded():
        run, plain = gallery.trace(name), gallery.baseline(name)
        assert plain is not None
        target = machines.known_as(run.target) or ""
        for step in (*run.steps, *plain.steps):
            found[step.width, target].append(_verifying(step))
    widest = sorted(found)[-WIDEST:]
    flops = median(
        2 * machines.model(target).parameters * rows / median(found[rows, target])
        for rows, target in widest
    )
    bandwidth = machines.model(TARGET).weight_bytes / median(found[1, TARGET])
    return [
        f"{FITTED}: bandwidth {bandwidth:.3g} bytes/s, FLOPS {flops:.3g}/s over passes of "
        f"{widest[0][0]} to {widest[-1][0]} rows"
    ]


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
