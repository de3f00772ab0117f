"""The target without some of its sublayers, as a draft model (Draft & Verify, arXiv 2309.08168).

It shares the target's weights and cache. The keys and values of the text are in all layers, because
the target's passes wrote them; the draft appends the rows of its guesses in the layers whose
attention runs. The target's next pass cuts every layer back to the rows of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.bookkeeping import TokenRows
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.forward import TorchEvaluation
from ouroboros_core.models.skips import ReducedModel, Skips, share_read, without
from ouroboros_core.tree import Evaluation, TokenTree


class SelfDraft:
    """A SelfDrafter (see `interfaces`) of one target."""

    def __init__(self, target: CausalLM, skips: Skips) -> None:
        """Raise UnsupportedModel if the target's layers cannot be skipped."""
        self.target, self.skips = target, skips
        self.name = f"{target.name} {skips}"
        self.passes = self.rows = 0
        self.share = share_read(target.model, skips)
        self._reduced = ReducedModel(skips, without(target.model, skips))

    @property
    def vocabulary(self) -> int:
        vocabulary: int = self.target.vocabulary
        return vocabulary

    def forget(self) -> None:
        """Do nothing: all rows are the target's."""

    def reserve(self, tokens: int) -> None:
        """Do nothing: all rows are in the target's cache."""

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        context = tuple(context)
        if not context or tree.tokens[0] != context[-1]:
            raise InvalidInput(
                "the root of the tree must be the last token of the context, and the context must "
                "not be empty"
            )
        self.target.hold(context)
        nodes, logits = self._pass(context, tree, 0)
        evaluation = TorchEvaluation(
            logits, nodes, tree, None, self.vocabulary, context, wants_confidence=True
        )
        self.target.borrower = evaluation
        return evaluation

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> TorchEvaluation:
        assert isinstance(evaluation, TorchEvaluation)
        assert tree.begins_with(evaluation.tree), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        if self.target.borrower is not evaluation:
            return self.evaluate(evaluation.context, tree)
        first = len(evaluation.tree)
        if first == len(tree):
            return evaluation
        self.target.borrower = None
        nodes, logits = self._pass(evaluation.context, tree, first)
        extended = evaluation.joined(logits, nodes, tree)
        self.target.borrower = extended
        return extended

    def _pass(
        self, context: tuple[int, ...], tree: TokenTree, first: int
    ) -> tuple[list[int], torch.Tensor]:
        """Compute the nodes from `first` on; return the nodes that are not silent, and the logits
        [nodes, vocabulary] after them."""
        last = len(context) - 1
        nodes = [node for node in range(first, len(tree)) if node not in tree.silent]
        rows = TokenRows(
            tokens=tree.tokens[first:],
            positions=[last + depth for depth in tree.depths[first:]],
            parents=tree.parents,
            scored=[node - first for node in nodes],
            past=last + first,
            above=[last + depth for depth in tree.depths[:first]],
        )
        logits = self.target.logits_without(self._reduced, rows)
        self.passes += 1
        self.rows += len(tree) - first
        return nodes, logits
