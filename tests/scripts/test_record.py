"""Which rounds of a recording count, and which names it takes."""

from dataclasses import replace

import pytest

from ouroboros_core.benchmark.protocol import Round
from ouroboros_core.trace.trace import Seconds
from scripts.record import main, steady
from tests.traces import typed_trace


def plain_of(seconds: float) -> Round:
    """A round whose plain passes take so long, half a second of drawing tokens apart."""
    taken = Seconds(verify=seconds + 0.5, verify_sampling=0.5)
    run = typed_trace()
    return Round((replace(run, steps=tuple(replace(step, seconds=taken) for step in run.steps)),))


def test_a_round_counts_whose_plain_passes_are_as_fast_as_those_of_other_rounds() -> None:
    slow, fast, steady_one = map(plain_of, (0.012, 0.010, 0.011))
    assert steady([slow, fast, steady_one]) == [fast, steady_one]


def test_an_unknown_run_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["record", "fibonacci", "typo"])
    with pytest.raises(SystemExit):
        main()
    assert "unknown: typo; known are bank, bank-autoregressive" in capsys.readouterr().err
