"""The contract of every method, found by discovery: a new file is tested without being named here.

The oracle is plain decoding of the unwrapped transformers model, one token at a time, without any
cache.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
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
from ouroboros_core.tree import ROOT, WINDOW, Provenance, TokenTree, TreeBuilder
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
    accepted = rejected = bonus = 0
    for seed in range(5, 13):
        text = prompt(seed=seed)
        steps = run(models, method, text, 40, sampling, **NARROWEST.get(method, {}))
        assert emitted(steps) == plain(writer(models, method).model, text, 40, sampling)
        if sampling.temperature == 0:
            assert emitted(steps) == tiny.generated(writer(models, method).model, text, 40)
        accepted += sum(len(s.path) > 0 for s in steps)
        rejected += sum(s.kind == "correction" for s in steps)
        bonus += sum(s.kind == "bonus" and len(s.path) > 0 for s in steps)
        if method in ALONE or min(accepted, rejected, bonus) > 0:
            return
    raise AssertionError(
        f"the case shows {accepted} accepted, {rejected} rejected, {bonus} bonus steps: it proves "
        "too little"
    )


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
        left -= len(step.tokens)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_may_fill_the_model_to_its_last_position(method: str) -> None:
    for architecture in ("llama", "gpt2"):
        if not tiny.possible(architecture, method):
            continue
        models = tiny.pair(architecture)
        text = prompt(240)
        assert emitted(run(models, method, text, 16)) == plain(
            writer(models, method).model, text, 16
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
def test_the_text_ends_at_the_first_stop_token_wherever_it_arrives(
    method: str, sampling: Sampling
) -> None:
    """The first and every third token of a text is tried as the stop token, on text after text
    until every kind of position was among them."""
    models = tiny.pair("llama", "sdpa")
    settings: dict[str, Any] = (
        {"gamma": 2} if "gamma" in methods.get(method).Hyperparameters.settings() else {}
    )
    wanted = {"first", "path", "correction", "bonus"} if settings else {"first"}
    settings |= dict.fromkeys(NARROW.get(method, {}), 1)
    where: set[str] = set()
    for seed in range(5, 40):
        text = prompt(seed=seed)
        if method == "ngram":  # its contexts of two tokens have to come again
            text = [*text, *plain(models[0].model, text, 40, sampling), *text]
        whole = plain(writer(models, method).model, text, 40, sampling)
        for stop in {whole[0], *sorted(set(whole))[::3]}:
            stops = frozenset(
                {stop, text[0]}
            )  # two, of which one is in the prompt, where it stops nothing
            steps = run(models, method, text, 40, sampling, stop=stops, **settings)
            ends = next(n for n, token in enumerate(whole, 1) if token in stops)
            assert emitted(steps) == whole[:ends]
            where |= {"path" if steps[-1].target_token is None else str(steps[-1].kind)} | (
                {"first"} if ends == 1 else set()
            )
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
    for step in steps:
        assert len(step.tokens) >= 1
        assert step.width >= len(step.tree)
        assert all(step.tree.parents[b] == a for a, b in itertools.pairwise((0, *step.path)))
        assert Source.WINDOW not in {p.source for p in step.tree.provenance}
        assert (
            step.draft_passes == 0 or NEEDS[method] or method == "union"
        )  # which drafts where there is a draft


@pytest.mark.parametrize("method", METHODS)
def test_runs_do_not_touch_each_other(method: str) -> None:
    """Two texts in turn, token by token, on the same pair of models, equal the same texts alone;
    cold runs repeat exactly."""
    kind = methods.get(method)

    def begin(models: Any, seed: int) -> Any:
        sampler = Sampler(SAMPLED, tiny.VOCABULARY)
        resources = Resources(
            sampler,
            models[1],
            heads=heads,
            corpus=tiny.corpus("llama"),
            self_draft=tiny.self_draft(models[0]),
            candidate_generators=tiny.candidate_generators(models),
        )
        instance = controlled(methods.create(kind, kind.Hyperparameters(), resources), TYPICAL)
        return decode(
            writer(models, method), instance, prompt(seed=seed), max_new_tokens=30, sampler=sampler
        )

    def facts(steps: list[Step]) -> list[Any]:
        return [
            (s.tree, s.path, s.target_token, s.width, s.draft_passes, s.pool_size) for s in steps
        ]

    models = tiny.pair("llama", "sdpa")
    heads = tiny.drafters(models[0], HEADS)
    alone = [facts(list(begin(models, seed))) for seed in (5, 6)]
    together: list[list[Step]] = [[], []]
    for steps in itertools.zip_longest(begin(models, 5), begin(models, 6)):
        for mine, step in zip(together, steps, strict=True):
            mine.extend([step] if step is not None else [])
    assert [facts(mine) for mine in together] == alone


def test_a_pool_of_another_ngram_size_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match="n-grams of 9 tokens, but ngram_size is 4: set ngram_size to 9"
    ):
        run(tiny.pair("llama"), "ouroboros", prompt(), 5, memory=PhrasePool(9, 7))


@pytest.mark.parametrize("method", [m for m in METHODS if NEEDS[m]])
def test_a_method_without_what_it_needs_is_refused(method: str) -> None:
    kind = methods.get(method)
    with pytest.raises(
        InvalidInput,
        match=f"{method} needs {min(NEEDS[method]).phrase}: (name|in Python)|"
        f"{method} needs an EAGLE head: one",
    ):
        methods.create(kind, kind.Hyperparameters(), Resources())


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"method must be one of autoregressive, draft_only, speculative, .*, got telepathy",
    ):
        methods.get("telepathy")


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ([], 5, "prompt has no tokens"),
        ([1], -1, "max_new_tokens must be at least 0, got -1"),
        (
            [1] * 200,
            100,
            "has 200 tokens and 100 are to follow, but llama has room for 256: .* at most 56",
        ),
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
    wanted = beyond[:count]

    def make(context: Context) -> TokenTree:
        tokens, parents, silent = [context.root], [-1], set()

        def add(token: int, parent: int) -> int:
            tokens.append(token)
            parents.append(parent)
            return len(tokens) - 1

        done = count - context.remaining
        parent = 0
        for token in beyond[done : done + rng.randrange(9)]:
            for _ in range(rng.randrange(3)):
                add(
                    rng.choice([token, rng.randrange(tiny.VOCABULARY)]), parent
                )  # at times the right one twice
            parent = add(token, parent)
        for _ in range(rng.randrange(6)):
            add(rng.randrange(tiny.VOCABULARY), rng.randrange(len(tokens)))
        proposals = len(tokens)
        for _ in range(rng.randrange(4)):
            node = add(rng.randrange(tiny.VOCABULARY), rng.randrange(len(tokens)))
            silent |= {node} if rng.random() < 0.5 else set()
        origins = (
            [ROOT]
            + [Provenance(Source.DRAFT)] * (proposals - 1)
            + [WINDOW] * (len(tokens) - proposals)
        )
        return TokenTree(tuple(tokens), tuple(parents), tuple(origins), frozenset(silent))

    sampler = Sampler(sampling, tiny.VOCABULARY)
    adversary = Adversary(Resources(sampler), make)
    steps = list(decode(models[0], adversary, text, max_new_tokens=count, sampler=sampler))
    assert emitted(steps) == wanted
    assert len(adversary.results) == len(steps)


def test_a_token_outside_the_vocabulary_is_a_bug_that_shows() -> None:
    def make(context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        builder.add(tiny.VOCABULARY, 0, Provenance(Source.DRAFT))
        return builder.build()

    sampler = Sampler(Sampling(), tiny.VOCABULARY)
    with pytest.raises(AssertionError, match="outside the target's vocabulary"):
        list(
            decode(
                tiny.pair("llama")[0],
                Adversary(Resources(), make),
                [1],
                max_new_tokens=5,
                sampler=sampler,
            )
        )


def test_every_file_beside_the_parts_is_one_method() -> None:
    """Oracle: the names of the files; what several methods share is in `parts`."""
    folder = Path(methods.__file__).parent
    files = {f"{methods.__name__}.{file.stem}" for file in folder.glob("[!_]*.py")}
    defined = [method.__module__ for method in methods.available().values()]
    assert sorted(defined) == sorted(files)
