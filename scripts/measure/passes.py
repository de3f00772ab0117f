"""Milliseconds of a forward pass of the embedded pair, by rows and of a prompt.

The native pass is timed with the target's weights in bfloat16 and in the blocks of its GGUF file,
alternately, with the cost of a pass in passes over one row: a step has to emit that many tokens.
OUROBOROS_NATIVE=0 leaves the native pass out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from ouroboros_core.adaptive.profiler import pass_seconds
from ouroboros_core.errors import OuroborosError
from ouroboros_core.loading.pairs import Execution, Pair, load_pair
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.forward import EVERY_ROW

ROWS = (1, 2, 4, 8, 16, 32)
PROMPT = 512
REPEATS = 12


class Reading:
    """The target, reading its weights in one format."""

    def __init__(self, target: CausalLM, rows: int) -> None:
        self._target, self._rows = target, rows

    def __getattr__(self, name: str) -> object:
        self._target.read_blocks(self._rows)
        return getattr(self._target, name)


def load() -> tuple[Pair, dict[str, CausalLM]]:
    """Return the embedded pair, and its target in every format that there is."""
    try:
        pair = load_pair(execution=Execution(weights="blocks"))
    except OuroborosError as error:
        print(error)
        pair = load_pair()
        return pair, {pair.target.engine: pair.target}
    formats = {"bf16": 0, "blocks": EVERY_ROW}
    readers = {name: Reading(pair.target, rows) for name, rows in formats.items()}
    return pair, readers  # type: ignore[return-value]  # a reader has all attributes of a target


def prompt_seconds(target: CausalLM) -> float:
    """Return the least of three times of reading a prompt."""
    text = [7 + n % 50 for n in range(PROMPT + 1)]
    seconds = []
    for _ in range(3):
        target.forget()
        start = time.perf_counter()
        target.prefill(text)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def line(name: str, values: dict[str, float], show: Callable[[float], str]) -> str:
    return f"{name}: " + ", ".join(f"{label}: {show(value)}" for label, value in values.items())


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    pair, formats = load()
    assert pair.draft is not None
    passes = [(target, rows) for rows in ROWS for target in formats.values()]
    passes.append((pair.draft, 1))
    timed = pass_seconds(passes, REPEATS)
    print(f"{pair.target.engine}, {pair.environment.where}; milliseconds of a pass")
    for index, (name, target) in enumerate(formats.items()):
        by_rows = dict(zip((f"{n} rows" for n in ROWS), timed[index :: len(formats)], strict=False))
        seconds = by_rows | {f"{PROMPT} tokens of a prompt": prompt_seconds(target)}
        print(line(name, seconds, lambda value: f"{1000 * value:.1f}"))
        ratios = {label: value / by_rows["1 rows"] for label, value in by_rows.items()}
        print(line(f"{name}, in passes over one row", ratios, "{:.2f}".format))
    print(f"draft model: {1000 * timed[-1]:.1f}")
