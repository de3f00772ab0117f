"""Train Medusa heads on what their target wrote (Medusa-1, arXiv 2401.10774, section 2.2.1): the
target stays as it is.

Head k reads the hidden state at a position and learns the target's distribution over the token at
the position k + 1 further. The loss of each further head has 0.8 times the weight. At the end the
accuracy of each rank of each head is measured on held-out texts, because it decides the tree
(section 2.3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedModel

from ouroboros_core.models.heads.head import signature
from ouroboros_core.models.heads.medusa import RANKS, MedusaConfig, MedusaHeads
from ouroboros_core.models.heads.recipes import MedusaRecipe
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.student import HeadStudent, arithmetic


class MedusaStudent(HeadStudent):
    """The heads and their loss."""

    recipe: MedusaRecipe
    head: MedusaHeads

    def make_head(self, target: PreTrainedModel, outputs: Sequence[int]) -> MedusaHeads:
        width = target.get_output_embeddings().weight.shape[1]
        recipe = self.recipe
        config = MedusaConfig(recipe.target, signature(target), width, recipe.heads)
        return MedusaHeads(config, outputs)

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        self.teacher.ask(group)
        hidden = self.teacher.features(group).flatten(0, 1)
        total = 0.0 * self.head.weight.sum() + 0.0 * self.head.bias.sum()
        for ahead in range(1, self.recipe.heads + 1):
            logits, positions = self._logits_of(hidden, group, ahead)
            if not len(positions):
                continue  # all texts are too short for this head
            total = total + self.recipe.decay**ahead * self._answer_loss(logits, positions)
        return total, len(self.data.answer_rows(group, ahead=1)[0])

    def _logits_of(self, hidden: torch.Tensor, group: Ids, ahead: int) -> tuple[torch.Tensor, Ids]:
        """Return logits [positions, outputs] of a head for each answer token, and the positions."""
        rows, positions = self.data.answer_rows(group, ahead=ahead)
        inputs = hidden[torch.from_numpy(rows).to(hidden.device)].to(self.head.weight.dtype)
        with arithmetic(self._matrix):
            guessed = self.head.block(ahead - 1, inputs)
        return self._logits(guessed), positions

    @torch.no_grad()
    def _ranked(self, group: Ids) -> list[tuple[torch.Tensor, int]]:
        """Return for each head the number of positions [ranks] where its i-th likeliest token is
        the target's choice, and the number of all positions."""
        self.teacher.ask(group)
        hidden = self.teacher.features(group).flatten(0, 1)
        counts = []
        for ahead in range(1, self.recipe.heads + 1):
            logits, positions = self._logits_of(hidden, group, ahead)
            ranks = min(RANKS, logits.shape[-1])
            best = self._columns.ids[logits.topk(ranks).indices]
            choice = self.teacher.likeliest(positions)[0][:, :1]
            counts.append(((best == choice).sum(0), len(positions)))
        return counts

    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """Return (agreeing, all) answer positions of each head."""
        return [(int(right[0]), count) for right, count in self._ranked(group)]

    def calibrate(self, groups: Iterable[Ids]) -> None:
        """Set the accuracy of each rank of each head."""
        counts = [self._ranked(group) for group in groups]
        accuracies = []
        for index in range(self.recipe.heads):
            right = sum(
                (ranked[index][0].cpu() for ranked in counts), torch.zeros(1, dtype=torch.long)
            )
            every = max(1, sum(ranked[index][1] for ranked in counts))
            accuracies.append(tuple(round(share, 4) for share in (right / every).tolist()))
        self.head.config = replace(self.head.config, accuracies=tuple(accuracies))
