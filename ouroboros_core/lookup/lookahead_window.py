"""The lookahead window: a two-dimensional Jacobi iteration that produces n-grams (arXiv 2402.02057,
section 3.1).

Level 0 is a row of guesses after the root. Level l + 1 holds the model's predictions after level l.
With window W and n-gram size N there are N - 1 levels. A token at (level l, column c) has the text
position of the root plus l + c; column 0 of level 0 is the root. It sees the context, the root,
columns 1 to c of level 0, and levels 1 to l of its column: the parent of (l, c) is (l - 1, c), and
the parent of (0, c) is (0, c - 1). So the window is a comb in the token tree. For W = 3, N = 4:

    level 0:        root  a1  a2          a1's parent is the root, a2's is a1
    level 1:         b0   b1  b2          b0's parent is the root, b1's is a1, b2's is a2
    level 2:         c0   c1  c2          c0's parent is b0, ...

The window starts with one level of W + N - 3 tokens drawn from the prompt. In the *fill* phase of
N - 2 passes it gains a level per pass. After that, every pass yields one n-gram per column:
(root, b0, c0, new0), (a1, b1, c1, new1), ...
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ouroboros_core.tree import TreeBuilder

NGram = tuple[int, tuple[int, ...]]
"""A key token and the phrase that follows it."""


NARROWEST, WIDEST = 2, 15
"""Fewest and most columns if their number is 'auto' and not 0. One column finds hardly a phrase
(docs/methods/lookahead.md); tokens per pass grow little beyond fifteen (arXiv 2402.02057, figure
6)."""


def columns_within(rows: int, ngram_size: int) -> int:
    """Return the widest window of at most `rows` rows with the root; 0 below NARROWEST."""
    columns = min(WIDEST, (rows - 1) // (ngram_size - 1))
    return columns if columns >= NARROWEST else 0


class LookaheadWindow:
    """The window of one text, with W columns and n-gram size N.

    It holds guesses only and is never rolled back.
    """

    def __init__(
        self, window_size: int, ngram_size: int, prompt: Sequence[int], rng: random.Random
    ) -> None:
        self.window_size = window_size
        self.ngram_size = ngram_size
        first = [prompt[rng.randrange(len(prompt))] for _ in range(window_size + ngram_size - 3)]
        self.levels: list[list[int]] = [first]

    @property
    def full(self) -> bool:
        """Whether the fill phase is over."""
        return len(self.levels) == self.ngram_size - 1

    def attach(self, builder: TreeBuilder) -> list[int]:
        """Add the window below the root and return the nodes of its last level.

        `advance` needs their outputs. The nodes of the other levels are silent, as their outputs
        are not needed.
        """
        above: list[int] = [0]
        nodes: list[int] = []
        last = len(self.levels) - 1
        for level, tokens in enumerate(self.levels):
            nodes = []
            for column, token in enumerate(tokens):
                before = nodes[-1] if nodes else 0
                parent = above[column] if level else before
                nodes.append(builder.add_window(token, parent, silent=level < last))
            above = nodes if level else [0, *nodes]
        return nodes

    def advance(self, root: int, outputs: Sequence[int]) -> list[NGram]:
        """Take the model's choices after the last level, and return the n-grams of a full window.

        Return none in the fill phase. The window moves by one token per pass, however many tokens
        the pass accepted, as in the reference implementation.
        """
        levels = self.levels
        if not self.full:
            new = list(outputs) if len(levels) == 1 else list(outputs[1:])
            self.levels = [tokens[1:] for tokens in levels] + [new]
            return []
        keys = [root, *levels[0]]
        ngrams = [
            (key, (*(tokens[c] for tokens in levels[1:]), outputs[c])) for c, key in enumerate(keys)
        ]
        self.levels = [levels[1][1:], *levels[2:], list(outputs)]
        return ngrams
