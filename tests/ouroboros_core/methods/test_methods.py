"""The contract of every method, found by discovery: a new file is tested without being named here.

The oracle is plain decoding of the unwrapped transformers model, one token at a time, without any
cache.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.adaptive.cost_model import TYPICAL
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.base import Context, Method, Resources, VerificationResult
from ouroboros_core.models.heads.recipes import HEADS
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.settings import Hyperparameters as Settings
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import ROOT, WINDOW, Provenance, TokenTree, chain
from tests import tiny
from tests.tiny import emitted, plain, prompt, run, writer

METHODS = tuple(methods.available())
NEEDS = {m.id: methods.needed(m, m.Hyperparameters()) for m in methods.available().values()}
ALONE = tuple(m.id for m in methods.available().values() if not m.proposes)
"""Methods that propose nothing."""
NARROW: dict[str, dict[str, Any]] = {
    "cape": {"max_candidates": 2},
    "graph": {"candidates": 2, "sibling_threshold": 0.5},
    "superposed": {"drafts": 2},
    "jacobi": {"block_size": 2},
}
"""For methods whose candidates would else hold every token that the tiny targets may say, or whose
whole block is never accepted."""
NARROWEST = {
    **NARROW,
    "multi_candidate": {"k_config": "2,1"},
    "ngram_tables": {"kind": "simple", "ngram_size": 2, "num_tokens": 2},
}
"""For whole texts, in which a wide tree may hold every token of a target that repeats itself, and a
long draft is never accepted whole."""
SAMPLED = Sampling(temperature=0.7, top_k=20, top_p=0.95, seed=2)


def check_equal(architecture: str, attention: str, method: str, sampling: Sampling) -> None:
    """Text equals plain decoding, on prompt after prompt until an accepted, a rejected and a bonus
    step were among them."""
    models = tiny.pair(architecture, attention)
    shown: Counter[str] = Counter()
    for seed in range(5, 13):
        text = prompt(seed=seed)
        steps = run(models, method, text, 40, sampling, **NARROWEST.get(method, {}))
        assert emitted(steps) == plain(writer(models, method).model, text, 40, sampling)
        if sampling.temperature == 0:
            assert emitted(steps) == tiny.generated(writer(models, method).model, text, 40)
        for step in steps:
            shown["accepted"] += len(step.path) > 0
            shown["rejected"] += step.kind == "correction"
            shown["bonus"] += step.kind == "bonus" and len(step.path) > 0
        if method in ALONE or min(shown.values()) > 0:
            return
    raise AssertionError(f"the case shows {dict(shown)} steps: it proves too little")


SAMPLINGS = (
    Sampling(),
    Sampling(acceptance="rejection"),
    *(Sampling(temperature=0.7, top_k=20, top_p=0.95, seed=seed) for seed in tiny.SEEDS),
)
MODELS = list(itertools.product(tiny.EIGHT, ("eager", "sdpa")))
CASES = [
    (*model, method, rule)
    for model in MODELS
    for method in METHODS
    for rule in SAMPLINGS
    if tiny.possible(model[0], method)
]
SLICE = [
    (*model, method, SAMPLINGS[(row + column) % len(SAMPLINGS)])
    for row, model in enumerate(MODELS)
    for column, method in enumerate(METHODS)
    if tiny.possible(model[0], method)
]
"""Every method on every model by one rule, and by every rule on some model."""


def named(value: object) -> str | None:
    """How a rule is called in a test's name."""
    if not isinstance(value, Sampling):
        return None
    if value.temperature:
        return f"seed{value.seed}"
    return "greedy" if value.acceptance == "match" else "rejection"


@pytest.mark.parametrize(("architecture", "attention", "method", "sampling"), SLICE, ids=named)
def test_the_text_is_that_of_plain_decoding(
    architecture: str, attention: str, method: str, sampling: Sampling
) -> None:
    check_equal(architecture, attention, method, sampling)


@pytest.mark.exact
@pytest.mark.parametrize(("architecture", "attention", "method", "sampling"), CASES, ids=named)
def test_the_text_is_that_of_plain_decoding_everywhere(
    architecture: str, attention: str, method: str, sampling: Sampling
) -> None:
    check_equal(architecture, attention, method, sampling)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 17])
@pytest.mark.parametrize("method", METHODS)
def test_the_budget_is_met_exactly_and_no_draft_goes_beyond_it(method: str, count: int) -> None:
    models = tiny.pair("llama")
    text = prompt(1)
    steps = run(models, method, text, count)
    assert emitted(steps) == plain(writer(models, method).model, text, count)
    left = count
    for step in steps:
        assert max(step.tree.depths) <= left - 1
        assert left > 1 or not step.draft_passes, "the last token needs no draft"
        left -= len(step.tokens)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_may_fill_the_model_to_its_last_position(method: str) -> None:
    text = prompt(240)
    for architecture in ("llama", "gpt2"):
        if tiny.possible(architecture, method):
            models = tiny.pair(architecture)
            expected = plain(writer(models, method).model, text, 16)
            assert emitted(run(models, method, text, 16)) == expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
def test_the_text_ends_at_the_first_stop_token_wherever_it_arrives(
    method: str, sampling: Sampling
) -> None:
    """The first and every third token of a text is tried as the stop token, on text after text
    until every kind of position was among them."""
    models = tiny.pair("llama", "sdpa")
    drafts = "gamma" in methods.get(method).Hyperparameters.settings()
    settings: dict[str, Any] = {"gamma": 2} if drafts else {}
    settings |= dict.fromkeys(NARROW.get(method, {}), 1)
    wanted = {"first", "path", "correction", "bonus"} if drafts else {"first"}
    where: set[str] = set()
    for seed in range(5, 40):
        text = prompt(seed=seed)
        if method == "ngram":  # its contexts of two tokens have to come again
            text = [*text, *plain(models[0].model, text, 40, sampling), *text]
        whole = plain(writer(models, method).model, text, 40, sampling)
        for stop in {whole[0], *sorted(set(whole))[::3]}:
            stops = frozenset({stop, text[0]})  # the one in the prompt stops nothing there
            steps = run(models, method, text, 40, sampling, stop=stops, **settings)
            ends = next(n for n, token in enumerate(whole, 1) if token in stops)
            assert emitted(steps) == whole[:ends]
            where.add("path" if steps[-1].target_token is None else str(steps[-1].kind))
            where |= {"first"} if ends == 1 else set()
        if wanted <= where:
            return
    raise AssertionError(f"the case shows stops at {sorted(where)} only")


@pytest.mark.parametrize("method", METHODS)
def test_what_a_step_says_adds_up(method: str) -> None:
    models = tiny.pair("qwen3", "sdpa")
    before = writer(models, method).passes
    steps = run(models, method, prompt(), 60, SAMPLED)
    assert writer(models, method).passes - before == len(steps)
    assert sum(len(s.tokens) for s in steps) == 60
    assert [s.index for s in steps] == list(range(len(steps)))
    assert (len(steps) < 60) == any(s.path for s in steps)
    drafts = NEEDS[method] or method == "union"  # which drafts where there is a draft
    for step in steps:
        assert len(step.tokens) >= 1
        assert step.width >= len(step.tree)
        assert all(step.tree.parents[b] == a for a, b in itertools.pairwise((0, *step.path)))
        assert Source.WINDOW not in {p.source for p in step.tree.provenance}
        assert step.draft_passes == 0 or drafts


@pytest.mark.parametrize("method", METHODS)
def test_runs_do_not_touch_each_other(method: str) -> None:
    """Two texts in turn, token by token, on the same pair of models, equal the same texts alone;
    cold runs repeat exactly."""
    kind, models = methods.get(method), tiny.pair("llama", "sdpa")
    given: dict[str, Any] = {"heads": tiny.drafters(models[0], HEADS)}
    given |= {"corpus": tiny.corpus("llama"), "self_draft": tiny.self_draft(models[0])}

    def begin(seed: int) -> Iterator[Step]:
        sampler = Sampler(SAMPLED, tiny.VOCABULARY)
        candidates = tiny.candidate_generators(models)
        resources = Resources(sampler, models[1], candidate_generators=candidates, **given)
        instance = controlled(methods.create(kind, kind.Hyperparameters(), resources), TYPICAL)
        target, text = writer(models, method), prompt(seed=seed)
        return decode(target, instance, text, max_new_tokens=30, sampler=sampler)

    def facts(s: Step) -> tuple[Any, ...]:
        return s.tree, s.path, s.target_token, s.width, s.draft_passes, s.pool_size

    alone = [[facts(step) for step in begin(seed)] for seed in (5, 6)]
    both = list(itertools.zip_longest(begin(5), begin(6)))
    for mine, expected in zip(zip(*both, strict=True), alone, strict=True):
        assert [facts(step) for step in mine if step] == expected


def test_a_pool_of_another_ngram_size_is_refused() -> None:
    said = "n-grams of 9 tokens, but ngram_size is 4: set ngram_size to 9"
    with pytest.raises(InvalidInput, match=said):
        run(tiny.pair("llama"), "ouroboros", prompt(), 5, memory=PhrasePool(9, 7))


@pytest.mark.parametrize("method", [m for m in METHODS if NEEDS[m]])
def test_a_method_without_what_it_needs_is_refused(method: str) -> None:
    kind, phrase = methods.get(method), min(NEEDS[method]).phrase
    said = f"{method} needs {phrase}: (name|in Python)|{method} needs an EAGLE(-3)? head: one"
    with pytest.raises(InvalidInput, match=said):
        methods.create(kind, kind.Hyperparameters(), Resources())


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    said = "method must be one of autoregressive, draft_only, speculative, .*, got telepathy"
    with pytest.raises(InvalidInput, match=said):
        methods.get("telepathy")


FULL = "has 200 tokens and 100 are to follow, but llama has room for 256: .* at most 56"


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ([], 5, "prompt has no tokens"),
        ([1], -1, "max_new_tokens must be at least 0, got -1"),
        ([1] * 200, 100, FULL),
        ([99], 5, "token id 99 is outside the vocabulary of llama, 0 to 30"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_before_work_starts(
    text: list[int], count: int, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(tiny.pair("llama"), "autoregressive", text, count)


class Adversary(Method):
    """Proposes whatever it is told to."""

    name = "Adversary"
    Hyperparameters = Settings

    def __init__(self, resources: Resources, make: Callable[[Context], TokenTree]) -> None:
        super().__init__(None, resources)
        self.make = make
        self.results: list[VerificationResult] = []

    def propose(self, context: Context) -> TokenTree:
        return self.make(context)

    def learn(self, result: VerificationResult) -> None:
        self.results.append(result)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.booleans())
def test_no_proposal_can_change_the_text(rng: random.Random, sampled: bool) -> None:
    """Random bushes, empty drafts, right drafts beyond the budget, duplicate siblings in any
    order."""
    models = tiny.pair("llama", "sdpa")
    sampling = SAMPLED if sampled else Sampling()
    text, count = prompt(), 25
    beyond = plain(models[0].model, text, count + 9, sampling)

    def make(context: Context) -> TokenTree:
        tokens, parents, silent = [context.root], [-1], set()

        def add(token: int, parent: int) -> int:
            tokens.append(token)
            parents.append(parent)
            return len(tokens) - 1

        done, parent = count - context.remaining, 0
        for token in beyond[done : done + rng.randrange(9)]:
            for _ in range(rng.randrange(3)):  # at times the right one twice
                add(rng.choice([token, rng.randrange(tiny.VOCABULARY)]), parent)
            parent = add(token, parent)
        for _ in range(rng.randrange(6)):
            add(rng.randrange(tiny.VOCABULARY), rng.randrange(len(tokens)))
        origins = [ROOT, *[Provenance(Source.DRAFT)] * (len(tokens) - 1)]
        for _ in range(rng.randrange(4)):
            node = add(rng.randrange(tiny.VOCABULARY), rng.randrange(len(tokens)))
            origins.append(WINDOW)
            silent |= {node} if rng.random() < 0.5 else set()
        return TokenTree(tuple(tokens), tuple(parents), tuple(origins), frozenset(silent))

    sampler = Sampler(sampling, tiny.VOCABULARY)
    adversary = Adversary(Resources(sampler), make)
    steps = list(decode(models[0], adversary, text, max_new_tokens=count, sampler=sampler))
    assert emitted(steps) == beyond[:count]
    assert len(adversary.results) == len(steps)


def test_a_token_outside_the_vocabulary_is_a_bug_that_shows() -> None:
    def make(context: Context) -> TokenTree:
        return chain(context.root, [tiny.VOCABULARY], Provenance(Source.DRAFT))

    adversary, sampler = Adversary(Resources(), make), Sampler(Sampling(), tiny.VOCABULARY)
    target = tiny.pair("llama")[0]
    with pytest.raises(AssertionError, match="outside the target's vocabulary"):
        list(decode(target, adversary, [1], max_new_tokens=5, sampler=sampler))


def test_every_file_beside_the_parts_is_one_method() -> None:
    """Oracle: the names of the files; what several methods share is in `parts`."""
    folder = Path(methods.__file__).parent
    files = {f"{methods.__name__}.{file.stem}" for file in folder.glob("[!_]*.py")}
    defined = [method.__module__ for method in methods.available().values()]
    assert sorted(defined) == sorted(files)
