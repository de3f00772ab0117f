"""Run one measurement by its name."""

from __future__ import annotations

import sys
from importlib import import_module

import scripts.measure

NAMES = ("steps", "passes", "ablation")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(scripts.measure.__doc__)
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m scripts.measure {name}"
    import_module(f"scripts.measure.{name}").main()


if __name__ == "__main__":
    main()
