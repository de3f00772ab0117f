"""The bookkeeping of a language model's cache, for every way to compute its rows.

A model remembers the tokens in its cache: a context, then the last tree. For a new context it keeps
the rows of a common prefix, then of a path in the old tree. Nobody rolls back, crops or confirms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ouroboros_core.arrays import np, npt
from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import Candidates, Mixture
from ouroboros_core.tree import Evaluation, TokenTree

PREFILL_CHUNK = 512
"""Rows of the context computed in one pass; its mask has this many rows, never as many as the
context."""

PROJECTED = 1 << 25
"""Logits held at once where every row of the context is projected."""

TREE_ROOM = 256
"""Rows kept free behind the context for the trees of a run."""

PACKED_CONTEXT = 64
"""Up to this many missing context rows travel in the same pass as the tree."""


@dataclass(frozen=True)
class TokenRows:
    """Rows of one pass as token ids.

    tokens     token ids [rows]
    positions  of the rows in the text [rows]
    parents    [above + rows]: the row, among the rows `above` and the new ones, that each of them
               follows; -1 for none. A row sees itself, the rows that it follows directly or
               indirectly, and all cached rows before those `above`
    scored     rows whose logits are computed
    past       cached rows, `above` included
    above      positions of the last cached rows; a new row sees only some of them
    embeddings [rows, width] in place of the tokens' embeddings
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    parents: Sequence[int]
    scored: Sequence[int]
    past: int
    above: Sequence[int] = ()
    embeddings: Any = None

    @property
    def sees(self) -> npt.NDArray[np.bool_]:
        """Return the visibility [rows, above + rows] among the rows `above` and the new ones."""
        count = len(self.parents)
        chain = next((n for n, parent in enumerate(self.parents) if parent != n - 1), count)
        sees = np.tri(count, dtype=np.bool_)
        for row in range(chain, count):
            parent = self.parents[row]
            sees[row, :row] = sees[parent, :row] if parent >= 0 else False
        return sees[len(self.above) :]


class HeldEvaluation(Evaluation, Protocol):
    """Outputs after the nodes of `tree`, whose root is the last token of `context`.

    mixtures: mixtures in place of the tokens of the last nodes
    """

    context: tuple[int, ...]
    tree: TokenTree
    mixtures: tuple[Mixture, ...]


Rows = TypeVar("Rows")
Evaluated = TypeVar("Evaluated", bound=HeldEvaluation)


class Bookkeeping(ABC, Generic[Rows, Evaluated]):
    """A scorer of token trees with a cache. A subclass computes rows of logits (`Rows`), and makes
    evaluations of them (`Evaluated`)."""

    name: str
    chunk: ClassVar[int] = PREFILL_CHUNK
    """Rows of the context computed in one pass."""

    def __init__(self) -> None:
        self.passes = self.rows = 0
        self._forget_tokens()

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Return the number of token ids."""

    @abstractmethod
    def _compute(self, rows: TokenRows) -> Rows:
        """Append rows to the cache and return the logits of those to be scored."""

    @abstractmethod
    def _keep(self, start: int, rows: Sequence[int] = ()) -> None:
        """Keep the cached rows before `start` and then `rows`."""

    @abstractmethod
    def _evaluation(
        self, logits: Rows, nodes: Sequence[int], tree: TokenTree, context: tuple[int, ...]
    ) -> Evaluated:
        """Return the evaluation of a tree with the logits of some nodes."""

    @abstractmethod
    def _joined(
        self,
        evaluation: Evaluated,
        logits: Rows,
        nodes: Sequence[int],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...],
    ) -> Evaluated:
        """Return an evaluation with the logits of further nodes."""

    @abstractmethod
    def _candidates(self, logits: Rows, k: int) -> list[list[int]]:
        """Return the k most probable tokens after every row."""

    def _forget_tokens(self) -> None:
        self._context: tuple[int, ...] = ()
        self._tree: TokenTree | None = None
        self.borrower: object | None = None
        """The evaluation whose rows were appended after the context since the last pass."""

    @property
    def held(self) -> tuple[tuple[int, ...], TokenTree | None]:
        """Return the tokens in the cache: a context, and the tree below its last token."""
        return self._context, self._tree

    def forget(self) -> None:
        self._forget_tokens()
        self._keep(0)

    def hold(self, context: tuple[int, ...]) -> None:
        """Fill the cache with the rows of all tokens but the last, in every layer, and no
        others."""
        cached = self._rewind(context)
        if cached < len(context) - 1:
            self._fill(context, cached)

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        context = tuple(context)
        if candidates:
            self.forget()
        if len(context) == 1:
            return {}
        return self._fill(context, self._rewind(context), candidates)

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Evaluated:
        context = tuple(context)
        if not context or tree.tokens[0] != context[-1]:
            raise InvalidInput(
                "the root of the tree must be the last token of the context, and the context must "
                "not be empty"
            )
        cached = self._rewind(context)
        last = len(context) - 1
        if last - cached > PACKED_CONTEXT:
            self._fill(context, cached)
            cached = last
        missing = last - cached
        nodes = [n for n in range(len(tree)) if n not in tree.silent]
        # The content of the cache is undefined until the pass has ended.
        self._context, self._tree = (), None
        rows = TokenRows(
            tokens=[*context[cached:-1], *tree.tokens],
            positions=[*range(cached, last), *(last + depth for depth in tree.depths)],
            parents=[*range(-1, missing), *(missing + parent for parent in tree.parents[1:])],
            scored=[missing + n for n in nodes],
            past=cached,
        )
        logits = self._compute(rows)
        self.passes += 1
        self.rows += len(tree)
        self._context, self._tree = context, tree
        return self._evaluation(logits, nodes, tree, context)

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> Evaluated:
        earlier: Evaluated = evaluation  # type: ignore[assignment]
        assert tree.begins_with(earlier.tree), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        assert not earlier.mixtures, "behind a mixture there are mixtures only"
        if not self._holds(earlier):
            return self.evaluate(earlier.context, tree)
        return self._grown(earlier, tree)

    def _holds(self, evaluation: Evaluated) -> bool:
        """Return whether the rows of an evaluation are in the cache."""
        return self._context == evaluation.context and self._tree is evaluation.tree

    def _grown(
        self,
        evaluation: Evaluated,
        tree: TokenTree,
        embeddings: Any = None,
        mixtures: tuple[Mixture, ...] = (),
    ) -> Evaluated:
        """Return the evaluation with the new nodes of `tree`; the others are in the cache.

        embeddings  [nodes, width] of the new nodes in place of their tokens'
        mixtures    all mixtures of the grown evaluation
        """
        context, cached = evaluation.context, evaluation.tree
        fresh = range(len(cached), len(tree))
        if not fresh:
            return evaluation
        nodes = [node for node in fresh if node not in tree.silent]
        last = len(context) - 1
        self._context, self._tree = (), None
        # A new row sees the whole context, and its ancestors among the tree's rows: the cached ones
        # (`above`) and the new ones.
        rows = TokenRows(
            tokens=[tree.tokens[node] for node in fresh],
            positions=[last + tree.depths[node] for node in fresh],
            parents=tree.parents,
            scored=[node - len(cached) for node in nodes],
            past=last + len(cached),
            above=[last + depth for depth in cached.depths],
            embeddings=embeddings,
        )
        logits = self._compute(rows)
        self.passes += 1
        self.rows += len(fresh)
        self._context, self._tree = context, tree
        return self._joined(evaluation, logits, nodes, tree, mixtures)

    def _rewind(self, context: tuple[int, ...]) -> int:
        """Keep the cached rows that agree with `context` without its last token: a common prefix,
        or the whole cached context and the nodes of the old tree that the text continued through.
        Return the number of rows kept."""
        held, tree = self._context, self._tree
        self._forget_tokens()
        limit = len(context) - 1
        if context[: len(held)] != held or limit < len(held):
            count = min(_agreement(held, context), limit)
            self._keep(count)
        else:
            walk: list[int] = []
            if tree is not None:
                walk = _walk(tree, context[len(held) : limit])
            self._keep(len(held), [len(held) - 1 + node for node in walk])
            count = len(held) + len(walk)
        self._context = context[:count]
        return count

    def _fill(self, context: tuple[int, ...], cached: int, candidates: int = 0) -> Candidates:
        """Compute the context's rows from `cached` up to the last token, in chunks.

        With `candidates` compute logits of every row, and return the likeliest tokens after the
        last occurrence of each token; otherwise compute no logits.
        """
        end = len(context) - 1
        likeliest: Candidates = {}
        last = {token: n for n, token in enumerate(context[:end])} if candidates else {}
        chunk = self.chunk
        if candidates:
            chunk = min(chunk, max(64, PROJECTED // self.vocabulary))
        for start in range(cached, end, chunk):
            stop = min(start + chunk, end)
            self._context = ()
            count = stop - start
            scored = sorted(n - start for n in last.values() if start <= n < stop)
            logits = self._compute(
                TokenRows(
                    context[start:stop], range(start, stop), range(-1, count - 1), scored, start
                )
            )
            if scored:
                best = self._candidates(logits, candidates)
                likeliest |= zip((context[start + n] for n in scored), best, strict=True)
            self._context = context[:stop]
        return likeliest


def _agreement(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _walk(tree: TokenTree, tokens: Sequence[int]) -> list[int]:
    """Return the path of nodes below the root with `tokens`, as far as the tree has it; window
    nodes are included."""
    below = {
        (parent, token): node
        for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True))
        if node
    }
    path: list[int] = []
    node = 0
    for token in tokens:
        if (node, token) not in below:
            break
        node = below[node, token]
        path.append(node)
    return path
