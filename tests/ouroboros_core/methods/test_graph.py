"""Graph-structured speculative decoding: what is merged, what is copied, and that the text stays
the target's."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Context
from ouroboros_core.sampling import Sampling, likely, softmax, without
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import TokenTree
from tests import tiny
from tests.seeded_models import REJECTING, SeededModel, check_places, chi_square, started
from tests.traces import make_trace

TEXT = (0, 1)
EVERYTHING = {"sibling_threshold": 0.0, "prob_threshold": 0.0, "tree_size": 128}


class Counted(SeededModel):
    """Counts the rows that it computes."""

    rows = 0

    def evaluate(self, context: Any, tree: TokenTree) -> Any:
        self.rows += len(tree)
        return super().evaluate(context, tree)

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        self.rows -= len(evaluation.tree)
        return super().extend(evaluation, tree)


def method(sampling: Sampling, vocabulary: int = 6, **settings: Any) -> Any:
    draft = Counted(5, vocabulary, noise=0.7)
    sizes = {"tree_depth": 4, "candidates": 2, **settings}
    return started("graph", sizes, sampling, vocabulary, draft_model=draft)


def texts(tree: TokenTree) -> dict[int, tuple[int, ...]]:
    """The text that ends with each node."""
    return {node: (*TEXT, *tree.tokens_to(node)) for node in range(len(tree))}


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=2)])
def test_merging_saves_rows_and_loses_nothing_where_the_last_tokens_decide(
    sampling: Sampling,
) -> None:
    """The oracle is the tree without merging: the model looks at two tokens alone, so that nodes
    which share them have equal continuations, greedy at any depth."""
    saved = 0
    for vocabulary, seed in itertools.product((3, 4), range(5)):
        text = (seed % 3, 1)
        whole, merged = (
            method(sampling, vocabulary, merge_tokens=count, **EVERYTHING) for count in (0, 2)
        )
        trees = [one.propose(Context(text, 50, seed)) for one in (whole, merged)]
        assert whole.notes.draft_rows_saved == 0
        saved += merged.notes.draft_rows_saved
        rows = whole.draft.model.rows - merged.draft.model.rows
        assert rows >= merged.notes.draft_rows_saved
        if not sampling.temperature:
            assert set(texts(trees[0]).values()) <= set(texts(trees[1]).values())
        assert whole.draft.model.passes >= merged.draft.model.passes
    assert saved > 20


@pytest.mark.parametrize("rule", ["greedy", "match", "rejection"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_copy_stands_where_another_branch_has_the_same_tokens_before_it(
    count: int, rule: str
) -> None:
    """The oracle looks through the tree. Only what was drawn at its place has probabilities that it
    was drawn from."""
    sampling = Sampling() if rule == "greedy" else Sampling(temperature=1.0, acceptance=rule)
    copies = 0
    for step in range(6):
        made = method(sampling, 4, merge_tokens=count, **EVERYTHING | {"tree_size": 60})
        tree = made.propose(Context(TEXT, 50, step))
        assert len(tree) <= 61
        whole = texts(tree)
        drafted = [n for n in range(len(tree)) if not match(tree, n)]
        for node in range(1, len(tree)):
            assert (tree.drawn_from(node) is None) == (match(tree, node) > 0 or rule != "rejection")
            if match(tree, node):
                copies += 1
                assert match(tree, node) >= count
                alike = [n for n in drafted if whole[n][-1 - count :] == whole[node][-1 - count :]]
                assert alike
                if not match(tree, tree.parents[node]):
                    assert set(alike) - set(tree.path_to(node)), "merged with a node above it"
        siblings = [[tree.tokens[c] for c in tree.children(n)] for n in range(len(tree))]
        assert all(len(set(tokens)) == len(tokens) for tokens in siblings)
    assert copies > 20


def match(tree: TokenTree, node: int) -> int:
    return tree.provenance[node].match or 0


def test_nothing_is_drafted_behind_what_is_improbable_or_beside_what_is_far_likelier() -> None:
    """The oracle takes the draft's probabilities after each text."""
    settings: dict[str, Any] = {"sibling_threshold": 0.2, "prob_threshold": 0.3, "candidates": 6}
    made = method(Sampling(), merge_tokens=0, tree_size=128, **settings)
    tree = made.propose(Context(TEXT, 50, 0))
    assert len(tree) < 128
    ends = 0
    for node, text in texts(tree).items():
        p = softmax(made.draft.model.after(text))
        children = [tree.tokens[child] for child in tree.children(node)]
        share = softmax(made.draft.model.after(text[:-1]))[text[-1]] if node else 1.0
        if tree.depths[node] == 4 or share < 0.3:
            assert not children
            ends += tree.depths[node] < 4
        else:
            best = sorted(np.flatnonzero(p >= 0.2 * p.max()).tolist(), key=lambda t: -p[t])
            assert children == best
    assert ends > 3


def test_a_branch_ends_with_the_text() -> None:
    tree = method(Sampling(), 3, merge_tokens=1, **EVERYTHING).propose(Context(TEXT, 3, 0))
    assert max(tree.depths) == 2
    again = method(Sampling(), 3, merge_tokens=1, **EVERYTHING).propose(Context(TEXT, 50, 0))
    assert max(again.depths) > 4, "a copy may reach deeper than what was drafted"


def test_siblings_are_drawn_without_replacement_from_what_is_likely() -> None:
    """Ordered pairs against q(a) q(b) / (1 - q(a)) over the tokens that the threshold leaves."""
    made, runs = method(REJECTING, tree_depth=1, sibling_threshold=0.1), 10_000
    whole = softmax(made.draft.model.after(TEXT))
    q = likely(whole, 0.1)
    possible = np.flatnonzero(whole >= 0.1 * whole.max()).tolist()
    assert np.flatnonzero(q).tolist() == possible and 2 < len(possible) < 6
    counts: Counter[tuple[int, ...]] = Counter()
    for step in range(runs):
        tree = made.propose(Context(TEXT, 50, step))
        first, second = (tree.tokens[child] for child in tree.children(0))
        counts[first, second] += 1
        if step < 20:
            assert tree.drawn_from(1) == pytest.approx(q)
            assert tree.drawn_from(2) == pytest.approx(without(q, first))
    pairs = list(itertools.permutations(possible, 2))
    assert set(counts) <= set(pairs)
    wanted = [runs * q[a] * q[b] / (1 - q[a]) for a, b in pairs]
    # Wilson and Hilferty: the 99.999% point of chi-square
    freedom = len(pairs) - 1
    limit = freedom * (1 - 2 / (9 * freedom) + 4.27 * (2 / (9 * freedom)) ** 0.5) ** 3
    assert chi_square([counts[pair] for pair in pairs], wanted) < limit


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "merged"), [("rejection", 1), ("block", 2)])
def test_drafted_corrected_and_bonus_tokens_follow_the_target(rule: str, merged: int) -> None:
    """Counts by place in the step and by the two tokens before, which are all that the target's
    probabilities depend on; copies are counted by themselves."""
    sampling = REJECTING.model_copy(update={"acceptance": rule})
    sizes = EVERYTHING | {"tree_size": 20, "tree_depth": 3}

    def kind_of(step: Step, position: int) -> str:
        above = step.path[position - 1] if position else 0
        copied = any(match(step.tree, node) for node in step.tree.children(above))
        return "bonus" if position >= step.tested else "copied" if copied else "drafted"

    made = method(sampling, 4, merge_tokens=merged, **sizes)
    check_places(made, sampling, 10_000, 4, ("drafted", "copied", "bonus"), kind_of)


def test_what_merging_saved_is_in_the_trace_and_older_files_are_read() -> None:
    settings: dict[str, Any] = {"tree_depth": 4, "merge_tokens": 1, "tree_size": 60}
    steps = tiny.run(tiny.pair("llama"), "graph", tiny.prompt(), 30, **settings)
    automatic = tiny.run(tiny.pair("llama"), "graph", tiny.prompt(), 30, automatic=True)
    assert sum(step.draft_rows_saved for step in steps) > 0
    assert sum(step.draft_passes for step in automatic) > 0
    trace = make_trace(steps, "graph")
    assert read_trace(trace.to_json()) == trace
    older = json.loads(trace.to_json())
    for step in older["steps"]:
        del step["draft_rows_saved"]
    assert not any(step.draft_rows_saved for step in read_trace(json.dumps(older)).steps)
    older["steps"][0]["draft_rows_saved"] = -1
    with pytest.raises(InvalidInput, match=r"steps.0.draft_rows_saved must be between 0 and"):
        read_trace(json.dumps(older))
