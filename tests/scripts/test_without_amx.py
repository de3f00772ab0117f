"""The command line without AMX: the compiled pass must be another one than with it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ouroboros_core import cli
from ouroboros_core.models.engines.native import build
from scripts import without_amx


def test_both_the_native_pass_and_torch_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracle: the names of compiled passes, of which other flags have another."""
    seen: list[tuple[Any, Any]] = []
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "ALL")
    monkeypatch.setattr(build, "FLAGS", build.FLAGS)
    before = build._library()

    def run(argv: Any) -> int:
        seen.append((argv, build._library()))
        return 3

    monkeypatch.setattr(cli, "main", run)
    assert without_amx.main(["bench"]) == 3
    ((argv, library),) = seen
    assert argv == ["bench"] and os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
    if not isinstance(before, str):
        assert library._name != before._name and not library.ouroboros_amx()
