"""Draft & Verify: where a draft ends, how its threshold moves, and what a target must have."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import TYPICAL
from ouroboros_core.decoding.generation import Generation, Task, lacking
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Context, Resources, StepBudget, TokenizedPrompt
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling, softmax
from tests import tiny
from tests.folders import small_pair
from tests.seeded_models import SeededModel, check_places, started

KIND = methods.get("draft_verify")
TEXT = (0, 1)
SIZE = 3
"""Tokens of the vocabulary where counts are held against probabilities."""


def method(
    sampling: Sampling, stop: frozenset[int] = frozenset(), size: int = 6, **settings: Any
) -> Any:
    draft: Any = SeededModel(5, size, noise=0.7)
    draft.share = 0.5
    chosen = {"gamma": 12, **settings}
    return started("draft_verify", chosen, sampling, size, stop_tokens=stop, self_draft=draft)


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=1.0, acceptance="rejection")]
)
def test_a_draft_ends_behind_the_first_token_that_it_is_unsure_of(sampling: Sampling) -> None:
    """The oracle asks the draft for each token's probability."""
    lengths = Counter[int]()
    for step in range(40):
        made = method(sampling, threshold=0.4)
        text = (step % 6, step // 6 % 6)
        tree = made.propose(Context(text, 50, step))
        sure = []
        for node in range(1, len(tree)):
            before = (*text, *tree.tokens[1:node])
            sure.append(softmax(made.resources.self_draft.after(before))[tree.tokens[node]] >= 0.4)
        assert all(sure[:-1]) and (not sure[-1] or len(sure) == 12)
        assert made.drafter.passes == len(sure)
        lengths[len(sure)] += 1
    assert len(lengths) > 2


def test_it_is_as_long_as_the_budget_allows_and_ends_at_a_stop_token() -> None:
    class Four(StepBudget):
        left = 4

        def allows_pass(self, reach: float = 1.0, rows: int = 1, depth: int = 0) -> bool:
            self.left -= 1
            return self.left >= 0

    made = method(Sampling(), threshold=0.0)
    assert len(made.propose(Context(TEXT, 50, 0, Four()))) == 5
    assert len(made.propose(Context(TEXT, 3, 0))) == 3
    whole = made.propose(Context(TEXT, 50, 0)).tokens
    assert len(whole) == 13
    stopped = method(Sampling(), frozenset({whole[3]}), threshold=0.0)
    assert stopped.propose(Context(TEXT, 50, 0)).tokens == whole[: whole[1:].index(whole[3]) + 2]


class Outcome:
    """What `learn` needs to know of a step: how many tokens were drafted and accepted."""

    def __init__(self, drafted: int, accepted: int) -> None:
        self.path = tuple(range(1, 1 + accepted))
        self.tree: Any = type("Tree", (), {"proposals": range(1, 1 + drafted)})


def test_the_threshold_moves_as_the_paper_says() -> None:
    """The oracle is its rule with its numbers: rate 0.5 and 0.5, threshold 0.9 and 0.1, step 0.01,
    goal 0.9; a draft of full length does not lower it."""
    made = method(Sampling(), **KIND.published)
    rate, threshold = 0.0, 0.6
    seen = set()
    for drafted, accepted in [(4, 0), (12, 12), (12, 12), (12, 12), (12, 12), (3, 3), (5, 1)]:
        made.learn(Outcome(drafted, accepted))
        rate = (rate + accepted / drafted) / 2
        moved = 0.01 if rate < 0.9 else 0.0 if drafted == 12 else -0.01
        seen.add(moved)
        threshold = 0.9 * threshold + 0.1 * (threshold + moved)
        assert made.threshold == pytest.approx(threshold) and made.moving.rate == pytest.approx(
            rate
        )
    assert len(seen) == 3
    made.learn(Outcome(0, 0))
    assert made.threshold == pytest.approx(threshold), "a step without a draft teaches nothing"
    made.start(TokenizedPrompt(TEXT), 50)
    assert made.threshold == 0.6
    fixed = method(Sampling(), adaptive=False)
    fixed.learn(Outcome(4, 0))
    assert fixed.threshold == 0.6


@pytest.mark.parametrize("rule", ["match", "rejection", "block"])
def test_drafted_corrected_and_bonus_tokens_follow_the_target(rule: str) -> None:
    """Counts by place in the step and by the two tokens before, which are all that the target's
    probabilities depend on. The draft ends where it is unsure, and the threshold moves."""
    sampling = Sampling(temperature=1.0, seed=4, acceptance=rule)
    made = method(sampling, size=SIZE, threshold=0.5, acceptance_goal=0.6)
    check_places(made, sampling, 5_000, SIZE)


def test_the_drafts_passes_are_those_of_the_target_without_its_layers() -> None:
    """No prefill and no memory of its own: all passes are counted, and the cache is one."""
    pair = small_pair()
    draft = pair.self_draft
    assert draft is not None and draft.target is pair.target
    assert lacking(pair, KIND, KIND.Hyperparameters()) is None
    task = Task("the cat sat on", "draft_verify", KIND.Hyperparameters.parse({"gamma": 3}),
                max_new_tokens=8, chat=False)  # fmt: skip
    trace = Generation(pair, task).run()
    plain = Generation(pair, task.plain()).run()
    assert trace.text == plain.text
    assert trace.draft == draft.name
    assert sum(step.draft_passes for step in trace.steps) == draft.passes > 0


def test_a_target_whose_layers_cannot_be_skipped_is_told_and_what_helps() -> None:
    with pytest.raises(
        InvalidInput,
        match="draft_verify needs a target with skippable layers: name one with --target, such as",
    ):
        methods.create(KIND, KIND.Hyperparameters(), Resources())
    assert KIND.needs == {Need.SELF_DRAFT}


def test_the_controller_prices_its_passes_by_the_weights_that_they_read() -> None:
    half = TYPICAL.target.scaled(0.5)
    assert half.rows == TYPICAL.target.rows
    for rows in (1, 9, 40):
        assert 2 * half.of(rows) == pytest.approx(TYPICAL.target.of(rows))
    steps = tiny.run(
        tiny.pair("llama"), "draft_verify", tiny.prompt(), 20, automatic=True, retrieve=False
    )
    assert any(step.draft_passes for step in steps)
