"""A suffix automaton over a growing text: the longest suffix that occurred earlier, and where it did most recently.

States are sets of substrings with the same end positions, joined by suffix links into a tree (Blumer et al. 1985); a token is
added in amortised constant time. Where a state occurred last is kept on paths of a link-cut tree (Sleator and Tarjan 1983), whose
`access` writes the newest position on a whole path to the root in amortised logarithmic time, also on a text of one repeated
token, on which walking up the links would take time proportional to its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """The longest suffix of the text that occurred earlier: its length, and where an occurrence ended most recently.

    end: the position behind it, which holds the token that followed.
    """

    length: int
    end: int


class SuffixAutomaton:
    """Over all tokens added so far. `SuffixAutomaton().extend([1, 2, 3, 1, 2])` knows that `1 2` occurred, followed by 3."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._last = 0
        self._recent: Match | None = None
        self._paths = _Paths()
        self._paths.add(-1)

    def extend(self, tokens: Iterable[int]) -> SuffixAutomaton:
        for token in tokens:
            self.append(token)
        return self

    def append(self, token: int) -> None:
        """Add a token; amortised logarithmic time."""
        position = len(self.tokens)
        self.tokens.append(token)
        state = self._new(self._length[self._last] + 1, {})
        before = self._last
        while before >= 0 and token not in self._next[before]:
            self._next[before][token] = state
            before = self._link[before]
        if before < 0:
            parent = 0
        else:
            parent = self._next[before][token]
            if self._length[parent] != self._length[before] + 1:
                parent = self._clone(before, token, parent)
        self._link[state] = parent
        self._paths.hang(state, parent)
        length = self._length[parent]
        self._recent = Match(length, self._paths.value(parent) + 1) if length else None
        self._paths.paint(state, position)
        self._last = state

    def _new(self, length: int, following: dict[int, int]) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(-1)
        self._paths.add(-1)
        return len(self._length) - 1

    def _clone(self, before: int, token: int, old: int) -> int:
        """A state of its own for the shorter substrings of `old`, which from now on have one more end position."""
        clone = self._new(self._length[before] + 1, dict(self._next[old]))
        parent = self._link[old]
        self._link[clone], self._link[old] = parent, clone
        self._paths.insert(clone, above=old, below=parent)
        while before >= 0 and self._next[before].get(token) == old:
            self._next[before][token] = clone
            before = self._link[before]
        return clone

    @property
    def recent(self) -> Match | None:
        """The longest suffix of the whole text that also ended earlier; None if there is none."""
        return self._recent


class _Paths:
    """A rooted forest whose nodes carry numbers; `paint` writes a number on a node and all that lie above it.

    Splay trees over preferred paths, deeper nodes to the right; a pending number is handed down as a rotation needs it.
    """

    def __init__(self) -> None:
        self._up: list[int] = []
        self._left: list[int] = []
        self._right: list[int] = []
        self._value: list[int] = []
        self._pending: list[int] = []

    def add(self, value: int) -> None:
        for column, content in ((self._up, -1), (self._left, -1), (self._right, -1), (self._value, value), (self._pending, -1)):
            column.append(content)

    def hang(self, node: int, parent: int) -> None:
        """Put a root below a parent."""
        self._splay(node)
        self._up[node] = parent

    def insert(self, node: int, *, above: int, below: int) -> None:
        """Put a single new node between `above` and the parent `below` that it has had; it takes the value of `above`."""
        self._access(above)
        left = self._left[above]
        self._up[left], self._left[above] = -1, -1
        self._value[node] = self._value[above]
        self._up[node] = below
        self._up[above] = node

    def value(self, node: int) -> int:
        self._access(node)
        return self._value[node]

    def paint(self, node: int, value: int) -> None:
        self._access(node)
        self._hand(node, value)

    def _hand(self, node: int, value: int) -> None:
        self._value[node] = self._pending[node] = value

    def _access(self, node: int) -> None:
        """Make the path from the root down to `node` preferred, and `node` the root of its splay tree, without a right child."""
        self._splay(node)
        self._right[node] = -1
        while self._up[node] >= 0:
            above = self._up[node]
            self._splay(above)
            self._right[above] = node
            self._splay(node)

    def _top(self, node: int) -> bool:
        up = self._up[node]
        return up < 0 or (self._left[up] != node and self._right[up] != node)

    def _splay(self, node: int) -> None:
        left, right, pending = self._left, self._right, self._pending
        path = [node]
        while not self._top(path[-1]):
            path.append(self._up[path[-1]])
        for one in reversed(path):
            if pending[one] >= 0:
                for child in (left[one], right[one]):
                    if child >= 0:
                        self._hand(child, pending[one])
                pending[one] = -1
        while not self._top(node):
            up = self._up[node]
            if not self._top(up):
                over = self._up[up]
                self._rotate(up if (left[up] == node) == (left[over] == up) else node)
            self._rotate(node)

    def _rotate(self, node: int) -> None:
        up, left, right = self._up, self._left, self._right
        parent = up[node]
        over = up[parent]
        if not self._top(parent):
            (left if left[over] == parent else right)[over] = node
        if left[parent] == node:
            left[parent], right[node] = right[node], parent
            if left[parent] >= 0:
                up[left[parent]] = parent
        else:
            right[parent], left[node] = left[node], parent
            if right[parent] >= 0:
                up[right[parent]] = parent
        up[node], up[parent] = over, node
