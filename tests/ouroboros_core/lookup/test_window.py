"""The lookahead window, compared with truth tables typed by hand from the paper's figure and the
reference's index arithmetic."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.lookup.lookahead_window import LookaheadWindow
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder
from tests import tiny
from tests.ouroboros_core.test_tree import picture
from tests.tiny import prompt, run


def full_window(window_size: int, ngram_size: int) -> LookaheadWindow:
    """A window past its fill phase whose token at (level, column) is 100 * level + column."""
    window = LookaheadWindow(window_size, ngram_size, [1], random.Random(0))
    window.levels = [[*range(1, window_size)]] + [
        [100 * n + c for c in range(window_size)] for n in range(1, ngram_size - 1)
    ]
    return window


def tree_of(window: LookaheadWindow, phrases: int = 0) -> tuple[TokenTree, list[int]]:
    builder = TreeBuilder(0)
    for n in range(phrases):
        builder.add_path(
            [900 + 10 * n + i for i in range(window.ngram_size - 1)], 0, Provenance(Source.PHRASE)
        )
    last = window.attach(builder)
    return builder.build(), last


def test_the_mask_of_lookahead_decoding() -> None:
    """W = 3, N = 4 and one phrase. Rows: root, the phrase p1 p2 p3, then a1 a2, b0 b1 b2, c0 c1 c2.

    A window row sees the root, level 0 up to its column, and the levels above it in its column; a
    phrase only itself.
    """
    tree, last = tree_of(full_window(3, 4), phrases=1)
    assert tree.tokens == (0, 900, 901, 902, 1, 2, 100, 101, 102, 200, 201, 202)
    assert picture(tree) == [
        "#...........",  # root
        "##..........",  # p1
        "###.........",  # p2
        "####........",  # p3
        "#...#.......",  # a1
        "#...##......",  # a2
        "#.....#.....",  # b0
        "#...#..#....",  # b1
        "#...##..#...",  # b2
        "#.....#..#..",  # c0
        "#...#..#..#.",  # c1
        "#...##..#..#",  # c2
    ]
    assert tree.depths == (0, 1, 2, 3, 1, 2, 1, 2, 3, 2, 3, 4), "position = root + level + column"
    assert [tree.tokens[n] for n in last] == [200, 201, 202]
    assert tree.silent == {4, 5, 6, 7, 8}, "only the last level's outputs are needed"


@given(st.integers(1, 6), st.integers(3, 7))
def test_a_full_window_has_the_closed_form_of_the_paper(width: int, size: int) -> None:
    tree, _ = tree_of(full_window(width, size))
    assert len(tree) == 1 + (width - 1) + width * (size - 2)
    where = {token: node for node, token in enumerate(tree.tokens)}

    def node(level: int, column: int) -> int:
        return where[100 * level + column] if (level, column) != (0, 0) else 0

    for level in range(size - 1):
        for column in range(width):
            sees = {node(0, c) for c in range(column + 1)} | {
                node(n, column) for n in range(1, level + 1)
            }
            assert set(tree.ancestors[node(level, column)].nonzero()[0]) == sees
            assert tree.depths[node(level, column)] == level + column


def test_the_fill_phase_takes_n_minus_2_passes_and_has_the_reference_sizes() -> None:
    window = LookaheadWindow(5, 6, [1, 2, 3], random.Random(0))
    assert [len(tokens) for tokens in window.levels] == [5 + 6 - 3]
    for filled in range(1, 5):
        _, last = tree_of(window)
        assert not window.full
        assert window.advance(0, [1000 * filled + c for c in range(len(last))]) == []
        assert len(window.levels) == filled + 1
    assert window.full
    assert [len(tokens) for tokens in window.levels] == [4, 5, 5, 5, 5]


def test_filling_drops_the_column_that_the_text_has_reached() -> None:
    window = LookaheadWindow(2, 4, [7], random.Random(0))
    window.levels = [[11, 12, 13]]  # columns 1, 2, 3 behind the root
    # What follows columns 1, 2, 3 is level 1 of columns 0, 1, 2 after the move.
    window.advance(0, [21, 22, 23])
    assert window.levels == [[12, 13], [21, 22, 23]]
    window.advance(0, [31, 32, 33])
    assert window.levels == [[13], [22, 23], [32, 33]]


def test_a_full_window_yields_one_ngram_a_column_and_shifts_its_levels() -> None:
    window = full_window(3, 4)
    ngrams = window.advance(55, [300, 301, 302])
    assert ngrams == [(55, (100, 200, 300)), (1, (101, 201, 301)), (2, (102, 202, 302))]
    assert window.levels == [[101, 102], [200, 201, 202], [300, 301, 302]]


def test_the_window_begins_with_tokens_of_the_prompt_and_is_reproducible() -> None:
    first = LookaheadWindow(9, 5, [3, 4], random.Random(1)).levels
    assert set(first[0]) <= {3, 4}
    assert first == LookaheadWindow(9, 5, [3, 4], random.Random(1)).levels


def test_lookahead_takes_phrases_from_prompt_and_text_where_it_is_extended() -> None:
    def learned(**settings: Any) -> set[Learned | None]:
        sizes: dict[str, Any] = {"ngram_size": 3, "window_size": 2, **settings}
        steps = run(tiny.pair("llama", "sdpa"), "lookahead", [*prompt()] * 2, 60, **sizes)
        origins = [origin for step in steps for origin in step.tree.provenance]
        return {origin.learned for origin in origins if origin.source is Source.PHRASE}

    assert learned() == {Learned.LOOKAHEAD}
    assert {Learned.PROMPT, Learned.TEXT} <= learned(extended=True)
