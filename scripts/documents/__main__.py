"""Write the generated parts of README.md and docs/, or name the stale files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scripts.documents import COMMAND, ROOT, documents, stale


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, name stale files")
    arguments = parser.parse_args(argv)
    names = stale()
    if arguments.check:
        sys.exit(f"stale: {', '.join(names)}; run: {COMMAND}" if names else 0)
    texts = documents()
    for name in names:
        (ROOT / name).write_text(texts[name], encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
