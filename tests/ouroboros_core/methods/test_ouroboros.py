"""What is Ouroboros' own: the shape of its proposals, and where its phrases come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.adaptive.cost_model import TYPICAL
from ouroboros_core.decoding.loop import decode
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.base import (
    Context,
    Resources,
    StepBudget,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder, chain
from tests import tiny
from tests.tiny import prompt, run


class Scripted:
    """A language model that says after each text what a table says: the answer to a text's last
    token."""

    name, vocabulary, max_length = "scripted", 1000, 1000

    def __init__(self, follows: dict[int, int]) -> None:
        self.follows = follows
        self.passes = self.rows = 0
        self.trees: list[TokenTree] = []

    def forget(self) -> None: ...

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Any, candidates: int = 0) -> Any:
        return {}

    def plain(self, _: Any) -> Any: ...

    def extend(self, _: Any, tree: TokenTree) -> Any: ...

    def evaluate(self, _: Any, tree: TokenTree) -> Any:
        self.passes += 1
        self.trees.append(tree)
        return Said([self.follows.get(token, 0) for token in tree.tokens])


class Said:
    def __init__(self, said: list[int]) -> None:
        self.said = said

    def argmax(self) -> list[int]:
        return self.said

    def confidence(self, node: int, token: int) -> float:
        return float(self.said[node] == token)

    def confidences(self, pairs: Any) -> list[float]:
        return [self.confidence(node, token) for node, token in pairs]

    def likeliest(self, k: int) -> Any:
        return {node: [token] for node, token in enumerate(self.said)}

    def scored(self, nodes: Any, k: int) -> Any: ...

    def logits(self, node: int) -> Any:
        return np.eye(1000)[self.said[node]]


def make(follows: dict[int, int], **settings: Any) -> Any:
    kind = methods.get("ouroboros")
    chosen = kind.Hyperparameters(**kind.Hyperparameters.fixed(**settings))
    ouroboros = kind(chosen, Resources(draft_model=Scripted(follows)))
    ouroboros.start(TokenizedPrompt((1, 2, 3)), 100)
    return ouroboros


COUNTING = {n: n + 1 for n in range(100)}
"""A model that counts on."""
ALONE: dict[str, Any] = {"ngram_size": 4, "top_k_suffixes": 0, "lookahead_phrases": False}
"""Without suffixes and without a window."""


def test_suffixes_hang_at_the_tip_newest_first_and_equal_prefixes_are_merged() -> None:
    """Draft 4 5, then suffixes (6 9 11), (6 9 10), (5 7 8)."""
    ouroboros = make(COUNTING, **{**ALONE, "gamma": 2, "top_k_suffixes": 3})
    for phrase in ((90, 91, 92), (5, 7, 8), (6, 9, 10), (6, 9, 11)):
        ouroboros.pool.insert(5, phrase, Learned.LOOKAHEAD, 0)
    tree = ouroboros.propose(Context((1, 2, 3), 50, 0))
    assert tree.tokens == (3, 4, 5, 6, 9, 11, 10, 5, 7, 8)
    assert tree.parents == (-1, 0, 1, 2, 3, 4, 4, 2, 7, 8)
    assert [p.source for p in tree.provenance[1:]] == [Source.DRAFT] * 2 + [Source.SUFFIX] * 7


def test_a_phrase_lets_one_draft_pass_write_several_tokens() -> None:
    ouroboros = make(COUNTING, gamma=4, **ALONE)
    ouroboros.pool.insert(3, (4, 5, 6), Learned.VERIFICATION, 0)
    tree = ouroboros.propose(Context((1, 2, 3), 50, 0))
    assert tree.tokens == (3, 4, 5, 6, 7)
    assert ouroboros.draft.model.passes == 1
    drafted = {p.source for p in tree.provenance[1:]}
    assert drafted == {Source.DRAFT}, "the draft model wrote them, phrase or not"


def known(pool: PhrasePool) -> list[tuple[int, tuple[int, ...], Learned, int | None]]:
    """Each phrase of a pool: its key, its tokens, and where and at which step it was learned."""
    return [(k, p.tokens, p.learned, p.step) for k in pool.keys for p in pool.newest(k, 9)]


def test_fragments_of_the_discarded_draft_that_the_target_agrees_with_are_learned() -> None:
    """N = 4. Draft 10 11 12 13 14 15, rejected at 11; the target says of the rest what makes 12 ->
    (13, 14, 99) a phrase: 11 is not followed by what the target says, 13 has too few successors."""
    ouroboros = make({9: 10, **{n: n + 1 for n in range(10, 20)}}, gamma=6, **ALONE)
    context = Context((1, 9), 50, 7)
    tree = ouroboros.propose(context)
    assert tree.tokens == (9, 10, 11, 12, 13, 14, 15)
    said = [10, 77, 88, 13, 14, 99, 16]  # after 9: 10 (accepted), after 10: 77, after 11: 88, ...
    ouroboros.learn(VerificationResult.whole_step(context, tree, Said(said), (1,), 77))
    assert known(ouroboros.pool) == [(12, (13, 14, 99), Learned.VERIFICATION, 7)]


KIND = methods.get("ouroboros")


@pytest.mark.parametrize(
    "settings",
    [{}, KIND.Hyperparameters.fixed(), dict(KIND.published)],
    ids=["auto", "fixed", "published"],
)
def test_fragments_are_learned_at_the_defaults(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both models count on, but behind the prompt the target wants 50: the whole draft is
    discarded, and all of it but its first token is what the target says, too."""
    draft: Any = Scripted(COUNTING)
    target: Any = Scripted(COUNTING | {3: 50})
    chosen = KIND.Hyperparameters.parse(settings)
    made: Any = methods.create(KIND, chosen, Resources(draft_model=draft))
    sampler = Sampler(Sampling(), target.vocabulary)
    method = controlled(made, TYPICAL)
    steps = decode(target, method, (1, 2, 3), max_new_tokens=60, sampler=sampler)
    learned: dict[int, tuple[int, ...]] = {}
    insert = PhrasePool.insert

    def note(pool: Any, key: int, tokens: tuple[int, ...], origin: Learned, step: int) -> None:
        if origin is Learned.VERIFICATION:
            learned[key] = tokens
        insert(pool, key, tokens, origin, step)

    monkeypatch.setattr(PhrasePool, "insert", note)  # the window may have found the same before
    first = next(steps)
    assert first.tokens == (50,)
    drafted = [p.source for p in first.tree.provenance].count(Source.DRAFT)
    length = made.settings.ngram_size - 1
    assert drafted >= length, "fewer tokens have no fragment"
    keys = range(4, 4 + drafted - length + 1)
    assert learned == {key: tuple(range(key + 1, key + 1 + length)) for key in keys}
    assert all(made.pool.newest(key, 99) for key in keys)


def test_checked_suffixes_are_replaced_by_what_the_target_says() -> None:
    ouroboros = make({3: 4}, gamma=1, ngram_size=3, top_k_suffixes=2, lookahead_phrases=False)
    ouroboros.pool.insert(4, (5, 6), Learned.LOOKAHEAD, 0)
    context = Context((1, 3), 50, 2)
    tree = ouroboros.propose(context)
    assert tree.tokens == (3, 4, 5, 6)
    ouroboros.learn(VerificationResult.whole_step(context, tree, Said([4, 50, 60, 70]), (1,), 50))
    assert known(ouroboros.pool) == [(4, (50, 60), Learned.VERIFICATION, 2)]


@pytest.mark.parametrize("own", [True, False])
def test_the_text_is_learned_as_it_is_written_whoever_proposed(own: bool) -> None:
    """N = 3: every three tokens that end in one of this step, the bonus among them, and nothing
    that was rejected."""
    more: dict[str, Any] = {"ngram_size": 3, "lookahead_phrases": False, "extended": True}
    ouroboros = make({3: 4, 4: 5}, gamma=2, **more)
    context = Context((1, 2, 3), 50, 6)
    tree = ouroboros.propose(context) if own else chain(3, (4, 5), Provenance(Source.COPY))
    assert tree.tokens[:3] == (3, 4, 5)
    said = Said([4, 9, 0, *[0] * len(tree)])
    result = VerificationResult.whole_step(context, tree, said, (1,), 9)
    ouroboros.learn(result if own else result.of(TreeBuilder(3).build(), {0: 0}))
    text = [one for one in known(ouroboros.pool) if one[2] is Learned.TEXT]
    assert text == [(2, (3, 4), Learned.TEXT, 6), (3, (4, 9), Learned.TEXT, 6)]
    cut = VerificationResult.whole_step(context, tree, Said([]), (1,), None)
    assert cut.emitted == (4,), "where the budget ended before a token of the target's"


def test_extended_phrases_of_the_last_token_need_no_draft() -> None:
    class Nothing(StepBudget):
        def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
            return False

    def proposed(extended: bool) -> tuple[int, set[Source]]:
        """Draft passes, and who proposed anything."""
        amounts: dict[str, Any] = {"gamma": "auto", "top_k_suffixes": "auto", "ngram_size": 3}
        ouroboros = make({3: 4}, extended=extended, lookahead_phrases=False, **amounts)
        ouroboros.pool.insert(3, (4, 5), Learned.LOOKAHEAD, 0)
        tree = ouroboros.propose(Context((1, 2, 3), 50, 0, Nothing()))
        return int(ouroboros.draft.model.passes), {p.source for p in tree.provenance[1:]}

    assert proposed(extended=True) == (0, {Source.SUFFIX})
    assert proposed(extended=False) == (0, set()), "a phrase stands behind a draft"


def test_a_fully_matched_suffix_is_followed_by_the_bonus() -> None:
    """The reference throws the free token away."""
    models = tiny.pair("llama", "sdpa")
    sizes: dict[str, Any] = {"gamma": 2, "ngram_size": 3}
    runs = [run(models, "ouroboros", prompt(seed=n), 60, **sizes) for n in range(5, 15)]
    whole = [step for steps in runs for step in steps if len(step.path) == 2 + 2]
    assert whole, "the case must contain a fully matched suffix"
    assert all(step.kind == "bonus" and len(step.tokens) == 5 for step in whole)


def accepted_suffixes(steps: list[Step]) -> set[Learned | None]:
    origins = (s.tree.provenance[n] for s in steps for n in s.path)
    return {p.learned for p in origins if p.source is Source.SUFFIX}


def test_each_source_of_phrases_can_be_switched_off() -> None:
    models = tiny.pair("llama", "sdpa")

    def learned(*wanted: Learned, **settings: Any) -> set[Learned | None]:
        """Of five texts, and of more until all that is wanted was among it."""
        found: set[Learned | None] = set()
        chosen = {"ngram_size": 3, **settings}
        for seed in range(5, 25):
            sampling = Sampling(temperature=0.5, seed=seed)
            steps = run(models, "ouroboros", prompt(seed=seed), 60, sampling, gamma=3, **chosen)
            found |= accepted_suffixes(steps)
            if seed >= 9 and found >= set(wanted):
                break
        return found

    lookahead, verification = Learned.LOOKAHEAD, Learned.VERIFICATION
    assert {lookahead, verification} <= learned(lookahead, verification)
    assert learned(lookahead, verification_phrases=False) == {lookahead}
    assert learned(verification, lookahead_phrases=False) == {verification}
    assert learned(lookahead_phrases=False, verification_phrases=False) == set()
    both = {Learned.PROMPT, Learned.TEXT}
    others = {"lookahead_phrases": False, "verification_phrases": False}
    assert learned(*both, extended=True, **others) == both
    assert learned(top_k_suffixes=0) == set()


def test_window_and_guess_set_are_independent() -> None:
    for width, size in ((2, 9), (9, 2)):
        sizes = {"window_size": width, "guess_set_size": size, "ngram_size": 4}
        ouroboros = make({n: n % 7 for n in range(1000)}, **sizes)
        for _ in range(40):
            ouroboros.propose(Context((1, 2, 3), 50, 0))
        assert [len(level) for level in ouroboros.window.levels] == [width - 1, width, width]
        for n in range(20):
            ouroboros.pool.insert(3, (n, n, n), Learned.LOOKAHEAD, 0)
        assert len(ouroboros.pool.newest(3, 99)) == size
