"""Rounds of "Be the draft": one turn and one budget as for every job, with tiny models."""

from collections.abc import Iterator

import pytest

from ouroboros_core.errors import InvalidInput
from tests import tiny
from visualize.draft_game import game as play
from visualize.draft_game.job import Played, RoundJob
from visualize.proof.job import Counted, ProofJob
from visualize.proof.tab import proof_task
from visualize.server.jobs import Update
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.runner import Runner


def play_on(runner: Runner, costs: list[int]) -> None:
    """Round after round, each with what it cost."""
    while True:
        *_, last = runner.submit(RoundJob("abcabc", (), "d"), visitor="one")
        assert isinstance(last, Played)
        costs.append(last.round.rows)


def test_a_visitor_has_no_more_seeds_and_rounds_than_the_budget(letter_models: Models) -> None:
    runner = Runner(letter_models, Limits(tokens=900))
    task = proof_task(2, "abcdefgh", "speculative", "match", 1.5, False, 0)

    def prove(seeds: int) -> Iterator[Update]:
        return runner.submit(ProofJob(task, seeds, 2), visitor="one")

    with pytest.raises(InvalidInput, match=r"900 tokens in an hour, and this would be 1,400"):
        list(prove(200))
    *_, last = prove(100)
    assert isinstance(last, Counted) and last.tally is not None
    assert 200 <= last.tally.tokens <= 700 and last.tokens > last.tally.tokens, "with plain passes"
    left = 900 - last.tokens
    costs: list[int] = []
    with pytest.raises(InvalidInput, match="you have had"):
        play_on(runner, costs)
    assert 0 <= left - sum(costs) < play.ROWS, "what a round has cost is what its passes had"
    *_, other = runner.submit(RoundJob("abcabc", (), "d"), visitor="two")
    assert isinstance(other, Played)


def test_rounds_go_on_where_the_last_one_ended(letter_models: Models) -> None:
    """Oracle: greedy decoding by the unwrapped model."""
    runner, game = Runner(letter_models), play.Game("abcabc")
    for _ in range(3):
        *_, last = runner.submit(RoundJob(game.beginning, game.context, "ab"))
        assert isinstance(last, Played)
        game.rounds.append(last.round)
    start = list(range(3)) * 2
    written = list(game.context[len(start) :])
    assert written == tiny.generated(tiny.target("llama"), start, len(written))
    shown = "".join(one for r in game.rounds for one in r.texts)
    assert shown == "".join(tiny.LETTERS[token] for token in written)
