"""A new virtual environment with nothing else serves the page: python -m scripts.fresh
[--wheel FILE] [PYTHON ...]

It is made from requirements.txt and serves the checkout, or from a wheel, which is then served out
of an empty folder. By default with python3.11 and python3.12. For each it prints the versions that
pip chose, and how long that and the start took.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests import ROOT
from tests.browser import free_port

PYTHONS = ("python3.11", "python3.12")
SHOWN = ("torch", "transformers", "gradio", "plotly", "accelerate", "numpy")


APP = ("app.py",)
PACKAGE = ("-m", "ouroboros_core", "serve")
"""How the page is started from a checkout, and from what is installed."""

NAMED = r'rel=\\?"(?:module)?preload\\?" href=\\?"([^"\\]+)'
"""What the page's head names; Gradio's JSON has it, too."""


def install(python: str, folder: Path, wheel: Path | None = None) -> Path:
    """The interpreter of a new environment in `folder`, with the requirements and nothing else, or
    with a wheel and what it needs."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    fresh = folder / "bin" / "python"
    command = [str(fresh), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    what = [str(wheel)] if wheel else ["--requirement", str(ROOT / "requirements.txt")]
    subprocess.run([*command, *what], check=True)
    return fresh


def versions(fresh: Path) -> str:
    listed = subprocess.run(
        [str(fresh), "-m", "pip", "list", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    found = {one["name"]: one["version"] for one in json.loads(listed.stdout)}
    return ", ".join(f"{name} {found[name]}" for name in SHOWN)


def serve(fresh: Path, page: Sequence[str] = APP, folder: Path = ROOT) -> None:
    """The page starts in `folder`, opens, loads its models, writes a few tokens, and ends in order;
    raises RuntimeError otherwise.

    page  arguments of the interpreter
    """
    port = free_port()
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [str(fresh), *page, "--port", str(port)], cwd=folder, env=bare, stdout=log, stderr=log
        )
        try:
            wait(f"http://127.0.0.1:{port}/healthz", process)
            look(f"http://127.0.0.1:{port}")
            asked = (
                f"from gradio_client import Client; print(Client('http://127.0.0.1:{port}', "
                "verbose=False).predict("
            )
            asked += (
                "'Count to five.', max_new_tokens=16, compare=False, api_name='/generate')['text'])"
            )
            subprocess.run([str(fresh), "-c", asked], check=True, timeout=300)
            process.terminate()
            if process.wait(30):
                raise RuntimeError(f"the page ended with {process.returncode}")
        except Exception:
            log.seek(0)
            print(log.read(), file=sys.stderr)
            raise
        finally:
            process.kill()


def look(url: str) -> None:
    """Open the page and what its head names, fonts and modules; raises RuntimeError where there is
    none."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        named = re.findall(NAMED, answer.read().decode())
    for one in named:
        with urllib.request.urlopen(f"{url}/{one}", timeout=30) as answer:
            answer.read()
    if not {".js", ".woff2"} <= {Path(one).suffix for one in named}:
        raise RuntimeError(f"the page names no modules or no fonts, only {named}")


def wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until the models are there."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if json.loads(answer.read())["status"] == "ready":
                    return
        except urllib.error.HTTPError as error:
            raise RuntimeError("the models could not be loaded") from error
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the page did not start") from None
        time.sleep(0.5)
    raise RuntimeError("the models did not arrive within five minutes")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.fresh", allow_abbrev=False)
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="what is installed and served")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", default=PYTHONS)
    arguments = parser.parse_args()
    for python in arguments.pythons:
        if (
            shutil.which(python) is None
            or subprocess.run([python, "--version"], capture_output=True, check=False).returncode
        ):
            sys.exit(
                f"error: no {python} runs here: name the interpreters to try, as in python -m "
                "scripts.fresh python3.12"
            )
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            fresh = install(python, Path(folder) / "venv", arguments.wheel)
            installed = time.monotonic()
            if arguments.wheel:
                (empty := Path(folder) / "empty").mkdir()
                serve(fresh, PACKAGE, empty)
            else:
                serve(fresh)
            times = (
                f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to "
                "serve"
            )
            print(f"{python}: {versions(fresh)}; {times}")


if __name__ == "__main__":
    main()
