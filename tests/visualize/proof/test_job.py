"""Proofs: counts, time and budget, with tiny models."""

import time
from itertools import count
from types import SimpleNamespace

import pytest

from ouroboros_core.errors import InvalidInput
from visualize.proof import tally as proof
from visualize.proof.job import Counted, ProofJob
from visualize.proof.tab import proof_task
from visualize.proof.tally import Tally
from visualize.server import jobs
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.runner import Runner

PROMPT = "abcdefgh"
SEEDS = 100


def proved(runner: Runner, method: str, rule: str, seeds: int, visitor: str = "") -> Counted:
    task = proof_task(2, PROMPT, method, rule, 1.5, False, 0)
    *_, last = runner.submit(ProofJob(task, seeds, 2), visitor=visitor)
    assert isinstance(last, Counted) and last.tally is not None and last.tally.done
    return last


def prove(runner: Runner, method: str, rule: str, seeds: int) -> Tally:
    tally = proved(runner, method, rule, seeds).tally
    assert tally is not None
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_pairs_of_tokens_come_as_often_as_the_target_says(letter_models: Models, rule: str) -> None:
    tally = prove(Runner(letter_models), "speculative", rule, SEEDS)
    assert tally.fit is not None and tally.fit.degrees >= 2 and tally.fit.p_value > 0.001
    assert tally.drawn == SEEDS and 0 < tally.accepted < tally.proposed
    assert "consistent" in proof.verdict(tally)


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    ticks = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)), time_ns=time.time_ns)
    monkeypatch.setattr(jobs, "time", clock)


def test_a_proof_ends_when_its_time_is_over_and_says_so(
    letter_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    tally = prove(Runner(letter_models, Limits(sweep_minutes=1)), "speculative", "match", 100)
    assert tally.late and 1 <= tally.drawn < 100
    assert "judged" not in proof.verdict(tally)


def test_the_time_ends_the_search_for_likely_texts_too(
    letter_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass looks at the clock at least twice."""
    ticking(monkeypatch)
    runner = Runner(letter_models, Limits(sweep_minutes=0.1))
    last = proved(runner, "speculative", "match", 500)
    assert last.tally is not None and last.tally.late and not last.tally.drawn
    assert 1 <= last.tokens <= 3 and f"so far: {last.tokens}" in last.status
    assert "shorter prompt" in proof.verdict(last.tally)
    assert proof.view(last.tally)["rows"] == []


def test_passes_of_a_search_that_is_stopped_are_charged(letter_models: Models) -> None:
    runner = Runner(letter_models, Limits(tokens=1400))
    task = proof_task(2, PROMPT, "speculative", "match", 1.5, False, 0)
    updates = runner.submit(ProofJob(task, 200, 2), visitor="one")
    begun = next(one for one in updates if isinstance(one, Counted) and one.tokens)
    updates.close()
    assert begun.tally is None
    with pytest.raises(InvalidInput, match=f"you have had {begun.tokens}, "):
        proved(runner, "speculative", "match", 200, visitor="one")
