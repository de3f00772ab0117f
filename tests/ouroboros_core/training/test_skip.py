"""The search for layers to skip: on speeds that a test makes up, and on a tiny model from the
command line."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import cli
from ouroboros_core.cli import options
from ouroboros_core.loading import skips as files
from ouroboros_core.models.skips import Skips, generic
from ouroboros_core.training.skip import search
from tests.folders import small_pair

LAYERS = 4
WANTED = Skips(frozenset({1, 3}), frozenset({0}))


def distance(skips: Skips) -> int:
    return len(skips.attention ^ WANTED.attention) + len(skips.mlp ^ WANTED.mlp)


def after(tries: int) -> Any:
    """Stops the search after so many questions."""
    asked = count()
    return lambda: next(asked) >= tries


@pytest.mark.parametrize("seed", range(5))
def test_the_search_climbs_to_the_fastest_choice(seed: int) -> None:
    """The oracle knows the fastest one: speed falls with the distance from it."""
    found = search(LAYERS, lambda skips: 10.0 - distance(skips), after(400), seed)
    assert found.skips == WANTED and found.speed == 10.0


def test_what_was_fast_by_chance_is_measured_again() -> None:
    """Every choice seems fast at first, and none is the second time."""
    seen: set[Skips] = set()

    def speed(skips: Skips) -> float:
        first = skips not in seen
        seen.add(skips)
        return 9.0 if first and skips != generic(LAYERS) else 1.0

    assert search(LAYERS, speed, after(50)).skips == generic(LAYERS)


def test_a_search_ends_where_everything_was_tried() -> None:
    found = search(1, lambda skips: 1.0, lambda: False)
    assert found.tried == 4


def test_what_was_found_is_what_the_pair_drafts_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = small_pair()
    assert pair.self_draft is not None and pair.self_draft.skips == generic(2)
    chosen = Skips(frozenset({0}), frozenset({1}))
    file = files.keep(pair.target, files.Search(chosen, 2.0, 1.0, 3, 4.0))
    again = replace(pair).self_draft
    assert again is not None and again.skips == chosen
    assert again.name.endswith(" without 1 attentions and 1 MLPs")
    assert json.loads(file.read_text(encoding="utf-8"))["tokens_per_second"] == 2.0
    for damaged in ("", "[]", '{"attention": [2], "mlp": []}', '{"attention": "a", "mlp": []}'):
        file.write_text(damaged, encoding="utf-8")
        fallen_back = replace(pair).self_draft
        assert fallen_back is not None and fallen_back.skips == generic(2)
        assert "is not used, and can be removed" in caplog.text
        caplog.clear()


def test_the_command_writes_where_the_method_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock ticks once whenever it is read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = small_pair()
    monkeypatch.setattr(options, "load_pair", lambda _: pair)
    ticks = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    lines = [json.dumps({"prompt": text}) for text in ("the cat", "on the mat")]
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    words = ["--prompts", str(tmp_path / "prompts.jsonl"), "--max-new-tokens", "4"]
    assert cli.main(["train", "skip", "--seconds", "5", *words]) == 0
    said = capsys.readouterr().out
    assert f"{pair.target.name} {files.saved(pair.target)}: " in said
    assert re.search(r"tokens/s, plain .*, the fastest of \d choices in \d s: ", said)
    assert str(files.skips_file(pair.target)) in said


def test_seconds_are_checked_before_a_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "skip", "--seconds", "none"]) == 2
    assert "seconds must be a whole number of at least 1, got none" in capsys.readouterr().err
