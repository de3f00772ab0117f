"""The blocks of a GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), mapped
into memory. transformers reads the rest of the file."""

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
"""Number in a file -> format that the native pass reads."""

SIMPLE = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type of a value -> format character of `struct`; 8 is text, 9 a list."""

LONGEST_LIST = 1 << 24
"""Most entries of a list in a valid file."""


class _Reader:
    """A reader of consecutive values."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self.mapped, self.at = mapped, 0

    def number(self, kind: str) -> Any:
        (number,) = struct.unpack_from(f"<{kind}", self.mapped, self.at)
        self.at += struct.calcsize(kind)
        return number

    def text(self) -> str:
        size = self.number("Q")
        data = self.mapped[self.at : self.at + size]
        self.at += size
        return data.decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Return a value, or None for a list, which is skipped."""
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.number(SIMPLE[kind])
        inner, count = self.number("I"), self.number("Q")
        if count > LONGEST_LIST:
            raise ValueError(f"a list of {count} entries")
        if inner in SIMPLE:
            self.at += count * struct.calcsize(SIMPLE[inner])
        else:
            for _ in range(count):
                self.value(inner)
        return None


def read_blocks(file: Path) -> tuple[dict[str, Any], dict[str, Blocks]]:
    """Return a file's metadata without lists, and its weights in formats that the native pass
    reads, by their names without `.weight`.

    Raises WeightsUnavailable for a file that cannot be read.
    """
    try:
        with file.open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        return _read(mapped)
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise WeightsUnavailable(f"{file} cannot be read as a GGUF file: {error!r}") from None


def _read(mapped: mmap.mmap) -> tuple[dict[str, Any], dict[str, Blocks]]:
    reader = _Reader(mapped)
    if mapped[:4] != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    reader.at = 8  # after the version
    tensors, count = reader.number("Q"), reader.number("Q")
    metadata = {reader.text(): reader.value(reader.number("I")) for _ in range(count)}
    entries = [
        (
            reader.text(),
            [reader.number("Q") for _ in range(reader.number("I"))],
            reader.number("I"),
            reader.number("Q"),
        )
        for _ in range(tensors)
    ]
    alignment = metadata.get("general.alignment", 32)
    begin = -(-reader.at // alignment) * alignment
    data: npt.NDArray[np.uint8] = np.frombuffer(mapped, np.uint8)
    blocks = {}
    for name, shape, number, offset in entries:
        kind = TYPES.get(number)
        if kind is None or len(shape) != 2 or shape[0] % INPUTS:
            continue
        groups, outer = shape[0] // INPUTS, shape[1]
        matrix = data[begin + offset :][: outer * groups * BYTES[kind]]
        matrix = matrix.reshape(outer, groups, BYTES[kind])
        blocks[name.removesuffix(".weight")] = Blocks(kind, matrix)
    return {name: value for name, value in metadata.items() if value is not None}, blocks
