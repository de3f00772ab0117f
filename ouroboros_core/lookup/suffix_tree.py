"""A suffix tree in flat arrays over documents of token ids, and cursors that follow texts in it.

It finds the longest end of a text that occurs in the corpus, as a static suffix automaton does
(SAM-Decoding, arXiv 2411.10666, section 3.1). A cursor stores the position of that end in the tree.
The next token leads one step down. If it does not occur below, a suffix link leads to the position
of the same end without its first token (McCreight 1976; Chang and Lawler 1994). This takes
amortised constant time per token for a corpus of any size, and reads no token of the text twice.

A position in the tree stands for consecutive rows of the suffix array, so all occurrences are
available, sorted by the tokens after them. The automaton of the authors' code stores only the first
occurrence of each state and copies from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ouroboros_core.arrays import np, npt

Ids: TypeAlias = "npt.NDArray[np.int32]"

DEPTH = 64
"""Tokens by which suffixes are sorted; no match is longer."""

END = -1
"""Separator after each document."""

_BEYOND = DEPTH + 1
"""The depth of nodes that no match reaches: leaves, and suffixes that share DEPTH tokens."""

_GOLDEN = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: its multiples spread evenly (Knuth, volume 3, section 6.4)."""


def suffix_array(tokens: Ids) -> Ids:
    """Return the suffixes sorted by at least their first DEPTH tokens; ties keep the text's order.

    They are sorted first by the tokens that fit into one number, then by doubling (Manber and Myers
    1993), each time only among suffixes that are still tied (Larsson and Sadakane 2007).
    """
    count, bits = len(tokens), int(tokens.max() + 1).bit_length()
    width = 62 // bits
    padded = np.zeros(count + width, dtype=np.int64)
    padded[:count] = tokens
    padded[:count] += 1
    key: Any = np.zeros(count, dtype=np.int64)
    for offset in range(width):
        key = (key << bits) | padded[offset : offset + count]
    rows = np.arange(count)  # rows that are still to sort by key
    order = rows.copy()
    rank = np.full(count + 1, -1)  # by position, the first row of its tie; -1 after the last
    while True:
        sort = np.argsort(key, kind="stable")
        key, positions = key[sort], order[rows][sort]
        starts = np.concatenate([[True], key[1:] != key[:-1]])
        order[rows] = positions
        rank[positions] = np.maximum.accumulate(np.where(starts, rows, 0))
        rows = rows[~(starts & np.concatenate([starts[1:], [True]]))]
        if width >= DEPTH or not len(rows):
            return order.astype(np.int32)
        tied = order[rows]
        key = rank[tied] * (count + 1) + rank[np.minimum(tied + width, count)] + 1
        width *= 2


@dataclass(frozen=True)
class RowMatch:
    """Rows first to stop - 1 of the suffix array, where the last `length` tokens occur."""

    length: int
    first: int
    stop: int


@dataclass(frozen=True)
class Arrays:
    """Nodes, numbered by depth and then by row, the root first; and edges in a hash table.

    first, stop  [nodes] the rows below a node are first to stop - 1
    depth        [nodes] tokens from the root; _BEYOND if the suffixes share DEPTH tokens
    link         [nodes] the node of the same tokens without the first; for the root, the root
    bucket       [buckets + 1] the first edge of each bucket
    tag          [edges] the bits of (node, first token of the edge) that the bucket does not fix
    child        [edges] the node below, or -1 - r for the leaf of row r
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
    """One number for (node, token), mixed by an invertible multiplication: its upper bits choose a
    bucket, and its lower bits, the tag, identify an edge in the bucket."""

    token_bits: int
    tag_bits: int
    factor: int
    mask: int

    @classmethod
    def of(cls, nodes: int, largest_token: int, edges: int) -> _Key:
        """Return a key with one or two edges to a bucket, and tags of at most 31 bits."""
        token_bits = largest_token.bit_length()
        bits = token_bits + (nodes - 1).bit_length()
        bucket_bits = min(bits, max(edges.bit_length() - 1, bits - 31))
        return cls(token_bits, bits - bucket_bits, _GOLDEN >> 64 - bits | 1, (1 << bits) - 1)

    @property
    def buckets(self) -> int:
        return (self.mask >> self.tag_bits) + 1

    def table(self, parent: Any, token: Any, child: Any) -> tuple[Ids, Ids, Ids]:
        """Return bucket, tag and child for edges in any order."""
        key = parent.astype(np.uint64) << np.uint64(self.token_bits) | token.astype(np.uint64)
        mixed = key * np.uint64(self.factor) & np.uint64(self.mask)
        sort = np.argsort(mixed, kind="stable")
        number = (mixed >> np.uint64(self.tag_bits)).astype(np.int64)
        sizes = np.bincount(number, minlength=self.buckets)
        bucket = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        tag = (mixed & np.uint64((1 << self.tag_bits) - 1)).astype(np.int32)
        return bucket, tag[sort], child[sort].astype(np.int32)


class SuffixTree:
    """An immutable suffix tree over documents, each followed by END; a `Cursor` moves in it."""

    def __init__(self, tokens: Ids, order: Ids, arrays: Arrays) -> None:
        """order: from `suffix_array`; arrays: from `build`."""
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
        """Build the tree from the suffix array; raises ValueError if `order` is not sorted."""
        descent = _Descent(tokens, order)
        first, stop, depth = descent.nodes
        key = _Key.of(len(first), int(tokens.max()), len(descent.edges[0]))
        links = _links(order, first, depth)
        return cls(tokens, order, Arrays(first, stop, depth, links, *key.table(*descent.edges)))

    def child(self, node: int, token: int) -> int | None:
        """Return the child on the edge of `token`: a node, -1 - row for a leaf, or None."""
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
    """The position in the tree of the longest end of a text that occurs in the corpus with a token
    after it.

    read  number of tokens of the text so far
    """

    def __init__(self, tree: SuffixTree, longest: int = DEPTH) -> None:
        """longest: most tokens of a match, at most DEPTH."""
        self._tree, self._longest = tree, min(longest, DEPTH)
        self.read = self._length = 0
        self._node = 0  # the deepest node that is not below the position
        self._below: int | None = None  # the child of its edge; None if the position is the node

    def extend(self, tokens: Iterable[int]) -> Cursor:
        """Follow new tokens of the text."""
        for token in tokens:
            self.read += 1
            while self._length == self._longest or not self._step(token):
                if not self._length:
                    break
                self._drop()
        return self

    @property
    def match(self) -> RowMatch | None:
        """The occurrences of that end, or None if not even the last token occurs."""
        if not self._length:
            return None
        child = self._node if self._below is None else self._below
        return RowMatch(self._length, *self._rows(child))

    def _rows(self, child: int) -> tuple[int, int]:
        tree = self._tree
        return (tree.first[child], tree.stop[child]) if child >= 0 else (-1 - child, -child)

    def _depth(self, child: int) -> int:
        return self._tree.depth[child] if child >= 0 else _BEYOND

    def _step(self, token: int) -> bool:
        """Move one token down and return True, if `token` occurs there with a token after it."""
        tree, below, length = self._tree, self._below, self._length
        if below is None:
            below = tree.child(self._node, token)
            if below is None:
                return False
        elif tree.tokens[tree.order[self._rows(below)[0]] + length] != token:
            return False
        # Suffixes at their document's end come first: if the last one is at its end, all are.
        if tree.tokens[tree.order[self._rows(below)[1] - 1] + length + 1] == END:
            return False
        self._length += 1
        self._settle(below)
        return True

    def _settle(self, below: int) -> bool:
        """Move to the node `below` if the match reaches it, otherwise onto the edge to it."""
        reached = self._depth(below) <= self._length
        if reached:
            self._node, self._below = below, None
        else:
            self._below = below
        return reached

    def _drop(self) -> None:
        """Drop the first token of the match: follow the link of the node above, then go down from
        node to node along tokens that must exist."""
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
    """The nodes and edges of a suffix array, computed depth by depth from the rows that share all
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
        # Open rows; which of them start a group of rows with equal tokens; the edge to each group.
        self._rows = np.arange(len(order))
        self._starts = self._rows == 0
        self._above = np.array([-1])
        depth = 0
        while depth < DEPTH and len(self._rows):
            self._divide(depth)
            depth += 1
        groups = np.flatnonzero(self._starts)
        self._add_nodes(groups, _stops(groups, len(self._rows)), _BEYOND, self._above)
        self.nodes = [np.concatenate(levels) for levels in zip(*self._nodes, strict=True)]
        self.edges = [np.concatenate(levels) for levels in zip(*self._edges, strict=True)]
        for edges, nodes in self._ends:
            self.edges[2][edges] = nodes

    def _divide(self, depth: int) -> None:
        """Divide the groups by their next token.

        A group that splits, or in which a document ends, is a node. Subgroups of at least two rows
        stay open.
        """
        rows, starts = self._rows, self._starts
        token = self._tokens[self._order[rows] + depth]
        if ((token[1:] < token[:-1]) & ~starts[1:]).any():
            raise ValueError("the suffixes are not in their order")
        starts_subgroup = starts.copy()
        starts_subgroup[1:] |= token[1:] != token[:-1]
        subgroups, groups = np.flatnonzero(starts_subgroup), np.flatnonzero(starts)
        group = np.cumsum(starts[subgroups]) - 1
        node = (np.bincount(group) > 1) | (token[groups] == END) | (depth == 0)
        stops = _stops(groups, len(rows))
        added = self._add_nodes(groups[node], stops[node], depth, self._above[node])
        continues = token[subgroups] != END
        new = continues & node[group]
        above = self._above[group]
        parents = added + np.cumsum(node)[group[new]] - 1
        above[new] = self._add_edges(parents, token[subgroups[new]], rows[subgroups[new]])
        size = _stops(subgroups, len(rows)) - subgroups
        is_open = continues & (size > 1)
        stays = np.repeat(is_open, size)
        self._rows, self._starts, self._above = rows[stays], starts_subgroup[stays], above[is_open]

    def _add_nodes(self, starts: Any, stops: Any, depth: int, above: Any) -> int:
        """Add nodes of groups by first and last + 1 open row; return the first's number."""
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
        """Add edges, at first to leaves, and return their numbers; `_add_nodes` redirects them."""
        first = self._counted[1]
        self._counted[1] += len(rows)
        self._edges.append((parents, tokens, -1 - rows))
        return np.arange(first, self._counted[1])


def _stops(starts: Any, count: int) -> Any:
    """Return the end of each of several consecutive runs that fill `count` rows."""
    return np.append(starts[1:], count)[: len(starts)]


def _links(order: Ids, first: Ids, depth: Ids) -> Ids:
    """Return each node's suffix link: the node one level up whose rows contain the node's first
    suffix without its first token."""
    row = np.empty(len(order), dtype=np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    links = np.zeros(len(first), dtype=np.int32)
    levels = np.searchsorted(depth, np.arange(DEPTH + 1))
    for above, level, stop in zip(levels, levels[1:], levels[2:], strict=False):
        behind = row[order[first[level:stop]] + 1]
        links[level:stop] = above + np.searchsorted(first[above:level], behind, side="right") - 1
    return links


def _items(array: Ids) -> memoryview[int]:
    """Return a view whose items are plain numbers, faster to read one by one than array items."""
    return np.ascontiguousarray(array).data
