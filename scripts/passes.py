"""What a forward pass of the embedded pair takes: milliseconds by rows, and of a prompt.

python -m scripts.passes; with OUROBOROS_NATIVE=0 without the native pass; with --processor the
processor's time of one thread, which other work on the machine disturbs least; --flags are for the
compiler, beside its own: --flags=-U__AMX_BF16__ leaves AMX out; with --ordinary-pages weights lie
in whatever memory torch has. The native pass is timed with the target's weights in bfloat16 and in
the blocks of its GGUF file, in turn, with what a pass over so many rows costs in passes over one:
that much more a step has to emit to be worth it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from ouroboros_core.adaptive.profiler import SHORT, pass_seconds, tree_of
from ouroboros_core.errors import OuroborosError
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import build, pages
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


def loaded() -> tuple[Pair, dict[str, CausalLM]]:
    """The embedded pair, and its target in every format that there is."""
    try:
        pair = load_pair(weights="blocks")
    except OuroborosError as error:
        print(error)
        pair = load_pair()
        return pair, {pair.target.engine: pair.target}
    formats = {"bf16": 0, "blocks": EVERY_ROW}
    found = {name: Reading(pair.target, rows) for name, rows in formats.items()}
    return pair, found  # type: ignore[return-value]  # it has all that a target has


def processor_seconds(passes: list[tuple[CausalLM, int]]) -> list[float]:
    """The least processor time of each pass, taken in turn, behind the same context."""
    context = [7 + n % 50 for n in range(SHORT)]
    least = [float("inf")] * len(passes)
    for _ in range(REPEATS):
        for place, (model, rows) in enumerate(passes):
            tree = tree_of(rows, context[-1])
            begun = time.process_time()
            model.evaluate(context, tree).argmax()
            least[place] = min(least[place], time.process_time() - begun)
    return least


def prompt_seconds(target: CausalLM) -> float:
    text = [7 + n % 50 for n in range(PROMPT + 1)]
    taken = []
    for _ in range(3):
        target.forget()
        begun = time.perf_counter()
        target.prefill(text)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def line(name: str, values: dict[str, float], show: Callable[[float], str]) -> str:
    return f"{name}: " + ", ".join(f"{what}: {show(value)}" for what, value in values.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processor", action="store_true", help="processor time of one thread")
    parser.add_argument("--flags", default="", help="for the compiler of the native pass")
    parser.add_argument(
        "--ordinary-pages", action="store_true", help="no large pages are asked for"
    )
    asked = parser.parse_args()
    if asked.ordinary_pages:
        pages.empty = lambda shape, dtype: torch.empty(*shape, dtype=dtype)
        pages.kind = lambda: "ordinary pages"
    build.FLAGS += tuple(asked.flags.split())
    processor = asked.processor
    if processor:
        torch.set_num_threads(1)
    pair, formats = loaded()
    assert pair.draft is not None
    passes = [(target, rows) for rows in ROWS for target in formats.values()]
    passes.append((pair.draft, 1))
    taken = processor_seconds(passes) if processor else pass_seconds(passes, REPEATS)
    print(f"{pair.target.engine}, {pair.environment.where}; milliseconds of a pass")
    for place, (name, target) in enumerate(formats.items()):
        mine = dict(zip((f"{n} rows" for n in ROWS), taken[place :: len(formats)], strict=False))
        whole = mine | (
            {} if processor else {f"{PROMPT} tokens of a prompt": prompt_seconds(target)}
        )
        print(line(name, whole, lambda seconds: f"{1000 * seconds:.1f}"))
        plain = mine["1 rows"]
        ratios = {what: seconds / plain for what, seconds in mine.items()}
        print(line(f"{name}, in passes over one row", ratios, "{:.2f}".format))
    print(f"draft model: {1000 * taken[-1]:.1f}")


if __name__ == "__main__":
    main()
