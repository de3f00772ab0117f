"""A language model over the native pass as WebAssembly, in a browser.

It needs no torch and no numpy. `visualize/live/pass.js` computes the rows and chooses from their
logits.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import Mixture
from ouroboros_core.models.bookkeeping import TREE_ROOM, Bookkeeping, TokenRows
from ouroboros_core.tree import Draw, Evaluation, TokenTree, TreeBuilder


class Logits(Protocol):
    """Rows of logits; see `Logits` in pass.js. Numbers are returned as any iterable."""

    def argmax(self) -> Any: ...

    def top(self, rows: Any, k: int) -> Any: ...

    def logarithm(self, row: int, token: int) -> float: ...

    def row(self, row: int) -> Any: ...

    def draw(self, row: int, k: int, draw: Draw) -> Any: ...

    def free(self) -> None: ...


class Computation(Protocol):
    """A model of pass.js, or any object with its methods."""

    name: str
    vocabulary: int
    longest: int

    def reserve(self, rows: int) -> None: ...

    def keep(self, start: int, rows: Any) -> None: ...

    def run(
        self,
        past: int,
        tokens: Any,
        positions: Any,
        straight: Any,
        begin: Any,
        slots: Any,
        scored: Any,
    ) -> Logits: ...


class HeadComputation(Computation, Protocol):
    """A head in pass.js."""

    def follow(self, slots: Any, guesses: bool) -> None: ...


class HeldLogits:
    """Logits of the rows of one pass. Their memory is given back with this object."""

    def __init__(self, logits: Logits, count: int) -> None:
        self.logits = logits
        self.every: array[int] = _numbers(range(count))
        """The numbers of all rows."""

    def __del__(self) -> None:
        self.logits.free()


class LogitRow(NamedTuple):
    """A row of logits."""

    held: HeldLogits
    row: int


class WebEvaluation:
    """The outputs of a WebModel after the nodes of one tree."""

    mixtures: tuple[Mixture, ...] = ()

    def __init__(
        self, rows: dict[int, LogitRow], tree: TokenTree, context: tuple[int, ...]
    ) -> None:
        """rows: the logits of the nodes that are not silent"""
        self.context, self.tree = context, tree
        self._rows = rows
        self._argmax: list[int] | None = None

    def joined(self, held: HeldLogits, nodes: Sequence[int], tree: TokenTree) -> WebEvaluation:
        """Return the evaluation with further nodes; `tree` begins with this evaluation's tree."""
        return WebEvaluation(self._rows | placed(held, nodes), tree, self.context)

    def argmax(self) -> list[int]:
        if self._argmax is None:
            self._argmax = [-1] * len(self.tree)
            for held, nodes in self._passes().items():
                for node, token in zip(nodes, held.logits.argmax(), strict=True):
                    self._argmax[node] = int(token)
        return self._argmax

    def _passes(self) -> dict[HeldLogits, list[int]]:
        """Return the nodes of each pass, in the order of its rows."""
        passes: dict[HeldLogits, list[int]] = {}
        for node, row in self._rows.items():
            passes.setdefault(row.held, []).append(node)
        return passes

    def likeliest(self, k: int) -> dict[int, list[int]]:
        return {
            node: tokens
            for held, nodes in self._passes().items()
            for node, tokens in zip(nodes, likeliest(held, k), strict=True)
        }

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        rows = []
        for held, row in map(self._rows.__getitem__, nodes):
            best = held.logits.top(_numbers([row]), k)
            rows.append([(int(t), float(s)) for t, s in zip(best.tokens, best.scores, strict=True)])
        return rows

    def confidence(self, node: int, token: int) -> float:
        held, row = self._rows[node]
        return math.exp(held.logits.logarithm(row, token))

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [self.confidence(node, token) for node, token in pairs]

    def drawn(self, node: int, k: int, draw: Draw) -> list[int]:
        """Draw in the code of the pass, see `DrawsTokens`."""
        held, row = self._rows[node]
        return [int(token) for token in held.logits.draw(row, k, draw)]

    def logits(self, node: int) -> Any:
        """Return logits [vocabulary] as an array of Python's."""
        held, row = self._rows[node]
        return array("f", [*held.logits.row(row)])


class WebModel(Bookkeeping[HeldLogits, WebEvaluation]):
    """A LanguageModel over a model of pass.js."""

    chunk = 128
    """Fewer rows than on a server, where a chunk's logits may take more memory."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.name = computation.name
        self.max_length = computation.longest
        super().__init__()

    @property
    def vocabulary(self) -> int:
        return self.computation.vocabulary

    def reserve(self, tokens: int) -> None:
        self.computation.reserve(tokens + TREE_ROOM)

    reset = Bookkeeping.forget

    def plain(self, context: Sequence[int]) -> Any:
        """Compute all rows anew, by the same pass."""
        self.forget()
        passes, rows = self.passes, self.rows
        evaluation = self.evaluate(context, TreeBuilder(context[-1]).build())
        self.passes, self.rows = passes, rows
        return evaluation.logits(0)

    def _compute(self, rows: TokenRows) -> HeldLogits:
        straight, begin, slots = texts(rows)
        longest = self.max_length - 1
        lists = (
            rows.tokens,
            [min(position, longest) for position in rows.positions],
            straight,
            begin,
            slots,
            rows.scored,
        )
        return HeldLogits(self.computation.run(rows.past, *map(_numbers, lists)), len(rows.scored))

    def _keep(self, start: int, rows: Sequence[int] = ()) -> None:
        self.computation.keep(start, _numbers(rows))

    def _evaluation(
        self, logits: HeldLogits, nodes: Sequence[int], tree: TokenTree, context: tuple[int, ...]
    ) -> WebEvaluation:
        return WebEvaluation(placed(logits, nodes), tree, context)

    def _joined(
        self,
        evaluation: WebEvaluation,
        logits: HeldLogits,
        nodes: Sequence[int],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...],
    ) -> WebEvaluation:
        return evaluation.joined(logits, nodes, tree)

    def _candidates(self, logits: HeldLogits, k: int) -> list[list[int]]:
        return likeliest(logits, k)


class WebHead(WebModel):
    """An EAGLE-3 head as a Drafter; see `EagleDrafter`, which computes the same.

    A row reads the target's feature at a token, and the token after it. So the first token has no
    row, and the cache begins with the second one.
    """

    computation: HeadComputation

    def __init__(self, computation: HeadComputation, target: WebModel) -> None:
        super().__init__(computation)
        self.target = target
        target.forget()  # it has no features of earlier rows

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> WebEvaluation:
        context = tuple(context)
        if len(context) < 2:
            raise InvalidInput("a head drafts after two tokens at least")
        self.target.hold(context)
        root = TreeBuilder(context[-1]).build()
        return self.extend(super().evaluate(context, root), tree)

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> WebEvaluation:
        """Make one pass for each level of new nodes, which continue what was guessed after their
        parents."""
        assert isinstance(evaluation, WebEvaluation)
        if not self._holds(evaluation):
            return self.evaluate(evaluation.context, tree)
        while (first := len(evaluation.tree)) < len(tree):
            deeper = (node for node in range(first, len(tree)) if tree.parents[node] >= first)
            level = tree.first(next(deeper, len(tree)))
            evaluation = self._grown(evaluation, level)
        return evaluation

    def _rewind(self, context: tuple[int, ...]) -> int:
        """Keep no nodes: they continued guesses, and a text's rows continue the target."""
        self._tree = None
        return super()._rewind(context)

    def _keep(self, start: int, rows: Sequence[int] = ()) -> None:
        super()._keep(max(start - 1, 0), [row - 1 for row in rows])

    def _compute(self, rows: TokenRows) -> HeldLogits:
        """Compute rows without the first token's."""
        first = int(rows.past == 0)
        shifted = replace(
            rows,
            tokens=rows.tokens[first:],
            positions=[position - 1 for position in rows.positions[first:]],
            parents=[parent - first for parent in rows.parents[first:]],
            scored=[row - first for row in rows.scored],
            past=rows.past + first - 1,
        )
        above, past = len(rows.above), shifted.past
        parents = [past - above + parent for parent in rows.parents[above:]]
        straight = range(past, past + len(shifted.tokens))
        self.computation.follow(_numbers(parents if above else straight), bool(above))
        return super()._compute(shifted)


def _numbers(values: Sequence[int]) -> array[int]:
    """Return numbers of 32 bits, which JavaScript reads at once."""
    return array("i", values)


def placed(held: HeldLogits, nodes: Sequence[int]) -> dict[int, LogitRow]:
    """Return the places of nodes whose rows are the rows of `held`, in order."""
    return {node: LogitRow(held, row) for row, node in enumerate(nodes)}


def likeliest(held: HeldLogits, k: int) -> list[list[int]]:
    """Return the k most probable tokens after every row."""
    tokens = [int(token) for token in held.logits.top(held.every, k).tokens]
    width = len(tokens) // len(held.every) if held.every else 0
    return [tokens[n : n + width] for n in range(0, len(tokens), width or 1)]


def texts(rows: TokenRows) -> tuple[list[int], list[int], list[int]]:
    """Return the slots of each row's text in the cache: how many of the first slots it has, and
    where its other slots begin in the third list, and end."""
    first = rows.past - len(rows.above)
    paths: list[tuple[int, tuple[int, ...]]] = []
    for row, parent in enumerate(rows.parents):
        straight, branch = paths[parent] if parent >= 0 else (0, ())
        if straight == row:
            paths.append((row + 1, ()))
        else:
            paths.append((straight, (*branch, row)))
    new = paths[len(rows.above) :]
    begin, slots = [0], list[int]()
    for _, branch in new:
        slots += (first + row for row in branch)
        begin.append(len(slots))
    return [first + straight for straight, _ in new], begin, slots
