"""What decoding needs of a model; `causal_lm` implements it for Hugging Face models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ouroboros_core.tree import TokenTree

Candidates = dict[int, list[int]]
"""By token id, the tokens that the model thinks likeliest behind it, the likeliest first."""


class Evaluation(Protocol):
    """A model's outputs after the nodes of one tree."""

    def argmax(self) -> list[int]:
        """The most probable token after each node, -1 after a silent one; one transfer from the device for all nodes."""
        ...

    def likeliest(self, k: int) -> dict[int, list[int]]:
        """The k most probable tokens after each node, the best first; silent nodes are left out. One transfer."""
        ...

    def confidence(self, node: int, token: int) -> float:
        """The probability of a token after a node, at temperature 1; 0 for one that the model cannot write."""
        ...

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        """Logits [vocabulary] after one node, on the host, in float32 or better."""
        ...


Output = tuple[Evaluation, int]
"""What a model said after one node: an evaluation, and the node there."""


class LanguageModel(Protocol):
    """A causal language model. Its meaning is pure: results depend on the arguments alone, whatever was evaluated before."""

    name: str
    vocabulary: int
    max_length: int
    passes: int
    """Forward passes made so far, prefill excluded."""

    def forget(self) -> None:
        """Drop what is remembered of earlier texts, so that a run's prefill is measured, not inherited; keeps the room."""
        ...

    def reserve(self, tokens: int) -> None:
        """Make room for a context of this many tokens beforehand; never needed for correctness."""
        ...

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        """Compute the keys and values of all but the last token beforehand; never needed for correctness.

        With `candidates`, the so many likeliest next tokens behind each of these tokens come back, fewer where the model can
        write fewer; where a token occurs several times, behind the last of them: only those rows meet the output matrix.
        """
        ...

    def plain(self, context: Sequence[int]) -> npt.NDArray[np.floating]:
        """Logits [vocabulary] after the text, in float32 or better, by one plain pass over all of it: the judge of near ties."""
        ...

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Evaluation:
        """The outputs after every node of a tree whose root is context[-1]."""
        ...


@dataclass(frozen=True)
class Guess:
    """A node of a drafted tree: its token, the index of its parent (-1: the root) and its cumulative log-probability."""

    token: int
    parent: int
    score: float


class FeatureDrafter(Protocol):
    """A head that drafts trees from the target's own features; `eagle` implements it."""

    name: str
    passes: int
    """Passes of the head made so far."""

    def forget(self) -> None:
        """Drop what is remembered of earlier texts."""
        ...

    def draft(
        self, tokens: Sequence[int], *, depth: int, width: int, size: int, go_on: Callable[[Sequence[float]], bool] | None = None
    ) -> list[Guess]:
        """At most `size` nodes behind the text `tokens`, parents first, in `depth` levels, `width` of each level expanded.

        go_on  is asked before each pass, with the cumulative log-probabilities of the nodes to be expanded (0 for the root),
               and ends the drafting where it says no
        """
        ...

    def output(self, guess: int) -> Output | None:
        """What the head said after a node of the tree it drafted last, -1 being the root; None where it was not asked."""
        ...
