"""The words of the token card: each number in them is recomputed from the step."""

import itertools
import math
from dataclasses import replace

import pytest

from ouroboros_core import methods, rules
from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.reasons import NEVER_JUDGED, Reasons, origin, share
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Judged, Seconds, Step, Trial
from ouroboros_core.tree import Learned, Provenance, chain
from tests import tiny
from tests.traces import DRAFT, make_trace
from visualize.run import view as views

PIECES = {1: " a", 10: " return", 11: " print", 12: "\n", 13: " x"}


def reasons(step: Step, sampling: Sampling | None = None) -> Reasons:
    return Reasons(step, sampling or Sampling(), lambda token: PIECES.get(token, f"<{token}>"))


def judged(node: int, **more: object) -> Judged:
    return replace(Judged(node, (10, 11, 13), (0.61, 0.12, 0.27), (0.2, 0.64, 0.16)), **more)  # type: ignore[arg-type]


def step_of(path: tuple[int, ...], target: int | None, *judged: Judged) -> Step:
    return Step(0, chain(1, [11, 13], DRAFT), path, target, 3, Seconds(), judged=judged)


REJECTION = Sampling(temperature=1.0, acceptance="rejection")


def test_a_correction_names_what_both_wanted_and_how_much() -> None:
    sentences = reasons(step_of((), 10, judged(0)))
    assert sentences.of_token(0) == (
        "Corrected: the target's likeliest token is ‘ return’ (61%); the draft proposed ‘ print’ "
        "(the target gives it 12%)."
    )
    assert sentences.of_node(1) == (
        "Rejected: the target wanted ‘ return’ (61%); the draft proposed ‘ print’ (the target "
        "gives it 12%)."
    )
    assert sentences.of_node(2) == NEVER_JUDGED


def test_an_accepted_token_a_bonus_and_a_lone_one_say_so() -> None:
    sentences = reasons(step_of((1, 2), 12, judged(0), judged(1), judged(2)))
    said = "Accepted: the draft proposed it, and it is the target's own choice, ‘ print’ (12%)"
    assert sentences.of_token(0).startswith(said)
    assert sentences.of_node(2) == sentences.of_token(1)
    bonus = sentences.of_token(2)
    assert bonus.startswith("All that was checked was accepted") and "‘↵’" in bonus
    unchecked = reasons(Step(0, chain(1, [], DRAFT), (), 10, 1, Seconds())).of_token(0)
    assert unchecked == "Nothing was checked in this step: the target's own token, ‘ return’."


def test_keyed_noise_and_draws_are_told_with_their_sums() -> None:
    noisy = step_of((), 10, judged(0, noise=(1.5, 0.25, -1.0)))
    said = reasons(noisy, Sampling(temperature=1.0)).of_token(0)
    assert f"log p {math.log(0.61):.2f} + noise 1.50, the largest sum" in said
    assert (
        f"with its noise {math.log(0.12) + 0.25:.2f}" in said
        and "Corrected: the target drew ‘" in said
    )
    trial = Trial(1, 0.5, 0.12, 0.64, accepted=False)
    least = "min(1, p/q) = min(1, 0.12/0.64) = 0.188 for ‘ print’."
    step = step_of((), 10, judged(0, trials=(trial,), left=(0.79, 0.0, 0.21)))
    corrected = reasons(step, REJECTION)
    assert corrected.of_node(1) == f"Rejected: u = 0.5 ≥ {least}"
    drawn = "‘ return’ was drawn from what is left of the target's probabilities, where it has 79%"
    assert drawn in corrected.of_token(0)
    kept = judged(0, trials=(replace(trial, u=0.1, accepted=True),))
    accepted = reasons(step_of((1,), 10, kept, judged(1)), REJECTION).of_token(0)
    assert accepted == f"Accepted: u = 0.1 < {least}"
    looked_up = step_of((), 10, judged(0, trials=(replace(trial, q=None),)))
    said = reasons(looked_up, REJECTION).of_node(1)
    assert "kept with chance p: u = 0.5 ≥ p = 0.12" in said


def test_where_a_proposal_comes_from_is_told() -> None:
    """What is kept from an earlier run is not called a place in this text."""
    window = "phrase learned from the lookahead window at step 5"
    assert origin(Provenance(Source.SUFFIX, Learned.LOOKAHEAD, 4)) == window
    for source in (Source.SUFFIX, Source.PHRASE):
        assert origin(Provenance(source, Learned.HISTORY)) == "phrase learned in an earlier run"
    copy = Provenance(Source.COPY, Learned.PREDICTION, position=2, match=1)
    behind = "behind a match of"
    assert origin(copy) == f"copied from token 3 of the predicted output; {behind} 1 token"
    copy = Provenance(Source.COPY, Learned.HISTORY, match=3)
    assert origin(copy) == f"copied from the text of an earlier run; {behind} 3 tokens"
    forced = Provenance(Source.GRAMMAR, step=1, also=Source.DRAFT)
    assert origin(forced) == (
        "the grammar allows no other token here; also proposed as: draft model"
    )
    recycled = Provenance(Source.RECYCLED, rank=2, also=Source.DRAFT)
    assert origin(recycled) == "candidate number 3; also proposed as: draft model"
    recycled = Provenance(Source.RECYCLED, Learned.HISTORY, 4, rank=1)
    assert origin(recycled) == "kept from an earlier run; candidate number 2"
    shares = [share(x) for x in (0.0, 0.0004, 0.052, 0.5, 0.995)]
    assert shares == ["under 0.1%", "under 0.1%", "5.2%", "50%", "99.5%"]


KINDS = ("speculative", "ouroboros", "eagle2", "union", "token_recycling", "lookahead", "spectr")
"""Methods that run under every rule; the others run under one, which draws what it judges."""


OTHERS = [
    kind.id
    for kind in methods.available().values()
    if kind.proposes and kind.id not in KINDS and not kind.needs & HEAD_KINDS.keys()
]
"""Methods with heads are left out: the heads would have to be trained, and eagle2 has the same
reasons."""


RULES = ("greedy", *rules.available())
RUNS = [*itertools.product(KINDS, RULES), *((method, "rejection") for method in OTHERS)]


@pytest.mark.parametrize(("method", "rule"), RUNS)
def test_every_token_and_every_node_of_a_real_run_has_its_sentence(method: str, rule: str) -> None:
    sampling = Sampling() if rule == "greedy" else Sampling(temperature=0.9, acceptance=rule)
    steps = tiny.run(tiny.pair("llama", "sdpa"), method, tiny.prompt(), 40, sampling, record=True)
    names = {n: f"t{n}" for n in range(tiny.VOCABULARY)}
    trace = replace(make_trace(steps, method, sampling), pieces=names)
    shown = views.run_view(Summary(trace), run="r", seq=1, badge_text="")["steps"]
    for step, view in zip(steps, shown, strict=True):
        assert all(token["why"].endswith(".") for token in view["tokens"])
        if step.kind == "bonus":
            whole = len(step.path) == len(step.tree) - 1
            assert ("All that was checked" in view["tokens"][-1]["why"]) == whole
        refused = [node for n, node in enumerate(view["nodes"], 1) if n not in step.path]
        assert all(node["why"].endswith(".") for node in refused)
        for judged_, rows in zip(step.judged, view["odds"].values(), strict=True):
            assert [row[2] for row in rows] == sorted(judged_.target, reverse=True)
            assert {row[0]: row[1] for row in rows} == {one: names[one] for one in judged_.tokens}


def test_what_was_not_recorded_is_not_claimed_under_rejection_sampling() -> None:
    sentences = reasons(step_of((1,), 10), REJECTION)
    for why in (sentences.of_token(0), sentences.of_token(1), sentences.of_node(2)):
        assert why.endswith("its draws were not recorded.")


def test_behind_the_end_of_the_text_nothing_was_rejected() -> None:
    """The first token ended the text: later proposals were not judged and are not wrong."""
    sentences = reasons(Step(0, chain(1, [11, 13, 10], DRAFT), (1,), None, 4, Seconds()))
    assert [sentences.of_node(node) for node in (2, 3)] == ["The text ended before it."] * 2


def test_a_step_without_a_proposal_says_that_a_window_does_not_pay() -> None:
    choice = Decision(0, 0, 1.0, 50.0, "nothing proposed", window=0)
    step = Step(0, chain(1, [], DRAFT), (), 10, 1, Seconds(verify=1.0), choice=choice)
    why = "(nothing proposed; no window: it does not pay here)"
    assert reasons(step).of_token(0).startswith(f"Nothing was checked in this step {why}:")


def test_a_copy_from_another_branch_says_so() -> None:
    assert origin(replace(DRAFT, match=2)) == (
        "drafted behind the same 2 tokens in another branch, copied from there; the draft gave it "
        "about 64%"
    )
    tree = chain(1, [11, 13, 10], DRAFT)
    tree = replace(tree, provenance=(*tree.provenance[:3], replace(DRAFT, match=2)))
    trial = Trial(3, 0.5, 0.61, None, accepted=True)
    walk = tuple(judged(node, trials=(trial,) * (node == 2)) for node in range(4))
    step = Step(0, tree, (1, 2, 3), 11, 4, Seconds(draft=1.0), 2, judged=walk)
    assert reasons(step, REJECTION).of_token(2) == (
        "Accepted: ‘ return’ was copied from another branch, not drawn, so it is kept with chance "
        "p: u = 0.5 < p = 0.61."
    )
