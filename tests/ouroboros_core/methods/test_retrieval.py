"""Methods that draft without a draft model: each mechanism does what it is for, and nothing remains
when it is switched off.

What each writes is compared with plain decoding by the contract in test_methods.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.ngrams import Counts, Occurrences
from ouroboros_core.lookup.successors import Successors
from ouroboros_core.lookup.suffix_automaton import SuffixAutomaton
from ouroboros_core.methods import token_recycling
from ouroboros_core.methods.parts.base import (
    Context,
    Resources,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Learned, Provenance, TokenTree, chain
from tests import tiny
from tests.tiny import emitted, plain, prompt

COUNT = 60
TARGET = "llama"


def accepted(steps: list[Step], source: Source) -> list[Any]:
    """Provenance of the accepted tokens of a source."""
    origins = (step.tree.provenance[node] for step in steps for node in step.path)
    return [p for p in origins if p.source is source]


def run(
    method: str,
    text: list[int],
    count: int = COUNT,
    *,
    corpus: Corpus | None = None,
    prediction: Any = (),
    **settings: Any,
) -> list[Step]:
    models, kind = tiny.pair(TARGET, "sdpa"), methods.get(method)
    sampler = Sampler(Sampling(), tiny.VOCABULARY)
    resources = Resources(sampler, models[1], corpus=corpus, prediction=tuple(prediction))
    chosen = kind.Hyperparameters(**kind.Hyperparameters.fixed(**settings))
    made = methods.create(kind, chosen, resources)
    steps = list(decode(models[0], made, text, max_new_tokens=count, sampler=sampler))
    assert emitted(steps) == plain(models[0].model, text, count)
    return steps


def first_tree(method: str, text: list[int], count: int, **settings: Any) -> TokenTree:
    """The proposal of the first step."""
    return run(method, text, count, **settings)[0].tree


def looping() -> list[int]:
    """A prompt behind which the tiny target repeats itself."""
    model = tiny.target(TARGET)
    return [*prompt(), *plain(model, prompt(), 100)]


def test_prompt_lookup_copies_and_without_matches_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = run("prompt_lookup", looping())
    assert len(accepted(steps, Source.COPY)) > COUNT / 2
    monkeypatch.setattr(Occurrences, "first_full", lambda *_: [])
    assert len(run("prompt_lookup", looping())) == COUNT


def test_prompt_lookup_says_where_it_copied_from() -> None:
    text = looping()
    whole = [*text, *plain(tiny.target(TARGET), text, COUNT)]
    done = len(text)
    for step in run("prompt_lookup", text):
        for offset, node in enumerate(step.path):
            origin: Any = step.tree.provenance[node]
            assert whole[origin.position] == whole[done + offset]
            assert origin.position < done
            if not offset:  # behind the copied tokens stands what stands behind the text
                start, match = origin.position, origin.match
                assert whole[start - match : start] == whole[done - match : done]
        done += len(step.tokens)


def test_a_repeated_token_is_copied_on_and_equal_continuations_count_once() -> None:
    tree = first_tree("prompt_lookup", [7] * 20, 20, num_tokens=6, extended=True)
    assert tree.tokens == (7,) * 7
    text, short = [1, 2, 4, 9, 1, 2, 3, 8, 1, 2, 3, 6, 1, 2], {"num_tokens": 1, "max_ngram": 2}
    tree = first_tree("prompt_lookup", text, 4, extended=True, **short)
    assert tree.tokens == (2, 3, 4), "the two newest occurrences go on with 3"


def test_prompt_lookup_copies_the_first_place_as_a_chain_and_extended_two_as_a_tree() -> None:
    text = [1, 2, 3, 9, 1, 2, 4, 9, 1, 2]
    tree = first_tree("prompt_lookup", text, 4, num_tokens=2, max_ngram=2)
    assert tree.tokens == (2, 3, 9), "the first one, and nothing beside it"
    assert tree.parents == (-1, 0, 1)
    tree = first_tree("prompt_lookup", text, 4, extended=True, num_tokens=1, max_ngram=2)
    assert tree.tokens == (2, 4, 3), "both followers, the more recent first"
    assert tree.parents == (-1, 0, 0)
    with pytest.raises(InvalidInput, match="min_ngram must be at most max_ngram, got 5 and 2"):
        methods.get("prompt_lookup").Hyperparameters.parse({"min_ngram": 5, "max_ngram": 2})
    with pytest.raises(InvalidInput, match="min_suffix must be at most max_suffix, got 20 and 16"):
        methods.get("rest").Hyperparameters.parse({"min_suffix": 20})


def test_ngram_proposes_what_was_counted_and_without_counts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(accepted(run("ngram", looping()), Source.NGRAM)) > COUNT / 3
    monkeypatch.setattr(Counts, "note", lambda *_: None)
    assert len(run("ngram", looping())) == COUNT


def test_nasd_counts_as_the_reference_does() -> None:
    """Worked by hand from the reference's update: N = 4, three fillers, behind the prompt 1 2 3 the
    draft 4 is accepted, and 5 is the correction.

    Each written token counts once, and each of the target's three likeliest once more; without
    them (NAPD) what was written alone.
    """
    kind = methods.get("ngram")
    said = {0: [4, 7, 8], 1: [9, 5, 6]}  # after the root and after 4, the likeliest first

    class Fillers:
        def likeliest(self, k: int) -> dict[int, list[int]]:
            return {node: tokens[:k] for node, tokens in said.items()}

    tree, outputs = chain(3, (4, 6), Provenance(Source.NGRAM)), Fillers()
    context = Context((1, 2, 3), 9, 0)
    result = VerificationResult.whole_step(context, tree, outputs, (1,), 5)  # type: ignore[arg-type]
    for fillers, first, second in (
        (3, {4: 2, 7: 1, 8: 1}, {5: 2, 9: 1, 6: 1}),
        (1, {4: 1}, {5: 1}),
    ):
        chosen = kind.Hyperparameters.parse({"filler_top_k": fillers, "ngram_size": 4})
        method: Any = kind(chosen, Resources())
        method.start(TokenizedPrompt((1, 2, 3)), 9)
        following = method.counts._following
        assert following == {(1, 2): {3: 1}}, "of the prompt: pairs and longer"
        method.learn(result)
        behind = {(2, 3): first, (1, 2, 3): first, (3, 4): second, (2, 3, 4): second}
        assert {key: dict(value) for key, value in following.items()} == {(1, 2): {3: 1}} | behind


def levels_of(size: int) -> tuple[list[list[str]], Counter[str]]:
    """The paths of a published tree by level, each the ranks of its nodes, and the number of
    children of each."""
    paths = [""]
    for rank, parent in token_recycling.static_tree(8, size):
        paths.append(f"{paths[parent + 1]}{rank}")
    deepest = max(map(len, paths))
    levels = [[path for path in paths if len(path) == depth] for depth in range(deepest + 1)]
    return levels, Counter(path[:-1] for path in paths[1:])


def test_the_published_trees_of_token_recycling_and_sam_are_those_of_their_authors_code() -> None:
    """The oracles are their lists of paths and of children, of which these were copied by hand:
    how many nodes there are on each level, how many children the first ones have, and the last
    levels whole."""
    levels, children = levels_of(80)
    assert [len(level) for level in levels] == [1, 8, 21, 25, 15, 8, 3]
    assert [children[str(rank)] for rank in range(8)] == [8, 4, 3, 2, 1, 1, 1, 1]
    assert (children["00"], children["000"], children["10"]) == (8, 5, 2)
    assert " ".join(levels[5]) == "00000 00001 00002 00010 00020 00100 01000 10000"
    assert levels[6] == ["000000", "000001", "000100"]
    assert len(token_recycling.static_tree(8, 79)) == 79, "a smaller one is made here"
    levels, children = levels_of(methods.get("sam").published["auxiliary_size"])
    assert [len(level) for level in levels] == [1, 7, 20, 21, 8, 4]
    assert [children[str(rank)] for rank in range(7)] == [6, 5, 3, 2, 2, 1, 1]
    assert [children[path] for path in ("00", "05", "10", "60")] == [3, 0, 3, 0]
    assert levels[5] == ["00000", "00001", "00100", "10000"]


def test_token_recycling_recycles_and_with_a_frozen_matrix_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the same prompt, read before: what the passes themselves teach makes the difference."""
    learning = run("token_recycling", prompt(), extended=True)
    assert len(accepted(learning, Source.RECYCLED)) > COUNT / 3
    monkeypatch.setattr(methods.get("token_recycling"), "learn", lambda *_: None)
    frozen = run("token_recycling", prompt(), extended=True)
    assert len(frozen) > 1.3 * len(learning)
    monkeypatch.setattr(Successors, "learn", lambda *_: None)
    assert len(run("token_recycling", prompt(), extended=True)) == COUNT


def test_the_matrix_begins_with_what_the_target_says_of_the_prompt() -> None:
    """The last occurrence of a token counts; compared with a plain pass over the prompt, also one
    of several chunks."""
    text = [*prompt(150), prompt()[3]]
    model = tiny.target(TARGET)
    row = max(n for n in range(len(text) - 1) if text[n] == text[-1])
    best = model(input_ids=torch.tensor([text])).logits[0, row].topk(8).indices.tolist()
    for vocabulary in (1, 1 << 20):  # one chunk, and one of 64 rows each
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ouroboros_core.models.bookkeeping.PROJECTED", (1 << 25) // vocabulary)
            tree = run("token_recycling", text, 3, extended=True)[0].tree
        children = [tree.tokens[n] for n in tree.children(0)]
        assert len(children) > 1
        assert children == best[: len(children)]
    assert len(run("token_recycling", text, 3)[0].tree) == 1, (
        "nothing is known before the first pass"
    )


def test_rest_retrieves_and_without_its_text_in_the_corpus_it_does_not() -> None:
    text = prompt()
    written = plain(tiny.target(TARGET), text, COUNT)
    good = Corpus.build([[*text, *written], prompt(40, seed=8)])
    assert len(accepted(run("rest", text, corpus=good), Source.CORPUS)) > COUNT / 2
    other = Corpus.build([[token] * 30 for token in range(tiny.VOCABULARY) if token not in written])
    assert len(run("rest", text, corpus=other, min_suffix=2)) == COUNT


def test_rest_proposes_the_most_frequent_continuations_as_a_trie() -> None:
    corpus = Corpus.build([[1, 2, 5, 6], [1, 2, 5, 7], [1, 2, 8], [3, 2, 9]])
    tree = first_tree("rest", [4, 1, 2], 5, corpus=corpus, tree_size=3)
    assert tree.tokens[:2] == (2, 5)
    assert {tree.tokens[n] for n in range(2, 4)} <= {6, 7, 8}
    assert tree.provenance[1].match == 2
    assert len(tree) == 4
    short = first_tree("rest", [4, 1, 2], 5, corpus=corpus, tree_size=3, min_suffix=3)
    assert len(short) == 1, "two tokens occur"


def test_rest_reads_as_many_occurrences_as_it_is_told_by_default_128(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """5 follows 1 2 in a hundred documents, 6 in two hundred: counted all, 6 is the likelier one;
    of a single occurrence, the first in the order of what follows, there is only the 5."""
    corpus = Corpus.build([[1, 2, 5]] * 100 + [[1, 2, 6]] * 200)
    found: list[int] = []
    whole = Corpus.continuations

    def continuations(self: Corpus, *arguments: Any, **more: Any) -> list[tuple[int, ...]]:
        read = whole(self, *arguments, **more)
        found.append(len(read))
        return read

    def drafted(**settings: Any) -> tuple[int, ...]:
        return first_tree("rest", [4, 1, 2], 5, corpus=corpus, **settings).tokens[1:]

    with monkeypatch.context() as patch:
        patch.setattr(Corpus, "continuations", continuations)
        assert drafted(occurrences=5000, tree_size=1) == (6,) and found[0] == 300
        drafted(tree_size=1)
        assert 128 in found
    assert drafted(occurrences=1, tree_size=9) == (5,)
    assert drafted(occurrences=150, tree_size=1) == (6,)
    published = drafted(occurrences=150, tree_size=1, spread=False)
    assert published == (5,), "a hundred of the first 150 are 5"


def test_sam_copies_the_longest_match_and_with_the_automaton_off_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = run("sam", looping(), auxiliary="none")
    assert len(accepted(steps, Source.COPY)) > COUNT / 4
    monkeypatch.setattr(SuffixAutomaton, "recent", property(lambda _: None))
    assert len(run("sam", looping(), auxiliary="none")) == COUNT


def test_the_longer_the_match_the_longer_the_copy() -> None:
    alone = {"auxiliary": "none", "n_predicts": 12}
    for length in (5, 6, 8):
        text = [*range(1, 1 + length), *range(11, 30), 30, *range(1, 1 + length)]
        tree = first_tree("sam", text, 40, len_threshold=5, **alone)
        assert len(tree) - 1 == 1 + length
        assert {p.match for p in tree.provenance[1:]} == {length}
    assert len(first_tree("sam", text, 40, alpha=4.0, **alone)) - 1 == 12
    unmatched = first_tree("sam", text, 40, auxiliary="none", len_threshold=9)
    assert len(unmatched) == 1, "no match is long enough"


def test_a_copy_that_reaches_the_end_of_the_text_goes_on_with_itself() -> None:
    text, newest = [9, *([1, 2, 3] * 4)], {"copy_from": "newest", "n_predicts": 7}
    tree = first_tree("sam", text, 30, auxiliary="none", **newest)
    assert tree.tokens[1:] == (1, 2, 3, 1, 2, 3, 1)


def test_the_newest_occurrence_is_copied_or_the_first_one_that_has_enough_behind_it() -> None:
    """By hand: 1 2 is followed by 3 at first and by 4 later; behind the first 8 1 2 stand four
    tokens, behind the first 1 2 there are ten."""
    text = [1, 2, 3, 5, 6, 7, 8, 1, 2, 4, 8, 1, 2]
    alone: dict[str, Any] = {"auxiliary": "none", "alpha": 16.0, "n_predicts": 6}
    alone["len_threshold"] = 3
    newest = first_tree("sam", text, 30, copy_from="newest", **alone)
    assert newest.tokens[1:] == (4, 8, 1, 2, 4, 8), "goes on with what it has copied"
    first = first_tree("sam", text, 30, **alone)
    assert first.tokens[1:] == (4, 8, 1, 2), "to the end of the text"
    beside = {**alone, "auxiliary": "token_recycling"}
    longer = first_tree("sam", text, 30, copy_from="first", **beside)
    assert longer.tokens[1:] == (3, 5, 6, 7, 8, 1), "where six tokens stand behind it"
    assert {one.match for one in longer.provenance[1:]} == {2}


def test_what_is_copied_from_the_corpus_first_is_its_first_document_or_alone_a_tree() -> None:
    """By hand: 3 4 follows once, 5 twice, 6 three times."""
    documents = [[1, 2, 3, 4], [1, 2, 5], [1, 2, 5], *[[1, 2, 6, n] for n in (7, 8, 9)]]
    corpus = Corpus.build(documents)
    settings: dict[str, Any] = {"corpus": corpus, "len_threshold": 2, "len_bias": 0}

    def tree(**more: Any) -> TokenTree:
        return run("sam", [4, 1, 2], 30, **settings, **more)[0].tree

    assert tree(auxiliary="none", copy_from="newest").tokens[1:] == (6, 7)
    assert tree(auxiliary="token_recycling").tokens[1:] == (3, 4)
    alone = tree(auxiliary="none", alpha=2.0, n_predicts=4)
    assert (alone.tokens[1:], alone.parents[1:]) == ((6, 5, 3, 7), (0, 0, 0, 1))
    assert [one.rank for one in alone.provenance[1:]] == [0, 1, 2, 0]


def test_without_a_match_the_auxiliary_method_drafts_and_learns() -> None:
    steps = run("sam", prompt(), 20, auxiliary="token_recycling", len_threshold=30)
    alone = run("token_recycling", prompt(), 20, extended=True)
    assert [step.tree for step in steps] == [step.tree for step in alone]
    large: dict[str, Any] = {"auxiliary_size": 60, "n_predicts": 40}
    steps = run("sam", prompt(), 20, auxiliary="token_recycling", len_threshold=30, **large)
    wider = run("token_recycling", prompt(), 20, extended=True, tree_size=60)
    assert [step.tree for step in steps] == [step.tree for step in wider]
    assert max(len(step.tree) for step in wider) > max(len(step.tree) for step in alone)


SAMPLED = Sampling(temperature=0.9, seed=3)
REJECTING = Sampling(temperature=0.9, acceptance="rejection")


@pytest.mark.parametrize("auxiliary", ["token_recycling", "speculative", "ouroboros", "eagle3"])
@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED, REJECTING])
@pytest.mark.parametrize("extended", [False, True])
def test_sam_over_every_auxiliary_is_exact(
    auxiliary: str, sampling: Sampling, extended: bool
) -> None:
    models = tiny.pair(TARGET, "sdpa")
    settings: dict[str, Any] = {"auxiliary": auxiliary, "extended": extended, "len_threshold": 2}
    steps = tiny.run(models, "sam", prompt(), COUNT, sampling, retrieve=False, **settings)
    if not sampling.rule.needs_probabilities:
        assert emitted(steps) == plain(models[0].model, prompt(), COUNT, sampling)
    trees = [{p.source for p in step.tree.provenance[1:]} for step in steps]
    sources = set().union(*trees)
    assert Source.COPY in sources
    assert sources - {Source.COPY, Source.CORPUS}, "the auxiliary drafted, too"
    both = [found for found in trees if Source.COPY in found and len(found) > 1]
    assert bool(both) == extended, "in one tree only where it is extended"


def test_an_auxiliary_that_watches_learns_while_sam_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = methods.get("token_recycling")
    seen: list[VerificationResult] = []
    monkeypatch.setattr(kind, "learn", lambda _, result: seen.append(result))
    text = [5, 6, 7, 8, 9, 5, 6, 7]
    steps = run("sam", text, 3, len_threshold=1)
    assert Source.COPY in {p.source for p in steps[0].tree.provenance}
    assert seen and len(seen[0].tree) == 1 < len(seen[0].checked.tree), (
        "nothing of its own, and all of the others'"
    )


def test_a_corpus_must_beat_the_text_by_the_bias() -> None:
    """By hand: 8 tokens in the corpus against 7 in the text, and equal matches."""

    def copied(text: list[int], document: list[int], threshold: int, bias: int) -> TokenTree:
        settings = {"auxiliary": "none", "len_threshold": threshold, "len_bias": bias}
        return first_tree("sam", text, 20, corpus=Corpus.build([document]), **settings)

    known, document = [*range(1, 8)], [*range(1, 8), 20, 21, 22]
    both = [2, 3, 4, 5, 6, 7, 8, 29, 4, 30, 6, 7, 8, 28, 1, *range(2, 9)]
    for text, of, threshold, bias, source in (
        (both, [1, *range(2, 9), 20, 21], 3, 0, Source.CORPUS),
        (both, [1, *range(2, 9), 20, 21], 3, 1, Source.COPY),
        ([*known, 29, 30, *known], document, 5, 0, Source.COPY),
        ([*known, 29, 30, *known], document, 5, 5, Source.COPY),
        ([3, *known], document, 5, 0, Source.CORPUS),
    ):
        tree = copied(text, of, threshold, bias)
        assert {p.source for p in tree.provenance[1:]} == {source}
    assert tree.tokens[1:] == (20, 21, 22), "to the document's end, and no further"
    assert len(copied([3, *known], document, 5, 5)) == 1


def test_a_right_prediction_saves_most_passes_and_a_wrong_one_changes_nothing() -> None:
    text = prompt()
    written = plain(tiny.target(TARGET), text, COUNT)
    right = run("sam", text, auxiliary="none", prediction=written)
    assert len(right) <= COUNT // 10
    origins = accepted(right, Source.COPY)
    assert {p.learned for p in origins} == {Learned.PREDICTION}
    assert [p.position for p in origins][:5] == [0, 1, 2, 3, 4]
    edited = [*written[:20], 30, 30, *written[24:]]
    assert len(run("sam", text, auxiliary="none", prediction=edited)) <= COUNT // 4, (
        "an edit costs a few tokens, not the rest"
    )
    run("sam", text, auxiliary="none", prediction=[7] * 50)


def test_a_short_match_of_the_prediction_does_not_push_the_auxiliary_aside() -> None:
    text = prompt()
    whole = plain(tiny.target(TARGET), text, COUNT)
    junk = [token for token in whole[::3] for token in (token, 1, 2)]
    steps = run("sam", text, prediction=[3, *junk], len_threshold=4)
    copies = [
        p for step in steps[1:] for p in step.tree.provenance[1:] if p.learned is Learned.PREDICTION
    ]
    assert not [p for p in copies if p.match is None or p.match < 4]
    assert [p for step in steps for p in step.tree.provenance if p.source is Source.RECYCLED]


@pytest.mark.parametrize("method", ["sam", "prompt_lookup", "ngram", "rest"])
def test_what_is_drafted_ends_with_a_stop_token(method: str) -> None:
    kind = methods.get(method)
    settings = {"auxiliary": "none", "len_threshold": 2} if method == "sam" else {}
    sampler = Sampler(Sampling(), tiny.VOCABULARY)
    text = [4, 5, 6, 7, 8, 4, 5]
    resources = Resources(sampler, stop_tokens=frozenset({6}), corpus=Corpus.build([text]))
    instance = methods.create(
        kind, kind.Hyperparameters.parse(kind.Hyperparameters.fixed(**settings)), resources
    )
    steps = decode(tiny.pair(TARGET)[0], instance, text, max_new_tokens=9, sampler=sampler)
    assert next(iter(steps)).tree.tokens == (5, 6)
