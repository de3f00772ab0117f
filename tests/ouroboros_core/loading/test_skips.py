"""The layers that a target skips when it drafts for itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from ouroboros_core.loading import skips as files
from ouroboros_core.models.skips import Skips, generic
from tests.folders import small_pair


def test_a_pair_drafts_with_the_layers_of_its_file_and_else_with_the_generic_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = small_pair()
    assert pair.self_draft is not None and pair.self_draft.skips == generic(2)
    file = files.skips_file(pair.target)
    file.parent.mkdir(parents=True)
    file.write_text('{"attention": [0], "mlp": [1]}', encoding="utf-8")
    again = replace(pair).self_draft
    assert again is not None and again.skips == Skips(frozenset({0}), frozenset({1}))
    assert again.name.endswith(" without 1 attentions and 1 MLPs")
    for damaged in ("", "[]", '{"attention": [2], "mlp": []}', '{"attention": "a", "mlp": []}'):
        file.write_text(damaged, encoding="utf-8")
        fallen_back = replace(pair).self_draft
        assert fallen_back is not None and fallen_back.skips == generic(2)
        assert "is not used, and can be removed" in caplog.text
        caplog.clear()
