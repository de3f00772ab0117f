"""The Dockerfile and .dockerignore read as Docker reads them: instructions, what they settle, which
files a build gets to see."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests import ROOT

FLAGS: dict[str, set[str]] = {
    name: set() for name in ("FROM", "ARG", "ENV", "WORKDIR", "USER", "RUN", "EXPOSE", "CMD")
}
FLAGS |= {"COPY": {"chown"}, "HEALTHCHECK": {"interval", "timeout", "start-period", "retries"}}
"""Every instruction that is understood, and its flags."""

LEXER = re.compile(
    r"""\\(?P<escaped>.)|'(?P<single>[^']*)'|(?P<quote>")|\$(?P<bare>\w+)|\$\{(?P<name>\w+)(?::(?P<sign>[-+])(?P<other>[^}]*))?\}"""
    r"""|(?P<space>\s+)|(?P<plain>.)"""
)
BASE = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
"""The environment of a Python image."""


@dataclass(frozen=True)
class Instruction:
    """A line of a Dockerfile: its name, what follows the flags, the flags."""

    name: str
    text: str
    flags: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Image:
    """What instructions have settled so far, besides files."""

    given: Mapping[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=lambda: dict(BASE))
    user: str = "root"
    folder: str = "/"
    ports: list[str] = field(default_factory=list)
    health: Instruction | None = None
    command: list[str] = field(default_factory=list)

    def words(self, text: str) -> list[str]:
        return words(text, {**self.arguments, **self.env})

    def settle(self, instruction: Instruction) -> None:
        """What an instruction says about all that follow."""
        text = instruction.text
        match instruction.name:
            case "ARG":
                name, has_default, default = self.words(text)[0].partition("=")
                if name in self.given or has_default:
                    self.arguments[name] = self.given.get(name, default)
            case "ENV":
                self.env |= dict(pair.split("=", 1) for pair in self.words(text))
            case "WORKDIR":
                self.folder = os.path.normpath(os.path.join(self.folder, *self.words(text)))
            case "USER":
                (self.user,) = self.words(text)
            case "EXPOSE":
                self.ports += self.words(text)
            case "HEALTHCHECK":
                self.health = instruction
            case "CMD":
                self.command = command(text)


def words(text: str, values: Mapping[str, str]) -> list[str]:
    """Words as a Dockerfile means them: quotes taken away, $name, ${name}, ${name:-other} and
    ${name:+other} filled in."""
    found, quoted = [""], False
    for part in LEXER.finditer(text):
        value = values.get(part["bare"] or part["name"] or "", "")
        if part["quote"]:
            quoted = not quoted
        elif part["space"] and not quoted:
            found.append("")
        elif part["sign"]:
            found[-1] += part["other"] if bool(value) is (part["sign"] == "+") else value
        else:
            found[-1] += (
                value or part["escaped"] or part["single"] or part["space"] or part["plain"] or ""
            )
    return [word for word in found if word]


def command(text: str) -> list[str]:
    """What a RUN or CMD starts: a JSON list as it stands, anything else through the shell."""
    return list(json.loads(text)) if text.startswith("[") else ["/bin/sh", "-c", text]


def parse(source: str) -> list[Instruction]:
    """The instructions of a Dockerfile; refuses what is not understood."""
    return [_instruction(line) for line in _lines(source)]


def _lines(source: str) -> Iterator[str]:
    """Lines with their continuations; comments and empty lines count for nothing, not even within
    one."""
    held = ""
    for line in source.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        held += line.rstrip().removesuffix("\\")
        if not line.rstrip().endswith("\\"):
            yield held.strip()
            held = ""
    if held:
        yield held.strip()


def _instruction(line: str) -> Instruction:
    name, _, text = line.partition(" ")
    name, text, flags = name.upper(), text.strip(), {}
    if name not in FLAGS:
        raise ValueError(
            f"{name} is not an instruction that is understood here: {', '.join(FLAGS)}"
        )
    while flag := re.match(r"--([\w-]+)(?:=(\S*))?\s+", text):
        if flag[1] not in FLAGS[name]:
            raise ValueError(f"--{flag[1]} is not a flag of {name} that is understood here")
        flags[flag[1]] = flag[2] or ""
        text = text[flag.end() :]
    if name in ("RUN", "COPY") and re.search(r"<<-?[\"']?\w", text):
        raise ValueError(f"{name} with a here-document is not understood here")
    if name == "HEALTHCHECK":
        if not text.startswith("CMD "):
            raise ValueError("HEALTHCHECK is understood with CMD only")
        text = text.removeprefix("CMD ").strip()
    return Instruction(name, text, flags)


def seconds(text: str) -> int:
    """A duration as in 1m30s."""
    return sum(
        int(number) * {"h": 3600, "m": 60, "s": 1}[unit]
        for number, unit in re.findall(r"(\d+)([hms])", text)
    )


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether .dockerignore's patterns keep a file out of the context; the last one that fits it or
    a folder of it decides."""
    parts, out = path.split("/"), False
    above = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    for line in patterns:
        pattern = (
            re.escape(line.strip().removeprefix("!").strip("/"))
            .replace(r"\*\*/", "(.*/)?")
            .replace(r"\*\*", ".*")
        )
        pattern = pattern.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        if (
            line.strip()
            and not line.startswith("#")
            and any(re.fullmatch(pattern, name) for name in above)
        ):
            out = not line.strip().startswith("!")
    return out


def context() -> list[str]:
    """The files that a build gets to see: git's, less .dockerignore's."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    ).stdout.split("\0")
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [name for name in listed if (ROOT / name).is_file() and not ignored(name, patterns)]
