"""The words of the token card and of the diagnosis: each number in them recomputed from the
trace."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ouroboros_core import methods, rules
from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.reasons import NEVER_JUDGED, Reasons, origin, share
from ouroboros_core.trace.trace import Judged, Seconds, Step, Trace, Trial
from ouroboros_core.tree import Learned, Provenance, chain
from tests import tiny
from tests.traces import make_trace, typed_trace
from visualize.gallery import runs as gallery
from visualize.kit import labels as spoken
from visualize.run import diagnosis as numbers
from visualize.run import figures
from visualize.run import view as views

DRAFT = Provenance(Source.DRAFT, step=0, confidence=0.64)
PIECES = {1: " a", 10: " return", 11: " print", 12: "\n", 13: " x"}


def reasons(step: Step, sampling: Sampling | None = None) -> Reasons:
    return Reasons(step, sampling or Sampling(), lambda token: PIECES.get(token, f"<{token}>"))


def judged(node: int, **more: object) -> Judged:
    return replace(Judged(node, (10, 11, 13), (0.61, 0.12, 0.27), (0.2, 0.64, 0.16)), **more)  # type: ignore[arg-type]


def step_of(path: tuple[int, ...], target: int | None, judged: tuple[Judged, ...]) -> Step:
    return Step(0, chain(1, [11, 13], DRAFT), path, target, 3, Seconds(), judged=judged)


def test_a_correction_names_what_both_wanted_and_how_much() -> None:
    told = reasons(step_of((), 10, (judged(0),)))
    assert told.of_token(0) == (
        "Corrected, the likeliest tokens differ: target wanted ‘ return’ (61%), the draft said "
        "‘ print’ (the target gives it 12%)."
    )
    assert told.of_node(1) == (
        "Rejected: the target wanted ‘ return’ (61%); the draft said ‘ print’ (the target gives it "
        "12%)."
    )
    assert told.of_node(2) == NEVER_JUDGED


def test_an_accepted_token_a_bonus_and_a_lone_one_say_so() -> None:
    whole = step_of((1, 2), 12, (judged(0), judged(1), judged(2)))
    told = reasons(whole)
    assert told.of_token(0).startswith(
        "Accepted: the draft proposed it, and it is the target's own choice, ‘ print’ (12%)"
    )
    assert told.of_node(2) == told.of_token(1)
    assert told.of_token(2).startswith(
        "All that was checked was accepted"
    ) and "‘↵’" in told.of_token(2)
    alone = Step(0, chain(1, [], DRAFT), (), 10, 1, Seconds())
    assert (
        reasons(alone).of_token(0)
        == "Nothing was checked in this step: the target's own token, ‘ return’."
    )


def test_keyed_noise_and_draws_are_told_with_their_sums() -> None:
    sampled = Sampling(temperature=1.0)
    told = reasons(step_of((), 10, (judged(0, noise=(1.5, 0.25, -1.0)),)), sampled).of_token(0)
    assert f"log p {math.log(0.61):.2f} + noise 1.50, the largest sum" in told
    assert f"with its noise {math.log(0.12) + 0.25:.2f}" in told and "the draws differ" in told
    rejection = Sampling(temperature=1.0, acceptance="rejection")
    trial = Trial(1, 0.5, 0.12, 0.64, accepted=False)
    corrected = reasons(
        step_of((), 10, (judged(0, trials=(trial,), left=(0.79, 0.0, 0.21)),)), rejection
    )
    assert (
        corrected.of_node(1)
        == "Rejected: u = 0.5 ≥ min(1, p/q) = min(1, 0.12/0.64) = 0.188 for ‘ print’."
    )
    assert (
        "‘ return’ was drawn from what is left of the target's probabilities, where it has 79%"
        in corrected.of_token(0)
    )
    kept = reasons(
        step_of((1,), 10, (judged(0, trials=(replace(trial, u=0.1, accepted=True),)), judged(1))),
        rejection,
    )
    assert (
        kept.of_token(0)
        == "Accepted: u = 0.1 < min(1, p/q) = min(1, 0.12/0.64) = 0.188 for ‘ print’."
    )
    looked_up = replace(trial, q=None)
    assert "kept with chance p: u = 0.5 ≥ p = 0.12" in reasons(
        step_of((), 10, (judged(0, trials=(looked_up,)),)), rejection
    ).of_node(1)


def test_where_a_proposal_comes_from_is_told() -> None:
    assert (
        origin(Provenance(Source.SUFFIX, Learned.LOOKAHEAD, 4))
        == "phrase learned from the lookahead window at step 5"
    )
    assert origin(Provenance(Source.SUFFIX, Learned.HISTORY)) == "phrase learned in an earlier run"
    assert origin(Provenance(Source.COPY, Learned.PREDICTION, position=2, match=1)) == (
        "copied from token 3 of the predicted output; behind a match of 1 token"
    )
    assert (
        origin(Provenance(Source.RECYCLED, rank=2, also=Source.DRAFT))
        == "candidate number 3; also proposed as: draft model"
    )
    assert [share(x) for x in (0.0, 0.0004, 0.052, 0.5, 0.995)] == [
        "under 0.1%",
        "under 0.1%",
        "5.2%",
        "50%",
        "99.5%",
    ]


KINDS = ("speculative", "ouroboros", "eagle2", "union", "token_recycling", "lookahead", "spectr")
"""Methods of which every rule is tried; of the others one, which draws what it judges."""
RULES = ("greedy", *rules.available())
OTHERS = [
    kind.id
    for kind in methods.available().values()
    if kind.proposes and kind.id not in KINDS and not kind.needs & HEAD_KINDS.keys()
]
"""But for heads that would have to be trained first, whose drafts are told like eagle2's."""


@pytest.mark.parametrize(
    ("method", "rule"),
    [*itertools.product(KINDS, RULES), *((method, "rejection") for method in OTHERS)],
)
def test_every_token_and_every_node_of_a_real_run_has_its_sentence(method: str, rule: str) -> None:
    sampling = Sampling() if rule == "greedy" else Sampling(temperature=0.9, acceptance=rule)
    steps = tiny.run(tiny.pair("llama", "sdpa"), method, tiny.prompt(), 40, sampling, record=True)
    trace = replace(
        make_trace(steps, method, sampling), pieces={n: f"t{n}" for n in range(tiny.VOCABULARY)}
    )
    for step, view in zip(
        steps, views.run_view(trace, None, run="r", seq=1, badge_text="")["steps"], strict=True
    ):
        assert all(token["why"].endswith(".") for token in view["tokens"])
        if step.kind == "bonus":
            assert ("All that was checked" in view["tokens"][-1]["why"]) == (
                len(step.path) == len(step.tree) - 1
            )
        refused = [node for n, node in enumerate(view["nodes"], 1) if n not in step.path]
        assert all(node["why"].endswith(".") for node in refused)
        for judged_, rows in zip(step.judged, view["odds"].values(), strict=True):
            assert [row[2] for row in rows] == sorted(judged_.target, reverse=True)
            assert {row[0]: row[1] for row in rows} == {
                token: f"t{token}" for token in judged_.tokens
            }


def test_what_was_not_recorded_is_not_claimed_under_rejection_sampling() -> None:
    told = reasons(step_of((1,), 10, ()), Sampling(temperature=1.0, acceptance="rejection"))
    for why in (told.of_token(0), told.of_token(1), told.of_node(2)):
        assert why.endswith("its draws were not recorded.")


def test_behind_the_end_of_the_text_nothing_was_rejected() -> None:
    """The first token ended the text: what was proposed behind it was neither judged nor wrong."""
    told = reasons(Step(0, chain(1, [11, 13, 10], DRAFT), (1,), None, 4, Seconds()))
    assert [told.of_node(node) for node in (2, 3)] == ["The text ended before it."] * 2


def baseline() -> Trace:
    plain = [
        Step(n, chain(n, [], DRAFT), (), n + 1, 1, Seconds(prefill=0.5 * (n == 0), verify=0.1))
        for n in range(10)
    ]
    return make_trace(plain, "autoregressive")


def test_the_diagnosis_is_true_of_the_trace() -> None:
    trace, plain = typed_trace(), baseline()
    lines = numbers.diagnosis(trace, plain)
    found = [float(x) for x in re.findall(r"\d+\.\d+", lines[0])]
    cost = (0.4 + 0.2 + 0.2) / 3 / 0.1
    assert metrics.step_cost(trace, plain) == pytest.approx(cost)
    rest = 2.67 - 1.00 - 1.33  # 0.1 / 3 / 0.1, but as shown the parts make the whole
    assert found == pytest.approx(
        [cost, 0.3 / 3 / 0.1, 0.4 / 3 / 0.1, 3.0, rest, 7 / 3, 7 / 3 / cost], abs=0.006
    )
    c, alpha = 0.3 / 5 / 0.1, 5 / 6
    proposed = 6  # 2 in each of three steps: the whole of them tested, the last path accepted
    gamma = 2.0
    needed = metrics.break_even(gamma, cost)
    assert needed is not None and metrics.expected_tokens(needed, gamma) == pytest.approx(cost)
    assert lines[1].startswith(
        f"Each draft pass costs {c:.2f} of a plain step, and {alpha:.0%} of tested tokens are "
        f"accepted ({5 / proposed:.0%} of all that were proposed); with"
    )
    assert f"break-even needs {needed:.0%}" in lines[1]
    assert "It loses: beyond a plain step, drafting costs most" in lines[2]
    assert metrics.break_even(1, 2.5) is None and metrics.expected_tokens(1.0, 3) == 4


def test_a_baseline_from_a_busy_machine_is_said_to_be_one() -> None:
    """Plain passes over one row that took longer than passes over three: no method does that, so
    the speedup says nothing."""

    def slower(factor: float) -> Trace:
        plain = baseline()
        return replace(
            plain,
            steps=tuple(
                replace(s, seconds=replace(s.seconds, verify=0.1 * factor)) for s in plain.steps
            ),
        )

    trace = typed_trace()
    alone = replace(trace, steps=tuple(replace(step, writer=Source.DRAFT) for step in trace.steps))
    assert metrics.slowed(trace, slower(1.2)) is None, "what is usual between two runs"
    assert metrics.slowed(trace, slower(3)) == pytest.approx(3)
    assert metrics.slowed(alone, slower(3)) is None, "a draft model's passes are cheaper"
    assert numbers.diagnosis(trace, slower(3))[0].startswith(
        "The speedup was measured on a busy machine: passes of plain decoding"
    )
    assert "took 3.0× as long" in numbers.diagnosis(trace, slower(3))[0]
    assert views.tiles(trace, slower(3))[1]["mark"] == "measured on a busy machine"


def timed(trace: Trace, seconds: Sequence[float], width: int = 1) -> Trace:
    """A trace with as many steps as seconds, each a pass over so many rows that took them and
    nothing else."""
    first = trace.steps[0]
    steps = [
        replace(first, index=n, width=width, seconds=Seconds(verify=value))
        for n, value in enumerate(seconds)
    ]
    return replace(trace, steps=tuple(steps), texts=trace.texts[:1] * len(steps))


def test_the_spread_of_passes_is_the_interquartile_range_over_the_median_of_passes_as_wide() -> (
    None
):
    """Counted by hand: of 1 to 9 tenths the quartiles (exclusive) are 0.25, 0.5 and 0.75."""
    plain = baseline()
    tenths = [n / 10 for n in range(1, 10)]
    assert metrics.pass_spread(timed(plain, tenths)) == pytest.approx((0.75 - 0.25) / 0.5)
    assert metrics.pass_spread(timed(plain, [0.1] * 7)) is None, "too few to tell"
    narrow, wide = timed(plain, [0.1] * 8), timed(plain, [0.5] * 8, width=6)
    both = replace(narrow, steps=(*narrow.steps, *wide.steps))
    assert metrics.pass_spread(both) == pytest.approx(0), "wider passes may take longer"
    alone = [replace(step, width=n + 10) for n, step in enumerate(timed(plain, tenths).steps)]
    assert metrics.pass_spread(replace(narrow, steps=(*narrow.steps, *alone))) == pytest.approx(
        0
    ), "nothing is as wide as they"


def judged_busy(trace: Trace, plain: Trace) -> list[object]:
    return list(metrics.busy(trace, plain) or ())


def test_a_speedup_that_passes_cannot_explain_is_said_to_be_measured_on_a_busy_machine() -> None:
    """typed_trace yields 7 tokens in 3 steps; plain decoding needs 7 steps."""
    trace = replace(
        typed_trace(),
        steps=tuple(replace(s, seconds=Seconds(verify=0.1)) for s in typed_trace().steps),
    )
    length = metrics.mean_acceptance_length(trace)

    def plain(factor: float) -> Trace:
        """Whose passes take so much longer, all alike."""
        steps = tuple(
            replace(step, seconds=Seconds(verify=0.1 * factor)) for step in baseline().steps
        )
        return replace(baseline(), steps=steps)

    assert metrics.speedup(trace, plain(1.1)) == pytest.approx(1.1 * length)
    assert metrics.busy(trace, plain(1.0)) is None
    assert metrics.busy(trace, plain(1.04)) is None, "what is usual between two runs"
    assert "mark" not in views.tiles(trace, plain(1.04))[1]
    assert "busy" not in numbers.diagnosis(trace, plain(1.04))[0]
    assert judged_busy(trace, plain(1.1)) == ["beyond", pytest.approx(1.1)]
    alone = replace(trace, steps=tuple(replace(step, writer=Source.DRAFT) for step in trace.steps))
    assert metrics.busy(alone, plain(1.1)) is None, "a draft model's passes are cheaper"
    assert judged_busy(trace, plain(2.0)) == ["slowed", pytest.approx(2.0)]
    steady = timed(baseline(), [0.1] * 9)
    unsteady = timed(baseline(), [0.06, 0.07, 0.08, 0.1, 0.1, 0.1, 0.12, 0.13, 0.14])
    assert metrics.busy(steady, steady) is None
    for pair in ((steady, unsteady), (unsteady, steady)):
        assert judged_busy(*pair) == ["unsteady", pytest.approx(metrics.pass_spread(unsteady))]
        assert views.lane_view("union", *pair, None)["row"][-2].endswith(
            "×, measured on a busy machine"
        )
    assert views.lane_view("autoregressive", unsteady, unsteady, None)["row"][-2] == "1.00×", (
        "it is not compared with itself"
    )


def test_what_is_kept_from_an_earlier_run_is_not_called_a_place_in_this_text() -> None:
    copy = Provenance(Source.COPY, Learned.HISTORY, match=3)
    assert origin(copy) == "copied from the text of an earlier run; behind a match of 3 tokens"
    recycled = Provenance(Source.RECYCLED, Learned.HISTORY, 4, rank=1)
    assert origin(recycled) == "kept from an earlier run; candidate number 2"
    phrase = Provenance(Source.PHRASE, Learned.HISTORY)
    assert origin(phrase) == "phrase learned in an earlier run"


def test_the_pool_is_told_by_where_its_phrases_were_learned_and_what_paid_off() -> None:
    trace = replace(typed_trace(), pieces={20: " a", 21: " b"})
    section = numbers.phrase_pool(trace)
    assert section is not None
    assert section["lines"] == [
        "9 phrases at the end. In 1 of 3 steps (33%) some of them were checked by the target; 1 of "
        "their tokens were accepted.",
        "Phrases that paid off: ‘ b’.",
    ]
    assert section["rows"] == [["in an earlier run", 1, 1]]
    assert numbers.phrase_pool(baseline()) is None


def test_it_is_told_that_a_window_does_not_pay() -> None:
    choice = Decision(0, 0, 1.0, 50.0, "nothing proposed", window=0)
    step = Step(0, chain(1, [], DRAFT), (), 10, 1, Seconds(verify=1.0), choice=choice)
    why = "(nothing proposed; no window: it does not pay here)"
    assert reasons(step).of_token(0).startswith(f"Nothing was checked in this step {why}:")
    for plain in (None, replace(baseline(), prompt=make_trace([step]).prompt)):
        told = numbers.sections(make_trace([step]), plain)[0]["lines"]
        assert told[-1] == ("No window: it does not pay here, and so there was nothing to propose.")
    assert "nothing proposed; no window" in str(figures.choices([step]))


def test_the_line_of_a_run_has_its_preset() -> None:
    published = dict(methods.get("lookahead").published)
    told = views.describe("lookahead", published, "T")
    assert told == ("Lookahead decoding, as published, window size 15, guess set size 15, on T")
    extended = methods.get("lookahead").Hyperparameters.parse({"extended": True}).model_dump()
    assert views.describe("lookahead", extended, "T") == "Lookahead decoding, extended, on T"


def test_the_line_of_a_run_has_words_and_no_names_of_code() -> None:
    """The oracle: what `Hyperparameters` calls its fields, and the ids of the methods."""
    union = methods.get("union").Hyperparameters().model_dump()
    assert views.describe("union", union, "owner/T", "owner/D", None) == (
        "Union of all sources, on T with D"
    )
    assert views.describe("union", union | {"tree_size": 12}, "T") == (
        "Union of all sources, tree size 12, on T"
    )
    assert spoken.run("union", union | {"window_size": "auto"}) == "Union of all sources"
    assert spoken.label("gamma") == "Draft length (gamma)", "messages call it gamma"
    assert spoken.label("window_size") == "Window size"
    assert views.describe("speculative", {"gamma": 3}, "T") == (
        "Speculative decoding, draft length 3, on T"
    )
    assert views.describe("autoregressive", {}, "T") == "Plain decoding, on T"
    assert views.describe("of another program", {"size": 3}, "T").startswith("of another program")
    for kind in methods.available().values():
        told = spoken.run(kind.id, kind.Hyperparameters().model_dump())
        assert "_" not in told and told.startswith(kind.name), told


def test_the_new_charts_show_what_was_counted() -> None:
    trace, plain = typed_trace(), baseline()
    positions = figures.acceptance_by_position(trace)["data"][0]
    assert list(positions["y"]) == [1.0, 2 / 3] and positions["customdata"] == ["3 of 3", "2 of 3"]
    bars = {bar["name"]: list(bar["x"]) for bar in figures.time_breakdown(trace, plain)["data"]}
    assert bars["verify"] == pytest.approx([1000 * 1.0 / 10, 1000 * 0.4 / 7])
    curve, point = figures.break_even(trace, plain)["data"]
    assert list(point["x"]) == pytest.approx([5 / 6])
    cost = metrics.step_cost(trace, plain)
    assert (
        cost
        and list(point["y"]) == pytest.approx([7 / 3 / cost])
        and next(iter(curve["y"])) == pytest.approx(1 / cost)
    )
    growth, paid = figures.pool_growth(trace.steps)["data"]
    assert list(growth["y"]) == [7, 9, 9] and list(paid["x"]) == [2]


@pytest.mark.parametrize(
    ("processor", "short"),
    [
        ("Intel(R) Xeon(R) Processor (amx_bf16)", "Intel Xeon"),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "Intel Core i7-9750H"),
        ("AMD EPYC 7B13 64-Core Processor", "AMD EPYC 7B13 64-Core"),
        ("NVIDIA H200", "NVIDIA H200"),
    ],
)
def test_a_recorded_run_says_on_which_processor_in_few_words(processor: str, short: str) -> None:
    trace = gallery.trace("story-speculative-8")
    there = replace(trace, environment=replace(trace.environment, processor=processor))
    named = f"recorded with SmolLM2-135M-Instruct on {short}, {trace.created[:10]}"
    assert views.badge(there) == named


def test_a_copy_from_another_branch_and_what_merging_saved_are_told() -> None:
    """The numbers are counted by hand in a tree of two drafted nodes and a copy."""
    assert origin(replace(DRAFT, match=2)) == (
        "drafted behind the same 2 tokens in another branch, copied from there; the draft gave it "
        "about 64%"
    )
    tree = chain(1, [11, 13, 10], DRAFT)
    tree = replace(tree, provenance=(*tree.provenance[:3], replace(DRAFT, match=2)))
    step = Step(0, tree, (1, 2, 3), 11, 4, Seconds(draft=1.0), 2, draft_rows_saved=3)
    rejecting = Sampling(temperature=1.0, acceptance="rejection")
    trial = Trial(3, 0.5, 0.61, None, accepted=True)
    walk = tuple(judged(node, trials=(trial,) * (node == 2)) for node in range(4))
    assert reasons(replace(step, judged=walk), rejecting).of_token(2) == (
        "Accepted: ‘ return’ was copied from another branch, not drawn, so it is kept with chance "
        "p: u = 0.5 < p = 0.61."
    )
    plain = Step(1, chain(11, [], DRAFT), (), 10, 1, Seconds(verify=1.0))
    section = numbers.merging(make_trace([step, plain], "graph"))
    assert section is not None and section["lines"] == [
        "Continuations that are equal were drafted once: 3 tokens fewer in 1 of 2 steps. "
        "1 token checked by the target came from another branch, 1 of them accepted."
    ]
    assert numbers.merging(typed_trace()) is None
    assert views.step_view(step, ["a"] * 4, Sampling(), str)["saved"] == 3
