"""A language model over the native pass as WebAssembly, in a browser.

It needs no torch and no numpy. `visualize/live/pass.js` computes the rows and chooses from their
logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ouroboros_core.interfaces import Candidates
from ouroboros_core.tree import Evaluation, TokenTree


class Logits(Protocol):
    """Rows of logits; see `Logits` in pass.js. Numbers are returned as any iterable."""

    def argmax(self) -> Any: ...

    def top(self, rows: Any, k: int) -> Any: ...

    def logarithm(self, row: int, token: int) -> float: ...

    def row(self, row: int) -> Any: ...

    def draw(self, row: int, k: int, draw: Any) -> Any: ...

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


class WebModel:
    """A LanguageModel over a model of pass.js."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.name = computation.name
        self.max_length = computation.longest
        self.passes = self.rows = 0

    @property
    def vocabulary(self) -> int:
        return self.computation.vocabulary

    def forget(self) -> None:
        raise NotImplementedError

    def reserve(self, tokens: int) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        raise NotImplementedError

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        raise NotImplementedError

    def plain(self, context: Sequence[int]) -> Any:
        raise NotImplementedError

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Evaluation:
        raise NotImplementedError

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> Evaluation:
        raise NotImplementedError
