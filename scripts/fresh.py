"""A new virtual environment from requirements.txt alone serves the page: python -m scripts.fresh
[PYTHON ...]

By default with python3.11 and python3.12. For each it prints the versions that pip chose, and how
long that and the start took.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests import ROOT
from tests.browser import free_port

PYTHONS = ("python3.11", "python3.12")
SHOWN = ("torch", "transformers", "gradio", "plotly", "accelerate", "numpy")


def install(python: str, folder: Path) -> Path:
    """The interpreter of a new environment in `folder`, with the requirements and nothing else."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    fresh = folder / "bin" / "python"
    command = [str(fresh), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--requirement", str(ROOT / "requirements.txt")], check=True)
    return fresh


def versions(fresh: Path) -> str:
    listed = subprocess.run(
        [str(fresh), "-m", "pip", "list", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {one["name"]: one["version"] for one in json.loads(listed.stdout)}
    return ", ".join(f"{name} {found[name]}" for name in SHOWN)


def serve(fresh: Path) -> None:
    """The page starts, loads its models, writes a few tokens, and ends in order; raises
    RuntimeError otherwise."""
    port = free_port()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [str(fresh), "app.py", "--port", str(port)], cwd=ROOT, stdout=log, stderr=log
        )
        try:
            wait(f"http://127.0.0.1:{port}/healthz", process)
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
    for python in sys.argv[1:] or PYTHONS:
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
            fresh = install(python, Path(folder) / "venv")
            installed = time.monotonic()
            serve(fresh)
            times = (
                f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to "
                "serve"
            )
            print(f"{python}: {versions(fresh)}; {times}")


if __name__ == "__main__":
    main()
