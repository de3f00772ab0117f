"""The corpus index against scanning all documents; and files of it, good and bad."""

import itertools
import mmap
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.ngrams import most_followed, most_frequent
from ouroboros_core.lookup.suffix_tree import DEPTH, END
from tests.ouroboros_core.lookup.test_suffix_counts import occurrences


def positions(documents: Sequence[Sequence[int]], pattern: Sequence[int]) -> list[tuple[int, int]]:
    """(document, position behind it) of every occurrence, by scanning."""
    numbered = enumerate(documents)
    return [(number, end) for number, text in numbered for end in occurrences(text, pattern)]


def some_texts(rng: random.Random, letters: int, longest: int, most: int) -> list[list[int]]:
    """Random texts, also empty ones and none."""
    sizes = [rng.randrange(longest) for _ in range(rng.randrange(most))]
    return [[rng.randrange(letters) for _ in range(size)] for size in sizes]


def length(corpus: Corpus, text: Sequence[int], longest: int = DEPTH) -> int:
    found = corpus.cursor(longest).extend(text).match
    return found.length if found else 0


def some_documents(rng: random.Random) -> list[list[int]]:
    return [text for text in some_texts(rng, rng.choice((1, 2, 4)), 30, 7) if text] or [[1]]


def test_lookups_and_continuations_are_those_of_a_scan() -> None:
    rng = random.Random(2)
    for _ in range(500):
        documents = some_documents(rng)
        corpus = Corpus.build(documents)
        text = [rng.randrange(5) for _ in range(rng.randrange(1, 20))]

        def after(size: int, documents: Any = documents, text: Any = text) -> Any:
            """Yield the tokens after each occurrence of the end of the text."""
            return [documents[d][end:] for d, end in positions(documents, text[-size:])]

        longest = max((n for n in range(1, len(text) + 1) if any(after(n))), default=0)
        found = corpus.cursor().extend(text).match
        assert (found.length if found else 0) == longest
        if found is None:
            continue
        wanted = Counter(tuple(one[:3]) for one in after(longest))
        assert Counter(corpus.continuations(found, 3, 10**6)) == wanted
        assert corpus.first_continuation(found, 3) == tuple(after(longest)[0][:3])
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
        texts = [tuple(text) for text in some_texts(rng, 3, 5, 12)]
        prefixes = Counter(text[:n] for text in texts for n in range(1, len(text) + 1))
        size = rng.randrange(1, 12)
        paths: list[tuple[int, ...]] = []
        for token, parent in most_frequent(texts, size):
            paths.append((*(paths[parent] if parent >= 0 else ()), token))
        assert len(paths) == len(set(paths)) == min(size, len(prefixes))
        best = sorted(prefixes.values(), reverse=True)[: len(paths)]
        assert sorted((prefixes[path] for path in paths), reverse=True) == best


def test_the_majority_is_followed_token_by_token() -> None:
    """As along the trie of all of them: of its children, always the first of the most frequent."""
    assert most_followed([(1, 2), (4, 5), (1, 3), (4,)]) == [1, 2], "of equals the one seen first"
    rng = random.Random(6)
    for _ in range(200):
        texts, path = some_texts(rng, 3, 6, 12), list[int]()
        while further := [text[len(path)] for text in texts if begins(text, path)]:
            path.append(max(further, key=further.count))
        assert most_followed([tuple(text) for text in texts]) == path


def begins(text: list[int], path: list[int]) -> bool:
    """Whether a text goes on behind a path."""
    return text[: len(path)] == path and len(text) > len(path)


@pytest.mark.parametrize("name", ["corpus.npz", "corpus.npy"])
def test_a_corpus_survives_its_file_and_is_refused_by_another_tokenizer(
    tmp_path: Path, name: str
) -> None:
    corpus = Corpus.build([[1, 2, 3], [2, 3, 9]], "abc")
    corpus.save(tmp_path / name)
    again = Corpus.load(tmp_path / name, "abc")
    assert (again.tokens == corpus.tokens).all()
    assert (again.order == corpus.order).all()
    assert (again.tree.arrays.child == corpus.tree.arrays.child).all()
    assert length(again, [7, 2, 3]) == length(corpus, [7, 2, 3]) == 2
    assert (again.name, again.fingerprint) == ("corpus", "abc")
    assert (again.largest_token, again.documents) == (9, 2)
    other = r"made with another tokenizer .fingerprint abc, expected xyz.*sam build"
    with pytest.raises(InvalidInput, match=other):
        Corpus.load(tmp_path / name, "xyz")


def refused(path: Path, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Corpus.load(path)


def test_a_file_that_is_no_corpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.npz"
    refused(path, r"there is no corpus .*sam build")
    path.write_text("hello", encoding="utf-8")
    refused(path, "is not a corpus")
    np.savez(path, tokens=np.array([1]))
    refused(path, "is not a corpus")
    good = Corpus.build([[1, 2, 3]])
    arrays = {"tokens": good.tokens, "order": good.order, "fingerprint": np.array("")}
    tokens = (good.tokens[:-1], good.tokens + 1, np.array([END, END, END, END]))
    orders = (good.order * 0, good.order + 7, good.order[::-1])
    for broken in (*({"tokens": one} for one in tokens), *({"order": one} for one in orders)):
        np.savez(path, **{**arrays, **broken})  # type: ignore[arg-type]
        refused(path, "is damaged")
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
        refused(path, "is damaged")
    np.save(path, numbers[:-1])
    refused(path, "is damaged")
    for other in (np.arange(99, dtype=np.int32), np.zeros((2, 2)), np.zeros(0, dtype=np.int32)):
        np.save(path, other)
        refused(path, "is not a corpus")
