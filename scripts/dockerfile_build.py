"""A root like an image's: made clean by debootstrap, filled by a Dockerfile's instructions."""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from scripts.dockerfile_parser import Image, Instruction, command, context
from tests import ROOT

NETWORK = re.compile(r"(https?|all|no)_proxy|ssl_cert_\w+|\w+_ca_bundle", re.IGNORECASE)
INDEX = {
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "proxy",
    "timeout",
    "default-timeout",
}
"""What of pip's settings leads to the package index."""

PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


def fail(reason: str) -> NoReturn:
    sys.exit(f"Dockerfile: {reason}")


def archive() -> tuple[str, str, str]:
    """Where the host's apt finds the distribution: address, code name, components."""
    shown = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT)",
        "Created-By: Packages",
    ]
    lines = subprocess.run(
        shown, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout.splitlines()
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    found = [line.split() for line in lines if line.split()[1:2] == [suite]]
    if not found:
        fail(f"apt knows no archive of {suite} to make a root from")
    return (
        found[0][0],
        suite,
        ",".join(sorted({parts[2] for parts in found if parts[0] == found[0][0]})),
    )


def pip_settings() -> dict[str, str]:
    """How the host's pip finds the package index, by files and variables together, as variables."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    ).stdout
    lines = [
        re.fullmatch(r"(?:global|install|download|:env:)\.([\w-]+)=(.*)", line)
        for line in listed.splitlines()
    ]
    found = {line[1]: str(ast.literal_eval(line[2])) for line in lines if line and line[1] in INDEX}
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in found.items()}


def folders(settings: Mapping[str, str]) -> list[Path]:
    """The local files and folders that settings name; of an index its whole folder, as its links
    lead out of `simple`."""
    named = [
        Path(word.removeprefix("file://")) for value in settings.values() for word in value.split()
    ]
    paths = sorted(
        {
            path.parent if path.name == "simple" else path
            for path in named
            if path.is_absolute() and path.exists()
        }
    )
    return [path for path in paths if not any(other in path.parents for other in paths)]


@contextmanager
def lent(root: Path) -> Iterator[dict[str, str]]:
    """The host's way to the package index for one RUN: variables; what they name lies, read-only,
    where they say."""
    settings = {
        **{name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)},
        **pip_settings(),
    }
    mounted: list[Path] = []
    try:
        for path in folders(settings):
            place = root / path.relative_to("/")
            (place if path.is_dir() else place.parent).mkdir(parents=True, exist_ok=True)
            if path.is_file():
                place.touch()
            subprocess.run(["mount", "--bind", path, place], check=True)
            mounted.append(place)
            subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield settings
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", place], check=True)


@dataclass
class Build:
    """A root and what has been settled for it."""

    root: Path
    image: Image

    @property
    def log(self) -> Path:
        return self.root.with_name(self.root.name + ".log")

    def size(self) -> int:
        """MiB."""
        measured = ["du", "--summarize", "--one-file-system", "--block-size=1M", str(self.root)]
        return int(
            subprocess.run(
                measured, capture_output=True, text=True, check=True, encoding="utf-8"
            ).stdout.split()[0]
        )

    def owner(self, name: str) -> tuple[int, int]:
        """User and group id of a name, or number, that the root knows."""
        for line in (self.root / "etc/passwd").read_text(encoding="utf-8").splitlines():
            user, _, uid, gid, *_ = line.split(":")
            if name in (user, uid):
                return int(uid), int(gid)
        fail(f"the user {name} is not there")

    def within(self, named: Sequence[str]) -> list[str]:
        """A command that starts another in the root, as its first process, as the user and in the
        folder that are settled."""
        uid, gid = self.owner(self.image.user)
        where = [
            "--mount-proc",
            f"--root={self.root}",
            f"--wd={self.image.folder}",
            f"--setgid={gid}",
            f"--setuid={uid}",
        ]
        return [str(shutil.which(NAMESPACES[0])), *NAMESPACES[1:], *where, *named]

    @contextmanager
    def started(
        self, named: Sequence[str], log_file: Path | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A command in the root, with the image's environment alone; killed at the end if it is not
        over by then."""
        with (log_file or self.log).open("ab") as log:
            inside = self.within(named)
            process = subprocess.Popen(
                inside, env=self.image.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            yield process
        finally:  # --kill-child does not reach a process that has changed its user
            for pid in first(process):
                os.kill(pid, signal.SIGKILL)
            process.wait()

    def call(self, named: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Run to the end, what it says goes to the log; its failure is the script's."""
        with self.log.open("ab") as log:
            if subprocess.run(
                named, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False
            ).returncode:
                self.give_up(f"{named[-1]} failed")

    def give_up(self, reason: str) -> NoReturn:
        """End with the log's last lines."""
        fail(
            "\n".join(
                [*self.log.read_text(errors="replace", encoding="utf-8").splitlines()[-40:], reason]
            )
        )

    def carry_out(self, instruction: Instruction) -> None:
        """One instruction."""
        self.image.settle(instruction)
        match instruction.name:
            case "FROM":
                self.begin(instruction.text)
            case "WORKDIR":  # made as root's, which is what the stricter builders do
                (self.root / self.image.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "RUN":
                with lent(self.root) as settings:
                    self.call(
                        self.within(command(instruction.text)),
                        {**settings, **self.image.arguments, **self.image.env},
                    )
            case "COPY":
                *sources, target = self.image.words(instruction.text)
                owner = self.owner(instruction.flags.get("chown", "root"))
                copy(context(), sources, self.root, os.path.join(self.image.folder, target), owner)

    def begin(self, named: str) -> None:
        """A root like a slim Python image, of the distribution's Python."""
        if not re.fullmatch(r"python:[\d.]+-slim\S*", named):
            fail(f"a root can stand in for python:X-slim alone, not for {named}")
        address, suite, components = archive()
        self.call(
            [
                "debootstrap",
                "--variant=minbase",
                f"--components={components}",
                f"--include={PACKAGES}",
                suite,
                self.root,
                address,
            ]
        )
        for name in ("python", "pip"):
            (self.root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
        for marker in (self.root / "usr/lib").glob("python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        for name in ("resolv.conf", "hosts"):
            shutil.copyfile(Path("/etc") / name, self.root / "etc" / name)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "tmpfs", self.root / "dev/shm"],
            check=True,
        )
        asked = self.within(["python", "--version"])
        version = subprocess.run(
            asked, env=self.image.env, capture_output=True, text=True, check=True, encoding="utf-8"
        ).stdout.strip()
        print(f"A clean root of {suite} with {version} stands in for {named}.", flush=True)


def first(process: subprocess.Popen[bytes]) -> list[int]:
    """The first process of those namespaces that unshare, itself outside of them, has made; none
    once it is over."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return (
        [int(pid) for pid in listed.read_text(encoding="utf-8").split()]
        if process.poll() is None and listed.exists()
        else []
    )


def copy(
    files: Sequence[str], sources: Sequence[str], root: Path, target: str, owner: tuple[int, int]
) -> None:
    """COPY to a path of the root: files as they are, of folders what is in them; folders made for
    them get the owner, too."""
    place = root / os.path.normpath(target).lstrip("/")
    into_folder = target.endswith(("/", "/.")) or len(sources) > 1 or place.is_dir()
    for source in (os.path.normpath(source).lstrip("/") for source in sources):
        prefix = "" if source == "." else source + "/"
        found = [source] if source in files else [name for name in files if name.startswith(prefix)]
        if not found:
            fail(f"COPY {source}: there is nothing of that name among the files of the build")
        for name in found:
            inner = (
                name.removeprefix(prefix)
                if name != source
                else Path(name).name
                if into_folder
                else ""
            )
            _place(ROOT / name, place / inner, owner)


def _place(file: Path, place: Path, owner: tuple[int, int]) -> None:
    for folder in reversed(place.parents):
        if not folder.exists():
            folder.mkdir()
            os.chown(folder, *owner)
    shutil.copy(file, place)
    os.chown(place, *owner)
