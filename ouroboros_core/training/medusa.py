"""Train Medusa heads on what their target wrote (Medusa-1, arXiv 2401.10774, section 2.2.1): the
target stays as it is.

Head k reads the hidden state at a position and learns the target's distribution over the token
k + 1 places on. Losses further on weigh less, by 0.8 for each place. How often each rank of each
head is right is measured at the end on texts that were held out, because the tree is made from it
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
        for place in range(1, self.recipe.heads + 1):
            logits, places = self._logits_of(hidden, group, place)
            if not len(places):
                continue  # no text is long enough to look so far ahead
            total = total + self.recipe.decay**place * self._answer_loss(logits, places)
        return total, len(self.data.answer_rows(group, ahead=1)[0])

    def _logits_of(self, hidden: torch.Tensor, group: Ids, place: int) -> tuple[torch.Tensor, Ids]:
        """Logits [places, outputs] of a head wherever it guesses an answer's token, and those
        places."""
        rows, places = self.data.answer_rows(group, ahead=place)
        given = hidden[torch.from_numpy(rows).to(hidden.device)].to(self.head.weight.dtype)
        with arithmetic(self._matrix):
            guessed = self.head.block(place - 1, given)
        return self._logits(guessed), places

    @torch.no_grad()
    def _ranked(self, group: Ids) -> list[tuple[torch.Tensor, int]]:
        """Of each head, at how many positions [ranks] its i-th likeliest token is the target's
        choice, and of how many."""
        self.teacher.ask(group)
        hidden = self.teacher.features(group).flatten(0, 1)
        found = []
        for place in range(1, self.recipe.heads + 1):
            logits, places = self._logits_of(hidden, group, place)
            ranks = min(RANKS, logits.shape[-1])
            best = self._columns.ids[logits.topk(ranks).indices]
            choice = self.teacher.likeliest(places)[0][:, :1]
            found.append(((best == choice).sum(0), len(places)))
        return found

    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """(agreeing, all) answer positions of each head."""
        return [(int(right[0]), count) for right, count in self._ranked(group)]

    def calibrate(self, groups: Iterable[Ids]) -> None:
        """Write into the heads how often each rank of each of them is right."""
        counts = [self._ranked(group) for group in groups]
        accuracies = []
        for place in range(self.recipe.heads):
            right = sum((one[place][0].cpu() for one in counts), torch.zeros(1, dtype=torch.long))
            every = max(1, sum(one[place][1] for one in counts))
            accuracies.append(tuple(round(share, 4) for share in (right / every).tolist()))
        self.head.config = replace(self.head.config, accuracies=tuple(accuracies))
