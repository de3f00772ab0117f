"""What passes cost is timed once, kept, and timed again where the machine was busy; with models
whose passes take what a test says."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.adaptive.cost_model import Costs
from ouroboros_core.environment import Environment
from ouroboros_core.loading import measured
from ouroboros_core.loading.costs import costs_of
from tests.clocked import Clock, Follower

ENVIRONMENT = Environment("cpu", "bfloat16", 2, "a processor", "3", "2", "5", "0")


def test_costs_are_measured_once_and_a_damaged_file_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model: Any = Clock(monkeypatch, lambda rows: 0.001)
    first = costs_of(ENVIRONMENT, model, None, {}, "x")
    made = model.made
    assert costs_of(ENVIRONMENT, model, None, {}, "x") == first and model.made == made
    (file,) = (tmp_path / "ouroboros" / "costs").glob("*.json")
    whole = json.loads(file.read_text(encoding="utf-8"))
    rows, others = whole["target"]["rows"], whole["target"]["seconds"][1:]
    changes = [{"seconds": wrong} for wrong in (others, [float("nan"), *others], [*others, 0.0])]
    changes += [{"rows": [], "seconds": []}, {"rows": rows[::-1]}]
    damaged = [None, *(whole["target"] | change for change in changes)]
    for damage in ("{", "[1]", *(json.dumps(whole | {"target": part}) for part in damaged)):
        file.write_text(damage, encoding="utf-8")
        assert costs_of(ENVIRONMENT, model, None, {}, "x").target.rows == first.target.rows
        assert model.made > made
        made = model.made
    costs_of(ENVIRONMENT, model, None, {}, "another way of computing")
    assert model.made > made

    def full(*_: Any, **__: Any) -> Any:
        raise OSError("no room")

    monkeypatch.setattr(measured, "write_atomically", full)
    assert costs_of(ENVIRONMENT, model, None, {}, "y").target.rows == first.target.rows
    assert "no room" in caplog.text


@pytest.mark.parametrize("kind", ["target", "draft", "eagle", "medusa"])
def test_what_was_timed_on_a_busy_machine_is_timed_again(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There every pass takes four times as long, or those of one drafter alone do: other work had
    the processor in these rounds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def timed(factor: float) -> tuple[Costs, int]:
        slower = {kind: factor}
        target: Any = Clock(monkeypatch, lambda rows: 0.002 * slower.get("target", 1))
        draft, eagle, medusa = (
            Follower(target, slower.get("target", slower.get(one, 1)))
            for one in ("draft", "eagle", "medusa")
        )
        pair: Any = (target, draft, {"eagle": eagle, "medusa": medusa}, "x")
        found = costs_of(ENVIRONMENT, *pair)
        for file in (tmp_path / "ouroboros" / "costs").glob("*.json"):
            os.utime(file, (0, 0))
        return found, target.made

    busy, made = timed(4)
    same, probed = timed(3.5)
    assert same == busy and probed < made / 4, "little faster: looked at, and kept"
    calm, _ = timed(1)
    assert calm.by_kind[kind].of(1) == pytest.approx(busy.by_kind[kind].of(1) / 4)
    assert timed(4)[0] == calm
