"""The Lab's games on the server: one turn and one budget as for every run, with tiny models."""

from __future__ import annotations

import time
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair
from tests import tiny
from visualize.draft_game import game as play
from visualize.proof import job as counting
from visualize.proof import tally as proof
from visualize.proof.tab import proof_task
from visualize.proof.tally import Tally
from visualize.server import compute
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.server.updates import Counted, Played

PROMPT = "abcdefgh"
SEEDS = 100


def pair() -> Pair:
    """One letter for each token id."""
    letters = {chr(97 + n): n for n in range(tiny.VOCABULARY)}
    model = Tokenizer(WordLevel(letters, unk_token="a"))
    model.pre_tokenizer, model.decoder = Split("", "isolated"), Fuse()
    target, draft = tiny.pair("llama")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model)
    return Pair(target, draft, tokenizer, frozenset())


@pytest.fixture(scope="module")
def models() -> Models:
    found = Models(lambda _: pair())
    found.ask("").result()
    return found


def proved(runner: Runner, method: str, rule: str, seeds: int, **more: Any) -> Counted:
    task = proof_task(2, PROMPT, method, rule, 1.5, False, 0)
    *_, last = runner.prove(task, seeds, 2, **more)
    assert isinstance(last, Counted) and last.tally is not None and last.tally.done
    return last


def prove(runner: Runner, method: str, rule: str, seeds: int) -> Tally:
    tally = proved(runner, method, rule, seeds).tally
    assert tally is not None
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_pairs_of_tokens_come_as_often_as_the_target_says(models: Models, rule: str) -> None:
    tally = prove(Runner(models), "speculative", rule, SEEDS)
    assert tally.fit is not None and tally.fit.degrees >= 2 and tally.fit.p_value > 0.001
    assert tally.drawn == SEEDS and 0 < tally.accepted < tally.proposed
    assert "consistent" in proof.verdict(tally)


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    ticks = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)), time_ns=time.time_ns)
    for module in (compute, counting):
        monkeypatch.setattr(module, "time", clock)


def test_a_proof_ends_when_its_time_is_over_and_says_so(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    tally = prove(Runner(models, Limits(sweep_minutes=1)), "speculative", "match", 100)
    assert tally.late and 1 <= tally.drawn < 100
    assert "judged" not in proof.verdict(tally)


def test_the_time_ends_the_search_for_likely_texts_too(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass looks at the clock at least twice."""
    ticking(monkeypatch)
    runner = Runner(models, Limits(sweep_minutes=0.1))
    last = proved(runner, "speculative", "match", 500)
    assert last.tally is not None and last.tally.late and not last.tally.drawn
    assert 1 <= last.passes <= 3 and f"so far: {last.passes}" in last.status
    assert "shorter prompt" in proof.verdict(last.tally)
    assert proof.view(last.tally)["rows"] == []


def test_passes_of_a_search_that_is_stopped_are_charged(models: Models) -> None:
    runner = Runner(models, Limits(tokens=1400))
    task = proof_task(2, PROMPT, "speculative", "match", 1.5, False, 0)
    updates = runner.prove(task, 200, 2, visitor="one")
    begun = next(one for one in updates if isinstance(one, Counted) and one.passes)
    updates.close()
    assert begun.tally is None
    with pytest.raises(InvalidInput, match=f"you have had {begun.passes}, "):
        proved(runner, "speculative", "match", 200, visitor="one")


def play_on(runner: Runner, costs: list[int]) -> None:
    """Round after round, each with what it cost."""
    while True:
        *_, last = runner.play("abcabc", (), "d", visitor="one")
        assert isinstance(last, Played)
        costs.append(last.round.rows)


def test_a_visitor_has_no_more_seeds_and_rounds_than_the_budget(models: Models) -> None:
    runner = Runner(models, Limits(tokens=900))
    with pytest.raises(InvalidInput, match=r"900 tokens in an hour, and this would be 1,400"):
        proved(runner, "speculative", "match", 200, visitor="one")
    last = proved(runner, "speculative", "match", 100, visitor="one")
    assert last.tally is not None and 200 <= last.tally.tokens <= 700 and last.passes
    spent = last.passes + last.tally.tokens
    left = 900 - spent
    costs: list[int] = []
    with pytest.raises(InvalidInput, match="you have had"):
        play_on(runner, costs)
    assert 0 <= left - sum(costs) < play.ROWS, "what a round has cost is what its passes had"
    *_, other = runner.play("abcabc", (), "d", visitor="two")
    assert isinstance(other, Played)


def test_rounds_go_on_where_the_last_one_ended(models: Models) -> None:
    """Oracle: greedy decoding by the unwrapped model."""
    runner, game = Runner(models), play.Game("abcabc")
    for _ in range(3):
        *_, last = runner.play(game.beginning, game.context, "ab")
        assert isinstance(last, Played)
        game.rounds.append(last.round)
    start = list(range(3)) * 2
    written = list(game.context[len(start) :])
    assert written == tiny.generated(tiny.target("llama"), start, len(written))
    shown = "".join(one for r in game.rounds for one in r.texts)
    assert shown == "".join(chr(97 + token) for token in written)
