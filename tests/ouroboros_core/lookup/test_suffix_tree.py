"""Cursors in a suffix tree against scanning the documents at every token; their moves, counted; and
the order of suffixes against sorted slices."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from ouroboros_core.lookup.suffix_tree import DEPTH, END, Cursor, Ids, SuffixTree, suffix_array


def closed(documents: Sequence[Sequence[int]]) -> Ids:
    return np.array([n for document in documents for n in (*document, END)], dtype=np.int32)


def tree_over(documents: Sequence[Sequence[int]]) -> SuffixTree:
    tokens = closed(documents)
    return SuffixTree.build(tokens, suffix_array(tokens))


def starts_of(tokens: Sequence[int], pattern: Sequence[int]) -> list[int]:
    size = len(pattern)
    return [n for n in range(len(tokens)) if tokens[n : n + size] == pattern]


def longest_end(tokens: Sequence[int], text: Sequence[int], longest: int) -> int:
    """Of the ends of a text that occur with a token behind them."""
    for size in range(min(longest, len(text)), 0, -1):
        behind = [tokens[n + size] for n in starts_of(tokens, text[len(text) - size :])]
        if any(token != END for token in behind):
            return size
    return 0


def some_documents(rng: random.Random) -> list[list[int]]:
    letters, times = rng.choice((1, 2, 3, 5)), rng.choice((1, 1, 4))
    return [
        [rng.randrange(letters) for _ in range(rng.randrange(1, 40))] * times
        for _ in range(rng.randrange(1, 6))
    ]


def some_text(rng: random.Random, documents: Sequence[Sequence[int]]) -> list[int]:
    """Pieces of the documents, and tokens that are in none."""
    text: list[int] = []
    while len(text) < 60:
        document = rng.choice(documents)
        first = rng.randrange(len(document))
        text += document[first : first + rng.randrange(1, 12)]
        text += [rng.randrange(9)] * rng.randrange(2)
    return text


def test_a_cursor_knows_the_longest_end_and_all_its_places_at_every_token() -> None:
    rng = random.Random(1)
    for _ in range(60):
        documents = some_documents(rng)
        tree, tokens = tree_over(documents), closed(documents).tolist()
        longest = rng.choice((DEPTH, DEPTH, 3, 1))
        cursor, text = Cursor(tree, longest), some_text(rng, documents)
        for size, token in enumerate(text, 1):
            found = cursor.extend([token]).match
            length = longest_end(tokens, text[:size], longest)
            assert (found.length if found else 0) == length
            if found is not None:
                rows = [tree.order[row] for row in range(found.first, found.stop)]
                assert sorted(rows) == starts_of(tokens, text[size - length : size])
        assert cursor.read == len(text)


def fibonacci(size: int) -> list[int]:
    before, word = [1], [0]
    while len(word) < size:
        before, word = word, word + before
    return word[:size]


RUNS = [n for size in range(1, DEPTH + 9) for n in [0] * size + [1]]


@pytest.mark.parametrize(
    ("documents", "text"),
    [
        ([[0] * 500], [0] * 2000),
        ([RUNS], [0] * DEPTH + [2] + RUNS + RUNS[::-1]),
        ([fibonacci(900)], fibonacci(1500)[::-1]),
        ([[0, *([1, 2] * 90)], [3, *([2, 1] * 90)]], [0, *([1, 2] * 40), 3, *([2, 1] * 40)] * 9),
        ([random.Random(3).choices(range(4), k=3000)], random.Random(4).choices(range(4), k=3000)),
    ],
    ids=["one token", "runs", "Fibonacci", "period", "random"],
)
def test_a_text_takes_no_more_than_five_moves_a_token(
    monkeypatch: pytest.MonkeyPatch, documents: list[list[int]], text: list[int]
) -> None:
    """A move is an edge looked up, a token tried or a first token dropped; going down from the root
    again whenever one is dropped takes over ten on the Fibonacci word."""
    moves = 0

    def counted(kind: type, name: str) -> None:
        inner = getattr(kind, name)

        def count(*arguments: object) -> object:
            nonlocal moves
            moves += 1
            return inner(*arguments)

        monkeypatch.setattr(kind, name, count)

    counted(SuffixTree, "child")
    counted(Cursor, "_step")
    counted(Cursor, "_drop")
    Cursor(tree_over(documents)).extend(text)
    assert len(text) <= moves <= 5 * len(text)


def test_an_edge_is_found_among_few() -> None:
    """The mean number of edges in the bucket of an edge: 1 + edges / buckets if they are spread as
    by chance."""
    weights = [1 / n for n in range(1, 5000)]
    rng = random.Random(5)
    tree = tree_over([rng.choices(range(4999), weights, k=400) for _ in range(50)])
    sizes = np.diff(tree.arrays.bucket)
    assert sizes.sum() == len(tree.arrays.child)
    assert (sizes**2).sum() / sizes.sum() < 1 + 1.1 * sizes.mean() < 3.2


def test_every_link_leads_to_the_same_tokens_without_the_first() -> None:
    rng = random.Random(6)
    for _ in range(50):
        tree = tree_over(some_documents(rng))

        def tokens_of(node: int, tree: SuffixTree = tree) -> list[int]:
            start = tree.order[tree.first[node]]
            return list(tree.tokens[start : start + tree.depth[node]])

        inner = [node for node in range(1, len(tree.depth)) if tree.depth[node] <= DEPTH]
        for node in inner:
            assert tokens_of(tree.link[node]) == tokens_of(node)[1:]


def test_suffixes_are_in_the_order_of_their_slices() -> None:
    rng = random.Random(7)
    for _ in range(100):
        documents = some_documents(rng)
        scale = rng.choice((1, 10**4, 2**28))
        tokens = closed([[scale * n for n in document] for document in documents])
        order, plain = suffix_array(tokens).tolist(), tokens.tolist()
        assert sorted(order) == [*range(len(plain))]
        slices = [plain[n : n + DEPTH] for n in order]
        assert slices == sorted(slices)


def test_another_order_is_refused() -> None:
    tokens = closed([[1, 2, 3], [1, 3]])
    order = suffix_array(tokens)
    with pytest.raises(ValueError, match="not in their order"):
        SuffixTree.build(tokens, order[::-1].copy())
