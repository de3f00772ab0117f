"""The protocols between the packages: the parts of a model that decoding uses. `models` implements
them for Hugging Face models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ouroboros_core.arrays import np, npt
from ouroboros_core.tree import Evaluation, TokenTree

Candidates = dict[int, list[int]]
"""Token id -> the model's most probable next tokens, the most probable first."""

Mixture = Mapping[int, float]
"""Token id -> weight, with sum 1."""

MIXED = -1
"""Token of a tree node that holds a mixture of several tokens."""


class MakesPasses(Protocol):
    """A model or head that makes forward passes."""

    name: str
    passes: int
    """Forward passes so far, without prefill."""
    rows: int
    """Tree nodes in these passes. Context tokens that a pass reads first are not counted, so that
    the number depends only on the arguments."""


class Drafter(MakesPasses, Protocol):
    """A scorer of token trees: a language model, or a head on the target's hidden states. Results
    depend only on the arguments, not on earlier calls."""

    @property
    def vocabulary(self) -> int:
        """The number of token ids."""
        ...

    def forget(self) -> None:
        """Forget earlier texts, so that a run pays for its own prefill, but keep the allocated
        memory."""
        ...

    def reserve(self, tokens: int) -> None:
        """Allocate memory for a context of this many tokens in advance; never needed for
        correctness."""
        ...

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Evaluation:
        """Return the outputs after every node of a tree with the root context[-1]."""
        ...

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> Evaluation:
        """Return the outputs after every node of `tree`, which begins with the tree of
        `evaluation`.

        Only the new nodes are computed if the model still holds the others.
        """
        ...


class SelfDrafter(Drafter, Protocol):
    """The target without some of its sublayers. It reads the text from the target's keys and
    values, without further passes."""

    @property
    def share(self) -> float:
        """The share of the target's weights that one of its passes reads."""
        ...


class RankedDrafter(Drafter, Protocol):
    """Heads whose outputs after a node depend only on the context and the node's depth."""

    @property
    def accuracies(self) -> Sequence[Sequence[float]]:
        """By depth and rank, how often the head's token of that rank is the target's token,
        measured in training."""
        ...


class GroupDrafter(Drafter, Protocol):
    """A drafter of several positions in one pass, whose outputs after a node depend only on the
    context and the node's depth."""

    group: int
    """Tokens of one pass; nodes of this depth or deeper have no outputs."""


class EstimatesAcceptance(Protocol):
    """Outputs after nodes with an estimate of the target's acceptance."""

    def acceptance(self, node: int) -> float:
        """Return the probability that the target accepts the token after a node, before the token
        is chosen."""
        ...


class BlockDrafter(Drafter, Protocol):
    """A drafter of several positions in one pass, whose `extend` needs no further pass. Its
    evaluations are `EstimatesAcceptance`."""

    block: int
    """Tokens of one pass; nodes of this depth or deeper have no outputs."""


class CandidateGenerator(MakesPasses, Protocol):
    """A generator of candidates for the next tokens that tracks the text itself, such as a
    candidate generator of transformers."""

    failures: int
    """Steps of this text without candidates: the generator failed or cannot read the text."""

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
        """Return tokens that may follow the text, each with its probability or None."""
        ...

    def report(self, text: Sequence[int], proposed: int, accepted: int) -> None:
        """Report how many of the last candidates were proposed and accepted, and the text after
        that."""
        ...


class LanguageModel(Drafter, Protocol):
    """A causal language model."""

    max_length: int

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        """Compute the keys and values of all but the last token in advance; never needed for
        correctness.

        Return up to `candidates` most probable next tokens after each of these tokens. For a token
        that occurs several times, they follow its last occurrence, so that only those rows are
        projected to the vocabulary.
        """
        ...

    def plain(self, context: Sequence[int]) -> npt.NDArray[np.floating]:
        """Return logits [vocabulary] after the text, in float32 or better, from one plain pass over
        all of it: the judge of near ties."""
        ...


@runtime_checkable
class SeesSkipped(LanguageModel, Protocol):
    """A language model with rules that see a whole text, even if the model reads only its end."""

    skipped: tuple[int, ...]
    """Tokens of the text before every context."""


@runtime_checkable
class Superposing(LanguageModel, Protocol):
    """A language model that can read a mixture of tokens."""

    def superpose(self, evaluation: Evaluation, mixture: Mixture) -> Evaluation:
        """Return the outputs after one more row at the end of the chain of `evaluation`. The row's
        embedding is the weighted mean of token embeddings (arXiv 2405.18400).

        The node's token is MIXED, which never equals a context token. Raises InvalidInput if this
        model's embeddings cannot be mixed.
        """
        ...
