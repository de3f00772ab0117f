"""A run as a strip: who wrote its tokens, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.trace import Trace

KEYS = {key: chr(97 + number) for number, key in enumerate(LOOKS)}
"""A letter for each look, in the order of the legend."""


def strip(*traces: Trace) -> dict[str, Any]:
    """Return the steps of a run, or of several one after another: {steps, told}.

    steps  [seconds, "a12b3"] each: twelve tokens of the first look and three of the second
    told   the tokens of each look, in words
    """
    steps = [step for trace in traces for step in trace.steps]
    counts = Counter(look for step in steps for look in step.looks)
    told = ", ".join(f"{count} {LOOKS[look].label}" for look, count in counts.most_common())
    return {
        "steps": [
            [round(step.seconds.prefill + step.seconds.decode, 5), _run(step.looks)]
            for step in steps
        ],
        "told": f"Who wrote the tokens: {told}",
    }


def _run(looks: Iterable[str]) -> str:
    return "".join(f"{KEYS[look]}{len([*same])}" for look, same in groupby(looks))
