"""Files are replaced whole: the oracle is the content that a reader finds."""

import gzip
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import read_json_lines, write_atomically


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


def test_lines_of_json_are_read_packed_or_not_and_what_is_wrong_names_the_file(
    tmp_path: Path,
) -> None:
    content = '{"a": "é"}\r\n\n[1]\n'.encode()
    for name, stored in (("p.jsonl", content), ("p.jsonl.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(stored)
        assert [*read_json_lines(tmp_path / name)] == [(1, {"a": "é"}), (3, [1])]
    for name, stored, message in (
        ("p.jsonl", b"1\n{", r"p\.jsonl, line 2 is not JSON"),
        ("p.jsonl", b"\xff", r"p\.jsonl is not UTF-8 text"),
        ("p.gz", b"no gzip", r"p\.gz cannot be read: Not a gzipped file"),
        ("p.gz", gzip.compress(content)[:-9], r"p\.gz cannot be read: "),
        ("p.gz", gzip.compress(b"\xff"), r"p\.gz is not UTF-8 text"),
    ):
        (tmp_path / name).write_bytes(stored)
        with pytest.raises(InvalidInput, match=message):
            list(read_json_lines(tmp_path / name))
    with pytest.raises(InvalidInput, match="there is no file"):
        list(read_json_lines(tmp_path / "none.gz"))
