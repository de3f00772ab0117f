"""The version of this package, and the commit in a checkout."""

import subprocess
from functools import cache
from pathlib import Path

VERSION = "2.0.0"


@cache
def commit() -> str:
    """Return the commit of the checkout that has this file, with '+' if its files were changed
    since; empty outside a checkout or without git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("describe", "--always", "--exclude=*", "--abbrev=8", "--dirty=+").strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
