"""A suffix tree in flat arrays over documents of token ids, and cursors that follow texts in it.

It answers what a static suffix automaton answers (SAM-Decoding, arXiv 2411.10666, section 3.1): the
longest end of a text that occurs. A cursor keeps the place of that end in the tree. The next token
leads one step down; where it does not occur there, a suffix link leads to the place of the same end
without its first token (McCreight 1976; Chang and Lawler 1994). That is amortised constant time a
token, whatever the size of the corpus, and no token of the text is read twice.

A place stands for a run of rows of the suffix array, so all occurrences are at hand, sorted by what
follows them. The automaton of the authors' code knows one for each state, the first in the corpus,
and copies from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ouroboros_core.lookup.suffix_array import DEPTH, END, Ids

_BEYOND = DEPTH + 1
"""The depth of what no match reaches: a leaf, or suffixes that share DEPTH tokens."""

_GOLDEN = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: its multiples spread evenly (Knuth, volume 3, section 6.4)."""


@dataclass(frozen=True)
class Found:
    """Where the last `length` tokens of a text occur: rows first to stop - 1 of the suffix
    array."""

    length: int
    first: int
    stop: int


@dataclass(frozen=True)
class Arrays:
    """Nodes, numbered by depth and then by row, the root first; and edges in a hash table.

    first, stop  [nodes] the rows below a node are first to stop - 1
    depth        [nodes] tokens from the root; _BEYOND where the suffixes share DEPTH tokens
    link         [nodes] the node of the same tokens without the first; the root's is the root
    bucket       [buckets + 1] the first edge of each bucket
    tag          [edges] what the bucket leaves open of (node, first token of the edge)
    child        [edges] the node below; of a leaf, its row r as -1 - r
    """

    first: Ids
    stop: Ids
    depth: Ids
    link: Ids
    bucket: Ids
    tag: Ids
    child: Ids


@dataclass(frozen=True)
class _Key:
    """One number for (node, token), mixed by a multiplication that can be undone: its upper bits
    choose a bucket, and the others, the tag, tell apart whatever is in it."""

    token_bits: int
    tag_bits: int
    factor: int
    mask: int

    @classmethod
    def of(cls, nodes: int, largest_token: int, edges: int) -> _Key:
        """With one or two edges to a bucket, and tags of at most 31 bits."""
        token_bits = largest_token.bit_length()
        bits = token_bits + (nodes - 1).bit_length()
        bucket_bits = min(bits, max(edges.bit_length() - 1, bits - 31))
        return cls(token_bits, bits - bucket_bits, _GOLDEN >> 64 - bits | 1, (1 << bits) - 1)

    @property
    def buckets(self) -> int:
        return (self.mask >> self.tag_bits) + 1

    def table(self, parent: Any, token: Any, child: Any) -> tuple[Ids, Ids, Ids]:
        """bucket, tag and child for edges given in any order."""
        key = parent.astype(np.uint64) << np.uint64(self.token_bits) | token.astype(np.uint64)
        mixed = key * np.uint64(self.factor) & np.uint64(self.mask)
        sort = np.argsort(mixed, kind="stable")
        number = (mixed >> np.uint64(self.tag_bits)).astype(np.int64)
        sizes = np.bincount(number, minlength=self.buckets)
        bucket = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        tag = (mixed & np.uint64((1 << self.tag_bits) - 1)).astype(np.int32)
        return bucket, tag[sort], child[sort].astype(np.int32)


class SuffixTree:
    """Over documents with END behind each. It is shared and never changes; what moves is a
    `Cursor`."""

    def __init__(self, tokens: Ids, order: Ids, arrays: Arrays) -> None:
        """order: as of `suffix_array`; arrays: as of `build`."""
        self.arrays = arrays
        self.tokens, self.order = _items(tokens), _items(order)
        self.first, self.stop = _items(arrays.first), _items(arrays.stop)
        self.depth, self.link = _items(arrays.depth), _items(arrays.link)
        self._bucket, self._tag = _items(arrays.bucket), _items(arrays.tag)
        self._child = _items(arrays.child)
        self._largest = int(tokens.max())
        self._key = _Key.of(len(arrays.first), self._largest, len(arrays.child))

    @classmethod
    def build(cls, tokens: Ids, order: Ids) -> SuffixTree:
        """From the suffix array; raises ValueError for another order."""
        descent = _Descent(tokens, order)
        first, stop, depth = descent.nodes
        key = _Key.of(len(first), int(tokens.max()), len(descent.edges[0]))
        links = _links(order, first, depth)
        return cls(tokens, order, Arrays(first, stop, depth, links, *key.table(*descent.edges)))

    def child(self, node: int, token: int) -> int | None:
        """What is below a node by the edge that begins with a token: a node, of a leaf -1 - its
        row, or None. Expected constant time."""
        if token > self._largest:
            return None
        key = self._key
        mixed = (node << key.token_bits | token) * key.factor & key.mask
        bucket = mixed >> key.tag_bits
        tag = mixed ^ bucket << key.tag_bits
        for edge in range(self._bucket[bucket], self._bucket[bucket + 1]):
            if self._tag[edge] == tag:
                return self._child[edge]
        return None


class Cursor:
    """The place of the longest end of a text that occurs in the corpus with something behind it.

    read  tokens of the text so far
    """

    def __init__(self, tree: SuffixTree, longest: int = DEPTH) -> None:
        """longest: tokens of the longest end that is looked for, at most DEPTH."""
        self._tree, self._longest = tree, min(longest, DEPTH)
        self.read = self._length = 0
        self._node = 0  # the deepest node that is not below the place
        self._below: int | None = None  # where its edge leads; None if the place is the node itself

    def extend(self, tokens: Iterable[int]) -> Cursor:
        """Follow what was written."""
        for token in tokens:
            self.read += 1
            while self._length == self._longest or not self._step(token):
                if not self._length:
                    break
                self._drop()
        return self

    @property
    def found(self) -> Found | None:
        """Where that end occurs; None if not even the last token does."""
        if not self._length:
            return None
        place = self._node if self._below is None else self._below
        return Found(self._length, *self._rows(place))

    def _rows(self, place: int) -> tuple[int, int]:
        tree = self._tree
        return (tree.first[place], tree.stop[place]) if place >= 0 else (-1 - place, -place)

    def _depth(self, place: int) -> int:
        return self._tree.depth[place] if place >= 0 else _BEYOND

    def _step(self, token: int) -> bool:
        """Go one token down, if it occurs there with something behind it."""
        tree, below, length = self._tree, self._below, self._length
        if below is None:
            below = tree.child(self._node, token)
            if below is None:
                return False
        elif tree.tokens[tree.order[self._rows(below)[0]] + length] != token:
            return False
        # Suffixes at their document's end come first: where the last one is, all are.
        if tree.tokens[tree.order[self._rows(below)[1] - 1] + length + 1] == END:
            return False
        self._length += 1
        self._settle(below)
        return True

    def _settle(self, below: int) -> bool:
        """Stand at the node below, where the place reaches it, else on the edge to it."""
        reached = self._depth(below) <= self._length
        if reached:
            self._node, self._below = below, None
        else:
            self._below = below
        return reached

    def _drop(self) -> None:
        """Go to the place without the first token: by the link of the node above, then down from
        node to node, along tokens that are known to be there."""
        tree, below = self._tree, self._below
        self._length -= 1
        self._node, self._below = tree.link[self._node], None
        if below is None:
            return
        start = tree.order[self._rows(below)[0]] + 1
        while (depth := tree.depth[self._node]) < self._length:
            child = tree.child(self._node, tree.tokens[start + depth])
            assert child is not None and self._depth(child) > depth
            if not self._settle(child):
                return


class _Descent:
    """The nodes and edges of a suffix array, found depth by depth among the rows that share their
    tokens so far with another row.

    nodes  [first, stop, depth]
    edges  [parent, token, child]
    """

    def __init__(self, tokens: Ids, order: Ids) -> None:
        self._tokens, self._order = tokens, order
        self._nodes: list[tuple[Any, Any, Any]] = []
        self._edges: list[tuple[Any, Any, Any]] = []
        self._ends: list[tuple[Any, Any]] = []  # (edge, node below)
        self._counted = [0, 0]  # nodes, edges
        # The rows; where among them those start that share their tokens; the edge to each group.
        self._rows = np.arange(len(order))
        self._starts = self._rows == 0
        self._above = np.array([-1])
        depth = 0
        while depth < DEPTH and len(self._rows):
            self._divide(depth)
            depth += 1
        groups = np.flatnonzero(self._starts)
        self._add_nodes(groups, _stops(groups, len(self._rows)), _BEYOND, self._above)
        self.nodes = [np.concatenate(parts) for parts in zip(*self._nodes, strict=True)]
        self.edges = [np.concatenate(parts) for parts in zip(*self._edges, strict=True)]
        for edges, nodes in self._ends:
            self.edges[2][edges] = nodes

    def _divide(self, depth: int) -> None:
        """Divide the groups by their next token. One that falls into parts, or where a document
        ends, is a node; what is left are the parts of two rows or more."""
        rows, starts = self._rows, self._starts
        token = self._tokens[self._order[rows] + depth]
        if ((token[1:] < token[:-1]) & ~starts[1:]).any():
            raise ValueError("the suffixes are not in their order")
        starts_part = starts.copy()
        starts_part[1:] |= token[1:] != token[:-1]
        parts, groups = np.flatnonzero(starts_part), np.flatnonzero(starts)
        group = np.cumsum(starts[parts]) - 1
        node = (np.bincount(group) > 1) | (token[groups] == END) | (depth == 0)
        stops = _stops(groups, len(rows))
        added = self._add_nodes(groups[node], stops[node], depth, self._above[node])
        goes_on = token[parts] != END
        new = goes_on & node[group]
        above = self._above[group]
        parents = added + np.cumsum(node)[group[new]] - 1
        above[new] = self._add_edges(parents, token[parts[new]], rows[parts[new]])
        size = _stops(parts, len(rows)) - parts
        left = goes_on & (size > 1)
        stays = np.repeat(left, size)
        self._rows, self._starts, self._above = rows[stays], starts_part[stays], above[left]

    def _add_nodes(self, starts: Any, stops: Any, depth: int, above: Any) -> int:
        """Nodes of groups, by where those start and stop among the rows; returns the first's
        number."""
        first = self._counted[0]
        self._counted[0] += len(starts)
        self._nodes.append(
            (
                self._rows[starts].astype(np.int32),
                (self._rows[stops - 1] + 1).astype(np.int32),
                np.full(len(starts), depth, dtype=np.int32),
            )
        )
        if depth:
            self._ends.append((above, np.arange(first, self._counted[0])))
        return first

    def _add_edges(self, parents: Any, tokens: Any, rows: Any) -> Any:
        """Edges to leaves, as long as no node is found below them; returns their numbers."""
        first = self._counted[1]
        self._counted[1] += len(rows)
        self._edges.append((parents, tokens, -1 - rows))
        return np.arange(first, self._counted[1])


def _stops(starts: Any, count: int) -> Any:
    """Where each of several runs stops that fill `count` places together."""
    return np.append(starts[1:], count)[: len(starts)]


def _links(order: Ids, first: Ids, depth: Ids) -> Ids:
    """Of each node the one whose rows, a token less deep, contain its first suffix without its
    first token."""
    row = np.empty(len(order), dtype=np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    links = np.zeros(len(first), dtype=np.int32)
    levels = np.searchsorted(depth, np.arange(DEPTH + 1))
    for above, level, stop in zip(levels, levels[1:], levels[2:], strict=False):
        behind = row[order[first[level:stop]] + 1]
        links[level:stop] = above + np.searchsorted(first[above:level], behind, side="right") - 1
    return links


def _items(array: Ids) -> memoryview[int]:
    """Its items are plain numbers, faster to get one by one than those of an array."""
    return np.ascontiguousarray(array).data
