"""Sampling against Hugging Face's own logits processors and against the distribution itself."""

import itertools
import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from ouroboros_core import sampling
from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sampling import Sampler, Sampling, gumbel, process, softmax
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, chain
from tests import tiny


@given(
    st.integers(0, 2**31),
    st.floats(0.1, 2.0),
    st.one_of(st.just(0), st.integers(0, 40)),
    st.floats(0.05, 1.0),
    st.one_of(st.integers(2, 40), st.sampled_from([300, 5000])),
    st.booleans(),
)
def test_filters_are_hugging_faces_in_its_order(
    seed: int, temperature: float, k: int, p: float, size: int, ties: bool
) -> None:
    logits = np.random.default_rng(seed).normal(0, 3, size)
    logits = logits.round() if ties else logits
    scores = TemperatureLogitsWarper(temperature)(None, torch.from_numpy(logits)[None])
    scores = TopKLogitsWarper(k)(None, scores) if k else scores
    scores = TopPLogitsWarper(p)(None, scores) if p < 1.0 else scores
    mine = process(logits, Sampling(temperature=temperature, top_k=k, top_p=p))
    expected = scores[0].numpy()
    if ties:  # of equal tokens at the edge of top-p as many are kept, but maybe others
        mine, expected = np.sort(mine), np.sort(expected)
    np.testing.assert_allclose(mine, expected)


@pytest.mark.parametrize("size", [3, 300])
@pytest.mark.parametrize(
    ("odd", "kept"), [(np.nan, "all"), (np.inf, "that one"), (-np.inf, "others"), (0.0, "one")]
)
def test_rows_that_no_sound_model_gives_are_not_emptied(odd: float, kept: str, size: int) -> None:
    """A token can be chosen, as without top-p: what is no number, what is endless, and the last of
    equals, however little mass is asked for."""
    logits = np.zeros(size, np.float32)
    logits[1] = odd
    with np.errstate(invalid="ignore"):
        scores = process(logits, Sampling(temperature=1.0, top_p=1e-17 if kept == "one" else 0.9))
    there = np.flatnonzero(scores != -np.inf)
    assert {
        "all": len(there) == size,
        "that one": 1 in there,
        "others": 1 not in there and len(there) >= 0.9 * (size - 1),
        "one": list(there) == [size - 1],
    }[kept]


def test_scores_are_those_of_the_node_that_is_asked_about() -> None:
    """Also behind another evaluation, or another node of it, whose scores were just made."""

    class Column:
        def __init__(self, likely: int) -> None:
            self.likely = likely

        def logits(self, node: int) -> np.ndarray:
            return np.where(np.arange(6) == self.likely + node, 50.0, 0.0)

    first: Any = Column(1)
    second: Any = Column(3)
    sampler = Sampler(Sampling(temperature=1.0), 6)
    for evaluation, node in [(first, 0), (first, 0), (second, 0), (second, 1), (first, 1)]:
        p = sampler.probabilities(evaluation, node)
        assert p.argmax() == evaluation.likely + node


def test_choices_follow_the_distribution() -> None:
    """Chi-square over 20,000 positions; 99.9% of the time below 24.3 for 7 degrees of freedom.
    Deterministic under the seed."""
    logits = np.array([0.0, 1.0, -1.0, 2.0, 0.5, 0.3, -2.0, 1.5])
    scores, draws = process(logits, Sampling(temperature=0.8)), 20_000
    chosen = [int(np.argmax(scores + gumbel(3, n, 8))) for n in range(draws)]
    wanted = draws * softmax(scores)
    assert ((np.bincount(chosen, minlength=8) - wanted) ** 2 / wanted).sum() < 24.3


def test_noise_is_a_function_of_seed_and_position() -> None:
    np.testing.assert_array_equal(gumbel(1, 2, 50), gumbel(1, 2, 50))
    assert not np.allclose(gumbel(1, 2, 50), gumbel(1, 3, 50))
    assert not np.allclose(gumbel(1, 2, 50), gumbel(2, 2, 50))
    sampler = Sampler(Sampling(temperature=1, seed=4), 50)
    for position in (*range(100), 0):
        np.testing.assert_array_equal(sampler.noise(position), gumbel(4, position, 50))


def agreement(texts: list[list[int]]) -> list[int]:
    """At each place of texts of equal length, how many pairs of them have the same token."""
    return [
        sum(one == other for one, other in itertools.combinations(column, 2))
        for column in zip(*texts, strict=True)
    ]


@pytest.mark.parametrize("draw", ["noise", "judging"])
def test_equal_chances_agree_for_two_prompts_under_one_seed_as_often_as_by_chance(
    draw: str,
) -> None:
    """Twelve prompts that differ in one token, eight equally likely tokens: two agree with
    probability 1/8, and the 66 pairs of a place are uncorrelated. 4.42 standard deviations are
    exceeded by chance once in 100,000 times. Deterministic under the seed."""
    places, texts = 500, []
    for last in range(12):
        sampler = Sampler(Sampling(temperature=1, seed=3, acceptance="rejection"), 8)
        sampler.begin([5, 6, last])
        if draw == "noise":
            texts.append([int(sampler.noise(n).argmax()) for n in range(3, 3 + places)])
        else:
            texts.append([int(sampler.generator(n).integers(8)) for n in range(3, 3 + places)])
    count = 66 * places
    deviation = abs(sum(agreement(texts)) - count / 8) / math.sqrt(count / 8 * 7 / 8)
    assert deviation < 4.42


def test_samples_of_prompts_under_one_seed_agree_as_those_of_many_seeds_do() -> None:
    """Twelve prompts of one length at temperature 2: how often two texts agree at a place, under
    one seed and with a seed each, by Welch's test over the places (a false alarm in 100,000)."""
    places, model = 16, tiny.pair("llama")[0]

    def agreeing(seeds: Iterable[int]) -> np.ndarray:
        texts = []
        for number, seed in enumerate(seeds):
            prompt, drawn = tiny.prompt(9, seed=number), Sampling(temperature=2.0, seed=seed)
            texts.append(written("autoregressive", prompt, places, drawn, model))
        return np.array(agreement(texts))

    one, many = agreeing([4] * 12), agreeing(range(20, 32))
    error = math.sqrt(one.var(ddof=1) / places + many.var(ddof=1) / places)
    assert abs(one.mean() - many.mean()) < 4.42 * error


@pytest.mark.parametrize("method", ["speculative", "ngram", "spectr"])
def test_methods_draw_the_noise_of_the_prompt_as_plain_sampling_does(method: str) -> None:
    """Oracle: plain forward passes. The same seed behind two prompts, and one within the other."""
    model = tiny.pair("llama")[0]
    for prompt in (tiny.prompt(9, seed=1), tiny.prompt(9, seed=2), tiny.prompt(9, seed=2)[:5]):
        sampling = Sampling(temperature=1.5, seed=4)
        plain = tiny.plain(tiny.target("llama"), prompt, 10, sampling)
        assert written(method, prompt, 10, sampling, model) == plain


def written(
    method: str, prompt: list[int], count: int, sampling: Sampling, model: CausalLM
) -> list[int]:
    models = model, tiny.pair("llama")[1]
    return tiny.emitted(tiny.run(models, method, prompt, count, sampling, retrieve=False))


def test_the_same_prompt_has_the_same_noise_in_every_run() -> None:
    sampling = Sampling(temperature=1, seed=4)
    first, second = Sampler(sampling, 50), Sampler(sampling, 50)
    first.begin([1, 2, 3])
    alone = first.noise(7)
    first.begin([1, 2])
    assert not np.allclose(first.noise(7), alone), "nothing is kept of the text before"
    second.begin((1, 2, 3))
    np.testing.assert_array_equal(second.noise(7), alone)


KNOWN = "the settings are temperature, top_k, top_p, seed, acceptance"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -1}, "temperature must be between 0 and 2, got -1"),
        ({"temperature": float("nan")}, "temperature must be between 0 and 2, got nan"),
        ({"top_p": 0}, "top_p must be above 0 and at most 1, got 0"),
        ({"top_k": 1.5}, "top_k must be between 0 and 1000000, got 1.5"),
        ({"seed": "x"}, "seed must be between 0 and 4294967295, got x"),
        ({"heat": 1}, f"heat is not a setting here; {KNOWN}"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Sampling.parse(values)
    assert str(caught.value) == message


@pytest.mark.parametrize("temperature", [1e-300, 1e-320, 5e-324])
def test_the_smallest_temperatures_choose_the_likeliest_token(temperature: float) -> None:
    """Oracle: the limit, which is greedy."""
    logits = np.array([-3.0, 40.0, 39.9, -80.0], np.float32)
    assert list(softmax(process(logits, Sampling(temperature=temperature)))) == [0, 1, 0, 0]


def test_drawing_is_timed_without_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that a pass moves by 100 and noise by 1."""
    now = 0.0

    def moved(by: float) -> np.ndarray:
        nonlocal now
        now += by
        return np.zeros(4)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(sampling, "gumbel", lambda *_, **__: moved(1))

    class Slow:
        def logits(self, node: int) -> np.ndarray:
            return moved(100)

    evaluation: Any = Slow()
    sampler = Sampler(Sampling(temperature=1.0), 4)
    tree = chain(1, [2, 3], Provenance(Source.DRAFT))
    with sampler.drawing.running():  # as a rule does, which looks at two nodes and adds 5 itself
        sampler.probabilities(evaluation, 0)
        sampler.ranker(evaluation, tree, 0, 2)(1)
        moved(5)
    assert (now, sampler.drawing.seconds) == (206, 6)
    sampler.chooser(evaluation, tree, 10)(0)
    assert (now, sampler.drawing.seconds) == (307, 7)
    moved(1000)  # nothing is drawn
    assert sampler.drawing.seconds == 7
