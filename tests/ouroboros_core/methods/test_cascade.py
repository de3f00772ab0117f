"""Cascade speculative drafting: the order of its chain, and what a lenient review may do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.methods.cascade import LONGEST_MATCH, PUBLISHED
from ouroboros_core.methods.parts.base import Context, StepBudget
from ouroboros_core.sampling import Sampling, softmax
from ouroboros_core.settings import read_settings
from ouroboros_core.sources import Source
from tests import tiny
from tests.seeded_models import check_places, started

KIND = methods.get("cascade")
TEXT = (0, 1, 2, 3, 0, 1)
SIZE = 3
"""Tokens of the vocabulary where counts are held against probabilities."""
RULES = [Sampling(), *(Sampling(temperature=1.0, acceptance=a) for a in ("match", "rejection"))]


def method(
    sampling: Sampling,
    matrix: str,
    leniency: float = 1.0,
    stop: frozenset[int] = frozenset(),
    size: int = 6,
    corpus: Corpus | None = None,
) -> Any:
    settings = {"k_matrix": matrix, "leniency": leniency}
    text = TEXT[:2] if size < 6 else TEXT
    return started("cascade", settings, sampling, size, text, stop_tokens=stop, corpus=corpus)


def sources(tree: Any) -> list[Source]:
    return [origin.source for origin in tree.provenance[1:]]


@pytest.mark.parametrize("sampling", RULES)
def test_the_draft_model_writes_the_first_tokens_and_the_text_the_later_ones(
    sampling: Sampling,
) -> None:
    """With a strict review they are what speculative decoding drafts, in fewer passes."""
    plain = started("speculative", {"gamma": 16}, sampling, text=TEXT)
    passes = 0
    for step in range(20):
        text = (*TEXT, step % 6, step // 6)
        made = method(sampling, "6,4;0,3")
        tree = made.propose(Context(text, 50, step))
        drafted = sources(tree).count(Source.DRAFT)
        assert sources(tree) == [Source.DRAFT] * drafted + [Source.COPY] * (len(tree) - 1 - drafted)
        assert tree.parents == tuple(range(-1, len(tree) - 1))
        assert 6 <= drafted <= 9 and len(tree) - 1 <= max(10, drafted)
        expected = plain.propose(Context(text, 50, step)).tokens
        assert tree.tokens[: 1 + drafted] == expected[: 1 + drafted]
        drawn = drafted if sampling.rule.needs_probabilities else 0
        has_q = [tree.drawn_from(node) is not None for node in tree.proposals]
        assert has_q == [node <= drawn for node in tree.proposals]
        passes += made.draft.model.passes
    assert passes < 6 * 20


def test_a_copy_goes_on_from_the_first_place_where_the_longest_end_occurs() -> None:
    """The oracle searches the text from its beginning, the longest end first."""
    for seed in range(30):
        text = [token % 4 for token in tiny.prompt(40, seed=seed)]
        known, places = text[:30], Occurrences(LONGEST_MATCH)
        places.extend(known)
        wanted = None
        for n in range(LONGEST_MATCH, 0, -1):
            ends = (e for e in range(n, 30) if known[e - n : e] == text[-n:])
            wanted = wanted or next(((n, end) for end in ends), None)
        assert places.first(text) == wanted
    assert Occurrences(3).first([1]) is None


def test_behind_a_token_that_is_new_to_the_text_stands_what_follows_it_in_the_corpus() -> None:
    """The chain of bigrams goes on until a token is known, from where it is copied."""
    corpus = Corpus.build([[4, 5, 0], [4, 5, 2], [4, 3], [1, 4, 5]])
    made = method(Sampling(), "1,5;0,1", corpus=corpus)
    made.draft.model._after = lambda _: np.eye(6)[4]
    tree = made.propose(Context(TEXT, 50, 0))
    assert tree.tokens == (1, 4, 5, 0, 1, 2, 3)
    assert sources(tree) == [Source.DRAFT] + [Source.CORPUS] * 2 + [Source.COPY] * 3


def test_copies_of_the_chain_follow_the_drafted_tokens() -> None:
    """With a draft model that is sure of a cycle, the whole chain is that cycle."""
    made = method(Sampling(), "2,5;0,2")
    made.draft.model._after = lambda last: np.array(
        [9.0 * (token == (last[-1] + 1) % 4) for token in range(6)]
    )
    tree = made.propose(Context(TEXT, 50, 0))
    assert tree.tokens == (1, 2, 3, 0, 1, 2, 3, 0)
    assert made.draft.model.passes == 1
    assert sources(tree) == [Source.DRAFT] * 3 + [Source.COPY] * 4
    assert [origin.position for origin in tree.provenance[4:]] == [5, 2, 3, 4]


def test_a_lenient_review_keeps_what_has_enough_probability_and_says_it_was_no_draw() -> None:
    """The oracle asks the draft model; the same steps with leniency 1 keep less."""
    sampling = Sampling(temperature=1.0, acceptance="rejection", seed=3)
    kept = 0
    for step in range(60):
        text = (*TEXT, step % 6, step // 6 % 6)
        made = method(sampling, "4,0;0,3", leniency=5.0)
        tree = made.propose(Context(text, 50, step))
        for node in range(1, len(tree)):
            q = softmax(made.draft.model.after((*text, *tree.tokens[1:node])))
            drawn = tree.drawn_from(node)
            if tree.provenance[node].source is Source.COPY:
                kept += 1
                assert drawn is None and q[tree.tokens[node]] > 1 / 5
            else:
                assert drawn == pytest.approx(q)
    assert kept > 20


def test_a_chain_ends_with_the_text_at_a_stop_token_and_with_the_budget() -> None:
    for remaining in (1, 2, 3, 7):
        tree = method(Sampling(), "4,4;0,3", 3.0).propose(Context(TEXT, remaining, 0))
        assert len(tree) <= remaining
    stopped = method(Sampling(), "4,9;0,3", 6.0, frozenset(range(6))).propose(Context(TEXT, 50, 0))
    assert len(stopped) == 2

    class Nothing(StepBudget):
        def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
            return False

    made = method(Sampling(), "4,3;0,3")
    copied = made.propose(Context(TEXT, 50, 0, Nothing()))
    assert copied.tokens == (1, 2, 3, 0) and made.draft.model.passes == 0


@pytest.mark.parametrize("rule", ["match", "rejection", "block"])
@pytest.mark.parametrize(("matrix", "leniency"), [("2,1;0,2", 1.0), ("1,2;0,2", 4.0)])
def test_drafted_corrected_and_bonus_tokens_follow_the_target(
    rule: str, matrix: str, leniency: float
) -> None:
    """Counts by place in the step and by the two tokens before, which are all that the target's
    probabilities depend on."""
    sampling = Sampling(temperature=1.0, seed=4, acceptance=rule)
    check_places(method(sampling, matrix, leniency, size=SIZE), sampling, 5_000, SIZE)


def test_a_matrix_is_read_with_commas_or_crosses() -> None:
    parse = KIND.Hyperparameters.parse
    assert parse({}).model_dump() == {"k_matrix": "auto", "leniency": 3.0}
    assert parse({"k_matrix": " 13, 10; 0,10", "leniency": 3}).model_dump() == PUBLISHED
    assert parse(read_settings("k_matrix=13x10;0x10")).model_dump() == PUBLISHED


@pytest.mark.parametrize(
    "matrix",
    ["", "1", "1,1", "1,1;1,1", "0,1;0,1", "1,1;0,0", "33,1;0,1", "1,1;0,1;0,0", "a,1;0,1"],
)
def test_another_matrix_is_refused_with_what_is_allowed(matrix: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        KIND.Hyperparameters.parse({"k_matrix": matrix})
    assert str(caught.value) == (
        "k_matrix must be auto, or two rows of two numbers up to 32, on the diagonal at least 1 "
        f"and below it 0, as in 13,10;0,10, got {matrix}"
    )
