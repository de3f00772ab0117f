"""The memories there are: which of them a file holds, and those of several methods together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Self

from ouroboros_core.lookup.memory import Memory, checked, parse, read_text
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.lookup.session_text import Answers, SessionText
from ouroboros_core.lookup.successors import Successors

MOST_PARTS = 16
"""Members of a method whose memories are kept together."""

ANY = "memory of a method"


class Memories(Memory):
    """What the members of a combining method keep, by their role."""

    FORMAT = "ouroboros-memories"
    holds = "memory of several methods"

    def __init__(self, fingerprint: str = "") -> None:
        super().__init__(fingerprint)
        self.parts: dict[str, Memory] = {}

    def begin_run(self) -> None:
        """A run of the method that combines them begins; whichever of them it asks."""
        self.runs += 1

    def part(self, role: str, new: Callable[[str], Memory | None]) -> Memory | None:
        """The memory of a role: the one there is, or else the `new` one for a tokenizer's
        fingerprint; None where that is None."""
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


KINDS: tuple[type[Memory], ...] = (PhrasePool, Successors, SessionText, Answers, Memories)


def _of_data(data: Any) -> Memory:
    """The memory of whichever kind that `to_data` gave."""
    kind = next((kind for kind in KINDS if data["format"] == kind.FORMAT), None)
    if kind is None:
        formats = ", ".join(kind.FORMAT for kind in KINDS)
        raise ValueError(f"its format must be one of {formats}, got {str(data['format'])[:40]}")
    return kind.of_data(data)


def read_memory(text: str, fingerprint: str | None = None) -> Memory:
    """The memory that `to_json` wrote, of whichever kind, and of the tokenizer with that
    fingerprint; raises InvalidInput."""
    data = parse(text, ANY)
    return checked(lambda: _of_data(data), ANY, fingerprint)


def load_memory(path: Path, fingerprint: str | None = None) -> Memory:
    """The memory that `save` wrote, as `read_memory` reads it."""
    return read_memory(read_text(path, ANY), fingerprint)
