"""The target without some of its sublayers, as a draft model (Draft & Verify, arXiv 2309.08168).

It has neither weights nor rows of its own. The keys and values of the text are the target's, which
its passes have written anyway in all layers; behind them the draft appends those of its guesses,
only in the layers whose attention runs. When the target is next asked, it cuts every layer back to
the rows of the text, whatever was appended there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.evaluation import TorchEvaluation
from ouroboros_core.models.forward import TokenRows
from ouroboros_core.models.skips import ReducedModel, Skips, share_read, without
from ouroboros_core.tree import Evaluation, TokenTree


class SelfDraft:
    """A SelfDrafter (see `interfaces`) of one target."""

    def __init__(self, target: CausalLM, skips: Skips) -> None:
        """Raises UnsupportedModel where the target's layers cannot be skipped."""
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
        """There is nothing of its own to forget."""

    def reserve(self, tokens: int) -> None:
        """Its rows lie in the target's memory."""

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
        known = None, self.vocabulary, context
        evaluation = TorchEvaluation(logits, nodes, tree, *known, wants_confidence=True)
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
        known = len(evaluation.tree)
        if known == len(tree):
            return evaluation
        self.target.borrower = None
        extended = evaluation.joined(*self._pass(evaluation.context, tree, known)[::-1], tree)
        self.target.borrower = extended
        return extended

    def _pass(
        self, context: tuple[int, ...], tree: TokenTree, known: int
    ) -> tuple[list[int], torch.Tensor]:
        """The nodes from `known` on that are not silent, and the logits [nodes, vocabulary] after
        them."""
        last = len(context) - 1
        nodes = [node for node in range(known, len(tree)) if node not in tree.silent]
        rows = TokenRows(
            tokens=tree.tokens[known:],
            positions=[last + depth for depth in tree.depths[known:]],
            sees=tree.ancestors[known:],
            scored=[node - known for node in nodes],
            past=last + known,
            above=[last + depth for depth in tree.depths[:known]],
        )
        logits = self.target.logits_without(self._reduced, rows)
        self.passes += 1
        self.rows += len(tree) - known
        return nodes, logits
