"""Amounts that are 'auto': costs, throughput, acceptance, and what the controller decides by
them."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core import methods
from ouroboros_core.adaptive import profiler
from ouroboros_core.adaptive.acceptance import HIT, WEIGHT, Acceptance
from ouroboros_core.adaptive.controller import (
    PRIOR_STEPS,
    TRIAL,
    Controller,
    PricedBudget,
    Throughput,
)
from ouroboros_core.adaptive.cost_model import TYPICAL, Costs, PassCosts
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.lookahead_window import WIDEST, columns_within
from ouroboros_core.methods.lookahead import LONG_ENOUGH
from ouroboros_core.methods.parts.base import (
    NO_DRAFT,
    NO_WINDOW,
    Adjustable,
    Context,
    Method,
    Resources,
    StepBudget,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.drafting import DraftModel
from ouroboros_core.methods.union import Union
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.settings import AUTO
from ouroboros_core.sources import Source
from ouroboros_core.trace.summary import Summary
from ouroboros_core.tree import AnnotatedTree, Learned, Notes, Provenance, TokenTree, TreeBuilder
from tests import tiny
from tests.clocked import Clock, Follower
from tests.tiny import emitted, new_memory, plain, prompt, run, writer
from tests.traces import make_trace

SETTABLE = [m.id for m in methods.available().values() if m.Hyperparameters.fixed()]
DRAFTING, NOTHING = PassCosts((1,), (40.0,)), PassCosts((1,), (1e-6,))
DEAR = Costs(PassCosts((1, 2), (1.0, 30.0)), DRAFTING, {"eagle": DRAFTING})
FREE = Costs(PassCosts((1, 64), (1.0, 1.0001)), NOTHING, {"eagle": NOTHING})

costs_ = st.lists(st.floats(0.0, 0.5), min_size=9, max_size=9).map(
    lambda steps: PassCosts(tuple(range(1, 11)), tuple(1.0 + sum(steps[:n]) for n in range(10)))
)
chances_ = st.lists(st.floats(0.0, 0.9), min_size=0, max_size=9).map(
    lambda found: sorted(found, reverse=True)
)


def test_between_measured_row_counts_costs_lie_on_a_line_and_beyond_on_the_last() -> None:
    costs = PassCosts((1, 4, 8), (10.0, 13.0, 21.0))
    assert [costs.of(rows) for rows in (1, 2, 4, 6, 8, 10)] == [10, 11, 13, 17, 21, 25]
    assert PassCosts((1,), (5.0,)).of(40) == 5


@given(costs_, chances_, st.floats(1.0, 4.0))
def test_the_size_chosen_is_the_best_of_all(
    costs: PassCosts, chances: list[float], rate: float
) -> None:
    """The oracle tries every size."""
    throughput = Throughput(costs)
    throughput._tokens, throughput._seconds = rate, 1.0
    worth = [sum(chances[:n]) - rate * costs.of(1 + n) for n in range(len(chances) + 1)]
    found = throughput.best_size(chances)
    assert worth[found] == pytest.approx(max(worth), abs=1e-9)
    least = min(2, len(chances))
    if least:
        found = throughput.best_size(chances, least)
        assert worth[found] == pytest.approx(max(worth[least:]), abs=1e-9)


@given(costs_, chances_)
def test_choosing_by_the_running_rate_arrives_at_the_best_rate_there_is(
    costs: PassCosts, chances: list[float]
) -> None:
    """The oracle tries every fixed size; tokens come exactly as expected."""
    throughput = Throughput(costs)
    best = max((1 + sum(chances[:n])) / costs.of(1 + n) for n in range(len(chances) + 1))
    for _ in range(60):
        size = throughput.best_size(chances)
        throughput._tokens += 1 + sum(chances[:size])
        throughput._seconds += costs.of(1 + size)
    size = throughput.best_size(chances)
    assert (1 + sum(chances[:size])) / costs.of(1 + size) >= 0.98 * best


def test_the_rate_never_falls_below_that_of_autoregressive_decoding() -> None:
    throughput = Throughput(PassCosts((1, 9), (1.0, 3.0)))
    assert throughput.rate == 1
    for _ in range(PRIOR_STEPS):
        throughput.note(1, 9, 0.0)
    assert throughput.rate == 1
    for _ in range(50):
        throughput.note(4, 2, 0.0)
    assert throughput.rate > 2


def test_a_prior_tells_better_from_worse() -> None:
    """By match length, which grows along a copy; by rank; by the draft's own probability."""

    def copied(match: int, depth: int, **more: Any) -> float:
        return Provenance(Source.COPY, match=match, **more).prior(depth)

    assert copied(1, 1) < copied(1, 2) == copied(2, 1) < copied(20, 1) < 1
    assert copied(5, 1, rank=1) < copied(5, 1), "a runner-up"
    ranks = [Provenance(Source.RECYCLED, rank=rank).prior(1) for rank in range(4)]
    assert ranks == sorted(ranks, reverse=True) and ranks[0] < 0.5
    sure = [Provenance(Source.DRAFT, confidence=c).prior(3) for c in (0.0, 0.55, 1.0)]
    assert sure == [0.02, 0.55, 0.98]


def chain_of(*confidences: float) -> TokenTree:
    builder = TreeBuilder(1)
    for depth, confidence in enumerate(confidences):
        builder.add(7 + depth, depth, Provenance(Source.DRAFT, confidence=confidence))
    return builder.build()


def chance(acceptance: Acceptance, tree: TokenTree) -> float:
    """Of the first token."""
    return acceptance.node_chances(tree)[1]


def test_an_estimate_begins_at_the_prior_follows_what_is_seen_and_returns_when_nothing_is() -> None:
    acceptance, tree, nothing = Acceptance(), chain_of(0.5), TreeBuilder(1).build()

    def learn(times: int, seen: TokenTree, path: tuple[int, ...] = ()) -> float:
        for _ in range(times):
            acceptance.learn(seen, path)
        return chance(acceptance, tree)

    assert learn(0, tree) == 0.5 and acceptance.hit == HIT
    assert learn(1, tree) == pytest.approx(0.5 * WEIGHT / (WEIGHT + 0.5))
    assert learn(40, tree) < 0.1 and acceptance.hit < 0.1
    hoped = learn(200, nothing)
    assert hoped > 0.45 and acceptance.hit > 0.7, "what was given up is hoped for again"
    assert learn(40, tree, (1,)) > 0.9


def test_a_drafted_token_that_is_not_checked_is_a_draft_pass_for_nothing() -> None:
    acceptance, proposed = Acceptance(), chain_of(0.1)
    for _ in range(20):
        acceptance.learn(proposed, (), (0,))
    assert acceptance.hit < 0.15, "the draft is not worth asking"
    assert chance(acceptance, proposed) == pytest.approx(0.1), "and nothing is known of its account"


def bush() -> TokenTree:
    builder = TreeBuilder(1)
    for rank, token in enumerate((4, 5, 6)):
        node = builder.add(token, 0, Provenance(Source.RECYCLED, rank=rank))
        assert node is not None
        builder.add(9, node, Provenance(Source.RECYCLED, rank=0))
    builder.add_window(7, 0, silent=False)
    return builder.build()


def test_a_chance_along_a_path_is_a_product_and_siblings_share_what_there_is() -> None:
    acceptance, tree = Acceptance(), bush()
    first, whole = tree.provenance[1].prior(1), acceptance.path_chances(tree)
    assert [whole[n] for n in (0, 1, 2, 7)] == pytest.approx([1, first, first**2, 0])
    for _ in range(300):
        acceptance.learn(tree, (1,))
    assert sum(acceptance.path_chances(tree)[n] for n in (1, 3, 5)) <= 1.0 + 1e-9


def test_where_sources_agree_a_token_is_likelier_than_each_of_them_says() -> None:
    builder, copy = TreeBuilder(1), TreeBuilder(1)
    copy.add(7, 0, Provenance(Source.COPY, match=2))
    for part in (chain_of(0.5), copy.build()):
        builder.graft(part)
    tree = builder.build()
    assert tree.tokens == (1, 7)
    assert {origin.source for origin in tree.origins(1)} == {Source.DRAFT, Source.COPY}
    assert Acceptance().path_chances(tree)[1] == pytest.approx(1 - 0.5 * 0.5)


def given_tree(tree: TokenTree, plan: Adjustable, resources: Resources | None = None) -> Method:
    """A method that proposes the same tree always."""

    class Given(Method):
        adjustable = plan

        def __init__(self) -> None:
            super().__init__(None, resources or Resources())
            self.results: list[VerificationResult] = []

        def propose(self, context: Context) -> TokenTree:
            return tree

        def learn(self, result: VerificationResult) -> None:
            self.results.append(result)

    return Given()


def test_what_is_left_out_is_the_least_likely_and_the_window_stays() -> None:
    controller = Controller(given_tree(bush(), Adjustable(size=3)), TYPICAL)
    kept = controller.propose(Context((3, 1), 9, 0))
    assert [kept.tokens[n] for n in kept.proposals] == [4, 9, 5]
    assert kept.parents[:4] == (-1, 0, 1, 0) and kept.tokens[4:] == (7,)
    decision = controller.notes.decision
    assert decision is not None and (decision.offered, decision.size) == (6, 3)


class Outputs:
    """Outputs of a target after the nodes of a tree: a different number for each."""

    def argmax(self) -> list[int]:
        return [100 + node for node in range(50)]

    def likeliest(self, k: int) -> dict[int, list[int]]:
        return {node: [100 + node] for node in range(5)}


def test_a_method_is_told_of_its_nodes_by_the_numbers_that_they_had() -> None:
    """Checked are nodes 1, 2, 3 and the window of seven; the method has nodes 1, 2, 3, and 7 for
    the window."""
    tree = bush()
    member: Any = given_tree(tree, Adjustable(size=3))
    controller = Controller(member, TYPICAL)
    context = Context((3, 1), 9, 0)
    checked = controller.propose(context)
    evaluation: Any = Outputs()
    controller.learn(VerificationResult.whole_step(context, checked, evaluation, (3,), 42))
    (result,) = member.results
    assert result.tree is tree and [tree.tokens[node] for node in result.path] == [5]
    assert result.emitted == (5, 42)
    unchecked = [-1] * 3
    assert result.evaluation.argmax() == [100, 101, 102, 103, *unchecked, 104]
    assert result.evaluation.likeliest(1) == {0: [100], 1: [101], 2: [102], 3: [103], 7: [104]}
    assert result.checked.tree is checked and result.target_token == 42


def test_node_numbers_that_a_method_has_kept_are_right_in_a_whole_run() -> None:
    """The oracle: at each node that was checked, the target's choice is that of a plain pass over
    the node's own path."""
    models, text = tiny.pair("llama", "sdpa"), [*prompt(20, seed=4)] * 3
    seen: list[tuple[VerificationResult, TokenTree]] = []

    class Keeping(Union):
        kept: TokenTree

        def propose(self, context: Context) -> TokenTree:
            self.kept = super().propose(context)
            return self.kept

        def learn(self, result: VerificationResult) -> None:
            seen.append((result, self.kept))
            super().learn(result)

    resources = Resources(Sampler(Sampling(), models[0].vocabulary), models[1])
    union = methods.create(Keeping, Union.Hyperparameters(tree_size=4), resources)
    method = Controller(union, TYPICAL)
    steps = list(decode(models[0], method, text, max_new_tokens=25, sampler=resources.sampler))
    assert emitted(steps) == plain(models[0].model, text, 25)
    trimmed = [(result, tree) for result, tree in seen if len(tree) > len(result.checked.tree)]
    assert trimmed, "the case trims"
    for result, tree in trimmed:
        assert result.tree is tree
        said = result.evaluation.argmax()
        nodes = [node for node in range(len(tree)) if said[node] >= 0]
        assert 1 <= len(nodes) <= 5
        for node in nodes:
            path = tree.tokens_to(node)
            assert plain(models[0].model, [*result.context.tokens, *path], 1) == [said[node]]


def test_what_was_drawn_at_random_is_never_left_out() -> None:
    """Whether a token is judged must not depend on which one was drawn, or rejection sampling would
    not be exact."""
    q = np.full(10, 0.1)
    origins = (Provenance(Source.CONTEXT), *[Provenance(Source.DRAFT, confidence=0.0)] * 3)
    tree = AnnotatedTree((1, 2, 3, 4), (-1, 0, 1, 0), origins, notes=Notes(drawn={1: q, 2: q}))
    kept = Controller(given_tree(tree, Adjustable()), DEAR).propose(Context((3, 1), 9, 0))
    assert kept.tokens == (1, 2, 3) and kept.drawn_from(2) is q


@pytest.mark.parametrize("method", SETTABLE)
def test_where_nothing_pays_a_method_backs_off_to_plain_steps_and_tries_again_now_and_then(
    method: str,
) -> None:
    steps = automatic(method, DEAR, 80)
    plain_steps = [step for step in steps if step.width == 1 and step.draft_passes == 0]
    assert len(plain_steps) >= len(steps) * (1 - 2 / TRIAL) - 1
    reasons = {step.choice.reason for step in steps if step.choice}
    assert reasons <= {"plain is faster", "nothing proposed", "trial"}


@pytest.mark.parametrize("columns", [0, 4])
def test_what_is_not_worth_it_is_tried_now_and_then_beside_a_window_too(columns: int) -> None:
    class Given(Method):
        adjustable = Adjustable()

        def propose(self, context: Context) -> TokenTree:
            builder = TreeBuilder(context.root)
            builder.add(5, 0, Provenance(Source.PHRASE))
            for _ in range(columns):
                builder.add_window(9, 0, silent=False)
            return builder.build()

    controller = Controller(Given(None, Resources()), DEAR)
    controller.start(TokenizedPrompt((1,)), 200)
    reasons = []
    for number in range(100):
        context = Context((1,) * (number + 1), 200 - number, number)
        tree = controller.propose(context)
        assert controller.notes.decision is not None
        reasons.append(controller.notes.decision.reason)
        unread: Any = None
        controller.learn(VerificationResult.whole_step(context, tree, unread, (), 7))
    assert reasons.count("trial") == 100 // (TRIAL + 1)


@pytest.mark.parametrize("method", [method for method in SETTABLE if method != "jacobi"])
def test_where_rows_are_free_all_that_is_proposed_is_checked(method: str) -> None:
    steps = automatic(method, FREE, LONG_ENOUGH)
    checked = [step for step in steps if step.choice and step.choice.offered]
    assert checked and all(step.choice.size >= 0.5 * step.choice.offered for step in checked)
    assert all(step.choice and step.choice.size == len(step.tree) - 1 for step in steps)
    assert all(step.choice and step.choice.expected >= 1 for step in steps)


def automatic(method: str, costs: Costs, count: int) -> list[Any]:
    models = tiny.pair("llama", "sdpa")
    return run(models, method, prompt(seed=6), count, automatic=True, costs=costs)


@pytest.mark.parametrize(
    ("share", "agreement"), [(0.15, 0.9), (0.34, 0.9), (0.34, 0.6), (0.15, 0.2), (0.5, 0.1)]
)
def test_a_draft_is_used_where_it_pays_and_given_up_where_it_does_not(
    share: float, agreement: float
) -> None:
    """Tokens per second by the cost model against those of the best fixed draft length, for a draft
    that is right as often as said, whatever its pass costs: no pair of models is special."""
    costs = Costs(PassCosts((1, 5, 17), (1.0, 1.1, 1.6)), PassCosts((1,), (share,)))

    def rate(gamma: int | None, count: int = 400) -> float:
        random = np.random.default_rng(3)
        acceptance, throughput = Acceptance(), Throughput(costs.target)
        tokens = seconds = 0.0
        for _ in range(count):
            budget, drafted = PricedBudget(throughput, acceptance, costs.draft), 0
            while drafted < (16 if gamma is None else gamma):
                if gamma is None and not budget.allows_pass(agreement**drafted):
                    break
                drafted += 1
            tree = chain_of(*[agreement] * drafted)
            accepted = 0
            while accepted < drafted and random.random() < agreement:
                accepted += 1
            tokens += accepted + 1
            seconds += costs.target.of(1 + drafted) + share * drafted
            acceptance.learn(tree, range(1, 1 + accepted))
            throughput.note(accepted + 1, 1 + drafted, share * drafted)
        return tokens / seconds

    fixed = {gamma: rate(gamma) for gamma in (0, 1, 2, 4, 8)}
    assert rate(None) >= 0.93 * max(fixed.values()), fixed


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7, top_k=20, seed=3)])
@pytest.mark.parametrize("method", SETTABLE)
def test_what_is_decided_changes_the_passes_never_the_text(method: str, sampling: Sampling) -> None:
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=7)
    wanted = plain(writer(models, method).model, text, 50, sampling)
    for costs in (TYPICAL, DEAR, FREE):
        steps = run(models, method, text, 50, sampling, automatic=True, costs=costs)
        assert emitted(steps) == wanted


@pytest.mark.parametrize("method", SETTABLE)
def test_equal_runs_decide_alike(method: str) -> None:
    """Nothing depends on a clock: costs are measured once, and kept."""
    first, second = (
        [(s.tree, s.path, s.draft_passes, s.choice) for s in automatic(method, TYPICAL, 50)]
        for _ in range(2)
    )
    assert first == second


def test_a_setting_is_auto_or_a_number_within_its_bounds() -> None:
    kind = methods.get("speculative").Hyperparameters
    assert kind().model_dump() == {"gamma": AUTO, "stop": "fixed"}
    assert kind.parse({"gamma": "4"}).model_dump() == {"gamma": 4, "stop": "fixed"}
    for gamma in (99, "often"):
        message = f"^gamma must be auto, or between 1 and 32, got {gamma}$"
        with pytest.raises(InvalidInput, match=message):
            kind.parse({"gamma": gamma})
    for method in methods.available().values():
        fixed = method.Hyperparameters(**method.Hyperparameters.fixed())
        assert AUTO not in fixed.model_dump().values()


def test_a_setting_that_is_fixed_stays_so_beside_one_that_is_not() -> None:
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=7)

    def steps_of(method: str, count: int, costs: Costs, **settings: Any) -> list[Any]:
        return run(models, method, text, count, automatic=True, costs=costs, **settings)

    def sources(steps: list[Any]) -> list[list[Source]]:
        return [[origin.source for origin in step.tree.provenance] for step in steps]

    fixed = steps_of("ouroboros", 50, DEAR, gamma=3)
    assert {step.draft_passes > 0 for step in fixed[:-1]} == {True}
    assert all(found.count(Source.DRAFT) >= 3 for found in sources(fixed[:-2]))
    assert not any(Source.SUFFIX in found for found in sources(fixed[:10])), "suffixes are dear"
    suffixes = steps_of("ouroboros", 50, DEAR, gamma=3, top_k_suffixes=3)
    assert any(Source.SUFFIX in found for found in sources(suffixes))
    deep = steps_of("eagle2", 30, DEAR, tree_depth=2)
    assert {step.draft_passes for step in deep[:-2]} == {2}, "the depth is fixed"
    assert len(deep[-3].tree) == 1, "which nodes are checked is not"
    wide = steps_of("eagle2", 30, FREE, tree_size=5)
    assert all(len(step.tree) <= 6 for step in wide) and len(wide[0].tree) == 6


def test_a_draft_model_reads_the_prompt_once_it_is_asked_as_much_as_it_has_positions_for() -> None:
    text = prompt(200, seed=7)
    heard: list[tuple[int, ...]] = []

    class Listening(CausalLM):
        def prefill(self, context: Any, candidates: int = 0) -> Any:
            heard.append(tuple(context))
            return super().prefill(context, candidates)

        def evaluate(self, context: Any, tree: TokenTree) -> Any:
            heard.append(tuple(context))
            return super().evaluate(context, tree)

    model = tiny.pair("llama", "sdpa")[1].model
    for adjustable in (False, True):
        heard.clear()
        draft = DraftModel(Resources(draft_model=Listening(model, "draft")), adjustable)
        draft.start(TokenizedPrompt(tuple(text)), 8)
        assert bool(heard) != adjustable, "one that may never be asked costs nothing beforehand"
        draft.evaluate(tuple(text), TreeBuilder(text[-1]).build())
        assert heard[-1] == tuple(text)
        draft.model.max_length = 150
        draft.start(TokenizedPrompt(tuple(text)), 30)
        draft.evaluate((*text, 5), TreeBuilder(5).build())
        assert heard[-1] == (*text[80:], 5), "the end: 120 tokens of the prompt and 30 new ones fit"
        draft.start(TokenizedPrompt(tuple(text)), 4000)
        draft.evaluate(tuple(text), TreeBuilder(text[-1]).build())
        assert heard[-1] == tuple(text[125:]), "the prompt has half of the positions in any case"


def test_a_window_is_had_where_its_rows_are_cheap_and_not_where_they_are_dear() -> None:
    assert columns_within(1000, 5) == WIDEST
    assert [columns_within(rows, 5) for rows in (1, 4, 8, 9, 29)] == [0, 0, 0, 2, 7]
    assert Costs(PassCosts((1, 8, 32), (1.0, 1.05, 1.3))).sizing.target_rows == 12
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=6)
    for method in ("union", "lookahead"):
        fixed = run(models, method, text, LONG_ENOUGH, automatic=True, costs=DEAR, window_size=3)
        assert {len(step.tree) < step.width for step in fixed} == {True}
        auto: dict[str, Any] = {"automatic": True, "window_size": "auto"}
        chosen = run(models, method, text, LONG_ENOUGH, costs=DEAR, **auto)
        assert not any(step.choice.window for step in chosen if step.choice)
        free = run(models, method, text, LONG_ENOUGH, costs=FREE, **auto)
        assert {len(step.tree) < step.width for step in free} == {True}
        assert emitted(fixed) == emitted(chosen) == emitted(free)


def test_a_window_whose_pool_begins_empty_is_had_in_long_texts_only() -> None:
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=6)

    def columns(count: int, **more: Any) -> set[int | None]:
        steps = run(models, "lookahead", text, count, automatic=True, costs=FREE, **more)
        return {step.choice.window for step in steps if step.choice}

    assert columns(LONG_ENOUGH) == {WIDEST}
    assert columns(LONG_ENOUGH - 1) == {0}
    assert columns(LONG_ENOUGH - 1, memory=new_memory("lookahead", automatic=True)) == {WIDEST}


def test_where_auto_does_without_window_or_draft_it_says_so() -> None:
    models, text = tiny.pair("llama", "sdpa"), [*prompt(seed=6)] * 3

    def said(method: str, costs: Costs, **settings: Any) -> tuple[set[str], str]:
        """Of each step, and of the run."""
        steps = run(models, method, text, LONG_ENOUGH, automatic=True, costs=costs, **settings)
        reasons = {step.choice.why.partition("; ")[2] for step in steps if step.choice}
        return reasons, Summary(make_trace(steps)).skipped

    nothing = f"{NO_WINDOW}, and so there was nothing to propose"
    assert said("lookahead", DEAR) == ({NO_WINDOW}, nothing)
    assert said("lookahead", DEAR, extended=True) == ({NO_WINDOW}, NO_WINDOW)
    assert said("union", DEAR, window_size="auto") == ({NO_WINDOW}, NO_WINDOW)
    for method, costs in (("lookahead", FREE), ("union", DEAR), ("speculative", FREE)):
        assert said(method, costs) == ({""}, "")
    nothing = f"{NO_DRAFT}, and so there was nothing to propose"
    for method in ("ouroboros", "speculative"):
        # In the last step no draft is of use, whatever it costs.
        assert said(method, DEAR) == ({NO_DRAFT, ""}, nothing)


def test_a_pass_is_worth_its_time_if_its_token_outweighs_the_price() -> None:
    """Any question may be asked at any time."""
    throughput, acceptance = Throughput(TYPICAL.target), Acceptance()
    budget = PricedBudget(throughput, acceptance, TYPICAL.draft)
    assert TYPICAL.draft is not None
    for rows in (1, 16, 64):
        added = TYPICAL.target.of(2) - TYPICAL.target.of(1)
        price = throughput.rate * (TYPICAL.draft.of(rows) + added)
        worth = price / acceptance.hit
        assert budget.allows_pass(1.01 * worth, rows) and not budget.allows_pass(0.99 * worth, rows)


def test_a_draft_pass_that_was_dear_does_not_stop_cheap_ones() -> None:
    """The rows that are priced are those of the pass that is to be made, not of the last one."""
    asked: list[int] = []

    class Listening(StepBudget):
        def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
            asked.append(rows)
            return reach == 1.0

    kind: Any = methods.get("ouroboros")
    settings = kind.Hyperparameters(window_size=1, lookahead_phrases=False)
    made = kind(settings, Resources(draft_model=tiny.pair("llama", "sdpa")[1]))
    made.start(TokenizedPrompt((1, 2, 3)), 40)
    made.pool.insert(3, (4, 5, 6), Learned.HISTORY, None)
    made.propose(Context((1, 2, 3), 30, 0, Listening()))
    made.propose(Context((1, 2, 9), 30, 1, Listening()))
    assert asked[0] == 4 and asked[-2:][0] == 1, asked


def test_union_puts_sources_into_one_tree_and_notes_where_they_agree() -> None:
    models, text = tiny.pair("llama", "sdpa"), [*prompt(20, seed=4)] * 4
    steps = run(models, "union", text, 60, automatic=True, costs=FREE)
    origins = [origin for step in steps for origin in step.tree.provenance]
    assert {Source.COPY, Source.RECYCLED, Source.DRAFT} <= {origin.source for origin in origins}
    assert any(origin.also for origin in origins)
    several = [{p.source for p in step.tree.provenance[1:]} for step in steps]
    assert any(len(sources) >= 2 for sources in several), "in one step"
    assert emitted(steps) == plain(models[0].model, text, 60)


def test_union_does_without_the_draft_where_a_copy_is_sure() -> None:
    """A text that repeats itself without end needs no draft after a while."""
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=5)
    text, cheap = [*text, *plain(models[0].model, text, 150)], PassCosts((1,), (0.3,))
    costs = Costs(PassCosts((1, 64), (1.0, 1.2)), cheap, {"eagle": cheap})
    copying, drafting = (
        run(models, method, text, 50, automatic=True, costs=costs)
        for method in ("union", "speculative")
    )
    assert emitted(copying) == emitted(drafting)
    passes = [sum(step.draft_passes for step in steps) for steps in (copying, drafting)]
    assert passes[0] < passes[1]


def test_a_heads_pass_is_timed_without_the_targets() -> None:
    """The target has read the context already: what is timed makes no pass of its."""
    target = CausalLM(tiny.target("llama", "sdpa"), "llama")
    head = tiny.drafter(target)
    made: list[int] = []
    forward = target._forward

    def counted(rows: Any, *more: Any) -> Any:
        made.append(len(rows.tokens))
        return forward(rows, *more)

    target._forward = counted  # type: ignore[assignment]
    for rows in (1, 4):
        timed = profiler.level_of(head, rows, 20)
        timed()
        made.clear()
        before = head.passes
        timed()
        assert not made and head.passes > before


@pytest.mark.parametrize("vocabulary", [5, 12, 33, 100])
def test_passes_are_timed_with_ids_that_a_vocabulary_has(vocabulary: int) -> None:
    """Also those of a head over more rows than there are tokens."""
    ids: list[int] = []

    def noted(context: list[int], tree: TokenTree) -> Any:
        ids.extend((*context, *tree.tokens))
        return SimpleNamespace(scored=lambda *_: [], argmax=list)

    model: Any = SimpleNamespace(
        vocabulary=vocabulary, evaluate=noted, extend=lambda _, tree: noted([], tree)
    )
    for timed, rows in ((profiler.pass_of, 32), (profiler.level_of, 8)):
        timed(model, rows, 70)()
    assert set(ids) <= set(range(vocabulary))
    assert len(set(ids)) == min(vocabulary, 57 if vocabulary == 100 else 50)
    assert profiler.siblings_of(8, 3, vocabulary).parents == (-1, *[0] * 8)


def test_a_drafters_pass_is_timed_behind_the_first_one_of_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target: Any = Clock(monkeypatch, lambda rows: 0.005)
    draft: Any = Follower(target)
    heads: Any = {"eagle": Follower(target), "medusa": Follower(target)}
    costs = profiler.measure(target, draft, heads)
    assert costs.draft is not None
    assert costs.draft.seconds == pytest.approx((0.002,) * len(profiler.DRAFT_ROWS))
    for kind in heads:
        assert costs.heads[kind].seconds == pytest.approx((0.0014, 0.0018))


def test_costs_are_in_proportion_where_a_machine_changes_its_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From round to round, and in one round for the plain pass alone."""
    rounds = itertools.count()

    def seconds(rows: int) -> float:
        turn, place = divmod(next(rounds), len(profiler.TARGET_ROWS))
        lucky = 0.6 if (turn, place) == (5, 0) else 1.0
        return (0.001 + 0.0001 * rows) * (1.0, 1.5, 0.8)[turn % 3] * lucky

    model: Any = Clock(monkeypatch, seconds)
    costs = profiler.measure(model, None).target
    for rows in profiler.TARGET_ROWS:
        assert costs.of(rows) / costs.of(1) == pytest.approx((1 + 0.1 * rows) / 1.1)


def test_fewer_rows_never_count_as_dearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where passes over 2 rows were timed while the machine was busy."""
    model: Any = Clock(monkeypatch, lambda rows: 0.001 + 0.0001 * rows if rows != 2 else 0.02)
    costs = profiler.measure(model, None)
    assert costs.target.of(16) == pytest.approx(0.0026) and costs.draft is None and not costs.heads
    assert costs.target.of(2) == costs.target.of(4) == pytest.approx(0.0014)
    assert model.passes == 0
