"""The blocks of a GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), mapped
into memory: of what else is in it transformers takes care."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ouroboros_core.errors import WeightsUnavailable
from ouroboros_core.models.engines.native.blocks import BYTES, INPUTS, Blocks

TYPES = {3: "Q4_1", 8: "Q8_0"}
"""The formats that the native pass reads, by their numbers in a file."""

SIMPLE = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The format characters of `struct` for the types of a value; 8 is text, 9 a list."""

MOST = 1 << 24
"""Entries of a list in a sound file, at most."""


class _Reader:
    """Reads values one after another."""

    def __init__(self, held: mmap.mmap) -> None:
        self.held, self.at = held, 0

    def number(self, kind: str) -> Any:
        (found,) = struct.unpack_from(f"<{kind}", self.held, self.at)
        self.at += struct.calcsize(kind)
        return found

    def text(self) -> str:
        size = self.number("Q")
        found = self.held[self.at : self.at + size]
        self.at += size
        return found.decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A value; None for a list, which is passed over."""
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.number(SIMPLE[kind])
        inner, count = self.number("I"), self.number("Q")
        if count > MOST:
            raise ValueError(f"a list of {count} entries")
        if inner in SIMPLE:
            self.at += count * struct.calcsize(SIMPLE[inner])
        else:
            for _ in range(count):
                self.value(inner)
        return None


def read_blocks(file: Path) -> tuple[dict[str, Any], dict[str, Blocks]]:
    """What a file says of its model (without lists), and its weights in blocks of a kind that the
    native pass reads, by their names without `.weight`.

    Raises WeightsUnavailable for a file that cannot be read.
    """
    try:
        with file.open("rb") as opened:
            held = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        return _read(held)
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise WeightsUnavailable(f"{file} cannot be read as a GGUF file: {error!r}") from None


def _read(held: mmap.mmap) -> tuple[dict[str, Any], dict[str, Blocks]]:
    reader = _Reader(held)
    if held[:4] != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    reader.at = 8  # behind the version
    tensors, count = reader.number("Q"), reader.number("Q")
    said = {reader.text(): reader.value(reader.number("I")) for _ in range(count)}
    places = [
        (
            reader.text(),
            [reader.number("Q") for _ in range(reader.number("I"))],
            reader.number("I"),
            reader.number("Q"),
        )
        for _ in range(tensors)
    ]
    grain = said.get("general.alignment", 32)
    begin = -(-reader.at // grain) * grain
    every: npt.NDArray[np.uint8] = np.frombuffer(held, np.uint8)
    found = {}
    for name, shape, number, offset in places:
        kind = TYPES.get(number)
        if kind is None or len(shape) != 2 or shape[0] % INPUTS:
            continue
        groups, outer = shape[0] // INPUTS, shape[1]
        data = every[begin + offset :][: outer * groups * BYTES[kind]]
        found[name.removesuffix(".weight")] = Blocks(kind, data.reshape(outer, groups, BYTES[kind]))
    return {name: value for name, value in said.items() if value is not None}, found
