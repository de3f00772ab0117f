"""A native pass that is right and slow; the seconds are made up."""

import logging
from pathlib import Path

import pytest
import torch

from ouroboros_core.loading import check, speed
from ouroboros_core.loading.speed import LAYERS, PAST, FirstLayers, slowness
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import build
from tests.ouroboros_core.models.engines.native.test_decoder import made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and the verdict that the other tests do without."""
    build.library()  # out of the usual one
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(speed, "slowness", slowness)
    return tmp_path


def takes(monkeypatch: pytest.MonkeyPatch, native: dict[int, float]) -> None:
    """Let a native pass take so many seconds by its rows, and a compact one take one."""
    monkeypatch.setattr(
        FirstLayers, "seconds", lambda self, rows: native[rows] if self.engine == "native" else 1.0
    )


@pytest.mark.parametrize(
    ("native", "engine"),
    [({1: 0.5, 8: 1.4}, "native"), ({1: 1.6, 8: 0.5}, "compact"), ({1: 1, 8: 40}, "compact")],
)
def test_a_slow_library_gives_way_to_torch_and_the_log_says_how_slow_it_is(
    native: dict[int, float],
    engine: str,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    takes(monkeypatch, native)
    with caplog.at_level(logging.WARNING):
        assert check.checked(made("llama", torch.float32), "tiny").engine == engine
    said = f"it takes {max(native.values()):.1f} times as long as the compact one"
    assert (said in caplog.text) == (engine == "compact")


def test_the_verdict_is_kept_until_the_library_is_another(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CausalLM(made("llama", torch.float32), "tiny", engine="native")
    takes(monkeypatch, {1: 3.0, 8: 3.0})
    assert slowness(model) == 3.0
    takes(monkeypatch, {1: 1.0, 8: 1.0})
    assert slowness(model) == 3.0
    monkeypatch.setattr(build, "name", lambda: "another")
    assert slowness(model) == 1.0
    assert len([*(cache / "ouroboros" / "costs").glob("speed-*.json")]) == 2


def test_both_passes_are_timed_over_the_same_first_layers_behind_the_same_text(
    cache: Path,
) -> None:
    """They hold the same keys up to rounding, and a timed pass leaves the text as it was."""
    model = CausalLM(made("qwen3", torch.float32, num_hidden_layers=4), "tiny", engine="native")
    held = []
    with torch.inference_mode():
        for part in (FirstLayers("native", model), FirstLayers("compact", model)):
            assert part.seconds(8) > 0 and part.seconds(1) > 0
            assert len(part._cache.layers) == LAYERS
            held.append([layer.keys[:, :, : PAST + 1] for layer in part._cache.layers])
    for mine, other in zip(*held, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)
    assert slowness(model) > 0
