"""Weights lie in memory for which large pages are asked; what Linux says of a process is the
oracle."""

from __future__ import annotations

import gc
import mmap
import re
from pathlib import Path

import pytest
import torch

from ouroboros_core.models.engines.native import pages

SMAPS = Path("/proc/self/smaps")
asks = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this kernel has none"
)


def flags_of(address: int) -> list[str]:
    """What holds for the memory at an address; nothing where there is none."""
    for area in re.split(
        r"^(?=[0-9a-f]+-[0-9a-f]+ )", SMAPS.read_text(encoding="utf-8"), flags=re.M
    )[1:]:
        begin, end = (int(one, 16) for one in area.split(" ")[0].split("-"))
        if begin <= address < end:
            return area.split("VmFlags:")[1].split("\n")[0].split()
    return []


@asks
@pytest.mark.parametrize("rows", [3, 20_000], ids=["shared", "its own"])
def test_large_pages_are_asked_for(rows: int) -> None:
    tensor = pages.empty((rows, 576), torch.bfloat16)
    assert "hg" in flags_of(tensor.data_ptr())
    # Of its own: what malloc gives may be what NumPy has asked large pages for.
    ordinary = mmap.mmap(-1, 4 * rows * 576, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    flags = flags_of(torch.frombuffer(ordinary, dtype=torch.uint8).data_ptr())
    assert flags and "hg" not in flags


@asks
def test_tensors_that_share_memory_keep_their_numbers_and_give_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "_shared", pages._Shared())  # no model of another test is in it
    made = [pages.empty((n, 7), torch.bfloat16).fill_(n) for n in range(1, 200)]
    assert all(bool((one == n).all()) for n, one in enumerate(made, 1))
    assert all(one.data_ptr() % pages.LINE == 0 for one in made)
    address = made[0].data_ptr()
    assert len({one.data_ptr() for one in made}) == len(made)
    last = made[-1]
    del made
    gc.collect()
    assert bool((last == 199).all())
    del last
    gc.collect()
    assert "hg" not in flags_of(address)
    assert bool((pages.empty((4, 4), torch.float32).fill_(1) == 1).all()), "and there is a new one"


@asks
def test_more_than_a_chunk_is_held_by_several() -> None:
    size = pages.CHUNK // 3
    made = [pages.empty((size,), torch.uint8).fill_(n) for n in range(5)]
    assert [int(one.float().mean()) for one in made] == [*range(5)]


def test_without_large_pages_there_is_ordinary_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert pages.empty((2, 3), torch.float32).fill_(2).sum() == 12
    assert pages.empty((0, 3), torch.float32).shape == (0, 3)
