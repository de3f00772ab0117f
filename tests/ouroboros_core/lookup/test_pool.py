"""The phrase pool against a plain-list model of the reference's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.tree import Learned

INSERTIONS = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.integers(0, 2))), max_size=60
)


@given(INSERTIONS, st.integers(1, 4))
def test_a_key_keeps_its_newest_phrases_and_a_repeated_one_becomes_the_newest(
    insertions: list[tuple[int, tuple[int, int]]], size: int
) -> None:
    pool = PhrasePool(3, size)
    model: dict[int, list[tuple[int, int]]] = {}
    for key, tokens in insertions:
        pool.insert(key, tokens, Learned.LOOKAHEAD, 0)
        known = model.setdefault(key, [])
        if tokens in known:
            known.remove(tokens)
        elif len(known) == size:
            known.pop(0)
        known.append(tokens)
    for key, known in model.items():
        assert [p.tokens for p in pool.newest(key, 99)] == known[::-1]
        assert [p.tokens for p in pool.newest(key, 1)] == known[-1:]
    assert len(pool) == sum(map(len, model.values()))


@given(INSERTIONS)
def test_a_pool_survives_json(insertions: list[tuple[int, tuple[int, int]]]) -> None:
    pool = PhrasePool(3, 3, fingerprint="abc")
    for key, tokens in insertions:
        pool.insert(key, tokens, Learned.VERIFICATION, 4)
    again = PhrasePool.from_json(pool.to_json(), fingerprint="abc")
    assert again.keys == pool.keys
    for key in pool.keys:
        assert [p.tokens for p in again.newest(key, 9)] == [p.tokens for p in pool.newest(key, 9)]
        assert all(p.learned is Learned.HISTORY for p in again.newest(key, 9))


def test_keys_are_bounded_and_the_least_recently_fed_goes_first() -> None:
    pool = PhrasePool(3, 2, max_keys=2)
    for key in (1, 2, 1, 3):
        pool.insert(key, (key, key), Learned.LOOKAHEAD, 0)
    assert pool.keys == [1, 3]


def test_a_known_phrase_keeps_where_it_was_first_learned() -> None:
    pool = PhrasePool(3, 2)
    pool.insert(1, (2, 3), Learned.LOOKAHEAD, 5)
    pool.insert(1, (2, 3), Learned.VERIFICATION, 9)
    assert (pool.newest(1, 1)[0].learned, pool.newest(1, 1)[0].step) == (Learned.LOOKAHEAD, 5)
    pool.begin_run()
    assert (pool.newest(1, 1)[0].learned, pool.newest(1, 1)[0].step) == (Learned.HISTORY, None)


def test_a_corrected_phrase_takes_the_place_of_the_old_one_without_duplicates() -> None:
    pool = PhrasePool(3, 4)
    for tokens in ((1, 1), (2, 2), (3, 3)):
        pool.insert(7, tokens, Learned.LOOKAHEAD, 0)
    pool.replace(7, (2, 2), (9, 9), Learned.VERIFICATION, 3)
    assert [p.tokens for p in pool.newest(7, 9)] == [(3, 3), (9, 9), (1, 1)]
    assert pool.newest(7, 9)[1].learned is Learned.VERIFICATION
    pool.replace(7, (1, 1), (9, 9), Learned.VERIFICATION, 4)
    assert [p.tokens for p in pool.newest(7, 9)] == [(3, 3), (9, 9)]
    pool.replace(7, (5, 5), (6, 6), Learned.VERIFICATION, 4)
    assert len(pool) == 2, "a phrase that is not there cannot be corrected"


def test_text_is_learned_as_overlapping_ngrams() -> None:
    pool = PhrasePool(3, 4)
    pool.learn_text([1, 2, 3, 4], Learned.PROMPT)
    phrases = [[p.tokens for p in pool.newest(k, 9)] for k in pool.keys]
    assert (pool.keys, phrases) == ([1, 2], [[(2, 3)], [(3, 4)]])
    pool.learn_text([2, 3, 4, 5], Learned.TEXT, step=7)
    known = {k: (p.learned, p.step) for k in pool.keys for p in pool.newest(k, 9)}
    first = dict.fromkeys((1, 2), (Learned.PROMPT, None))
    assert known == first | {3: (Learned.TEXT, 7)}, "a known one keeps its origin"
    pool.learn_text([8, 9], Learned.TEXT)
    assert len(pool) == 3, "shorter than an n-gram"


def test_a_phrase_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has 2 tokens, got 3"):
        PhrasePool(3, 2).insert(1, (1, 2, 3), Learned.LOOKAHEAD, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_its_size_is_the_number_of_phrases_that_it_would_write_to_a_file(
    changes: list[tuple[int, int, int]],
) -> None:
    """Through new phrases and known ones, corrected ones, keys and phrases that had to go."""
    pool = PhrasePool(ngram_size=2, guess_set_size=2, max_keys=4)
    for key, old, new in changes:
        pool.insert(key, (old,), Learned.TEXT, step=0)
        pool.replace(key, (old,), (new,), Learned.VERIFICATION, step=1)
        assert len(pool) == sum(len(known) for _, known in pool.content()["phrases"])
