"""Prepare a first start: make the embedded target, and compile the native pass during its download.

python -m ouroboros_core.loading.first_start
"""

from __future__ import annotations

import sys

from ouroboros_core.loading import embedded
from ouroboros_core.models.engines.native import build


def main() -> int:
    """Make the target, print its folder, and return the exit status of `embedded.main`."""
    compiling = build.begin()
    failed = embedded.main()
    if not failed and compiling.is_alive():
        print("Compiling the native pass ...", file=sys.stderr, flush=True)
        compiling.join()
    return failed


if __name__ == "__main__":
    sys.exit(main())
