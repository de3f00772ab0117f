"""The settings of the papers: whole, exact; and neither by them nor by default is anything proposed
that a paper does not have."""

from __future__ import annotations

from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.benchmark.entrants import parse, read_spec
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.methods.lookahead import LONG_ENOUGH
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import AUTO
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Learned
from tests import tiny

PUBLISHED = {m.id: dict(m.published) for m in methods.available().values() if m.published}
DRAFTING = (
    *("speculative", "draft_verify", "hf_assisted", "hf_candidates", "hf_early_exit"),
    *("hf_universal", "multi_candidate", "spectr", "cape", "graph", "superposed", "eagle2"),
    *("eagle3", "mtp"),
    *("medusa", "glide", "parallel_spec", "dspark", "hf_mtp", "hf_dflash", "hf_tli"),
)
LEARNED = (Learned.LOOKAHEAD, Learned.VERIFICATION, Learned.HISTORY)
MECHANISMS: dict[str, set[tuple[Source, Learned | None]]] = {
    **{method: {(Source.DRAFT, None)} for method in DRAFTING},
    **{method: {(Source.COPY, None)} for method in ("prompt_lookup", "hf_prompt_lookup")},
    **{
        m: {(Source.COPY, None), (Source.COPY, Learned.HISTORY)} for m in ("suffix", "ngram_tables")
    },
    "autoregressive": set(),
    "draft_only": set(),
    "ngram": {(Source.NGRAM, None)},
    "cascade": {(Source.DRAFT, None), (Source.COPY, None), (Source.CORPUS, None)},
    "jacobi": {(Source.PHRASE, Learned.JACOBI)},
    "rest": {(Source.CORPUS, None)},
    "token_recycling": {(Source.RECYCLED, None)},
    "lookahead": {(Source.PHRASE, Learned.LOOKAHEAD)},
    "ouroboros": {(Source.DRAFT, None), *((Source.SUFFIX, learned) for learned in LEARNED)},
    "sam": {(Source.COPY, None), (Source.CORPUS, None), (Source.RECYCLED, None)},
}
"""What each paper proposes tokens by, and where its phrases are learned; of every method but
`union`, which is ours."""
CHAIN = {"speculative", "ngram", "prompt_lookup", "suffix", "jacobi", "ngram_tables"}
CHAIN |= {"hf_assisted", "hf_candidates", "hf_early_exit", "hf_prompt_lookup", "hf_universal"}
CHAIN |= {"mtp", "hf_mtp", "hf_dflash", "hf_tli"}
"""Papers that propose one chain."""
FREE = Costs(PassCosts((1, 100), (1.0, 1.0)), PassCosts((1, 100), (1e-9, 1e-9)))
"""Nothing is dear, so that all is proposed."""


def beyond(method: str, steps: list[Step]) -> set[Any]:
    """What is proposed in a run that the paper does not have: where it comes from, or where it
    stands."""
    found: set[Any] = set()
    for step in steps:
        tree = step.tree
        origins = [tree.provenance[node] for node in tree.proposals]
        sources = {origin.source for origin in origins}
        found |= {(origin.source, origin.learned) for origin in origins}
        if method in CHAIN and list(tree.parents) != list(range(-1, len(tree.proposals))):
            found.add("a branch")
        first = {tree.provenance[node].source for node in tree.children(0)}
        if method == "ouroboros" and Source.SUFFIX in first:
            found.add("a phrase that is not behind a draft")
        if method == "token_recycling" and step.index == 0 and sources:
            found.add("candidates before the first pass")
        if method == "sam" and len(sources) > 1:
            found.add("several sources in one tree")
    return found - MECHANISMS[method]


def by_default(method: str, **settings: Any) -> list[Step]:
    """Two runs behind a prompt that repeats itself."""
    models = tiny.pair("llama")
    runs = []
    for seed in (5, 6):
        text = tiny.prompt(seed=seed)
        text = [*text, *tiny.plain(models[0].model, text, 40), *text]
        if method in ("eagle2", "eagle3"):  # positions like those at which its head was trained
            text = text[:30]
        runs += tiny.run(models, method, text, LONG_ENOUGH, automatic=True, costs=FREE, **settings)
    return runs


def run(method: str, seed: int, sampling: Sampling) -> list[Step]:
    """With nothing automatic, since `fixed` has a value for every such setting already."""
    models = tiny.pair("llama")
    return tiny.run(models, method, prompt(method, seed), 16, sampling, **PUBLISHED[method])


def prompt(method: str, seed: int) -> list[int]:
    """A prompt; one that repeats itself for a method that matches twelve tokens."""
    return tiny.prompt(seed=seed) * (4 if method == "ngram_tables" else 1)


@pytest.mark.parametrize("method", PUBLISHED)
def test_a_paper_says_every_amount(method: str) -> None:
    kind = methods.get(method)
    chosen = kind.Hyperparameters.parse(PUBLISHED[method])
    assert AUTO not in chosen.model_dump().values()
    assert read_spec(f"{method}[published]", Sampling()).hyperparameters == chosen
    assert PUBLISHED.keys() <= MECHANISMS.keys()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=3)])
@pytest.mark.parametrize("method", PUBLISHED)
def test_the_text_is_plain_decodings_and_every_token_comes_from_where_the_paper_says(
    method: str, sampling: Sampling
) -> None:
    model = tiny.writer(tiny.pair("llama"), method).model
    proposed = 0
    for seed in (5, 6):
        steps = run(method, seed, sampling)
        expected = tiny.plain(model, prompt(method, seed), 16, sampling)
        assert tiny.emitted(steps) == expected
        proposed += sum(len(step.tree.proposals) for step in steps)
        assert not beyond(method, steps)
    assert proposed


@pytest.mark.parametrize("method", MECHANISMS)
def test_by_default_nothing_is_proposed_that_the_paper_does_not_have(method: str) -> None:
    """Every amount is auto, and none is dear."""
    steps = by_default(method)
    assert methods.get(method).proposes == any(len(step.tree.proposals) for step in steps)
    assert not beyond(method, steps)
    assert MECHANISMS.keys() | {"union"} == methods.available().keys()


EXTENDED = [
    m.id for m in methods.available().values() if "extended" in m.Hyperparameters.settings()
]


@pytest.mark.parametrize("method", EXTENDED)
def test_what_goes_beyond_a_paper_is_one_switch_that_is_off(method: str) -> None:
    """And it is seen where it is on: the test of the defaults fails were that the default."""
    assert methods.get(method).Hyperparameters.settings()["extended"].default is False
    assert beyond(method, by_default(method, extended=True))
    assert len(EXTENDED) == 5, "all methods that do more than their papers"


def test_settings_can_follow_a_preset() -> None:
    spec = read_spec("lookahead[published, window_size=7]", Sampling())
    assert spec.hyperparameters.model_dump() == PUBLISHED["lookahead"] | {"window_size": 7}
    both = "autoregressive,lookahead[published]"
    assert [one.text for one in parse(both, Sampling())] == both.split(",")
    assert methods.label("lookahead", PUBLISHED["lookahead"]) == "lookahead[published]"
    changed = PUBLISHED["lookahead"] | {"extended": True}
    assert methods.label("lookahead", changed) == "lookahead[extended=true]"
    assert methods.label("lookahead", spec.hyperparameters.model_dump()) == "lookahead"
    assert methods.label("a method of another program", {"extended": 1}).startswith("a method")
    with pytest.raises(InvalidInput, match="union has no published settings"):
        read_spec("union[published]", Sampling())
    with pytest.raises(InvalidInput, match="preset must be one of auto, published, got best"):
        methods.preset(methods.get("sam"), "best")


def test_the_first_full_occurrence_is_that_of_the_function_it_is_taken_from() -> None:
    """The oracle slides a window over the text, as the description of prompt lookup says."""
    text = [token % 4 for token in tiny.prompt(60, seed=3)]
    for end in range(8, 60):
        known = Occurrences(3)
        known.extend(text[:end])
        for following in (1, 4, 10):
            wanted: list[tuple[int, int]] = []
            for n in (3, 2, 1):
                last = text[end - n : end]
                starts = range(min(end - n, end - n - following + 1))
                wanted = wanted or [(n, s + n) for s in starts if text[s : s + n] == last][:1]
            assert known.first_full(1, following) == wanted
