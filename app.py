"""The page: python app.py [FLAGS], which is `python -m ouroboros_core serve [FLAGS]`.

The flags stand in `ouroboros_core/cli/serve.py`, the page in `visualize/page.py`.
"""

from __future__ import annotations

import sys

from ouroboros_core.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
