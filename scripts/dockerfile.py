"""Does the Dockerfile build, and does what it builds serve? As root on Debian or Ubuntu, without a
daemon: make docker-check

debootstrap makes a clean root that stands in for the Python image of FROM. The Dockerfile's own
instructions are carried out in it, each RUN and then CMD as the user, in the folder and with the
environment they would have, in namespaces of their own, so that neither mounts nor processes
outlive the script. Not as in an image: Python is the distribution's, the network is the host's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from scripts.dockerfile_build import NAMESPACES, Build, fail, first
from scripts.dockerfile_parser import Image, command, parse, seconds
from tests import ROOT

GRACE = 10
"""Seconds between docker stop's SIGTERM and its SIGKILL."""

GROWTH = 20
"""MiB that may be written while it serves: compiled Python."""


def fetched(url: str) -> str:
    """A page of this machine, whatever proxy there may be."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        url, timeout=30
    ) as answer:
        return str(answer.read().decode())


def wait_until_healthy(build: Build, health: list[str], process: subprocess.Popen[bytes]) -> None:
    """Until HEALTHCHECK's command succeeds; no longer than until Docker would call the container
    unhealthy."""
    flags = {"interval": "30s", "timeout": "30s", "start-period": "0s", "retries": "3"}
    flags |= dict(build.image.health.flags) if build.image.health else {}
    deadline = (
        time.monotonic()
        + seconds(flags["start-period"])
        + int(flags["retries"]) * seconds(flags["interval"])
    )
    while time.monotonic() < deadline:
        if process.poll() is not None:
            build.give_up(f"CMD ended with {process.returncode} before it was healthy")
        with suppress(subprocess.TimeoutExpired), build.started(health, Path(os.devnull)) as asked:
            if asked.wait(seconds(flags["timeout"])) == 0:
                return
        time.sleep(1)
    build.give_up("HEALTHCHECK's command never succeeded")


def ask(url: str) -> str:
    """What a visitor and a program get: the page, and the text of one generation."""
    from gradio_client import Client

    if "Ouroboros: speculative decoding, seen token by token" not in fetched(url):
        fail("what answers is not the page")
    result = Client(url, verbose=False).predict(
        "Count to five.", max_new_tokens=16, compare=False, api_name="/generate"
    )
    if not result["text"]:
        fail("the generation is empty")
    return str(result["text"])


def stop(build: Build, process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, as docker stop sends it to the first process; it has to end in order and to leave
    nothing running."""
    (main,) = first(process)
    uid = Path(f"/proc/{main}").stat().st_uid
    if uid != build.owner(build.image.user)[0]:
        fail(f"CMD runs as {uid}, not as {build.image.user}")
    begun = time.monotonic()
    os.kill(main, signal.SIGTERM)
    try:
        code = process.wait(GRACE)
    except subprocess.TimeoutExpired:
        build.give_up(f"CMD did not end within {GRACE} s of SIGTERM")
    left = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    if code or left:
        build.give_up(f"after SIGTERM CMD ended with {code} and left {len(left)} processes")
    print(
        f"SIGTERM: ended with 0 after {time.monotonic() - begun:.1f} s, uid {uid}, no process left",
        flush=True,
    )


def serve(build: Build, port: str) -> float:
    """CMD, asked as its users would; the seconds until it was healthy."""
    image, before = build.image, build.size()
    if image.health is None or not image.ports:
        fail("there is no HEALTHCHECK, or no EXPOSE")
    named, health = (
        [word.replace(image.ports[0], port) for word in line]
        for line in (image.command, command(image.health.text))
    )
    begun = time.monotonic()
    with build.started(named) as process:
        wait_until_healthy(build, health, process)
        healthy = time.monotonic() - begun
        print(f"CMD {' '.join(named)}: healthy after {healthy:.1f} s", flush=True)
        text = ask(f"http://127.0.0.1:{port}/")
        print(
            f"GET / and one generation: {time.monotonic() - begun - healthy:.1f} s, {text!r}",
            flush=True,
        )
        stop(build, process)
    if build.size() - before > GROWTH:
        fail(
            f"the root grew by {build.size() - before} MiB while it served: something was fetched "
            "that belongs into the build"
        )
    return healthy


def work(root: Path, given: Mapping[str, str], port: str) -> None:
    """In namespaces of its own: all instructions, then CMD."""
    build, size = Build(root, Image(given)), 0
    instructions = parse((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    for instruction in instructions:
        begun = time.monotonic()
        build.carry_out(instruction)
        if instruction.name in ("FROM", "RUN", "COPY"):
            spent, before, size = time.monotonic() - begun, size, build.size()
            print(
                f"{instruction.name} {instruction.text[:90]}: {spent:.1f} s, {size - before:+} MiB",
                flush=True,
            )
    print(f"The root has {size} MiB.", flush=True)
    healthy = serve(build, port or build.image.ports[0])
    print(f"Dockerfile: {len(instructions)} instructions ran, served after {healthy:.0f} s")


def check(root: Path, given: Mapping[str, str], port: str) -> None:
    """What has to be true before minutes are spent."""
    settled = Image(given)
    try:
        for instruction in parse((ROOT / "Dockerfile").read_text(encoding="utf-8")):
            settled.settle(instruction)
    except ValueError as error:
        fail(str(error))
    missing = [name for name in ("debootstrap", "unshare", "apt-get") if not shutil.which(name)]
    if missing or os.geteuid():
        fail(
            "this has to run as root on Debian or "
            f"Ubuntu{', with ' + ' and '.join(missing) if missing else ''}"
        )
    if root.exists():
        fail(f"{root} exists; remove it, or name another with --root")
    if unknown := given.keys() - settled.arguments.keys():
        fail(f"there is no ARG {', '.join(unknown)}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", int(port or settled.ports[0])))
        except OSError:
            fail(f"port {port or settled.ports[0]} is taken; name another with --port")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=ROOT / "build" / "docker-root",
        help="a folder to make; default: %(default)s",
    )
    parser.add_argument("--keep", action="store_true", help="do not remove it afterwards")
    parser.add_argument("--port", default="", help="instead of EXPOSE's")
    parser.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME=VALUE", help="as of docker build"
    )
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    root, given = arguments.root.resolve(), dict(pair.split("=", 1) for pair in arguments.build_arg)
    if arguments.within:
        return work(root, given, arguments.port)
    check(root, given, arguments.port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root.mkdir(parents=True)
    root.with_name(root.name + ".log").unlink(missing_ok=True)
    try:
        again = [sys.executable, "-m", "scripts.dockerfile", *sys.argv[1:], "--within"]
        sys.exit(subprocess.run([*NAMESPACES, "--mount-proc", *again], check=False).returncode)
    finally:  # here its mounts never were, so that nothing of the host can be removed with it
        if not arguments.keep:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
