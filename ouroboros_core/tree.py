"""The token tree: every proposal of every method, below the last token of the context.

A draft is a chain, candidate suffixes are branches at its end, and a lookahead window is a comb of
WINDOW nodes that are never accepted. "A node sees its ancestors" is the whole attention mask. The
depth of a node is its distance from the root in text positions. For the context `... a b` and the
proposals `c d` and `c e`:

    builder = TreeBuilder(root=b)
    builder.add_path([c, d], 0, provenance)   # nodes 1, 2
    builder.add_path([c, e], 0, provenance)   # nodes 1, 3: the equal prefix is merged
    builder.build().parents                   # (-1, 0, 1, 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from ouroboros_core.arrays import np, npt
from ouroboros_core.bounds import Count, Share
from ouroboros_core.sources import Source

Probabilities: TypeAlias = "npt.NDArray[np.float64]"
"""Probabilities [vocabulary] with sum 1."""


class Learned(StrEnum):
    """The text or pass from which a phrase was learned."""

    LOOKAHEAD = "lookahead"
    JACOBI = "jacobi"
    VERIFICATION = "verification"
    HISTORY = "history"
    PROMPT = "prompt"
    TEXT = "text"
    PREDICTION = "prediction"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a node.

    source      proposer of the token
    learned     origin of a phrase; PREDICTION for a copy from the prediction; HISTORY for a phrase,
                copy or recycled candidate of an earlier run
    step        for a phrase, the step of this run that learned it; otherwise the step that proposed
                the token
    position    position of the copied token in the context or in the prediction; None in history
    match       number of matching tokens before the copied one; for a drafted token, in the branch
                for which it was drafted and from which it was copied
    rank        rank among several candidates, from 0
    confidence  the draft's probability of the token, rounded to two digits
    also        another source that proposed the same token at this node
    """

    source: Source
    learned: Learned | None = None
    step: Count | None = None
    position: Count | None = None
    match: Count | None = None
    rank: Count | None = None
    confidence: Share | None = None
    also: Source | None = None

    def prior(self, depth: int) -> float:
        """Return the prior probability that the target accepts the node if it accepts the parent.

        It uses round numbers for every pair of models: the draft's probability; the rule of
        succession, m / (m + 2), for a match of m tokens; a share that falls with the rank.

        depth: depth of the node, at least 1. Within a copy each token lengthens the match.
        """
        if self.source is Source.GRAMMAR:
            return 1.0
        rank = float(self.rank or 0)
        if self.confidence is not None:
            return min(0.98, max(0.02, self.confidence))
        if self.match is not None:
            length = self.match + depth - 1
            return length / (length + 2) / (1 + rank) / (1 + rank)
        return 0.35 / (1 + rank) / (1 + rank)


ROOT = Provenance(Source.CONTEXT)
WINDOW = Provenance(Source.WINDOW)


class Evaluation(Protocol):
    """A model's outputs after the nodes of one tree."""

    def argmax(self) -> Sequence[int]:
        """The most probable token after each node, -1 after a silent one; one transfer from the
        device for all nodes."""
        ...

    def likeliest(self, k: int) -> dict[int, list[int]]:
        """The k most probable tokens after each node, the best first; silent nodes are left out.
        One transfer."""
        ...

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        """The k most probable tokens after each of some nodes, with their log-probabilities, the
        best first. One transfer."""
        ...

    def confidence(self, node: int, token: int) -> float:
        """The probability of a token after a node, at temperature 1; 0 for one that the model
        cannot write."""
        ...

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """The same for several pairs of node and token. One transfer."""
        ...

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        """Logits [vocabulary] after one node, on the host, in float32 or better."""
        ...


@dataclass(frozen=True, slots=True)
class Draw:
    """A random choice under the rule `match`. It depends on these values and on the logits alone.

    temperature, top_k, top_p  as in `sampling.Sampling`; the temperature is above 0
    seed       of the run
    position   text position of the chosen token
    turn       0 for the target's noise, each other number for different noise
    question   63 bits, different for each prompt
    """

    temperature: float
    top_k: int
    top_p: float
    seed: int
    position: int
    turn: int
    question: int


class DrawsTokens(Evaluation, Protocol):
    """Outputs of a model that draws the tokens of sampled text itself, for example in the code of
    its pass. Then sampling needs no logits, and no numpy."""

    def drawn(self, node: int, k: int, draw: Draw) -> list[int]:
        """Return the k tokens after a node with the largest log-probability plus Gumbel noise, the
        largest first; fewer if fewer are possible.

        The noise of a token id depends on seed, position, turn and question alone, so that a draft
        model of the same kind draws with the noise of its target.
        """
        ...


Output = tuple[Evaluation, int]
"""A model's output after one node: the evaluation and the node in it."""


@dataclass(frozen=True)
class TokenTree:
    """The tokens of a target pass, or of the passes in which a draft's tree grows.

    tokens      token ids; tokens[0] is the root, the last token of the context
    parents     parents[0] == -1, and a parent comes before its child
    provenance  origin of each node
    silent      nodes with outputs that are not read and need no projection to the vocabulary

    WINDOW nodes come after all others and are never accepted.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    provenance: tuple[Provenance, ...]
    silent: frozenset[int] = field(default=frozenset())

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parents) == len(self.provenance) > 0:
            raise ValueError(
                "a tree has at least a root, and a parent and a provenance for every token"
            )
        if self.parents[0] != -1 or not all(0 <= p < i for i, p in enumerate(self.parents) if i):
            raise ValueError(
                "the root has parent -1, and every other parent stands before its child"
            )

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def proposals(self) -> range:
        """The proposed nodes, which are between the root and the window."""
        sources = [p.source is Source.WINDOW for p in self.provenance]
        return range(1, sources.index(True) if True in sources else len(sources))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root. A node's text position is the root's plus its
        depth."""
        depths = [0] * len(self.tokens)
        for node in range(1, len(self.tokens)):
            depths[node] = depths[self.parents[node]] + 1
        return tuple(depths)

    @cached_property
    def _children(self) -> dict[tuple[int, int], int]:
        return {(self.parents[n], self.tokens[n]): n for n in reversed(self.proposals)}

    def child(self, node: int, token: int) -> int | None:
        """Return the proposed child of `node` with `token`, or None. It is never a WINDOW node."""
        return self._children.get((node, token))

    def children(self, node: int) -> list[int]:
        """Return the proposed children of `node` in the order of their proposal."""
        return [n for n in self.proposals if self.parents[n] == node]

    @cached_property
    def ancestors(self) -> npt.NDArray[np.bool_]:
        """The attention mask of the tree's rows, bool [nodes, nodes]: row i is true at i and at its
        ancestors."""
        sees = np.eye(len(self.tokens), dtype=np.bool_)
        for node in range(1, len(self.tokens)):
            sees[node] |= sees[self.parents[node]]
        return sees

    def first(self, count: int) -> TokenTree:
        """Return the tree of the first `count` nodes, with the root."""
        silent = frozenset(node for node in self.silent if node < count)
        return TokenTree(self.tokens[:count], self.parents[:count], self.provenance[:count], silent)

    def begins_with(self, prefix: TokenTree) -> bool:
        """Return whether the first nodes are the nodes of `prefix`."""
        n = len(prefix)
        return self.tokens[:n] == prefix.tokens and self.parents[:n] == prefix.parents

    def drawn_from(self, node: int) -> Probabilities | None:
        """Return the draft's probabilities [vocabulary] from which the node's token was drawn, or
        None if it was chosen differently."""
        return None

    def turns(self, node: int) -> tuple[int, ...]:
        """Return the numbers, from 0, of the independent draws after the parent that gave the node;
        empty if there were no such draws."""
        return ()

    def draws(self, node: int) -> list[int]:
        """Return the children of `node` in the order of the independent draws, each as often as it
        was drawn."""
        turns = [(turn, child) for child in self.children(node) for turn in self.turns(child)]
        return [child for _, child in sorted(turns)]

    def draft_output(self, node: int) -> Output | None:
        """Return the draft's output after a node, from which the node's children come, or None."""
        return None

    def origins(self, node: int) -> tuple[Provenance, ...]:
        """Return all origins of a node, the one in `provenance` first."""
        return (self.provenance[node],)

    def path_to(self, node: int) -> list[int]:
        """Return the nodes from the root's child down to `node`."""
        path = []
        while node > 0:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def tokens_to(self, node: int) -> list[int]:
        """Return the tokens of `path_to(node)`."""
        return [self.tokens[ancestor] for ancestor in self.path_to(node)]

    def only(self, proposals: Sequence[int]) -> TokenTree:
        """Return the tree of the root, some proposals and the window.

        proposals: ascending node numbers, each with its parent
        """
        nodes = self.nodes_of(proposals)
        index_of = {node: index for index, node in enumerate(nodes)}
        parents = (-1, *(index_of[self.parents[node]] for node in nodes[1:]))
        tokens = tuple(self.tokens[node] for node in nodes)
        origins = tuple(self.provenance[node] for node in nodes)
        silent = frozenset(index_of[node] for node in self.silent if node in index_of)
        notes = Notes()
        notes.take(self, index_of.items())
        return notes.attach(TokenTree(tokens, parents, origins, silent))

    def nodes_of(self, proposals: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes of `only(proposals)` in its order, by their numbers in this tree."""
        return (0, *proposals, *range(self.proposals.stop, len(self)))

    @property
    def window(self) -> tuple[tuple[int, int], ...]:
        """(token, parent) of the nodes of the lookahead window."""
        return tuple(zip(self.tokens, self.parents, strict=True))[self.proposals.stop :]

    def without_window(self) -> TokenTree:
        """Return the tree without window and notes, as a trace stores it."""
        n = self.proposals.stop
        if n == len(self) and type(self) is TokenTree:
            return self
        return self.first(n)


@dataclass
class Notes:
    """Additional data of a tree's nodes during one step, by node.

    drawn    the draft's probabilities from which its token was drawn, for rejection sampling
    turns    numbers of the independent draws that gave it
    outputs  the draft's output after it
    origins  its origins, if there are several
    """

    drawn: dict[int, Probabilities] = field(default_factory=dict)
    turns: dict[int, tuple[int, ...]] = field(default_factory=dict)
    outputs: dict[int, Output] = field(default_factory=dict)
    origins: dict[int, tuple[Provenance, ...]] = field(default_factory=dict)

    def take(self, tree: TokenTree, numbers: Iterable[tuple[int, int | None]]) -> None:
        """Copy the notes of another tree, without replacing notes.

        numbers: pairs of a node in that tree and its node in this tree, or None
        """
        if not isinstance(tree, AnnotatedTree):
            return
        number_of = dict(numbers)
        for target, source in zip(self._by_kind, tree.notes._by_kind, strict=True):
            for node, note in source.items():
                if (number := number_of.get(node)) is not None:
                    target.setdefault(number, note)

    @property
    def _by_kind(self) -> tuple[dict[int, Any], ...]:
        return self.drawn, self.turns, self.outputs, self.origins

    def copy(self) -> Notes:
        """Return a copy that can be extended."""
        return Notes(*map(dict, self._by_kind))

    def attach(self, tree: TokenTree) -> TokenTree:
        """Return the tree with these notes, or the tree itself without any note."""
        if not any(self._by_kind):
            return tree
        return AnnotatedTree(tree.tokens, tree.parents, tree.provenance, tree.silent, self)


@dataclass(frozen=True)
class AnnotatedTree(TokenTree):
    """A tree with notes on its nodes. Notes do not count for equality."""

    notes: Notes = field(default_factory=Notes, compare=False, repr=False)

    def drawn_from(self, node: int) -> Probabilities | None:
        return self.notes.drawn.get(node)

    def turns(self, node: int) -> tuple[int, ...]:
        return self.notes.turns.get(node, ())

    def draft_output(self, node: int) -> Output | None:
        return self.notes.outputs.get(node)

    def origins(self, node: int) -> tuple[Provenance, ...]:
        return self.notes.origins.get(node) or (self.provenance[node],)


class TreeBuilder:
    """A TokenTree under construction. Equal siblings are merged, and no proposal is deeper than
    `max_depth`.

    A node that was drawn from known probabilities is not merged into an earlier sibling, because
    rejection sampling must judge both.
    """

    def __init__(self, root: int, max_depth: int | None = None) -> None:
        self.max_depth = max_depth
        self._tokens = [root]
        self._parents = [-1]
        self._provenance = [ROOT]
        self._depths = [0]
        self._silent: set[int] = set()
        self._notes = Notes()
        self._nodes: dict[tuple[int, int], int] = {}
        self._drawn_before: dict[tuple[int, int], int] = {}
        self._window_began = False

    def __len__(self) -> int:
        return len(self._tokens)

    def token(self, node: int) -> int:
        return self._tokens[node]

    def graft(self, tree: TokenTree) -> tuple[int | None, ...]:
        """Add the proposals of another tree with the same root.

        Return the new number of each of its nodes, or None for a node that would be too deep. If a
        token is already present, its node has several origins.
        """
        numbers: list[int | None] = [0]
        for node in tree.proposals:
            above = numbers[tree.parents[node]]
            size = len(self)
            origin, drawn = tree.provenance[node], tree.drawn_from(node)
            added = None if above is None else self.add(tree.tokens[node], above, origin, drawn)
            numbers.append(added)
            if added is not None and len(self) == size:
                self._add_origins(added, tree.origins(node))
        self._notes.take(tree, enumerate(numbers))
        return tuple(numbers)

    def _add_origins(self, node: int, origins: Sequence[Provenance]) -> None:
        """Add origins to a node. The most probable origin becomes its provenance, with another
        source as `also`."""
        present = self._notes.origins.get(node, (self._provenance[node],))
        ordered = sorted((*present, *origins), key=lambda origin: -origin.prior(self._depths[node]))
        rest = (origin.source for origin in ordered if origin.source is not ordered[0].source)
        self._notes.origins[node] = tuple(ordered)
        self._provenance[node] = replace(ordered[0], also=next(rest, None))

    def _append(self, token: int, parent: int, provenance: Provenance) -> int:
        self._tokens.append(token)
        self._parents.append(parent)
        self._provenance.append(provenance)
        self._depths.append(self._depths[parent] + 1)
        return len(self._tokens) - 1

    def add(
        self,
        token: int,
        parent: int,
        provenance: Provenance,
        drawn_from: Probabilities | None = None,
    ) -> int | None:
        """Return the node for `token` below `parent`: an equal sibling or a new node, or None if it
        would be too deep.

        drawn_from: for rejection sampling, the probabilities [vocabulary] from which the token was
        drawn
        """
        assert not self._window_began, "proposals come before the window"
        sibling = self._nodes.get((parent, token))
        if sibling is not None and drawn_from is None:
            return sibling
        if self.max_depth is not None and self._depths[parent] >= self.max_depth:
            return None
        node = self._append(token, parent, provenance)
        self._nodes.setdefault((parent, token), node)
        if drawn_from is not None:
            self._notes.drawn[node] = drawn_from
        return node

    def draw(
        self, token: int, parent: int, provenance: Provenance, turn: int, drawn_from: Probabilities
    ) -> int | None:
        """Return the node for a token of several independent draws after `parent`, or None if it
        would be too deep. Equal tokens share one node, so that they take one row.

        turn        number of the draw, ascending from 0
        drawn_from  probabilities [vocabulary] of all these draws
        """
        node = self._drawn_before.get((parent, token))
        if node is None:
            node = self.add(token, parent, provenance, drawn_from)
        if node is not None:
            self._drawn_before[parent, token] = node
            self._notes.turns[node] = (*self._notes.turns.get(node, ()), turn)
        return node

    def add_origin(self, token: int, parent: int, origin: Provenance) -> int | None:
        """Like `add`; a node that is there already gets another origin."""
        size = len(self)
        node = self.add(token, parent, origin)
        if node is not None and len(self) == size:
            self._add_origins(node, (origin,))
        return node

    def note_output(self, node: int, output: Output) -> None:
        """Note the draft's output after a node."""
        self._notes.outputs[node] = output

    def add_path(self, tokens: Iterable[int], parent: int, provenance: Provenance) -> list[int]:
        """Add `tokens` as a path below `parent` and return its nodes, at most down to
        `max_depth`."""
        path = []
        for token in tokens:
            node = self.add(token, parent, provenance)
            if node is None:
                break
            path.append(node)
            parent = node
        return path

    def add_chain(
        self, nodes: Iterable[tuple[int, Provenance]], stop_tokens: AbstractSet[int] = frozenset()
    ) -> None:
        """Add tokens with their origins as a chain below the root, up to the first stop token or to
        `max_depth`."""
        parent: int | None = 0
        for token, provenance in nodes:
            assert parent is not None
            parent = self.add(token, parent, provenance)
            if parent is None or token in stop_tokens:
                return

    def add_window(self, token: int, parent: int, silent: bool) -> int:
        """Add a node of the lookahead window, which is never merged or accepted, at any depth."""
        self._window_began = True
        node = self._append(token, parent, WINDOW)
        if silent:
            self._silent.add(node)
        return node

    def graft_window(self, tree: TokenTree) -> tuple[int, ...]:
        """Add the window of another tree, whose only shared node is the root, and return the new
        numbers of its nodes."""
        numbers = {0: 0}
        for node in range(tree.proposals.stop, len(tree)):
            numbers[node] = self.add_window(
                tree.tokens[node], numbers[tree.parents[node]], node in tree.silent
            )
        return tuple(numbers.values())[1:]

    def build(self) -> TokenTree:
        tree = TokenTree(
            tuple(self._tokens),
            tuple(self._parents),
            tuple(self._provenance),
            frozenset(self._silent),
        )
        return self._notes.copy().attach(tree)


def chain(root: int, tokens: Sequence[int], provenance: Provenance) -> TokenTree:
    """Return a tree of one branch."""
    builder = TreeBuilder(root)
    for parent, token in enumerate(tokens):
        builder.add(token, parent, provenance)
    return builder.build()


def until_stop(tokens: Sequence[int], stop_tokens: AbstractSet[int]) -> tuple[int, ...]:
    """Return the tokens up to and including the first stop token."""
    if stop_tokens.isdisjoint(tokens):
        return tuple(tokens)
    return tuple(tokens[: next(n for n, token in enumerate(tokens, 1) if token in stop_tokens)])


def truncate(
    tree: TokenTree,
    path: tuple[int, ...],
    target_token: int,
    stop_tokens: AbstractSet[int],
    budget: int,
) -> tuple[tuple[int, ...], int | None]:
    """End a step after the first stop token, and after `budget` tokens. Return the path and the
    target token, or None if the path was cut."""
    for length, node in enumerate(path, 1):
        if tree.tokens[node] in stop_tokens or length == budget:
            return path[:length], None
    return path, target_token
