"""Typical acceptance: it keeps the tokens of the paper's rule, its text is not the target's, and
page, terminal and reasons say so."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from ouroboros_core.rules.typical import DELTA, EPSILON, Typical, typical_threshold
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.summary import Summary
from ouroboros_core.tree import Probabilities, Provenance, TokenTree, TreeBuilder
from tests import tiny, traces
from tests.seeded_models import target
from visualize.run.view import run_view, sentence

TYPICAL = Sampling(temperature=1.0, seed=3, acceptance="typical")
SIZE, DEPTH = 4, 3


def some_tree(random: np.random.Generator) -> TokenTree:
    """A few of all texts of DEPTH tokens."""
    builder = TreeBuilder(0)
    every = list(itertools.product(range(SIZE), repeat=DEPTH))
    for text in random.permutation(every)[:9].tolist():
        builder.add_path(text, 0, Provenance(Source.DRAFT))
    return builder.build()


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_branch_of_likely_tokens_is_kept_and_the_likeliest_token_follows(
    seed: int,
) -> None:
    """The oracle tries every node, and works the paper's formula out for each token above it."""
    random = np.random.default_rng(seed)
    tree = some_tree(random)
    p = random.dirichlet(np.full(SIZE, 0.2), len(tree))

    def passes(path: list[int]) -> bool:
        for before, node in itertools.pairwise([0, *path]):
            entropy = -sum(x * math.log(x) for x in p[before] if x > 0)
            if p[before][tree.tokens[node]] <= min(0.09, 0.3 * math.exp(-entropy)):
                return False
        return True

    def worth(path: list[int]) -> tuple[int, float]:
        chances = [p[b][tree.tokens[n]] for b, n in itertools.pairwise([0, *path])]
        return len(path), math.prod(chances)

    every = [tree.path_to(node) for node in range(len(tree))]
    longest = max((path for path in every if passes(path)), key=worth)
    path, token = Typical().judge(tree, target(lambda node: p[node], np.random.default_rng))
    assert path == tuple(longest)
    assert token == p[path[-1] if path else 0].argmax()


def test_the_surer_the_target_the_likelier_a_token_has_to_be() -> None:
    """By hand: the entropy of four equal chances is log 4, that of a certain token 0."""
    even: Probabilities = np.full(4, 0.25)
    assert typical_threshold(even) == pytest.approx(DELTA / 4)
    assert typical_threshold(np.array([1.0, 0.0])) == EPSILON


def texts(sampling: Sampling) -> tuple[list[int], list[int]]:
    models = tiny.pair("llama", "sdpa")
    steps = tiny.run(models, "speculative", tiny.prompt(), 40, sampling, gamma=3)
    return tiny.emitted(steps), tiny.plain(models[0].model, tiny.prompt(), 40, sampling)


def test_it_is_not_lossless_but_greedy_it_changes_nothing() -> None:
    written, plain = texts(TYPICAL)
    assert written != plain
    written, plain = texts(TYPICAL.model_copy(update={"temperature": 0.0}))
    assert written == plain
    assert Sampling().acceptance == "match", "the default is exact"


def test_a_run_is_marked_on_the_page_and_draft_only_alike() -> None:
    models = tiny.pair("llama", "sdpa")
    steps = tiny.run(models, "speculative", tiny.prompt(), 20, TYPICAL, gamma=3)
    trace = traces.make_trace(steps, "speculative", TYPICAL)
    exact = traces.make_trace(steps, "speculative", Sampling(temperature=1.0, seed=3))
    assert Summary(exact).lossless and not Summary(trace).lossless
    view: Any = run_view(Summary(trace, exact), run="r", seq=1, badge_text="")
    assert "not lossless" in view["status"] and "not lossless" in str(view["tiles"])
    assert sentence(Summary(trace, exact)).endswith("not lossless: typical acceptance.")
    assert "not lossless" not in run_view(Summary(exact), run="r", seq=1, badge_text="")["status"]
    reasons = [reason for step in view["steps"] for reason in str(step).split(". ")]
    assert any("typical acceptance, which is not lossless" in reason for reason in reasons)
