"""The command line as on a processor without AMX: python -m scripts.without_amx bench --limit 9

Neither the native pass nor torch's products use it then; without AVX512-BF16 there is nothing that
this could show, since float32 is what such a processor computes in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ouroboros_core import cli
from ouroboros_core.models.engines.native import build


def main(argv: Sequence[str] | None = None) -> int:
    """What `python -m ouroboros_core` returns for these arguments."""
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"  # read when torch multiplies first
    build.FLAGS += ("-U__AMX_BF16__",)
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main())
