"""Knobs that set themselves: costs, rates, chances, and what is chosen by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core import methods
from ouroboros_core.costs import FAR, MARGIN, NEAR, PRIOR_STEPS, TRIAL, TYPICAL, Costs, Pace, PassCosts
from ouroboros_core.errors import InvalidInput
from ouroboros_core.hyperparameters import AUTO
from ouroboros_core.memory.chances import PRIORS, WEIGHT, Chances, kind_of
from ouroboros_core.memory.governor import GLANCE, READING, UNREAD, Governor, usually_right
from ouroboros_core.memory.window import TOKENS_PER_PASS, paying_width
from ouroboros_core.methods.base import Resources
from ouroboros_core.models import timing
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import Provenance, SampledTree, Source, TokenTree, TreeBuilder
from tests import tiny
from tests.tiny import emitted, plain, prompt, run, writer

SETTABLE = [m.id for m in methods.available().values() if m.Hyperparameters.fixed()]
DEAR = Costs(PassCosts((1, 2), (1.0, 30.0)), PassCosts((1,), (40.0,)), PassCosts((1,), (40.0,)))
FREE = Costs(PassCosts((1, 64), (1.0, 1.0001)), PassCosts((1,), (1e-6,)), PassCosts((1,), (1e-6,)))

costs_ = st.lists(st.floats(0.0, 0.5), min_size=9, max_size=9).map(
    lambda steps: PassCosts(tuple(range(1, 11)), tuple(1.0 + sum(steps[:n]) for n in range(10)))
)
chances_ = st.lists(st.floats(0.0, 0.9), min_size=0, max_size=9).map(lambda found: sorted(found, reverse=True))


def test_between_measured_row_counts_costs_lie_on_a_line_and_beyond_on_the_last() -> None:
    costs = PassCosts((1, 4, 8), (10.0, 13.0, 21.0))
    assert [costs.of(rows) for rows in (1, 2, 4, 6, 8, 10)] == [10, 11, 13, 17, 21, 25]
    assert PassCosts((1,), (5.0,)).of(40) == 5


def test_a_longer_context_costs_more_in_proportion() -> None:
    costs = PassCosts((1, 5), (10.0, 14.0), (16.0, 32.0))
    assert costs.of(1) == 10 and costs.of(1, FAR) == 16 and costs.of(5, FAR) == 32
    assert costs.of(3, (NEAR + FAR) // 2) == pytest.approx((12 + 24) / 2)
    assert costs.of(1, 2 * FAR - NEAR) == pytest.approx(22) and costs.of(1, 0) == 10


@given(costs_, chances_, st.floats(1.0, 4.0))
def test_the_size_chosen_is_the_best_of_all(costs: PassCosts, chances: list[float], rate: float) -> None:
    """The oracle tries every size."""
    pace = Pace(Costs(costs))
    pace._tokens, pace._seconds = rate, 1.0
    worth = [sum(chances[:n]) - rate * costs.of(1 + n) for n in range(len(chances) + 1)]
    found = pace.size(chances)
    assert worth[found] == pytest.approx(max(worth), abs=1e-9) or (found == 0 and max(worth) <= worth[0] + MARGIN)
    least = min(2, len(chances))
    if least:
        assert worth[pace.size(chances, least)] == pytest.approx(max(worth[least:]), abs=1e-9)


@given(costs_, chances_)
def test_choosing_by_the_running_rate_arrives_at_the_best_rate_there_is(costs: PassCosts, chances: list[float]) -> None:
    """The oracle tries every fixed size; tokens come exactly as expected."""
    pace = Pace(Costs(costs))
    best = max((1 + sum(chances[:n])) / costs.of(1 + n) for n in range(len(chances) + 1))
    for _ in range(60):
        size = pace.size(chances)
        pace._tokens += 1 + sum(chances[:size])
        pace._seconds += costs.of(1 + size)
    size = pace.size(chances)
    assert (1 + sum(chances[:size])) / costs.of(1 + size) >= 0.98 * best - MARGIN


def test_the_rate_never_falls_below_plain_decodings_and_a_losing_run_knows_it() -> None:
    pace = Pace(Costs(PassCosts((1, 9), (1.0, 3.0))))
    assert pace.rate == 1 and not pace.behind
    for _ in range(PRIOR_STEPS):
        pace.note(1, 9, 0.0)
    assert pace.rate == 1 and pace.behind
    for _ in range(50):
        pace.note(4, 2, 0.0)
    assert pace.rate > 2 and not pace.behind


def test_a_chance_begins_at_what_was_measured_and_follows_what_is_seen() -> None:
    chances = Chances()
    kind = (Source.COPY, 2, False)
    prior = PRIORS[Source.COPY][2]
    assert chances.of(kind) == pytest.approx(prior)
    assert chances.of((Source.COPY, 2, True)) > prior, "another source agrees"
    chances.note(kind, True)
    assert chances.of(kind) == pytest.approx((1 + WEIGHT * prior) / (1 + WEIGHT))
    for _ in range(400):
        chances.note(kind, False)
    assert chances.of(kind) < 0.5 * prior
    for _ in range(400):
        chances.note(kind, True)
    assert chances.of(kind) > 0.7, "old observations fade"


def test_kinds_tell_better_from_worse() -> None:
    """By match length, which grows along a copy; by rank; by the draft's own probability."""
    copies = [kind_of(Provenance(Source.COPY, match=match), depth) for match, depth in ((1, 1), (1, 2), (2, 1), (20, 1))]
    assert copies[1] == copies[2] and copies[0][1] < copies[1][1] < copies[3][1]
    assert kind_of(Provenance(Source.COPY, match=5, rank=1), 1)[1] > copies[3][1], "a runner-up is a grade of its own"
    drafts = [kind_of(Provenance(Source.DRAFT, confidence=c), 1)[1] for c in (0.04, 0.55, 1.0)]
    assert drafts == [0, 5, 9]
    for source, known in PRIORS.items():
        assert all(0 < chance < 1 for chance in known), source


def bush() -> TokenTree:
    builder = TreeBuilder(1)
    for rank, token in enumerate((4, 5, 6)):
        node = builder.add(token, 0, Provenance(Source.RECYCLED, rank=rank))
        assert node is not None
        builder.add(9, node, Provenance(Source.RECYCLED, rank=0))
    builder.add_window(7, 0, silent=False)
    return builder.build()


def test_a_chance_along_a_path_is_a_product_and_siblings_share_what_there_is() -> None:
    chances, tree = Chances(), bush()
    alone = PRIORS[Source.RECYCLED]
    whole = chances.along(tree)
    assert whole[0] == 1 and whole[1] == pytest.approx(alone[0]) and whole[2] == pytest.approx(alone[0] ** 2)
    for token in (4, 5, 6):
        for _ in range(300):
            chances.note((Source.RECYCLED, token - 4, False), True)
    assert sum(chances.along(tree)[n] for n in (1, 3, 5)) == pytest.approx(1.0)


def test_what_is_cut_is_the_least_likely_and_the_window_stays() -> None:
    governor, tree = Governor(TYPICAL, automatic=True, size=3), bush()
    kept = governor.trim(tree)
    assert [kept.tokens[n] for n in range(1, kept.proposals)] == [4, 9, 5]
    assert kept.parents[:4] == (-1, 0, 1, 0) and kept.tokens[4:] == (7,)
    assert governor.places([0, 1, 2, 3, 4, 7]) == [0, 1, 2, 3, 4]
    assert governor.choice is not None and (governor.choice.offered, governor.choice.size) == (6, 3)
    assert Governor(TYPICAL, automatic=False).trim(tree) is tree


def test_what_was_drawn_at_random_is_never_cut() -> None:
    """Whether a token is judged must not depend on which one was drawn, or rejection sampling would not be exact."""
    law = np.full(10, 0.1)
    tree = SampledTree((1, 2, 3, 4), (-1, 0, 1, 0), (Provenance(Source.CONTEXT), *[Provenance(Source.DRAFT, confidence=0.0)] * 3),
                       laws={1: law, 2: law})  # fmt: skip
    kept = Governor(DEAR, automatic=True).trim(tree)
    assert kept.tokens == (1, 2, 3) and kept.drawn_from(2) is law


@pytest.mark.parametrize("method", SETTABLE)
def test_where_nothing_pays_a_method_backs_off_to_plain_steps_and_tries_again_now_and_then(method: str) -> None:
    steps = automatic(method, DEAR, 80)
    plain_steps = [step for step in steps if step.width == 1 and step.draft_passes == 0]
    assert len(plain_steps) >= len(steps) * (1 - 2 / TRIAL) - 1
    assert {step.choice.reason for step in steps if step.choice} <= {"plain is faster", "nothing proposed", "trial"}
    if method not in ("lookahead", "union"):
        assert any(step.choice and step.choice.reason == "trial" for step in steps) or method == "ouroboros"


@pytest.mark.parametrize("method", SETTABLE)
def test_where_rows_are_free_all_that_is_offered_is_checked(method: str) -> None:
    steps = automatic(method, FREE, 60)
    checked = [step for step in steps if step.choice and step.choice.offered]
    assert checked and all(step.choice.size >= 0.5 * step.choice.offered for step in checked)
    assert all(step.choice and step.choice.size == len(step.tree) - 1 for step in steps)
    assert all(step.choice and step.choice.expected >= 1 for step in steps)


def automatic(method: str, costs: Costs, count: int) -> list[Any]:
    models = tiny.pair("llama", "sdpa")
    return run(models, method, prompt(seed=6), count, automatic=True, costs=costs)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7, top_k=20, seed=3)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", SETTABLE)
def test_what_is_chosen_changes_the_passes_never_the_text(method: str, sampling: Sampling) -> None:
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=7)
    wanted = plain(writer(models, method).model, text, 50, sampling)
    for costs in (TYPICAL, DEAR, FREE):
        assert emitted(run(models, method, text, 50, sampling, automatic=True, costs=costs)) == wanted


@pytest.mark.parametrize("method", SETTABLE)
def test_equal_runs_choose_alike(method: str) -> None:
    """Nothing depends on a clock: costs are measured once, and kept."""
    first, second = (automatic(method, TYPICAL, 50) for _ in range(2))
    assert [(s.tree, s.path, s.draft_passes, s.choice) for s in first] == [
        (s.tree, s.path, s.draft_passes, s.choice) for s in second
    ]


def test_a_knob_is_auto_or_a_number_within_its_bounds() -> None:
    kind = methods.get("speculative").Hyperparameters
    assert kind().model_dump() == {"gamma": AUTO}
    assert kind.parse({"gamma": "4"}).model_dump() == {"gamma": 4}
    with pytest.raises(InvalidInput, match=r"^gamma must be auto, or between 1 and 32, got 99$"):
        kind.parse({"gamma": 99})
    with pytest.raises(InvalidInput, match="gamma must be auto, or between 1 and 32, got often"):
        kind.parse({"gamma": "often"})
    for method in methods.available().values():
        fixed = method.Hyperparameters(**method.Hyperparameters.fixed())
        assert AUTO not in fixed.model_dump().values()


def test_a_knob_that_is_fixed_stays_so_beside_one_that_is_not() -> None:
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=7)
    fixed = run(models, "ouroboros", text, 50, automatic=True, costs=DEAR, gamma=3)
    assert {step.draft_passes > 0 for step in fixed[:-1]} == {True}
    assert all(sum(p.source is Source.DRAFT for p in step.tree.provenance) >= 3 for step in fixed[:-2])
    assert not any(p.source is Source.SUFFIX for step in fixed[:10] for p in step.tree.provenance), "suffixes are dear"
    suffixes = run(models, "ouroboros", text, 50, automatic=True, costs=DEAR, gamma=3, top_k_suffixes=3)
    assert any(p.source is Source.SUFFIX for step in suffixes for p in step.tree.provenance)
    deep = run(models, "eagle2", text, 30, automatic=True, costs=DEAR, tree_depth=2)
    assert deep[0].draft_passes == 2 and len(deep[0].tree) == 1
    wide = run(models, "eagle2", text, 30, automatic=True, costs=FREE, tree_size=5)
    assert all(len(step.tree) <= 6 for step in wide) and len(wide[0].tree) == 6


def test_of_a_long_prompt_a_draft_model_reads_little_and_little_is_expected_of_it() -> None:
    """A draft pass costs a fifth of a target pass, a token of the prompt a thousandth of one."""
    costs = Costs(PassCosts((1, 64), (1.0, 1.2)), PassCosts((1,), (0.2,), reading=0.001))
    governor = Governor(costs, automatic=True)
    saved = 1 - (costs.target.of(2) + 0.2) / (1 + usually_right(5000))
    usual, whole = governor.chances.mean(Source.DRAFT), int(READING * 32 * saved / 0.001)
    for read, remaining in ((100, 32), (3000, 512), (whole, 32)):
        assert governor.readable(costs.draft, read, remaining) == read
    assert governor.chances.mean(Source.DRAFT) == usual
    assert governor.readable(costs.draft, whole + 1, 32) == pytest.approx(GLANCE * 32 * saved / 0.001, abs=1)
    assert governor.chances.mean(Source.DRAFT) == pytest.approx(UNREAD * usual)
    assert [usually_right(tokens) for tokens in (0, 200, 350, 500, 5000)] == pytest.approx([0.5, 0.5, 0.425, 0.35, 0.35])
    for asked in (Governor(costs, automatic=False), Governor(costs, automatic=True, drafts=False)):
        assert asked.readable(costs.draft, 3000, 32) == 3000
    text, tail, beforehand = prompt(40, seed=7), [], []

    class Listening(CausalLM):
        def prefill(self, context: Any, candidates: int = 0) -> Any:
            beforehand.append(tuple(context))
            return super().prefill(context, candidates)

        def evaluate(self, context: Any, tree: TokenTree) -> Any:
            tail.append(tuple(context))
            return super().evaluate(context, tree)

    dear = replace(costs, draft=PassCosts((1,), (0.01,), reading=0.2))
    for method in ("speculative", "ouroboros"):
        models = tiny.pair("llama", "sdpa")
        tail.clear()
        listening = Listening(models[1].model, "listening")
        steps = run((models[0], listening), method, text, 30, automatic=True, costs=dear)
        assert emitted(steps) == plain(models[0].model, text, 30)
        assert tail and len(tail[0]) < 20 and tail[0] == (*text, *emitted(steps))[len(text) - len(tail[0]) : len(text)]
        assert not beforehand, "a draft that is never asked should have cost nothing"
        run((models[0], listening), method, text, 30, automatic=True, costs=costs)
        assert beforehand.pop() == tuple(text)
    for name, knobs in (("union", {}), ("sam", {"auxiliary": "speculative"}), ("sam", {"auxiliary": "ouroboros"})):
        kind = methods.get(name)
        whole_method = kind(kind.Hyperparameters.parse(knobs), Resources(draft_model=models[1], costs=dear))
        whole_method.start(tuple(text), 30)
        assert whole_method.governor.chances.doubts == {Source.DRAFT: UNREAD}, "a part's doubts are the whole's"
        if knobs.get("auxiliary") == "ouroboros":
            assert whole_method.governor.window == whole_method.auxiliary.window.window_size


def test_a_window_is_had_where_its_rows_are_cheap_and_not_where_they_are_dear() -> None:
    assert paying_width(lambda rows: 1.0, 5) == max(TOKENS_PER_PASS)
    assert paying_width(lambda rows: 1.0 + 0.1 * rows, 5) == 0


def test_a_window_that_is_fixed_stays_where_it_loses_and_one_that_is_not_goes() -> None:
    models, text = tiny.pair("llama", "sdpa"), prompt(seed=6)
    dear_rows = Costs(PassCosts((1, 16), (1.0, 1.3)), None, None)
    for method in ("union", "lookahead"):
        fixed = run(models, method, text, 40, automatic=True, costs=replace(dear_rows, target=DEAR.target), window_size=3)
        assert {len(step.tree) < step.width for step in fixed} == {True}
    chosen = run(models, "union", text, 40, automatic=True, costs=DEAR)
    assert not any(step.choice.window for step in chosen if step.choice)


@pytest.mark.parametrize("automatic", [True, False])
def test_what_covers_one_step_does_not_cover_the_next(automatic: bool) -> None:
    governor, tree = Governor(FREE, automatic), TreeBuilder(1).build()
    governor.cover(5, Provenance(Source.PHRASE, match=1))
    assert governor.covered > 0
    governor.learn(tree, (), 1)
    assert governor.covered == 0


def test_union_puts_sources_into_one_tree_and_notes_where_they_agree() -> None:
    models = tiny.pair("llama", "sdpa")
    text = [*prompt(20, seed=4)] * 4
    steps = run(models, "union", text, 60, automatic=True, costs=FREE)
    origins = [origin for step in steps for origin in step.tree.provenance]
    assert {Source.COPY, Source.RECYCLED, Source.DRAFT} <= {origin.source for origin in origins}
    assert any(origin.also for origin in origins)
    several = [{p.source for p in step.tree.provenance[1:]} for step in steps]
    assert any(len(sources) >= 2 for sources in several), "in one step"
    assert emitted(steps) == plain(models[0].model, text, 60)


def test_union_does_without_the_draft_where_a_copy_is_sure() -> None:
    """A text that repeats itself without end needs no draft after a while."""
    models = tiny.pair("llama", "sdpa")
    text = prompt(seed=5)
    whole = plain(models[0].model, text, 200)
    costs = Costs(PassCosts((1, 64), (1.0, 1.2)), PassCosts((1,), (0.3,)), PassCosts((1,), (0.3,)))
    with_copies = run(models, "union", [*text, *whole[:150]], 50, automatic=True, costs=costs)
    without = run(models, "speculative", [*text, *whole[:150]], 50, automatic=True, costs=costs)
    assert emitted(with_copies) == emitted(without)
    per_token = [sum(s.draft_passes for s in steps) / len(emitted(steps)) for steps in (with_copies, without)]
    assert per_token[0] < per_token[1]


class Clock:
    """A model whose passes take as long as they should, on a clock of its own."""

    name, vocabulary, max_length, passes = "clock", 1000, 10_000, 0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Any) -> None:
        self.now, self.seconds, self.made = 0.0, seconds, 0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def evaluate(self, context: Any, tree: TokenTree) -> Any:
        self.now += self.seconds(len(tree)) * (5 if self.made % 7 == 0 else 1)
        self.made += 1
        return _Nothing

    def forget(self) -> None:
        pass

    def prefill(self, context: Any) -> None:
        self.now += 0.002 * len(context)


class _Nothing:
    @staticmethod
    def argmax() -> list[int]:
        return []


def test_the_least_time_of_a_pass_counts_and_more_rows_never_count_as_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = Clock(monkeypatch, lambda rows: 0.001 + 0.0001 * rows if rows != 8 else 0.0001)
    costs = timing.measure(model, None, None)
    assert costs.target.of(16) == pytest.approx(0.0026) and costs.draft is costs.head is None
    assert costs.target.of(8) >= costs.target.of(4) == pytest.approx(0.0014)
    assert model.passes == 0
    drafted = timing.measure(model, model, None).draft
    assert drafted and drafted.reading == pytest.approx(0.002)


def test_costs_are_measured_once_and_a_damaged_file_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model: Any = Clock(monkeypatch, lambda rows: 0.001)
    from ouroboros_core.environment import Environment

    place = Environment("cpu", "bfloat16", 2, "a processor", "3", "2", "5", "0")
    first = timing.costs_of(place, model, None, None, "x")
    made = model.made
    assert timing.costs_of(place, model, None, None, "x") == first and model.made == made
    (file,) = (tmp_path / "ouroboros" / "costs").iterdir()
    for damage in ("{", json.dumps({"target": None, "draft": None, "head": None}), json.dumps([1])):
        file.write_text(damage)
        assert timing.costs_of(place, model, None, None, "x").target.rows == first.target.rows
        assert model.made > made
        made = model.made
    timing.costs_of(place, model, None, None, "another way of computing")
    assert model.made > made
    monkeypatch.setattr(timing, "_write", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    assert timing.costs_of(place, model, None, None, "y").target.rows == first.target.rows
    assert "is not kept: no room" in caplog.text
