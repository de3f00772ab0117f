"""The token tree: every proposal of every method, hanging off the last token of the context.

A drafted chain is a chain; candidate suffixes are branches at its tip; a lookahead window is a comb of WINDOW nodes that are
never accepted. "A node sees its ancestors" is the whole attention mask, and a node's depth is its distance from the root in
text positions. For the context `... a b` and the proposals `c d` and `c e`:

    builder = TreeBuilder(root=b)
    builder.add_path([c, d], 0, provenance)   # nodes 1, 2
    builder.add_path([c, e], 0, provenance)   # nodes 1, 3: the equal prefix is merged
    builder.build().parents                   # (-1, 0, 1, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

Law = npt.NDArray[np.float64]
"""Probabilities [vocabulary]."""


class Source(StrEnum):
    """Who proposed a token."""

    CONTEXT = "context"
    DRAFT = "draft"
    SUFFIX = "suffix"
    PHRASE = "phrase"
    COPY = "copy"
    CORPUS = "corpus"
    RECYCLED = "recycled"
    NGRAM = "ngram"
    WINDOW = "window"
    TARGET = "target"


class Learned(StrEnum):
    """Where a phrase was learned."""

    LOOKAHEAD = "lookahead"
    VERIFICATION = "verification"
    HISTORY = "history"
    PROMPT = "prompt"
    TEXT = "text"
    PREDICTION = "prediction"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a node comes from.

    source    who proposed it
    learned   for a phrase where it was learned; a copy may be one of the prediction
    step      for a phrase, at which step of this run it was learned; otherwise at which it was proposed
    position  of the token that was copied: in the context, or in the prediction
    match     how many tokens before it had been found there, too
    rank      its place among several candidates, from 0
    confidence  the probability that the draft gave it, rounded to two digits
    also      another source that proposed the same token there
    """

    source: Source
    learned: Learned | None = None
    step: int | None = None
    position: int | None = None
    match: int | None = None
    rank: int | None = None
    confidence: float | None = None
    also: Source | None = None


ROOT = Provenance(Source.CONTEXT)
WINDOW = Provenance(Source.WINDOW)


@dataclass(frozen=True)
class TokenTree:
    """Tokens to be scored in one target pass.

    tokens      token ids; tokens[0] is the root, the last token of the context
    parents     parents[0] == -1, and a parent stands before its child
    provenance  one per node
    silent      nodes whose outputs nobody reads, so that they need not be projected to the vocabulary

    WINDOW nodes come after all others and are never accepted.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    provenance: tuple[Provenance, ...]
    silent: frozenset[int] = field(default=frozenset())

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parents) == len(self.provenance) > 0:
            raise ValueError("a tree has at least a root, and a parent and a provenance for every token")
        if self.parents[0] != -1 or not all(0 <= p < i for i, p in enumerate(self.parents) if i):
            raise ValueError("the root has parent -1, and every other parent stands before its child")

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def proposals(self) -> int:
        """Number of nodes before the window, the root included."""
        sources = [p.source is Source.WINDOW for p in self.provenance]
        return sources.index(True) if True in sources else len(sources)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root; its text position is the root's plus this."""
        depths = [0] * len(self.tokens)
        for node in range(1, len(self.tokens)):
            depths[node] = depths[self.parents[node]] + 1
        return tuple(depths)

    @cached_property
    def _children(self) -> dict[tuple[int, int], int]:
        return {(self.parents[n], self.tokens[n]): n for n in range(self.proposals - 1, 0, -1)}

    def child(self, node: int, token: int) -> int | None:
        """The proposed child of `node` that carries `token`, if there is one; never a WINDOW node."""
        return self._children.get((node, token))

    def children(self, node: int) -> list[int]:
        """The proposed children of `node` in the order in which they were proposed."""
        return [n for n in range(1, self.proposals) if self.parents[n] == node]

    @cached_property
    def ancestors(self) -> npt.NDArray[np.bool_]:
        """bool [nodes, nodes]: row i is true at i and at every ancestor of i - the attention mask among the tree's rows."""
        sees = np.eye(len(self.tokens), dtype=np.bool_)
        for node in range(1, len(self.tokens)):
            sees[node] |= sees[self.parents[node]]
        return sees

    def drawn_from(self, node: int) -> Law | None:
        """The draft's probabilities [vocabulary] that the node's token was drawn from; None where it was chosen otherwise."""
        return None

    def path_to(self, node: int) -> list[int]:
        """Nodes from the root's child down to `node`."""
        path = []
        while node > 0:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def only(self, kept: Sequence[int]) -> TokenTree:
        """The root, the proposals `kept` - in order, each with its parent - and the window."""
        nodes = [0, *kept, *range(self.proposals, len(self))]
        place = {node: index for index, node in enumerate(nodes)}
        parents = (-1, *(place[self.parents[node]] for node in nodes[1:]))
        tokens, origins = tuple(self.tokens[n] for n in nodes), tuple(self.provenance[n] for n in nodes)
        silent = frozenset(place[node] for node in self.silent if node in place)
        laws = {place[node]: law for node in nodes if (law := self.drawn_from(node)) is not None}
        return SampledTree(tokens, parents, origins, silent, laws) if laws else TokenTree(tokens, parents, origins, silent)

    @property
    def window(self) -> tuple[tuple[int, int], ...]:
        """(token, parent) of the nodes of the lookahead window."""
        return tuple(zip(self.tokens, self.parents, strict=True))[self.proposals :]

    def without_window(self) -> TokenTree:
        """The proposals alone, without the laws they were drawn from: what a trace keeps."""
        n = self.proposals
        if n == len(self) and type(self) is TokenTree:
            return self
        kept = frozenset(node for node in self.silent if node < n)
        return TokenTree(self.tokens[:n], self.parents[:n], self.provenance[:n], kept)


@dataclass(frozen=True)
class SampledTree(TokenTree):
    """A tree with nodes whose tokens were drawn at random; `laws` has the draft's probabilities of each."""

    laws: Mapping[int, Law] = field(default_factory=dict, compare=False, repr=False)

    def drawn_from(self, node: int) -> Law | None:
        return self.laws.get(node)


class TreeBuilder:
    """Grows a TokenTree; equal siblings are merged, and no proposal lies deeper than `max_depth`.

    Only a node with a law of its own is never merged into an earlier sibling: rejection sampling has to judge both.
    """

    def __init__(self, root: int, max_depth: int | None = None) -> None:
        self.max_depth = max_depth
        self._tokens = [root]
        self._parents = [-1]
        self._provenance = [ROOT]
        self._depths = [0]
        self._silent: set[int] = set()
        self._laws: dict[int, Law] = {}
        self._known: dict[tuple[int, int], int] = {}
        self._window_began = False

    @classmethod
    def onto(cls, tree: TokenTree, max_depth: int | None = None) -> TreeBuilder:
        """A builder that holds a tree's proposals, each under the number it has there."""
        builder = cls(tree.tokens[0], max_depth)
        for node in range(1, tree.proposals):
            builder._laws |= {node: law} if (law := tree.drawn_from(node)) is not None else {}
            builder._append(tree.tokens[node], tree.parents[node], tree.provenance[node])
            builder._known.setdefault((tree.parents[node], tree.tokens[node]), node)
        return builder

    def __len__(self) -> int:
        return len(self._tokens)

    def token(self, node: int) -> int:
        return self._tokens[node]

    def graft(self, tree: TokenTree, better: Callable[[Provenance, Provenance, int], bool]) -> None:
        """Add the proposals of another tree with the same root. Where a token is there already, its origin is the better one,
        and notes that there is another.

        better: (new, old, depth) -> whether the new origin is the better of two
        """
        place: dict[int, int | None] = {0: 0}
        for node in range(1, tree.proposals):
            above = place[tree.parents[node]]
            origin = tree.provenance[node]
            size = len(self)
            added = place[node] = None if above is None else self.add(tree.tokens[node], above, origin)
            if added is not None and len(self) == size:
                old = self._provenance[added]
                first, second = (origin, old) if better(origin, old, self._depths[added]) else (old, origin)
                also = first.also or second.also if first.source is second.source else second.source
                self._provenance[added] = replace(first, also=also)

    def _append(self, token: int, parent: int, provenance: Provenance) -> int:
        self._tokens.append(token)
        self._parents.append(parent)
        self._provenance.append(provenance)
        self._depths.append(self._depths[parent] + 1)
        return len(self._tokens) - 1

    def add(self, token: int, parent: int, provenance: Provenance, law: Law | None = None) -> int | None:
        """The node for `token` below `parent`: an equal sibling if there is one, None where it would lie too deep.

        law: the probabilities [vocabulary] from which the token was drawn, where it was and rejection sampling asks for them.
        """
        assert not self._window_began, "proposals come before the window"
        known = self._known.get((parent, token))
        if known is not None and law is None:
            return known
        if self.max_depth is not None and self._depths[parent] >= self.max_depth:
            return None
        node = self._append(token, parent, provenance)
        self._known.setdefault((parent, token), node)
        if law is not None:
            self._laws[node] = law
        return node

    def add_path(self, tokens: Iterable[int], parent: int, provenance: Provenance) -> list[int]:
        """Nodes for `tokens` one below the other; fewer where the path would go too deep."""
        path = []
        for token in tokens:
            node = self.add(token, parent, provenance)
            if node is None:
                break
            path.append(node)
            parent = node
        return path

    def add_chain(self, nodes: Iterable[tuple[int, Provenance]], stop_tokens: AbstractSet[int] = frozenset()) -> None:
        """Tokens with an origin each, one below the other from the root on, up to the first stop token or the greatest depth."""
        parent: int | None = 0
        for token, provenance in nodes:
            assert parent is not None
            parent = self.add(token, parent, provenance)
            if parent is None or token in stop_tokens:
                return

    def add_window(self, token: int, parent: int, silent: bool) -> int:
        """A node of the lookahead window: never merged, never accepted, not bound by max_depth."""
        self._window_began = True
        node = self._append(token, parent, WINDOW)
        if silent:
            self._silent.add(node)
        return node

    def build(self) -> TokenTree:
        parts = tuple(self._tokens), tuple(self._parents), tuple(self._provenance), frozenset(self._silent)
        return SampledTree(*parts, laws=self._laws) if self._laws else TokenTree(*parts)


def chain(root: int, tokens: Sequence[int], provenance: Provenance) -> TokenTree:
    """A tree of one branch."""
    builder = TreeBuilder(root)
    for parent, token in enumerate(tokens):
        builder.add(token, parent, provenance)
    return builder.build()
