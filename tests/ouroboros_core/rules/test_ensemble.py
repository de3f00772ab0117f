"""Ensemble verification: it accepts and corrects as transformers does, its text follows the
mixture, and it is marked as not lossless."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation.utils import _speculative_sampling

from ouroboros_core.rules.ensemble import ENSEMBLE, WEIGHT, Ensemble
from ouroboros_core.rules.parts.base import ALONE
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.summary import Summary
from ouroboros_core.tree import Probabilities, Provenance, TokenTree, TreeBuilder
from tests import tiny, traces
from tests.seeded_models import CHI_SQUARE, HIGH, Trials, chi_square, distribution, fixed, target
from visualize.run.view import run_view

DRAFT = Provenance(Source.DRAFT)
SIZE = 4


def drawn(token: int, q: Probabilities) -> TokenTree:
    builder = TreeBuilder(0)
    builder.add(token, 0, DRAFT, q)
    return builder.build()


@pytest.mark.parametrize("seed", range(8))
def test_a_token_is_kept_with_the_chance_of_transformers_and_corrected_by_its_residual(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle is transformers' own function, with its random numbers set."""
    p, q = distribution((seed, 1), SIZE), distribution((seed, 2), SIZE)
    noted: list[Any] = []

    def multinomial(weights: Any, num_samples: int) -> Any:
        noted.append(weights)
        return torch.zeros(1, 1, dtype=torch.long)

    monkeypatch.setattr(torch, "multinomial", multinomial)
    new_logits = torch.tensor(np.log([[p, p]]))
    for token in range(SIZE):
        for u in (0.1, 0.4, 0.6, 0.8, 0.99):
            monkeypatch.setattr(torch, "rand_like", lambda like, u=u: torch.full_like(like, u))
            _, matches = _speculative_sampling(
                torch.tensor([[token]]), torch.tensor(np.log([[q]])), 1, new_logits, WEIGHT
            )
            trials = Trials()
            judged = target(lambda _: p, fixed(u, HIGH))
            path, _ = Ensemble().judge(drawn(token, q), judged, trials)
            assert len(path) == int(matches)
            if not path:
                residual = trials.left_after[0]
                assert residual == pytest.approx(noted[-1].numpy().ravel(), abs=1e-6)
            (judgement,) = trials.judgements
            assert judgement.rule == ENSEMBLE


def test_the_text_follows_the_mixture_after_a_draft() -> None:
    p, q = distribution((3, 1), SIZE), distribution((3, 2), SIZE)
    counts = Counter[int]()
    for seed in range(4000):
        random = np.random.default_rng(seed)
        tree = drawn(int(random.choice(SIZE, p=q)), q)
        path, token = Ensemble().judge(tree, target(lambda _: p, lambda _, r=random: r))
        counts[tree.tokens[1] if path else token] += 1
    seen = [counts[token] for token in range(SIZE)]
    mixture, alone = 4000 * (WEIGHT * p + (1 - WEIGHT) * q), 4000 * p
    least = CHI_SQUARE[SIZE - 1]
    assert chi_square(seen, mixture.tolist()) < least < chi_square(seen, alone.tolist())


def test_a_copied_token_is_judged_by_the_target_alone() -> None:
    builder = TreeBuilder(0)
    builder.add(1, 0, Provenance(Source.COPY))
    p, trials = distribution((5, 1), SIZE), Trials()
    Ensemble().judge(builder.build(), target(lambda _: p, fixed(HIGH)), trials)
    (judgement,) = trials.judgements
    assert (judgement.rule, judgement.chance) == (ALONE, p[1])


def test_a_run_is_marked_and_its_file_keeps_the_trials() -> None:
    sampling = Sampling(temperature=1.0, seed=3, acceptance="ensemble")
    models = tiny.pair("llama", "sdpa")
    steps = tiny.run(models, "speculative", tiny.prompt(), 20, sampling, gamma=3, record=True)
    trace = traces.make_trace(steps, "speculative", sampling)
    assert not Summary(trace).lossless
    again = read_trace(trace.to_json())
    told = [t for step in again.steps for one in step.judged for t in one.trials]
    assert {trial.rule for trial in told} == {ENSEMBLE}
    view: Any = run_view(Summary(again), run="r", seq=1, badge_text="")
    assert "not lossless" in view["status"]
    assert "judged by the mean of both models" in str(view["steps"])
