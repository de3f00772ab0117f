"""Measurements that are repeated: python -m scripts.measure NAME

passes          the milliseconds of a forward pass of the embedded pair by rows
page            what a visitor of the page waits for; passes and speedups of the live static site
lossless_modes  which modes of transformers keep the distribution when sampling
"""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = "passes", "page", "lossless_modes"


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(__doc__)
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m scripts.measure {name}"
    import_module(f"scripts.measure.{name}").main()


if __name__ == "__main__":
    main()
