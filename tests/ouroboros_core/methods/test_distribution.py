"""Sampling changes no probability: counts at drafted, corrected and bonus slots against the known
distribution, by all rules.

The model is a table: the same next-token probabilities p after every text. The draft proposes from
another distribution q. What is emitted in a slot where a draft was tested, and in a bonus slot,
must follow p; and on a real model whole texts must have the probability that plain forward passes
give them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.memory import Memories, Memory
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.lookup.successors import Successors
from ouroboros_core.methods.parts.base import Context, Resources, TokenizedPrompt
from ouroboros_core.methods.parts.needs import ASSISTED, HEAD_KINDS, Need
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder
from tests import tiny
from tests.seeded_models import CHI_SQUARE, chi_square, law_of_first

pytestmark = pytest.mark.slow


class Written:
    """A candidate generator that always writes the draft's two likeliest tokens."""

    name, passes, rows, failures = "written", 0, 0, 0

    def start(self, *_: Any, **settings: Any) -> None: ...

    def candidates(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        best = np.argsort(-Q)[:2]
        return [(int(token), float(softmax(Q)[token])) for token in best]

    def report(self, *_: Any) -> None: ...


P = np.array([1.2, 0.3, -0.5, 2.0, 0.0, 1.0])
Q = np.array([1.0, 0.9, 0.2, 1.2, -1.0, 0.4])


def goodness(counts: Counter[int], p: Any) -> tuple[float, float]:
    """Chi-square of counts against probabilities over the tokens that are possible, and the
    99.999% point of it; draws are seeded, verdicts repeat."""
    possible = np.flatnonzero(p)
    assert set(counts) <= set(possible)
    expected = counts.total() * p[possible]
    found = chi_square([counts[int(token)] for token in possible], expected)
    return found, CHI_SQUARE[len(possible) - 1]


class Table:
    name, vocabulary, max_length, share = "table", len(P), 10**9, 0.5

    def forget(self) -> None: ...

    def __init__(self, logits: Any) -> None:
        self._logits = logits
        self.passes = self.rows = 0

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Any:
        return (
            dict.fromkeys(context[:-1], np.argsort(-self._logits)[:candidates].tolist())
            if candidates
            else {}
        )

    def plain(self, _: Any) -> Any: ...

    def evaluate(self, _: Any, tree: TokenTree) -> Any:
        self.passes += 1
        self._nodes = range(len(tree))
        return self

    def argmax(self) -> list[int]:
        return [int(self._logits.argmax())] * 1000

    def extend(self, _: Any, tree: TokenTree) -> Any:
        return self.evaluate((), tree)

    def superpose(self, evaluation: Any, _: Any) -> Any:
        self.passes += 1
        return evaluation

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        best = np.argsort(-self._logits)[:k].tolist()
        return [[(token, float(np.log(self.confidence(0, token)))) for token in best]] * len(nodes)

    def likeliest(self, k: int) -> dict[int, list[int]]:
        return dict.fromkeys(self._nodes, np.argsort(-self._logits)[:k].tolist())

    def confidence(self, _: int, token: int) -> float:
        return float(softmax(self._logits)[token])

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [self.confidence(node, token) for node, token in pairs]

    def logits(self, _: int) -> Any:
        return self._logits


class Ranked(Table):
    """Heads that say the same at every place, and how often each of their ranks is right."""

    accuracies, group, block = ((0.5, 0.3, 0.1), (0.4, 0.3)), 4, 4


CORPUS = Corpus.build(np.random.default_rng(0).integers(len(P), size=(20, 50)).tolist())
"""Of random texts."""


class Bush:
    """A head that always drafts the same tree: two likely tokens, and two behind the first."""

    name, vocabulary, passes, rows = "bush", len(Q), 0, 0

    def forget(self) -> None: ...

    def reserve(self, tokens: int) -> None: ...

    def evaluate(self, *_: Any) -> Any:
        return self

    extend = evaluate

    def scored(self, nodes: Sequence[int], _: int) -> list[list[tuple[int, float]]]:
        first, second = (int(token) for token in np.argsort(-Q)[:2])
        return [[(first, -1.0), (second, -1.5)] for _ in nodes]


LONG_DRAFTS: dict[str, dict[str, Any]] = {
    "draft_verify": {"threshold": 0.0, "adaptive": False},  # no draft here is sure
    "ngram_tables": {"kind": "simple", "ngram_size": 2},  # four equal tokens are rare here
}
"""Settings with which a method drafts more than one token here."""

METHODS = tuple(m.id for m in methods.available().values() if m.proposes)
RULES = ("match", "rejection")
SAMPLINGS = (
    Sampling(temperature=0.9, seed=1),
    Sampling(temperature=1.3, top_k=4, top_p=0.9, seed=2),
)
JUDGED = [
    pytest.param("rejection", SAMPLINGS[0], marks=pytest.mark.exact),
    *((rule, SAMPLINGS[1]) for rule in (*RULES, "block")),
]
"""Each rule with some tokens out of question; without, too, in `make exact`."""


SLOTS = 4_000
"""Tokens that are written and counted."""

TREES = ("eagle2", "eagle3")

NEVER_DRAWN = {
    *("ngram", "rest", "lookahead", "token_recycling", "sam", "medusa", "cape", "superposed"),
    *("hf_prompt_lookup", "hf_candidates", "hf_early_exit", "hf_universal"),
    *("hf_mtp", "hf_dflash", "hf_tli"),
}
"""Methods whose proposals are looked up or ranked: by any rule they are judged like those of
`prompt_lookup` and `eagle2`. Whole texts of theirs are counted in `make exact`."""


OTHER_TABLES = {"map-k": (2, 2), "map-k4v": (6, 4), "mod": (2, 1), "cache": (2, 4)}
"""The kinds of `ngram_tables` beside `simple`: tokens that must match, and how many times as many
tokens are written. Longer matches have fewer continuations, of which one can dominate."""


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m != "union"]
)  # there, what is checked depends on what was drafted
@pytest.mark.parametrize(("rule", "sampling"), JUDGED)
def test_every_slot_follows_the_targets_distribution(
    method: str, rule: str, sampling: Sampling
) -> None:
    check_slots(method, rule, sampling, LONG_DRAFTS.get(method, {}))


@pytest.mark.parametrize("kind", OTHER_TABLES)
@pytest.mark.parametrize(("rule", "sampling"), JUDGED)
def test_every_slot_of_a_table_follows_the_targets_distribution(
    kind: str, rule: str, sampling: Sampling
) -> None:
    size, times = OTHER_TABLES[kind]
    changes = {"kind": kind, "ngram_size": size, "num_tokens": 2}
    check_slots("ngram_tables", rule, sampling, changes, times * SLOTS)


def check_slots(
    method: str, rule: str, sampling: Sampling, changes: dict[str, Any], written: int = SLOTS
) -> None:
    sampling = sampling.model_copy(update={"acceptance": rule})
    kind, sampler = methods.get(method), Sampler(sampling, len(P))
    target, draft = Table(P), Table(Q)
    known = kind.Hyperparameters.settings()
    wanted: dict[str, Any] = {"gamma": 2, "prob_threshold": 0.0}
    settings = kind.Hyperparameters.fixed() | {n: v for n, v in wanted.items() if n in known}
    chosen = kind.Hyperparameters.parse(settings | changes)
    has_draft = Need.DRAFT_MODEL in methods.needed(kind, chosen)
    heads: dict[str, Any] = {kind: Ranked(Q) for kind in HEAD_KINDS.values()} | {
        "eagle": Bush(),
        "eagle3": Bush(),
    }
    given = Resources(
        sampler,
        draft if has_draft else None,
        corpus=CORPUS,
        heads=heads,
        self_draft=Table(Q),
        candidate_generators=dict.fromkeys(ASSISTED.values(), Written()),
    )
    instance = methods.create(kind, chosen, given)
    names = ("drafted and accepted or corrected, first", "the same, later", "bonus")
    slots: dict[str, Counter[int]] = {name: Counter() for name in names}
    for step in decode(target, instance, [0], max_new_tokens=written, sampler=sampler):
        for depth, token in enumerate(step.tokens):
            if depth < step.tested:
                slots[names[min(depth, 1)]][token] += 1
            elif step.path:
                slots["bonus"][token] += 1
    for name, counts in slots.items():
        if counts.total() < 500:
            assert name == "bonus", f"the case has too few {name} slots"
            assert method != "speculative", "a chain that is accepted ends in a bonus"
            continue
        chi, limit = goodness(counts, softmax(process(P, sampling)))
        assert chi < limit, f"{name}: {chi:.1f} over {counts.total()}"


def test_the_same_noise_makes_a_draft_agree_far_more_often_than_chance() -> None:
    """Gumbel coupling: agreement lies at or above sum(min(p, q)) / (1 + TV), and well above
    independent draws."""
    sampling = Sampling(temperature=1.0, seed=3)
    sampler = Sampler(sampling, len(P))
    p, q = softmax(P), softmax(Q)
    agree = np.mean(
        [np.argmax(P + sampler.noise(n)) == np.argmax(Q + sampler.noise(n)) for n in range(5000)]
    )
    distance = 0.5 * np.abs(p - q).sum()
    assert agree > (1 - distance) / (1 + distance) - 0.02
    assert agree > (p * q).sum() + 0.2


def _accepted_probabilities(p: Any, q: Any, rule: str) -> Any:
    """Probability that a drafted token is x and is accepted.

    By rejection min(p, q). By matching both models choose x by argmax of log-probability + the same
    Gumbel noise, which has the probability 1 / sum_y max(p_y / p_x, q_y / q_x).
    """
    if rule == "rejection":
        return np.minimum(p, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.maximum(p[None] / p[:, None], q[None] / q[:, None])
    return np.where((p > 0) & (q > 0), 1 / ratios.sum(1), 0.0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "sampling",
    [Sampling(temperature=0.9, seed=1), Sampling(temperature=1.3, top_k=5, top_p=0.95, seed=2)],
)
def test_drafted_corrected_and_bonus_slots_each_have_their_probabilities(
    rule: str, sampling: Sampling
) -> None:
    """And by rejection sampling the share of accepted tokens is 1 - TV(p, q) (Leviathan et al.,
    corollary 3.6)."""
    sampling = sampling.model_copy(update={"acceptance": rule})
    kind, sampler = methods.get("speculative"), Sampler(sampling, len(P))
    method = kind(kind.Hyperparameters.parse({"gamma": 2}), Resources(sampler, Table(Q)))
    names = ("drafted", "corrected", "bonus")
    slots: dict[str, Counter[int]] = {name: Counter() for name in names}
    tested = 0
    for step in decode(Table(P), method, [0], max_new_tokens=12_000, sampler=sampler):
        tested += step.tested
        slots["drafted"].update(step.tree.tokens[node] for node in step.path)
        if step.target_token is not None and step.kind is not None:
            slots["corrected" if step.kind == "correction" else "bonus"][step.target_token] += 1
    p, q = softmax(process(P, sampling)), softmax(process(Q, sampling))
    accepted = _accepted_probabilities(p, q, rule)
    for name, weights in zip(names, (accepted, p - accepted, p), strict=True):
        counts = slots[name]
        wanted = np.maximum(weights, 0) / np.maximum(weights, 0).sum()
        assert set(counts) <= set(np.flatnonzero(wanted > 1e-12))
        common = np.flatnonzero(counts.total() * wanted > 5)
        found = np.array([counts[int(token)] for token in common])
        assert found.sum() > 1000, f"the case has too few {name} slots"
        chi = chi_square(found.tolist(), found.sum() * wanted[common] / wanted[common].sum())
        assert chi < CHI_SQUARE[len(common) - 1], f"{name}: {chi:.1f}"
    if rule == "rejection":
        expected, rate = 1 - 0.5 * float(np.abs(p - q).sum()), slots["drafted"].total() / tested
        assert abs(rate - expected) < 3.3 * (expected * (1 - expected) / tested) ** 0.5


@pytest.mark.parametrize("rule", RULES)
def test_only_for_rejection_a_draft_is_drawn_anew_at_every_step(rule: str) -> None:
    """What a pool has kept of a discarded draft must not tell what the next one will be at the same
    position."""
    sampler = Sampler(Sampling(temperature=1.0, seed=3, acceptance=rule), len(P))
    for name in ("speculative", "ouroboros"):
        kind = methods.get(name)
        chosen = kind.Hyperparameters.parse(kind.Hyperparameters.fixed(gamma=2))
        method = kind(chosen, Resources(sampler, Table(Q)))
        method.start(TokenizedPrompt((0,)), 50)
        drafts = {tuple(method.propose(Context((0,), 50, step)).tokens[1:3]) for step in range(30)}
        assert (len(drafts) > 1) == (rule == "rejection")


@pytest.mark.parametrize("drawn", [(True, True), (True, False), (False, True), (False, False)])
def test_rejection_over_several_candidates_follows_p(drawn: tuple[bool, bool]) -> None:
    """Two siblings, each drawn from q or put there by a rule; equal ones stay two where one was
    drawn. Draws of both are enumerated, each judged by the rule."""
    p, q = softmax(P), softmax(Q)
    emitted = np.zeros(len(p))
    pairs = zip((3, 1), drawn, strict=True)
    draws = [range(len(q)) if is_drawn else (fixed,) for fixed, is_drawn in pairs]
    for tokens in itertools.product(*draws):
        builder, chance = TreeBuilder(0), 1.0
        for token, is_drawn in zip(tokens, drawn, strict=True):
            builder.add(token, 0, Provenance(Source.DRAFT), q if is_drawn else None)
            chance *= float(q[token]) if is_drawn else 1.0
        emitted += chance * law_of_first(builder.build(), p)[0]
    assert emitted == pytest.approx(p, rel=1e-8)


@torch.inference_mode()
def _joint(
    model: Any, text: Sequence[int], length: int, sampling: Sampling
) -> dict[tuple[int, ...], float]:
    """The probability of every continuation of `length` tokens, by plain forward passes."""
    joint: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for done, chance in joint.items():
            logits = model(input_ids=torch.tensor([[*text, *done]]), use_cache=False).logits[0, -1]
            p = softmax(process(logits.numpy(), sampling))
            longer |= {(*done, int(token)): chance * float(p[token]) for token in np.flatnonzero(p)}
        joint = longer
    return joint


def compact() -> tuple[CausalLM, CausalLM]:
    """Llama's pair by the compact pass, which takes a third of the time of transformers' own."""
    target, draft = (make("llama", "sdpa") for make in (tiny.target, tiny.draft))
    return (
        CausalLM(target, "llama", engine="compact"),
        CausalLM(draft, "llama-draft", engine="compact"),
    )


def check_whole_texts(
    architecture: str, method: str, *, warm: bool = False, rule: str = "rejection", **more: Any
) -> None:
    """Counts of three-token texts over many seeds against their probabilities; the prompt repeats
    itself, so phrases apply.

    warm: each text is the second one with the same seed and memory, in which the first has left
    what it wrote.
    """
    models = compact() if architecture == "llama" else tiny.pair(architecture, "sdpa")
    start = tiny.prompt()
    text = [*start, *tiny.plain(models[0].model, start, 30), *start]
    if method in TREES:  # positions like those at which its head was trained
        text = text[:30]
    if method == "hf_early_exit":  # what the first layer says has to be likely
        text = [*tiny.prompt(12, seed=3)] * 3
    if method in tiny.READING_STATES:  # a text whose states suit their random layers
        text = tiny.prompt(12, seed=20)
    # What followed the first time has to be likely the second time.
    if method in ("ngram", "ngram_tables", "hf_prompt_lookup", "hf_candidates"):
        between = ([*start, token, *start] for token in range(tiny.VOCABULARY))
        likely = Sampling(temperature=1.1, top_k=3)
        text = next(
            one
            for one in between
            if _joint(models[0].model, one, 1, likely).get((one[len(start)],), 0.0) > 0.2
        )
    settings: dict[str, Any] = {
        "gamma": 2,
        "extended": True,
        "ngram_size": 3,
        "tree_depth": 2,
        "max_ngram": 1,
        "min_suffix": 1,
        "max_suffix": 1,
        "k_config": "2,1",
        "k_matrix": "2,1;0,2",
        "chains": 2,
        "max_candidates": 2,
        "candidates": 2,
        "merge_tokens": 1,
        "drafts": 2,
    }
    settable = methods.get(method).Hyperparameters.fixed() if more.get("automatic") else {}
    known = methods.get(method).Hyperparameters.settings().keys() - settable.keys()
    settings = {name: value for name, value in settings.items() if name in known} | more
    counts: Counter[tuple[int, ...]] = Counter()
    accepted = rejected = 0
    runs = 900 if warm else 600  # warm drafts are seldom rejected
    for seed in range(runs):
        sampling = Sampling(temperature=1.1, top_k=3, seed=seed, acceptance=rule)
        if (
            method in TREES
        ):  # narrow trees for rejections, wide ones for acceptances: the distribution is the same
            settings |= {"tree_width": (2, 6, 16)[seed % 3], "tree_size": (4, 12, 60)[seed % 3]}
        if method in ("token_recycling", "rest") and not settable:
            settings |= {"tree_size": (1 if method == "rest" else 2, 12)[seed % 2]}
        memory = tiny.new_memory(method, **settings) if warm else None
        if memory is not None:
            drawn = tiny.emitted(
                tiny.run(models, method, text, 3, sampling, memory=memory, **settings)
            )
            _remember(memory, text, drawn)
        steps = tiny.run(models, method, text, 3, sampling, memory=memory, **settings)
        counts[tuple(tiny.emitted(steps))] += 1
        accepted += sum(len(step.path) for step in steps)
        rejected += sum(step.kind == "correction" for step in steps)
    joint = _joint(models[0].model, text, 3, sampling)
    assert set(counts) <= set(joint)
    # Of three tokens, two draws are seldom both rejected. Other models than the first may agree in
    # nearly all of them; the rule that judges them is the same.
    least = 13 if method in ("spectr", "graph") else 33
    enough = accepted > 33 and rejected > least if architecture == "llama" else accepted > 33
    assert enough, "it proves too little"
    common = sorted((t for t in joint if runs * joint[t] >= 8), key=lambda t: -joint[t])
    cells = [(counts[t], runs * joint[t]) for t in common]
    rest = (runs - sum(c for c, _ in cells), runs - sum(e for _, e in cells))
    cells += [rest] if rest[1] > 4 else []
    chi = sum((count - wanted) ** 2 / wanted for count, wanted in cells)
    freedom = len(cells) - 1
    # Wilson and Hilferty: the 99.95% point of chi-square
    assert chi < freedom * (1 - 2 / (9 * freedom) + 3.29 * (2 / (9 * freedom)) ** 0.5) ** 3


@pytest.mark.parametrize(
    "method",
    [pytest.param(m, marks=pytest.mark.exact if m in NEVER_DRAWN else ()) for m in METHODS],
)
def test_whole_texts_have_their_probability_under_rejection(method: str) -> None:
    check_whole_texts("llama", method)


@pytest.mark.parametrize("method", ["speculative", "ouroboros", "spectr", "multi_candidate"])
def test_whole_texts_have_their_probability_where_chains_are_judged_as_blocks(method: str) -> None:
    """Alone, with suffixes behind them, and behind one of several candidates."""
    check_whole_texts("llama", method, rule="block")


def test_copies_merged_into_a_block_keep_the_law() -> None:
    more: dict[str, Any] = {"auxiliary": "speculative", "extended": True, "len_threshold": 1}
    check_whole_texts("llama", "sam", rule="block", **more)


def _remember(memory: Memory, text: Sequence[int], drawn: Sequence[int]) -> None:
    """The worst case: exactly what was drawn is what comes first. A session's text has it
    already."""
    if isinstance(memory, PhrasePool):
        memory.insert(text[-1], tuple(drawn[:2]), Learned.HISTORY, None)
    elif isinstance(memory, Successors):
        for before, token in itertools.pairwise((text[-1], *drawn)):
            memory.learn(before, [token])
    elif isinstance(memory, Memories):
        for part in memory.parts.values():
            _remember(part, text, drawn)


@pytest.mark.parametrize(
    "method",
    [
        "lookahead",
        "ouroboros",
        *(
            pytest.param(method, marks=pytest.mark.exact)
            for method in ("prompt_lookup", "sam", "token_recycling")
        ),
    ],
)
def test_a_warm_memory_does_not_bias_rejection_sampling(method: str) -> None:
    """Judged with the randomness that drew it, an earlier text would be accepted again and
    again."""
    cold: dict[str, Any] = {"extended": False} if method == "token_recycling" else {}
    check_whole_texts("llama", method, warm=True, **cold)


def test_copies_merged_into_a_drafted_tree_keep_the_distribution() -> None:
    """The draft's nodes have the probabilities they were drawn from, the copies have none; both
    hang in one tree."""
    check_whole_texts("llama", "sam", auxiliary="speculative", extended=True, len_threshold=1)


@pytest.mark.parametrize("method", ["speculative", "ouroboros", "union"])
def test_whole_texts_have_their_probability_where_the_method_chooses_by_itself(method: str) -> None:
    """What is judged may depend on anything but the token that is judged."""
    check_whole_texts("llama", method, automatic=True)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("architecture", "method"),
    [case for case in itertools.product(tiny.EIGHT, METHODS) if tiny.possible(*case)],
)
def test_whole_texts_have_their_probability_under_rejection_everywhere(
    architecture: str, method: str
) -> None:
    check_whole_texts(architecture, method)
