"""Files are replaced whole: the oracle is the content that a reader finds."""

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from ouroboros_core.locations import write_atomically


def test_a_file_is_replaced_by_text_bytes_or_a_writer_and_nothing_else_is_left(
    tmp_path: Path,
) -> None:
    file = tmp_path / "data"
    for content in ("ä", "ä".encode(), lambda scratch: scratch.write("ä".encode())):
        file.write_text("old", encoding="utf-8")
        write_atomically(file, content)
        assert file.read_text(encoding="utf-8") == "ä"
    assert os.listdir(tmp_path) == ["data"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def fail(scratch: BinaryIO) -> None:
        scratch.write(b"half")
        raise OSError("no room")

    file = tmp_path / "data"
    file.write_text("old", encoding="utf-8")
    with pytest.raises(OSError, match="no room"):
        write_atomically(file, fail)
    assert file.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["data"]


def test_two_writers_of_one_file_do_not_share_a_scratch_file(tmp_path: Path) -> None:
    """The inner write takes place in the middle of the outer one, as from another process."""
    file = tmp_path / "data"

    def write(scratch: BinaryIO) -> None:
        scratch.write(b"outer")
        write_atomically(file, "inner")
        assert file.read_text(encoding="utf-8") == "inner"

    write_atomically(file, write)
    assert file.read_text(encoding="utf-8") == "outer"
