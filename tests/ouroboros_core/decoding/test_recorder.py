"""The models' probabilities at each position, compared with plain passes over the whole text."""

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

LLAMA = ("llama", "sdpa")
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


def recorded(models: Any, method: str, rule: str, count: int = 40, **settings: Any) -> Any:
    """`judged_in` of a run."""
    steps = run(models, method, prompt(), count, RULES[rule], record=True, **settings)
    return judged_in(prompt(), steps)


def near(judged: Judged, wanted: Any, within: float = 1e-4) -> Any:
    """The numbers of the judged tokens among those of all tokens."""
    return pytest.approx([wanted[token] for token in judged.tokens], abs=within)


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
    models = tiny.pair(*LLAMA)
    model = writer(models, method).model
    for step, judged, text, chosen in recorded(models, method, rule, 30):
        wanted = probabilities_of(model, text, RULES[rule])
        assert judged.target == near(judged, wanted)
        best = {token for token in np.argsort(-wanted)[:TOP].tolist() if wanted[token] > 1e-4}
        children = {step.tree.tokens[child] for child in step.tree.children(judged.node)}
        assert {chosen, *best, *children} <= set(judged.tokens)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", DRAFTED)
def test_the_drafts_opinion_is_that_of_a_plain_pass_of_the_draft(method: str, rule: str) -> None:
    models = tiny.pair(*LLAMA)
    drafter = models[1].model
    if method == "draft_verify":
        drafter = without(models[0].model, tiny.self_draft(models[0]).skips)
    # Copies of the corpus are so sure here that union asks no draft beside them.
    alone: dict[str, Any] = {"copying": False} if method == "union" else {}
    seen = 0
    for step, judged, text, _ in recorded(models, method, rule, **alone):
        origins = [step.tree.provenance[child] for child in step.tree.children(judged.node)]
        # One with a match is a copy of what was drafted elsewhere.
        drafts = [one for one in origins if one.source is Source.DRAFT and not one.match]
        assert bool(judged.draft) >= bool(drafts)
        if judged.draft:
            assert judged.draft == near(judged, probabilities_of(drafter, text, RULES[rule]))
            seen += 1
    assert seen > (0 if method == "union" else 5), "union soon stops asking one seldom right"


@pytest.mark.parametrize("rule", ["greedy", "rejection"])
@pytest.mark.parametrize("method", HEADS)
def test_a_heads_opinion_is_there_where_it_was_asked(method: str, rule: str) -> None:
    few: dict[str, Any] = (
        {"tree_depth": 3, "tree_width": 2} if method in ("eagle2", "eagle3") else {}
    )
    seen = 0
    for step, judged, _, _ in recorded(tiny.pair(*LLAMA), method, rule, **few):
        if judged.node == 0 and len(step.tree) > 1:
            tree, said = step.tree, dict(zip(judged.tokens, judged.draft, strict=True))
            given = {tree.tokens[c]: tree.provenance[c].confidence for c in tree.children(0)}
            if rule == "greedy":
                rounded = {token: round(said[token], 2) for token in given}
                assert rounded == pytest.approx(given, abs=0.011)
            assert 0 < sum(judged.draft) <= 1.001
            seen += 1
    assert seen > 3


def test_with_keyed_noise_the_largest_sum_was_chosen() -> None:
    sampler = Sampler(RULES["match"], tiny.VOCABULARY)
    sampler.begin(prompt())
    for _, judged, text, chosen in recorded(tiny.pair(*LLAMA), "speculative", "match"):
        assert judged.noise == near(judged, sampler.noise(len(text)))
        sums = np.log(np.maximum(judged.target, 1e-300)) + judged.noise
        assert judged.tokens[int(np.argmax(sums))] == chosen


@pytest.mark.parametrize("method", ["speculative", "ouroboros", "token_recycling"])
def test_under_rejection_sampling_every_draw_is_there(method: str) -> None:
    """A candidate is kept exactly if u < min(1, p/q); after the last rejection the correction comes
    from what is left of p."""
    target, noisy = tiny.target(*LLAMA), tiny.draft(*LLAMA, noise=0.8)
    models = CausalLM(target, "llama"), CausalLM(noisy, "noisy")
    kept = rejected = 0
    for step, judged, text, chosen in recorded(models, method, "rejection", 60):
        trials = judged.trials
        for trial in trials:
            assert trial.accepted == (trial.node in step.path)
            ratio = trial.p if trial.q is None else min(1.0, trial.p / trial.q) if trial.q else 1.0
            assert trial.accepted == (trial.u < ratio) or abs(trial.u - ratio) < 1e-3
            kept, rejected = kept + trial.accepted, rejected + (not trial.accepted)
        children = step.tree.children(judged.node)
        assert [trial.node for trial in trials] == children[: len(trials)]
        assert bool(judged.left) == (bool(trials) and not trials[-1].accepted)
        if judged.left:
            assert dict(zip(judged.tokens, judged.left, strict=True))[chosen] > 0
            if len(trials) == 1 and judged.draft and trials[0].q is not None:
                p, q = (probabilities_of(one, text, RULES["rejection"]) for one in (target, noisy))
                over = np.maximum(p - q, 0)
                assert judged.left == near(judged, over / over.sum(), 1e-3)
    assert kept > 5 and rejected > 5


def test_recording_changes_no_token_and_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps by an hour whenever something is recorded."""
    models, now = tiny.pair(*LLAMA), [0.0]
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
        found, bare = (run(models, method, prompt(), 30, record=asked) for asked in (True, False))
        assert emitted(found) == emitted(bare)
        for step, other in zip(found, bare, strict=True):
            assert replace(step, judged=(), window=(), seconds=other.seconds) == other
        assert sum(s.seconds.prefill + s.seconds.decode for s in found) < 60
        assert all(s.judged for s in found) and not any(s.judged for s in bare)


def test_the_lookahead_window_is_kept_on_request() -> None:
    sizes: dict[str, Any] = {"window_size": 3, "ngram_size": 4}
    steps = run(tiny.pair(*LLAMA), "lookahead", prompt(), 30, record=True, **sizes)
    for step in steps:
        assert len(step.tree) + len(step.window) == step.width
        assert all(parent < len(step.tree) + n for n, (_, parent) in enumerate(step.window))
    assert any(step.window for step in steps)
