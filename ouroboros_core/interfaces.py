"""The protocols between the packages: what decoding needs of a model. `models` implements them for
Hugging Face models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ouroboros_core.tree import Evaluation, TokenTree

Candidates = dict[int, list[int]]
"""For each token id the model's most probable next tokens, the most probable first."""

Mixture = Mapping[int, float]
"""Weights of some token ids, which add up to 1."""

MIXED = -1
"""Stands in a tree for what is no token: a mixture of several."""


class MakesPasses(Protocol):
    """Something that makes forward passes."""

    name: str
    passes: int
    """Forward passes made so far, prefill excluded."""
    rows: int
    """Nodes of the trees in these passes. Tokens of the context that a pass reads first are not
    counted, so that the number depends on arguments alone."""


class Drafter(MakesPasses, Protocol):
    """Scores token trees: a language model, or a head on the target's hidden states. Results depend
    on the arguments alone, not on earlier calls."""

    @property
    def vocabulary(self) -> int:
        """The number of token ids it knows."""
        ...

    def forget(self) -> None:
        """Forget earlier texts, so that a run pays for its own prefill; keeps the allocated
        memory."""
        ...

    def reserve(self, tokens: int) -> None:
        """Allocate memory for a context of this many tokens in advance; never needed for
        correctness."""
        ...

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Evaluation:
        """The outputs after every node of a tree whose root is context[-1]."""
        ...

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> Evaluation:
        """The outputs after every node of `tree`, which begins with the nodes of the tree that
        `evaluation` is of.

        Only the new nodes are computed where the model still holds the others.
        """
        ...


class SelfDrafter(Drafter, Protocol):
    """The target without some of its sublayers. It reads a text by the keys and values that the
    target has, never by passes of its own."""

    @property
    def share(self) -> float:
        """The share of the weights of a target's pass that its own passes read."""
        ...


class RankedDrafter(Drafter, Protocol):
    """Heads whose outputs after a node depend on the context and on its depth alone."""

    @property
    def accuracies(self) -> Sequence[Sequence[float]]:
        """Of the head behind each depth, how often its likeliest token is the target's, its second
        likeliest, and so on; measured when it was trained."""
        ...


class GroupDrafter(Drafter, Protocol):
    """A drafter of several places in one pass: its outputs after a node depend on the context and
    on its depth alone."""

    group: int
    """Tokens of one pass; a node of this depth or more has no outputs."""


class CandidateGenerator(MakesPasses, Protocol):
    """Something that writes candidates for the next tokens and keeps its own account of the
    text, such as a candidate generator of transformers."""

    failures: int
    """Steps of this text for which it could write none, because it failed or cannot read it."""

    def start(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        stop_tokens: Sequence[int],
        **settings: Any,
    ) -> None:
        """Begin a new text."""
        ...

    def candidates(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        """Tokens that may follow the text, each with the probability that it is given; None where
        it is given none."""
        ...

    def told(self, text: Sequence[int], proposed: int, accepted: int) -> None:
        """Of the last candidates so many were proposed and so many accepted; then the text is
        this."""
        ...


class LanguageModel(Drafter, Protocol):
    """A causal language model."""

    max_length: int

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        """Compute the keys and values of all but the last token in advance; never needed for
        correctness.

        With `candidates`, the so many likeliest next tokens behind each of these tokens come back,
        fewer where the model can write fewer; where a token occurs several times, behind the last
        of them: only those rows meet the output matrix.
        """
        ...

    def plain(self, context: Sequence[int]) -> npt.NDArray[np.floating]:
        """Logits [vocabulary] after the text, in float32 or better, by one plain pass over all of
        it: the judge of near ties."""
        ...


@runtime_checkable
class Superposing(LanguageModel, Protocol):
    """A language model that can read a mixture of tokens."""

    def superpose(self, evaluation: Evaluation, mixture: Mixture) -> Evaluation:
        """The outputs after one more row, behind the last node of the chain that `evaluation` is
        of: its embedding is the weighted mean of those of some tokens (arXiv 2405.18400).

        The node's token is MIXED, and no context is ever taken to agree with it. Raises
        InvalidInput where this model's embeddings cannot be mixed.
        """
        ...
