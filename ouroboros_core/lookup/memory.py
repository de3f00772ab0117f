"""The memory of a method from one text to the next, with which a *warm* run begins.

A memory belongs to one owner. It consists of token ids, and so belongs to one tokenizer. It has a
largest size, and can be saved as JSON and loaded. It changes the proposals, never the text.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from ouroboros_core import lookup
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import read_utf8, write_atomically

VERSION = 1
LARGEST_FILE = 128 * 2**20
"""Most characters of a file that is read."""


class Memory(ABC):
    """The memory of one method. A run starts with it and adds to it.

    fingerprint  fingerprint of its tokenizer, see `loading.pairs.fingerprint`
    runs         number of runs that have begun with it. Under rejection sampling the next run draws
                 with the noise of this number, because its content depends on the earlier noise
    """

    FORMAT: ClassVar[str]
    """Name of the format in its file."""
    holds: ClassVar[str]
    """Name of the content in messages."""

    def __init__(self, fingerprint: str = "") -> None:
        self.fingerprint = fingerprint
        self.runs = 0

    @property
    def shape(self) -> Hashable:
        """Sizes that must agree with a run's settings for the memory to be usable."""
        return ()

    @abstractmethod
    def token_ids(self) -> Iterable[int]:
        """Return every token id in the memory."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return the content as JSON values."""

    @classmethod
    @abstractmethod
    def of_content(cls, data: Mapping[str, Any]) -> Self:
        """Return that memory; raises ValueError, KeyError or TypeError if invalid."""

    @property
    def largest_token(self) -> int:
        """The largest token id in it; -1 if there is none."""
        return max(self.token_ids(), default=-1)

    def to_data(self) -> dict[str, Any]:
        """Return the values that `to_json` writes."""
        head = {"format": self.FORMAT, "version": VERSION, "runs": self.runs}
        return {**head, "fingerprint": self.fingerprint, **self.content()}

    @classmethod
    def of_data(cls, data: Any) -> Self:
        """Read values of `to_data`; raises ValueError, KeyError or TypeError for others."""
        if data["format"] != cls.FORMAT or data["version"] != VERSION:
            raise ValueError(f"not a {cls.holds} of version {VERSION}")
        memory = cls.of_content(data)
        memory.fingerprint = str(data["fingerprint"])
        memory.runs = max(memory.runs, int(data.get("runs", 0)))
        if memory.runs >= 2**31:
            raise ValueError(f"{memory.runs} runs are too many")
        if memory.largest_token >= 2**31 or min(memory.token_ids(), default=0) < 0:
            raise ValueError("its token ids are out of range")
        return memory

    def to_json(self) -> str:
        """Return the memory as JSON."""
        return json.dumps(self.to_data())

    @classmethod
    def from_json(cls, text: str, fingerprint: str | None = None) -> Self:
        """Return the memory that `to_json` wrote.

        Raises InvalidInput if the text is invalid or its tokenizer does not have the `fingerprint`.
        """
        data = parse(text, cls.holds)
        return checked(lambda: cls.of_data(data), cls.holds, fingerprint)

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        write_atomically(path, self.to_json())

    @classmethod
    def load(cls, path: Path, fingerprint: str | None = None) -> Self:
        return cls.from_json(read_utf8(path), fingerprint)


M = TypeVar("M", bound=Memory)


def parse(text: str, content: str) -> Any:
    """Return the value of a JSON text; raises InvalidInput, which names the expected `content`."""
    if len(text) > LARGEST_FILE:
        raise InvalidInput(
            f"this is not a {content} that can be read: it has {len(text):,} characters, allowed "
            f"are {LARGEST_FILE:,}"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"this is not a {content} written by to_json: {error}") from None


def checked(make: Callable[[], M], content: str, fingerprint: str | None) -> M:
    """Return what `make` returns; raises InvalidInput if invalid or of another tokenizer."""
    try:
        memory = make()
    except (InvalidInput, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"this is not a {content} written by to_json: {error}") from None
    if fingerprint is not None and memory.fingerprint != fingerprint:
        raise InvalidInput(
            f"the {memory.holds} was made with another tokenizer (fingerprint "
            f"{memory.fingerprint or 'none'}, expected {fingerprint}): its token ids mean other "
            "words here. Start a new one for this pair."
        )
    return memory


def of_kind(memory: Memory | None, kind: type[M]) -> M | None:
    """Return the memory; raises InvalidInput if it is not of that kind."""
    if memory is None:
        return None
    if isinstance(memory, kind) and memory.FORMAT == kind.FORMAT:
        return memory
    raise InvalidInput(
        f"what was kept is a {memory.holds}, but this method keeps a {kind.holds}: start a new one"
    )


MOST_PARTS = 16
"""Members of a method whose memories are kept together."""

ANY = "memory of a method"


class Memories(Memory):
    """The memories of the members of a combining method, by role."""

    FORMAT = "ouroboros-memories"
    holds = "memory of several methods"

    def __init__(self, fingerprint: str = "") -> None:
        super().__init__(fingerprint)
        self.parts: dict[str, Memory] = {}

    def begin_run(self) -> None:
        """A run of the method that combines them begins; whichever of them it asks."""
        self.runs += 1

    def part(self, role: str, new: Callable[[str], Memory | None]) -> Memory | None:
        """Return the memory of a role, made by `new` at first; None if that returns None."""
        if role not in self.parts:
            made = new(self.fingerprint)
            if made is None:
                return None
            self.parts[role] = made
        return self.parts[role]

    def token_ids(self) -> Iterable[int]:
        return chain.from_iterable(part.token_ids() for part in self.parts.values())

    def content(self) -> dict[str, Any]:
        return {"parts": {role: part.to_data() for role, part in self.parts.items()}}

    @classmethod
    def of_content(cls, data: Mapping[str, Any]) -> Self:
        memory, parts = cls(str(data["fingerprint"])), data["parts"]
        if len(parts) > MOST_PARTS:
            raise ValueError(f"it has {len(parts)} parts, at most {MOST_PARTS} are read")
        for role, part in parts.items():
            read = _of_data(part)
            if read.fingerprint != memory.fingerprint:
                raise ValueError(f"its part {role} was made with another tokenizer")
            memory.parts[str(role)] = read
        return memory


@cache
def kinds() -> dict[str, type[Memory]]:
    """Return all kinds of memory in the files of this package by `FORMAT`."""
    names = [f"{lookup.__name__}.{module.name}" for module in pkgutil.iter_modules(lookup.__path__)]
    classes = [kind for name in names for kind in vars(importlib.import_module(name)).values()]
    return {
        kind.FORMAT: kind
        for kind in classes
        if isinstance(kind, type) and issubclass(kind, Memory) and kind is not Memory
    }


def _of_data(data: Any) -> Memory:
    """The memory of whichever kind that `to_data` gave."""
    name = str(data["format"])
    if name not in kinds():
        raise ValueError(f"its format must be one of {', '.join(kinds())}, got {name[:40]}")
    return kinds()[name].of_data(data)


def read_memory(text: str, fingerprint: str | None = None) -> Memory:
    """Return any memory that `to_json` wrote, of that tokenizer; raises InvalidInput."""
    data = parse(text, ANY)
    return checked(lambda: _of_data(data), ANY, fingerprint)


def load_memory(path: Path, fingerprint: str | None = None) -> Memory:
    """The memory that `save` wrote, as `read_memory` reads it."""
    return read_memory(read_utf8(path), fingerprint)
