"""SuffixDecoding: what it drafts from the text and from earlier answers."""

from __future__ import annotations

from typing import Any

import pytest

from ouroboros_core.lookup.memory import read_memory
from ouroboros_core.lookup.session_text import Answers
from ouroboros_core.methods.parts.base import Context, Resources, TokenizedPrompt
from ouroboros_core.methods.suffix import Suffix
from ouroboros_core.tree import Learned, TokenTree
from tests import tiny

STOP = 99


def proposed(text: tuple[int, ...], memory: Answers | None = None, **settings: Any) -> TokenTree:
    """Return the proposal after a prompt, with room for 20 tokens."""
    resources = Resources(memory=memory, stop_tokens=frozenset({STOP}))
    method = Suffix(Suffix.Hyperparameters(**settings), resources)
    method.start(TokenizedPrompt(text), 20)
    return method.propose(Context(text, 20, 0))


def answered(*answers: tuple[int, ...]) -> Answers:
    memory = Answers()
    for answer in answers:
        memory.begin_run(())
        memory.follow(answer)
    return memory


def test_a_longer_match_has_a_longer_draft_and_the_most_frequent_token_is_followed() -> None:
    # After 5, 6 came twice and 7 once; of "1 2 3" with four tokens behind it three are drafted.
    assert proposed((5, 6, 8, 5, 7, 8, 5, 6, 9, 5)).tokens == (5, 6)
    assert proposed((1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3)).tokens == (3, 4, 5, 6)
    assert proposed((1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3), alpha=0.5).tokens == (3, 4)
    assert proposed((1, 2, 3)).tokens == (3,)


def test_a_draft_says_where_it_was_copied_from_and_how_frequent_it_was() -> None:
    tree = proposed((1, 2, 9, 1, 2, 9, 1, 2, 8, 1, 2))
    first = tree.provenance[1]
    assert (tree.tokens[1], first.position, first.match) == (9, 2, 2)
    # "1 2" stands four times, at the end of the text without anything behind it.
    assert first.confidence == pytest.approx(2 / 4)


def test_earlier_answers_draft_where_they_know_more_and_prompts_are_not_kept() -> None:
    memory = answered((1, 2, 3, 4, 5, STOP), (1, 2, 3, 4, 6))
    text = (7, 1, 2, 3)
    tree = proposed(text, memory)
    assert tree.tokens == (3, 4, 5, STOP)
    assert all(origin.learned is Learned.HISTORY for origin in tree.provenance[1:])
    assert all(origin.position is None for origin in tree.provenance[1:])
    # The run that has just begun has no answer yet; its prompt is not one.
    assert memory.texts == [[1, 2, 3, 4, 5, STOP], [1, 2, 3, 4, 6]]


def test_of_equal_scores_the_text_of_the_run_wins() -> None:
    memory = answered((1, 2, 5, 5), (1, 2, 7))
    own = proposed((1, 2, 6, 6, 1, 2), memory)
    assert own.tokens[1] == 6 and own.provenance[1].learned is None


def test_a_draft_ends_with_a_stop_token_and_never_crosses_two_answers() -> None:
    memory = answered((1, 2, STOP), (3, 4, 5))
    assert proposed((9, 1, 2), memory).tokens == (2, STOP)
    assert proposed((9, 3, 4, 5), memory).tokens == (5,)


def test_a_tree_offers_what_is_less_frequent_too() -> None:
    text = (1, 2, 9, 1, 2, 9, 1, 2, 8, 1, 2)
    tree = proposed(text, tree=True, alpha=2.0)
    assert {tree.tokens[node] for node in range(1, len(tree)) if tree.parents[node] == 0} == {9, 8}
    assert tree.provenance[2].rank is not None


def test_earlier_answers_survive_their_file_and_speed_the_same_answer_up() -> None:
    pair, text = tiny.pair("llama"), tiny.prompt()
    memory = tiny.new_memory("suffix")
    cold = tiny.run(pair, "suffix", text, 24, memory=memory)
    saved = read_memory(memory.to_json())
    assert isinstance(saved, Answers) and saved.texts == [tiny.emitted(cold)]
    warm = tiny.run(pair, "suffix", text, 24, memory=saved)
    assert tiny.emitted(warm) == tiny.emitted(cold)
    assert len(warm) < len(cold)
