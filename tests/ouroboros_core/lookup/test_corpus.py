"""The corpus index against scanning all documents; and files of it, good and bad."""

from __future__ import annotations

import itertools
import mmap
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.ngrams import most_followed, most_frequent
from ouroboros_core.lookup.suffix_array import DEPTH, END


def positions(documents: Sequence[Sequence[int]], pattern: Sequence[int]) -> list[tuple[int, int]]:
    """(document, position behind it) of every occurrence, by scanning."""
    size = len(pattern)
    return [
        (number, start + size)
        for number, document in enumerate(documents)
        for start in range(len(document) - size + 1)
        if list(document[start : start + size]) == list(pattern)
    ]


def length(corpus: Corpus, text: Sequence[int], longest: int = DEPTH) -> int:
    found = corpus.cursor(longest).extend(text).match
    return found.length if found else 0


def some_documents(rng: random.Random) -> list[list[int]]:
    letters = rng.choice((1, 2, 4))
    return [
        [rng.randrange(letters) for _ in range(rng.randrange(1, 30))]
        for _ in range(rng.randrange(1, 6))
    ]


def test_lookups_and_continuations_are_those_of_a_scan() -> None:
    rng = random.Random(2)
    for _ in range(500):
        documents = some_documents(rng)
        corpus = Corpus.build(documents)
        text = [rng.randrange(5) for _ in range(rng.randrange(1, 20))]
        goes_on = [
            n
            for n in range(1, len(text) + 1)
            if any(end < len(documents[d]) for d, end in positions(documents, text[-n:]))
        ]
        longest = max(goes_on, default=0)
        found = corpus.cursor().extend(text).match
        assert (found.length if found else 0) == longest
        if found is None:
            continue
        wanted = Counter(
            tuple(documents[d][end : end + 3]) for d, end in positions(documents, text[-longest:])
        )
        assert Counter(corpus.continuations(found, 3, 10**6)) == wanted
        first = min(positions(documents, text[-longest:]))
        assert corpus.first_continuation(found, 3) == tuple(documents[first[0]][first[1] :][:3])
        some = corpus.continuations(found, 3, 2)
        assert len(some) == min(2, wanted.total())
        assert set(some) <= set(wanted)


def test_a_match_has_at_most_the_length_that_is_asked_for() -> None:
    corpus = Corpus.build([list(range(100))])
    text = list(range(90))
    assert [length(corpus, text, longest=n) for n in (1, 2, 5, 63)] == [1, 2, 5, 63]
    assert length(corpus, text) == DEPTH
    assert length(corpus, [500, 88, 89]) == 2


def test_the_successor_of_a_token_is_what_follows_it_most_often_in_a_document() -> None:
    """The oracle counts pairs."""
    rng = random.Random(4)
    for _ in range(200):
        documents = some_documents(rng)
        corpus = Corpus.build(documents)
        for token in range(5):
            pairs = (pair for document in documents for pair in itertools.pairwise(document))
            counts = Counter(after for before, after in pairs if before == token)
            best = min((one for one in counts), key=lambda one: (-counts[one], one), default=None)
            assert corpus.successor(token) == best


def test_no_match_and_no_continuation_crosses_the_end_of_a_document() -> None:
    corpus = Corpus.build([[1, 2, 3], [4, 5]])
    found = corpus.cursor().extend([3, 4]).match
    assert found is not None and found.length == 1
    assert corpus.continuations(found, 5, 9) == [(5,)]
    assert corpus.documents == 2
    assert length(corpus, [2, 3]) == 0, "nothing follows"
    assert length(Corpus.build([[1, 2, 3], [9, 3, 4]]), [1, 2, 3]) == 1


def test_a_trie_keeps_the_most_frequent_prefixes() -> None:
    continuations = [(1, 2), (1, 2), (1, 3), (4,)]
    assert most_frequent(continuations, 3) == [(1, -1), (2, 0), (4, -1)]
    assert most_frequent(continuations, 99) == [(1, -1), (2, 0), (4, -1), (3, 0)]
    assert most_frequent(continuations, 99, 1) == [(1, -1), (2, 0)], "one of each length"
    rng = random.Random(5)
    for _ in range(200):
        texts = [
            tuple(rng.randrange(3) for _ in range(rng.randrange(5)))
            for _ in range(rng.randrange(12))
        ]
        size = rng.randrange(1, 12)
        prefixes = Counter(text[:n] for text in texts for n in range(1, len(text) + 1))
        chosen = most_frequent(texts, size)
        paths: list[tuple[int, ...]] = []
        for token, parent in chosen:
            paths.append((*(paths[parent] if parent >= 0 else ()), token))
        assert len(paths) == len(set(paths)) == min(size, len(prefixes))
        assert (
            sorted((prefixes[p] for p in paths), reverse=True)
            == sorted(prefixes.values(), reverse=True)[: len(paths)]
        )


def test_the_majority_is_followed_token_by_token() -> None:
    """As along the trie of all of them: of its children, always the first of the most frequent."""
    assert most_followed([(1, 2), (4, 5), (1, 3), (4,)]) == [1, 2], "of equals the one seen first"
    rng = random.Random(6)
    for _ in range(200):
        texts = [
            tuple(rng.randrange(3) for _ in range(rng.randrange(6)))
            for _ in range(rng.randrange(12))
        ]
        path: tuple[int, ...] = ()
        while further := [
            text[len(path)] for text in texts if text[: len(path)] == path and len(text) > len(path)
        ]:
            path += (max(further, key=further.count),)
        assert most_followed(texts) == [*path]


@pytest.mark.parametrize("name", ["corpus.npz", "corpus.npy"])
def test_a_corpus_survives_its_file_and_is_refused_by_another_tokenizer(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    corpus = Corpus.build([[1, 2, 3], [2, 3, 9]], "abc")
    corpus.save(path)
    again = Corpus.load(path, "abc")
    assert (again.tokens == corpus.tokens).all()
    assert (again.order == corpus.order).all()
    assert (again.tree.arrays.child == corpus.tree.arrays.child).all()
    assert length(again, [7, 2, 3]) == length(corpus, [7, 2, 3]) == 2
    assert (again.name, again.fingerprint, again.largest_token, again.documents) == (
        "corpus",
        "abc",
        9,
        2,
    )
    with pytest.raises(
        InvalidInput, match=r"made with another tokenizer .fingerprint abc, expected xyz.*sam build"
    ):
        Corpus.load(path, "xyz")


def test_a_file_that_is_no_corpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.npz"
    with pytest.raises(InvalidInput, match=r"there is no corpus .*sam build"):
        Corpus.load(path)
    path.write_text("hello", encoding="utf-8")
    with pytest.raises(InvalidInput, match="is not a corpus"):
        Corpus.load(path)
    np.savez(path, tokens=np.array([1]))
    with pytest.raises(InvalidInput, match="is not a corpus"):
        Corpus.load(path)
    good = Corpus.build([[1, 2, 3]])
    for name, broken in (
        ("order", good.order * 0),
        ("tokens", good.tokens[:-1]),
        ("order", good.order + 7),
        ("tokens", good.tokens + 1),
        ("tokens", np.array([END, END, END, END])),
        ("order", good.order[::-1]),
    ):
        arrays = {"tokens": good.tokens, "order": good.order, "fingerprint": np.array("")}
        np.savez(path, **{**arrays, name: broken})  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="is damaged"):
            Corpus.load(path)
    with pytest.raises(InvalidInput, match="the corpus is empty"):
        Corpus.build([[], []])


def test_a_file_with_its_index_is_mapped_and_damage_to_it_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "corpus.npy"
    Corpus.build([[1, 2, 3], [2, 3, 9]], "abc").save(path)
    corpus = Corpus.load(path)
    below: object = corpus.tokens
    while isinstance(below, np.ndarray):
        below = below.base
    assert isinstance(below, mmap.mmap)
    assert not corpus.tokens.flags.writeable
    numbers = np.load(path)
    for position in range(1, len(numbers), 3):
        broken = numbers.copy()
        broken[position] ^= 1
        np.save(path, broken)
        with pytest.raises(InvalidInput, match="is damaged"):
            Corpus.load(path)
    np.save(path, numbers[:-1])
    with pytest.raises(InvalidInput, match="is damaged"):
        Corpus.load(path)
    for other in (np.arange(99, dtype=np.int32), np.zeros((2, 2)), np.zeros(0, dtype=np.int32)):
        np.save(path, other)
        with pytest.raises(InvalidInput, match="is not a corpus"):
            Corpus.load(path)
