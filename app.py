"""The page: python app.py [FLAGS], which is `python -m ouroboros_core serve [FLAGS]`.

The flags stand in `ouroboros_core/cli/serve.py`, the page in `visualize/page.py`.
"""

import sys

# Any Python can read this file, so that an older one says what is missing before it fails
# elsewhere. `make setup` imports it for that.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        "error: Ouroboros needs Python 3.11 or newer, but "
        + sys.executable
        + " is "
        + ".".join(map(str, sys.version_info[:3]))
        + ": install a newer one, run `make setup BASE_PYTHON=python3.12` with its name, and start"
        + " the page with .venv/bin/python app.py"
    )

if __name__ == "__main__":
    from ouroboros_core.cli import main

    sys.exit(main(["serve"] + sys.argv[1:]))  # noqa: RUF005
