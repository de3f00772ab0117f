"""The settings of the papers: whole, exact, and nothing proposed that a paper does not have."""

from __future__ import annotations

from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import parse, read_spec
from ouroboros_core.decoding.trace import Step
from ouroboros_core.errors import InvalidInput
from ouroboros_core.hyperparameters import AUTO
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance
from tests import tiny

PUBLISHED = {m.id: dict(m.published) for m in methods.available().values() if m.published}
MECHANISMS: dict[str, set[Source | Learned]] = {
    "speculative": {Source.DRAFT},
    "multi_candidate": {Source.DRAFT},
    "spectr": {Source.DRAFT},
    "cape": {Source.DRAFT},
    "prompt_lookup": {Source.COPY},
    "rest": {Source.CORPUS},
    "token_recycling": {Source.RECYCLED},
    "eagle2": {Source.DRAFT},
    "medusa": {Source.DRAFT},
    "glide": {Source.DRAFT},
    "lookahead": {Learned.LOOKAHEAD},
    "ouroboros": {Source.DRAFT, Learned.LOOKAHEAD, Learned.VERIFICATION, Learned.HISTORY},
    "sam": {Source.COPY, Source.CORPUS, Source.RECYCLED},
}
"""What each paper proposes tokens by; phrases by where they are learned."""


def mechanism(origin: Provenance) -> Source | Learned:
    phrase = origin.source in (Source.PHRASE, Source.SUFFIX)
    return origin.learned if phrase and origin.learned else origin.source


def run(method: str, seed: int, sampling: Sampling) -> list[Step]:
    """With nothing automatic, since `fixed` has a value for every such setting already."""
    models = tiny.pair("llama")
    return tiny.run(models, method, tiny.prompt(seed=seed), 16, sampling, **PUBLISHED[method])


@pytest.mark.parametrize("method", PUBLISHED)
def test_a_paper_says_every_amount(method: str) -> None:
    kind = methods.get(method)
    chosen = kind.Hyperparameters.parse(PUBLISHED[method])
    assert AUTO not in chosen.model_dump().values()
    assert read_spec(f"{method}[published]", Sampling()).hyperparameters == chosen
    assert MECHANISMS.keys() == PUBLISHED.keys()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=3)])
@pytest.mark.parametrize("method", PUBLISHED)
def test_the_text_is_plain_decodings_and_every_token_comes_from_where_the_paper_says(
    method: str, sampling: Sampling
) -> None:
    model = tiny.writer(tiny.pair("llama"), method).model
    seen: set[Any] = set()
    for seed in (5, 6):
        steps = run(method, seed, sampling)
        expected = tiny.plain(model, tiny.prompt(seed=seed), 16, sampling)
        assert tiny.emitted(steps) == expected
        for step in steps:
            tree = step.tree
            origins = [tree.provenance[node] for node in range(1, tree.proposals)]
            seen |= {mechanism(origin) for origin in origins}
            # Phrases stand behind the draft there, never in its place.
            assert method != "ouroboros" or Source.PHRASE not in {o.source for o in origins}
    assert seen and seen <= MECHANISMS[method]


def test_settings_can_follow_a_preset() -> None:
    spec = read_spec("lookahead[published, window_size=7]", Sampling())
    assert spec.hyperparameters.model_dump() == PUBLISHED["lookahead"] | {"window_size": 7}
    assert [one.text for one in parse("autoregressive,lookahead[published]", Sampling())] == [
        "autoregressive",
        "lookahead[published]",
    ]
    with pytest.raises(InvalidInput, match="union has no published settings"):
        read_spec("union[published]", Sampling())
    with pytest.raises(InvalidInput, match="preset must be one of auto, published, got best"):
        methods.preset(methods.get("sam"), "best")


def test_the_first_full_occurrence_is_that_of_the_function_it_is_taken_from() -> None:
    """The oracle slides a window over the text, as the description of prompt lookup says."""
    text = tiny.prompt(60, seed=3)
    text = [token % 4 for token in text]
    for end in range(8, 60):
        known = Occurrences(3)
        known.extend(text[:end])
        for following in (1, 4, 10):
            wanted = []
            for n in (3, 2, 1):
                starts = (
                    start
                    for start in range(end - n)
                    if text[start : start + n] == text[end - n : end]
                    and start + n + following <= end
                )
                wanted = [(n, start + n) for start in list(starts)[:1]]
                if wanted:
                    break
            assert known.first_full(1, following) == wanted
