"""The contract of every method, found by discovery: a new file is tested without being named here.

The oracle is plain decoding of the unwrapped transformers model, one token at a time, without any cache.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ouroboros_core import hyperparameters, methods
from ouroboros_core.decoding.engine import decode
from ouroboros_core.decoding.trace import Step
from ouroboros_core.errors import InvalidInput
from ouroboros_core.memory.pool import PhrasePool
from ouroboros_core.methods.base import Context, Method, Resources, Verdict
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.tree import Provenance, Source, TokenTree, TreeBuilder
from tests import tiny
from tests.tiny import emitted, plain, prompt, run

METHODS = tuple(methods.available())
SAMPLED = Sampling(temperature=0.7, top_k=20, top_p=0.95, seed=2)


def check_equal(architecture: str, attention: str, method: str, sampling: Sampling) -> None:
    """Text equals plain decoding, on prompt after prompt until an accepted, a rejected and a bonus step were among them."""
    models = tiny.pair(architecture, attention)
    accepted = rejected = bonus = 0
    for seed in range(5, 13):
        text = prompt(seed=seed)
        steps = run(models, method, text, 40, sampling)
        assert emitted(steps) == plain(models[0].model, text, 40, sampling)
        accepted += sum(len(s.path) > 0 for s in steps)
        rejected += sum(s.kind == "correction" for s in steps)
        bonus += sum(s.kind == "bonus" and len(s.path) > 0 for s in steps)
        if method == "autoregressive" or min(accepted, rejected, bonus) > 0:
            return
    raise AssertionError(f"the case shows {accepted} accepted, {rejected} rejected, {bonus} bonus steps: it proves too little")


SAMPLINGS = (Sampling(), *(Sampling(temperature=0.7, top_k=20, top_p=0.95, seed=seed) for seed in tiny.SEEDS))
CASES = list(itertools.product(tiny.EIGHT, ("eager", "sdpa"), METHODS, SAMPLINGS))
SLICE = [case for n, case in enumerate(CASES) if n % 5 == n // 5 % 5]


@pytest.mark.parametrize(("architecture", "attention", "method", "sampling"), SLICE)
def test_the_text_is_that_of_plain_decoding(architecture: str, attention: str, method: str, sampling: Sampling) -> None:
    check_equal(architecture, attention, method, sampling)


@pytest.mark.exact
@pytest.mark.parametrize(("architecture", "attention", "method", "sampling"), CASES)
def test_the_text_is_that_of_plain_decoding_everywhere(
    architecture: str, attention: str, method: str, sampling: Sampling
) -> None:
    check_equal(architecture, attention, method, sampling)


@pytest.mark.parametrize("method", METHODS)
def test_greedy_text_is_that_of_generate(method: str) -> None:
    models = tiny.pair("llama", "sdpa")
    text = prompt()
    ids = torch.tensor([text])
    expected = models[0].model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=60)
    assert emitted(run(models, method, text, 60)) == expected[0, len(text) :].tolist()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 17])
@pytest.mark.parametrize("method", METHODS)
def test_the_budget_is_met_exactly_and_no_draft_goes_beyond_it(method: str, count: int) -> None:
    models = tiny.pair("llama")
    text = prompt(1)
    steps = run(models, method, text, count)
    assert emitted(steps) == plain(models[0].model, text, count)
    left = count
    for step in steps:
        assert max(step.tree.depths) <= left - 1
        left -= len(step.tokens)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_may_fill_the_model_to_its_last_position(method: str) -> None:
    for architecture in ("llama", "gpt2"):
        models = tiny.pair(architecture)
        text = prompt(240)
        assert emitted(run(models, method, text, 16)) == plain(models[0].model, text, 16)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
def test_the_text_ends_at_the_first_stop_token_wherever_it_arrives(method: str, sampling: Sampling) -> None:
    """Every token of the text is tried as the stop token: as the first, inside an accepted path, as correction, as bonus."""
    models = tiny.pair("llama")
    text = prompt()
    whole = plain(models[0].model, text, 40, sampling)
    where = set()
    for stop in ({t} for t in set(whole)):
        steps = run(models, method, text, 40, sampling, stop=frozenset(stop | {text[0]}))
        expected = plain(models[0].model, text, 40, sampling, stop=frozenset(stop | {text[0]}))
        assert emitted(steps) == expected
        assert steps[-1].tokens[-1] in stop | {text[0]}
        where.add("path" if steps[-1].target_token is None else steps[-1].kind)
    if method in ("speculative", "ouroboros"):
        assert {"path", "correction"} <= where, "the case must contain a stop inside an accepted path"


@pytest.mark.parametrize("method", METHODS)
def test_what_a_step_says_adds_up(method: str) -> None:
    models = tiny.pair("qwen3", "sdpa")
    before = models[0].passes
    steps = run(models, method, prompt(), 60, SAMPLED)
    assert models[0].passes - before == len(steps)
    assert sum(len(s.tokens) for s in steps) == 60
    assert [s.index for s in steps] == list(range(len(steps)))
    assert (len(steps) < 60) == any(s.path for s in steps)
    for step in steps:
        assert len(step.tokens) >= 1
        assert step.width >= len(step.tree)
        assert all(step.tree.parents[b] == a for a, b in itertools.pairwise((0, *step.path)))
        assert Source.WINDOW not in {p.source for p in step.tree.provenance}
        assert step.draft_passes == 0 or methods.get(method).needs_draft_model


@pytest.mark.parametrize("method", METHODS)
def test_runs_do_not_touch_each_other(method: str) -> None:
    """Two texts in turn, token by token, on the same pair of models, equal the same texts alone; cold runs repeat exactly."""
    kind = methods.get(method)

    def begin(models: Any, seed: int) -> Any:
        sampler = Sampler(SAMPLED, tiny.VOCABULARY)
        instance = kind(kind.Hyperparameters(), Resources(sampler, models[1]))
        return decode(models[0], instance, prompt(seed=seed), max_new_tokens=30, sampler=sampler)

    def facts(steps: list[Step]) -> list[Any]:
        return [(s.tree, s.path, s.target_token, s.width, s.draft_passes, s.pool_size) for s in steps]

    models = tiny.pair("llama", "sdpa")
    alone = [facts(list(begin(models, seed))) for seed in (5, 6)]
    together: list[list[Step]] = [[], []]
    for steps in itertools.zip_longest(begin(models, 5), begin(models, 6)):
        for mine, step in zip(together, steps, strict=True):
            mine.extend([step] if step is not None else [])
    assert [facts(mine) for mine in together] == alone


@pytest.mark.parametrize("method", [m for m in METHODS if methods.get(m).learns_phrases])
def test_a_warm_start_changes_the_passes_never_the_text(method: str) -> None:
    models = tiny.pair("llama", "sdpa")
    size = methods.get(method).Hyperparameters().ngram_size  # type: ignore[attr-defined]
    pool = PhrasePool(size, 7)
    cold = run(models, method, prompt(), 60, pool=pool)
    again = PhrasePool.from_json(pool.to_json())
    warm = run(models, method, prompt(), 60, pool=again)
    assert emitted(warm) == emitted(cold) == plain(models[0].model, prompt(), 60)
    passes = [sum(1 + s.draft_passes for s in steps) for steps in (cold, warm)]
    assert passes[1] < passes[0]


def test_a_pool_of_another_ngram_size_is_refused() -> None:
    with pytest.raises(InvalidInput, match="n-grams of 9 tokens, but ngram_size is 4: set ngram_size to 9"):
        run(tiny.pair("llama"), "ouroboros", prompt(), 5, pool=PhrasePool(9, 7))


@pytest.mark.parametrize("method", [m for m in METHODS if methods.get(m).needs_draft_model])
def test_a_method_without_its_draft_model_is_refused(method: str) -> None:
    kind = methods.get(method)
    with pytest.raises(InvalidInput, match=f"{method} needs a draft model"):
        kind(kind.Hyperparameters(), Resources())


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"method must be one of autoregressive, speculative, .*, got telepathy"):
        methods.get("telepathy")


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ([], 5, "prompt has no tokens"),
        ([1], -1, "max_new_tokens must be at least 0, got -1"),
        ([1] * 200, 100, "has 200 tokens and 100 are to follow, but llama has room for 256: .* at most 56"),
        ([99], 5, "token id 99 is outside the vocabulary of llama, 0 to 30"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_before_work_starts(text: list[int], count: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(tiny.pair("llama"), "autoregressive", text, count)


class Adversary(Method):
    """Proposes whatever it is told to."""

    name = "Adversary"
    Hyperparameters = hyperparameters.Hyperparameters

    def __init__(self, resources: Resources, make: Callable[[Context], TokenTree]) -> None:
        super().__init__(None, resources)
        self.make = make
        self.verdicts: list[Verdict] = []

    def propose(self, context: Context) -> TokenTree:
        return self.make(context)

    def learn(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.booleans())
def test_no_proposal_can_change_the_text(rng: random.Random, sampled: bool) -> None:
    """Random bushes, empty drafts, drafts beyond the budget, siblings in any order - some right by chance or by design."""
    models = tiny.pair("llama", "sdpa")
    sampling = SAMPLED if sampled else Sampling()
    text, count = prompt(), 25
    wanted = plain(models[0].model, text, count, sampling)

    def make(context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        done = count - context.budget
        right = wanted[done : done + rng.randrange(9)]
        parent = 0
        for token in right:
            for _ in range(rng.randrange(3)):
                builder.add(rng.randrange(tiny.VOCABULARY), parent, Provenance(Source.DRAFT))
            parent = builder.add(token, parent, Provenance(Source.DRAFT)) or 0
        for _ in range(rng.randrange(6)):
            builder.add(rng.randrange(tiny.VOCABULARY), rng.randrange(len(builder)), Provenance(Source.DRAFT))
        for _ in range(rng.randrange(4)):
            builder.add_window(rng.randrange(tiny.VOCABULARY), rng.randrange(len(builder)), silent=rng.random() < 0.5)
        return builder.build()

    sampler = Sampler(sampling, tiny.VOCABULARY)
    adversary = Adversary(Resources(sampler), make)
    steps = list(decode(models[0], adversary, text, max_new_tokens=count, sampler=sampler))
    assert emitted(steps) == wanted
    assert len(adversary.verdicts) == len(steps)


def test_a_token_outside_the_vocabulary_is_a_bug_that_shows() -> None:
    def make(context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        builder.add(tiny.VOCABULARY, 0, Provenance(Source.DRAFT))
        return builder.build()

    sampler = Sampler(Sampling(), tiny.VOCABULARY)
    with pytest.raises(AssertionError, match="outside the target's vocabulary"):
        list(decode(tiny.pair("llama")[0], Adversary(Resources(), make), [1], max_new_tokens=5, sampler=sampler))
