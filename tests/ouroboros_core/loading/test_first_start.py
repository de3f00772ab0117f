"""What `make weights` does: it ends once the target and the native pass are there."""

import threading
import time

import pytest

from ouroboros_core.loading import embedded, first_start
from ouroboros_core.models.engines.native import build


@pytest.mark.parametrize("failed", [0, 2, 130])
def test_it_waits_for_the_compiler_where_the_target_is_there(
    monkeypatch: pytest.MonkeyPatch, failed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Oracle: whether a compiler that takes 0.3 s has ended."""
    compiled: list[float] = []

    def compile_slowly() -> None:
        time.sleep(0.3)
        compiled.append(time.monotonic())

    def begin() -> threading.Thread:
        compiling = threading.Thread(target=compile_slowly, daemon=True)
        compiling.start()
        return compiling

    monkeypatch.setattr(build, "begin", begin)
    monkeypatch.setattr(embedded, "main", lambda: failed)
    assert first_start.main() == failed
    assert bool(compiled) is (failed == 0)
    assert ("Compiling" in capsys.readouterr().err) is (failed == 0)
