"""Serve the page from a new environment: python -m scripts.fresh [--wheel FILE] [PYTHON ...]

The environment has the packages of requirements.txt and serves the checkout, or it has a wheel and
serves it from an empty folder. Prints the versions that pip chose, and the seconds of installing
and of serving. By default with python3.11 and python3.12.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests import ROOT
from tests.browser import server, wait_until_ready

PYTHONS = ("python3.11", "python3.12")
PACKAGES = ("torch", "transformers", "gradio", "plotly", "accelerate", "numpy")
APP = ("app.py",)
PACKAGE = ("-m", "ouroboros_core", "serve")
"""Arguments of the interpreter that start the page of a checkout, and of an installed package."""
PRELOADED = r'rel=\\?"(?:module)?preload\\?" href=\\?"([^"\\]+)'
"""A file that the page's head names; Gradio's JSON has it as well."""
GENERATE = """from gradio_client import Client
client = Client('{}', verbose=False)
answer = client.predict('Count to five.', max_new_tokens=16, api_name='/generate')
print(answer['text'])"""


def install(python: str, folder: Path, wheel: Path | None = None) -> Path:
    """Return the interpreter of a new environment with the requirements, or with a wheel."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    packages = [str(wheel)] if wheel else ["--requirement", str(ROOT / "requirements.txt")]
    subprocess.run([*pip, *packages], check=True)
    return interpreter


def versions(interpreter: Path) -> str:
    command = [str(interpreter), "-m", "pip", "list", "--format", "json"]
    packages = {
        entry["name"]: entry["version"] for entry in json.loads(subprocess.check_output(command))
    }
    return ", ".join(f"{name} {packages[name]}" for name in PACKAGES)


def serve(interpreter: Path, page: Sequence[str] = APP, folder: Path = ROOT) -> None:
    """Start the page in `folder`, open it, generate a text and end it; raises an error if one of
    these fails.

    page  arguments of the interpreter
    """
    start, bare = [str(interpreter), *page], {"PYTHONPATH": ""}
    with server(start=start, folder=folder, guard=False, environment=bare) as url:
        wait_until_ready(url)
        look(url)
        generate = [str(interpreter), "-c", GENERATE.format(url)]
        subprocess.run(generate, check=True, timeout=300)


def look(url: str) -> None:
    """Open the page and the files that its head names; raises RuntimeError if there are none."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        names = re.findall(PRELOADED, answer.read().decode())
    for name in names:
        with urllib.request.urlopen(f"{url}/{name}", timeout=30) as answer:
            answer.read()
    if not {".js", ".woff2"} <= {Path(name).suffix for name in names}:
        raise RuntimeError(f"the page names no modules or no fonts, only {names}")


def runs(python: str) -> bool:
    return shutil.which(python) is not None and subprocess.call([python, "--version"]) == 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.fresh", allow_abbrev=False)
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="the wheel to install and serve")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", default=PYTHONS)
    arguments = parser.parse_args()
    for python in arguments.pythons:
        if not runs(python):
            sys.exit(
                f"error: no {python} runs here: name the interpreters to try, as in python -m "
                "scripts.fresh python3.12"
            )
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            interpreter = install(python, Path(folder) / "venv", arguments.wheel)
            installed = time.monotonic()
            (empty := Path(folder) / "empty").mkdir()
            if arguments.wheel:
                serve(interpreter, PACKAGE, empty)
            else:
                serve(interpreter)
            served = time.monotonic() - installed
            seconds = f"{installed - start:.0f} s to install, {served:.0f} s to serve"
            print(f"{python}: {versions(interpreter)}; {seconds}")


if __name__ == "__main__":
    main()
