"""What the models thought at each position, compared with plain passes over the whole text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ouroboros_core import methods
from ouroboros_core.decoding.recorder import TOP, Recorder
from ouroboros_core.methods.parts.needs import HEAD_KINDS, Need
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.skips import without
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Judged, Step
from tests import tiny
from tests.tiny import emitted, prompt, run, writer

METHODS = list(methods.available())
OWN_PASSES = {Need.DRAFT_MODEL, Need.SELF_DRAFT}
"""Drafters whose opinion a plain pass over the text has, too."""
MIXED_ROWS = {"draft_only", "superposed"}
DRAFTED = [m for m in METHODS if methods.get(m).needs & OWN_PASSES and m not in MIXED_ROWS]
DRAFTED += ["union"]
HEADS = [m for m in METHODS if methods.get(m).needs & HEAD_KINDS.keys()]
RULES = {
    "greedy": Sampling(),
    "match": Sampling(temperature=0.8, top_k=12, top_p=0.95, seed=4),
    "rejection": Sampling(temperature=0.8, top_p=0.95, seed=4, acceptance="rejection"),
}


@torch.inference_mode()
def probabilities_of(model: Any, text: list[int], sampling: Sampling) -> Any:
    """The oracle: probabilities after a text, by one plain pass over all of it."""
    logits = model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1].numpy()
    return softmax(process(logits, sampling) if sampling.temperature else logits.astype(np.float64))


def judged_in(text: list[int], steps: list[Step]) -> Any:
    """(step, what was judged, the text before it, the token that was chosen there)."""
    for step in steps:
        assert [judged.node for judged in step.judged] == [0, *step.path][: len(step.tokens)]
        for judged, chosen in zip(step.judged, step.tokens, strict=True):
            yield step, judged, list(text), chosen
            text = [*text, chosen]


@pytest.mark.parametrize("method", ["speculative", "prompt_lookup"])
@pytest.mark.parametrize("rule", RULES)
def test_what_drawing_takes_is_part_of_its_phase(method: str, rule: str) -> None:
    for step in run(tiny.pair("llama", "sdpa"), method, prompt(), 12, RULES[rule]):
        took = step.seconds
        sampled, drafted = rule != "greedy", step.draft_passes > 0
        assert (took.verify_sampling > 0) == sampled
        assert (took.draft_sampling > 0) == (sampled and drafted)
        assert took.verify_sampling < took.verify
        assert took.draft_sampling <= took.draft


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", METHODS)
def test_the_targets_opinion_is_that_of_a_plain_pass(method: str, rule: str) -> None:
    models, sampling = tiny.pair("llama", "sdpa"), RULES[rule]
    steps = run(models, method, prompt(), 30, sampling, record=True)
    model = writer(models, method).model
    for step, judged, text, chosen in judged_in(prompt(), steps):
        wanted = probabilities_of(model, text, sampling)
        assert judged.target == pytest.approx([wanted[token] for token in judged.tokens], abs=1e-4)
        best = set(np.argsort(-wanted)[:TOP].tolist())
        assert {token for token in best if wanted[token] > 1e-4} <= set(judged.tokens)
        assert {
            chosen,
            *(step.tree.tokens[child] for child in step.tree.children(judged.node)),
        } <= set(judged.tokens)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", DRAFTED)
def test_the_drafts_opinion_is_that_of_a_plain_pass_of_the_draft(method: str, rule: str) -> None:
    models, sampling = tiny.pair("llama", "sdpa"), RULES[rule]
    drafter = models[1].model
    if method == "draft_verify":
        drafter = without(models[0].model, tiny.self_draft(models[0]).skips)
    # Copies of the corpus are so sure here that union asks no draft beside them.
    alone: dict[str, Any] = {"copying": False} if method == "union" else {}
    seen = 0
    for step, judged, text, _ in judged_in(
        prompt(), run(models, method, prompt(), 40, sampling, record=True, **alone)
    ):
        drafts = [
            c
            for c in step.tree.children(judged.node)
            if step.tree.provenance[c].source is Source.DRAFT
            and not step.tree.provenance[c].match  # a copy of what was drafted elsewhere
        ]
        assert bool(judged.draft) >= bool(drafts)
        if judged.draft:
            wanted = probabilities_of(drafter, text, sampling)
            assert judged.draft == pytest.approx(
                [wanted[token] for token in judged.tokens], abs=1e-4
            )
            seen += 1
    assert seen > (0 if method == "union" else 5), (
        "union soon stops asking a draft that is seldom right"
    )


@pytest.mark.parametrize("rule", ["greedy", "rejection"])
@pytest.mark.parametrize("method", HEADS)
def test_a_heads_opinion_is_there_where_it_was_asked(method: str, rule: str) -> None:
    few: dict[str, Any] = {"tree_depth": 3, "tree_width": 2} if method == "eagle2" else {}
    models = tiny.pair("llama", "sdpa")
    steps = run(models, method, prompt(), 40, RULES[rule], record=True, **few)
    seen = 0
    for step, judged, _, _ in judged_in(prompt(), steps):
        if judged.node == 0 and len(step.tree) > 1:
            given = {
                step.tree.tokens[c]: step.tree.provenance[c].confidence
                for c in step.tree.children(0)
            }
            said = dict(zip(judged.tokens, judged.draft, strict=True))
            if rule == "greedy":
                assert {token: round(said[token], 2) for token in given} == pytest.approx(
                    given, abs=0.011
                )
            assert 0 < sum(judged.draft) <= 1.001
            seen += 1
    assert seen > 3


def test_with_keyed_noise_the_largest_sum_was_chosen() -> None:
    steps = run(
        tiny.pair("llama", "sdpa"), "speculative", prompt(), 40, RULES["match"], record=True
    )
    sampler = Sampler(RULES["match"], tiny.VOCABULARY)
    sampler.begin(prompt())
    for _, judged, text, chosen in judged_in(prompt(), steps):
        noise = sampler.noise(len(text))
        assert judged.noise == pytest.approx([noise[token] for token in judged.tokens], abs=1e-4)
        sums = np.log(np.maximum(judged.target, 1e-300)) + judged.noise
        assert judged.tokens[int(np.argmax(sums))] == chosen


@pytest.mark.parametrize("method", ["speculative", "ouroboros", "token_recycling"])
def test_under_rejection_sampling_every_draw_is_there(method: str) -> None:
    """A candidate is kept exactly if u < min(1, p/q); after the last rejection the correction comes
    from what is left of p."""
    models = (
        tiny.pair("llama", "sdpa")[0],
        CausalLM(tiny.draft("llama", "sdpa", noise=0.8), "noisy"),
    )
    steps = run(models, method, prompt(), 60, RULES["rejection"], record=True)
    kept = rejected = 0
    for step, judged, text, chosen in judged_in(prompt(), steps):
        for trial in judged.trials:
            assert trial.accepted == (trial.node in step.path)
            ratio = trial.p if trial.q is None else min(1.0, trial.p / trial.q) if trial.q else 1.0
            assert trial.accepted == (trial.u < ratio) or abs(trial.u - ratio) < 1e-3
            kept, rejected = kept + trial.accepted, rejected + (not trial.accepted)
        assert [t.node for t in judged.trials] == step.tree.children(judged.node)[
            : len(judged.trials)
        ]
        assert bool(judged.left) == (bool(judged.trials) and not judged.trials[-1].accepted)
        if judged.left:
            assert dict(zip(judged.tokens, judged.left, strict=True))[chosen] > 0
            if len(judged.trials) == 1 and judged.draft and judged.trials[0].q is not None:
                over = np.maximum(
                    probabilities_of(models[0].model, text, RULES["rejection"])
                    - probabilities_of(models[1].model, text, RULES["rejection"]),
                    0,
                )
                assert judged.left == pytest.approx(
                    [(over / over.sum())[token] for token in judged.tokens], abs=1e-3
                )
    assert kept > 5 and rejected > 5


def test_recording_changes_no_token_and_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps by an hour whenever something is recorded."""
    models, now = tiny.pair("llama", "sdpa"), [0.0]
    look = Recorder.look

    def slow(*arguments: Any) -> tuple[Judged, ...]:
        now[0] += 3600
        return look(*arguments)

    def clock() -> float:
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr(Recorder, "look", slow)
    monkeypatch.setattr("time.perf_counter", clock)
    for method in ("ouroboros", "lookahead"):
        recorded, bare = (
            run(models, method, prompt(), 30, record=record) for record in (True, False)
        )
        assert emitted(recorded) == emitted(bare)
        assert [
            replace(s, judged=(), window=(), seconds=b.seconds)
            for s, b in zip(recorded, bare, strict=True)
        ] == bare
        assert sum(s.seconds.prefill + s.seconds.decode for s in recorded) < 60
        assert all(s.judged for s in recorded) and not any(s.judged for s in bare)


def test_the_lookahead_window_is_kept_on_request() -> None:
    models = tiny.pair("llama", "sdpa")
    steps = run(models, "lookahead", prompt(), 30, record=True, window_size=3, ngram_size=4)
    assert all(len(step.tree) + len(step.window) == step.width for step in steps)
    assert all(
        parent < len(step.tree) + n for step in steps for n, (_, parent) in enumerate(step.window)
    )
    assert any(step.window for step in steps)
