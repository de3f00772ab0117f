"""What a forward pass of the embedded pair takes: milliseconds by rows, and of a prompt.

python -m scripts.passes; with OUROBOROS_NATIVE=0 without the native pass.
"""

from __future__ import annotations

import time

from ouroboros_core.adaptive.profiler import pass_seconds
from ouroboros_core.loading.pairs import load_pair

ROWS = (1, 2, 4, 8, 16, 32)
PROMPT = 512
REPEATS = 12


def main() -> None:
    pair = load_pair()
    target, draft = pair.target, pair.draft
    assert draft is not None
    taken = pass_seconds([*((target, rows) for rows in ROWS), (draft, 1)], REPEATS)
    names = [*(f"{rows} rows" for rows in ROWS), "draft model"]
    found = {name: 1000 * seconds for name, seconds in zip(names, taken, strict=True)}
    text = [7 + n % 50 for n in range(PROMPT + 1)]
    prefill = []
    for _ in range(3):
        target.forget()
        begun = time.perf_counter()
        target.prefill(text)
        prefill.append(time.perf_counter() - begun)
    found[f"{PROMPT} tokens of a prompt"] = 1000 * min(prefill)
    print(f"{target.engine}, {pair.environment.where}; milliseconds")
    print(", ".join(f"{name}: {value:.1f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
