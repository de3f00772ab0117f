"""The embedded pair: a real model, a real draft, in float32, against transformers alone."""

import itertools
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch

from ouroboros_core import methods
from ouroboros_core.benchmark.prompts import own_prompts
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import embedded
from ouroboros_core.loading.pairs import Pair, Placement, load_pair
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.needs import HEAD_KINDS, Need
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import build
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import divergence
from ouroboros_core.tree import Learned
from scripts import record
from tests import tiny
from visualize.gallery import runs as gallery

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

ALONE = tuple(m.id for m in methods.available().values() if not m.proposes)
ABLE = tuple(
    method.id
    for method in methods.available().values()
    if not method.needs & {Need.CANDIDATES, Need.MTP, Need.BLOCK_DRAFT}
    and all(embedded.head_folder(HEAD_KINDS[n]).exists() for n in method.needs if n in HEAD_KINDS)
)
"""The methods that can run with what ships; candidate generators come from one's own script, and
no MTP layers or DFlash drafter ships."""
TEXTS = tuple(sorted((question.turns[0] for question in own_prompts()), key=len))
"""The short ones first: the oracle has no cache."""
REPEAT = "Say three times: the cat sat on the mat, and the dog sat on the log."
"""Who copies the prompt finds what to copy."""
DRAWN: dict[str, Any] = {"temperature": 0.6, "top_k": 40, "top_p": 0.9}
SAMPLINGS = (Sampling(), *(Sampling(**DRAWN, seed=seed) for seed in tiny.SEEDS))


@cache
def _oracle(
    model: Any, text: tuple[int, ...], count: int, sampling: Sampling, stop: frozenset[int]
) -> tuple[int, ...]:
    return tuple(tiny.plain(model, text, count, sampling, stop))


class Trimmed:
    """A transformers model that gives tokens outside a set no chance."""

    def __init__(self, model: Any, outputs: Sequence[int]) -> None:
        self.model, self.config = model, model.config
        self.others = torch.ones(model.config.vocab_size, dtype=torch.bool)
        self.others[list(outputs)] = False

    def __call__(self, **arguments: Any) -> Any:
        output = self.model(**arguments)
        output.logits.masked_fill_(self.others, -torch.inf)
        return output


@cache
def _alone(draft: CausalLM) -> Any:
    """Return the model that writes if a draft writes alone."""
    return Trimmed(draft.model, draft.outputs) if draft.outputs else draft.model


def _writer(pair: Pair, method: str) -> Any:
    if pair.draft and methods.get(method).writer is Source.DRAFT:
        return _alone(pair.draft)
    return pair.target.model


SHORT_DRAFTS: dict[str, dict[str, Any]] = {
    "jacobi": {"block_size": 1},
    "ngram_tables": {"ngram_size": 1, "num_tokens": 2},
}
"""Settings of methods without gamma with which drafts are accepted whole, in part and not at all."""


def check_equal(
    pair: Pair, method: str, sampling: Sampling, questions: Sequence[str], count: int
) -> None:
    """Prompt after prompt until an accepted, a rejected and a bonus step were among them; the
    oracle uses no cache."""
    kind = methods.get(method)
    settings = kind.Hyperparameters.fixed() | SHORT_DRAFTS.get(method, {})
    if "gamma" in kind.Hyperparameters.settings():
        settings |= {"gamma": 2}
    model, stop = _writer(pair, method), pair.stop_tokens
    shown: set[str] = set()
    for question in questions:
        task = Task(question, method, kind.Hyperparameters.parse(settings), sampling, count)
        trace = Generation(pair, task).run()
        assert trace.tokens == _oracle(model, trace.prompt.tokens, count, sampling, stop)
        for step in trace.steps:
            shown |= {"rejected"} if step.kind == "correction" else set()
            shown |= {"accepted", str(step.kind)} if step.path else set()
        if method in ALONE or {"accepted", "rejected", "bonus"} <= shown:
            return
    raise AssertionError(f"these prompts show {sorted(shown)} steps: the case proves too little")


@pytest.mark.parametrize("method", [m for m in ABLE if m not in ALONE])
@pytest.mark.parametrize("sampling", SAMPLINGS[:2], ids=["greedy", "sampled"])
def test_the_text_is_that_of_transformers_alone(
    embedded_pair: Pair, method: str, sampling: Sampling
) -> None:
    check_equal(embedded_pair, method, sampling, (REPEAT, *TEXTS[:8]), 24)


@pytest.mark.exact
@pytest.mark.parametrize(("method", "sampling"), list(itertools.product(ABLE, SAMPLINGS)))
def test_the_text_is_that_of_transformers_alone_everywhere(
    embedded_pair: Pair, method: str, sampling: Sampling
) -> None:
    check_equal(embedded_pair, method, sampling, TEXTS, 64)


@pytest.fixture(scope="module")
def fast_pair() -> Pair:
    """The pair as the page loads it."""
    return load_pair(placement=Placement("cpu"))


def run_ouroboros(pair: Pair, pool: PhrasePool | None = None) -> tuple[Counter[Learned], float]:
    """Return accepted suffix tokens by origin, and draft passes per draft token, on four prompts."""
    kind = methods.get("ouroboros")
    # Short drafts are often accepted whole.
    settings = kind.Hyperparameters.parse(kind.Hyperparameters.fixed(gamma=2, ngram_size=5))
    suffixes, draft_passes, drafted = Counter[Learned](), 0, 0
    for question in own_prompts(4):
        task = Task(question.turns[0], kind.id, settings, max_new_tokens=64)
        trace = Generation(pair, task, pool).run()
        suffixes += metrics.accepted_by_learned(trace)
        draft_passes += sum(step.draft_passes for step in trace.steps)
        origins = (origin for step in trace.steps for origin in step.tree.provenance)
        drafted += sum(origin.source is Source.DRAFT for origin in origins)
    return suffixes, draft_passes / drafted


def test_phrases_from_every_source_are_accepted_and_make_drafting_cheaper(fast_pair: Pair) -> None:
    """Suffixes are learned from lookahead and from verification cold, from history warm."""
    suffixes, cold_passes = run_ouroboros(fast_pair)
    assert suffixes[Learned.LOOKAHEAD] > 0 and suffixes[Learned.VERIFICATION] > 0
    assert cold_passes < 1
    guesses = methods.get("ouroboros").Hyperparameters().model_dump()["guess_set_size"]
    pool = PhrasePool(5, guesses, fingerprint=fast_pair.fingerprint)
    run_ouroboros(fast_pair, pool)
    suffixes, warm_passes = run_ouroboros(fast_pair, pool)
    assert suffixes[Learned.HISTORY] > 0 and warm_passes < cold_passes


def test_in_half_precision_a_difference_from_plain_decoding_is_a_tie(fast_pair: Pair) -> None:
    kind = methods.get("ouroboros")
    for text in TEXTS[:4]:
        task = Task(text, kind.id, kind.Hyperparameters(), max_new_tokens=48)
        trace, plain = (Generation(fast_pair, one).run() for one in (task, task.plain()))
        found = divergence(fast_pair.target, trace, plain)
        assert found is None or found.tie, found


def test_a_pool_of_another_tokenizer_is_refused(embedded_pair: Pair) -> None:
    task = Task("Hi", "ouroboros", methods.get("ouroboros").Hyperparameters())
    with pytest.raises(InvalidInput, match="belongs to another tokenizer"):
        Generation(embedded_pair, task, PhrasePool(3, 4, fingerprint="other"))


def test_the_draft_shares_the_targets_embeddings(embedded_pair: Pair) -> None:
    draft, target = embedded_pair.draft, embedded_pair.target
    assert draft is not None and draft.drafts and not target.drafts, "who is asked how sure"
    mine, theirs = (one.model.get_input_embeddings().weight for one in (draft, target))
    assert mine.data_ptr() == theirs.data_ptr()


@pytest.fixture(scope="module")
def recorded_pair() -> Pair:
    """The embedded pair as the gallery's runs are recorded with it."""
    library = build.library()
    if library is None or not library.ouroboros_amx():
        pytest.skip("the runs are of a processor with AMX, which adds in an order of its own")
    with pytest.MonkeyPatch.context() as patch:  # the runs are older than drafts in 8 bits
        patch.setattr(CausalLM, "round_weights", lambda _: None)
        return load_pair(placement=Placement(dtype="bfloat16", device="cpu"))


RECORDED = ("fibonacci-speculative", "story-speculative-8", "sampled-rejection")


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_run_of_the_gallery_repeats(
    recorded_pair: Pair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown beside the lessons is what the model does: the same proposals, verdicts and
    tokens. The sampled runs were recorded before the prompt was mixed into the noise; once they
    are recorded anew, they need no patch."""
    monkeypatch.setattr(Sampler, "begin", lambda *_: None)
    kept = gallery.trace(name)
    assert kept.environment.dtype == recorded_pair.environment.dtype
    again = record.record(recorded_pair, gallery.plan()["runs"][name])
    for mine, recorded in zip(again.steps, kept.steps, strict=True):
        assert (mine.tokens, mine.tree) == (recorded.tokens, recorded.tree)
