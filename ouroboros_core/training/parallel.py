"""Train a parallel drafter on what its target wrote, group by group (ParallelSpec, arXiv
2410.05589, section 3).

Every position of a text begins a group: the row of the position, which guesses the token after
next, and masks, which guess the following tokens. One pass computes all groups of a text. In it a
mask sees the text up to the first position of its group, and the earlier masks of its group, but
nothing of other groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from ouroboros_core.models.heads.layer import own_rows, states
from ouroboros_core.models.heads.parallel import ParallelConfig, ParallelHead
from ouroboros_core.models.heads.recipes import ParallelRecipe
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.student import (
    LLAMA,
    JoiningStudent,
    arithmetic,
    begin_as,
    copy_weight,
    one_layer_sizes,
)


class ParallelStudent(JoiningStudent):
    """The drafter and its loss."""

    recipe: ParallelRecipe
    head: ParallelHead

    def make_head(self, target: PreTrainedModel, outputs: Sequence[int]) -> ParallelHead:
        recipe, sizes = self.recipe, one_layer_sizes(target)
        head = ParallelHead(
            ParallelConfig(target=recipe.target, **sizes, group=recipe.group), outputs
        )
        self.continues = target.config.model_type == LLAMA
        if self.continues:
            last = target.base_model.layers[-1]
            begin_as(head, last, last)
            copy_weight(head.norm_last, target.base_model.norm)
        return head

    @property
    def join(self) -> nn.Linear:
        return self.head.join

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        total = torch.zeros((), device=self._matrix.device)
        for index, (logits, positions) in enumerate(self._logits_of(group)):
            total = total + 0.0 * logits.sum()
            if len(positions):  # otherwise all texts are too short for this token
                total = total + self.recipe.decay**index * self._answer_loss(logits, positions)
        return total, len(self.data.answer_rows(group, ahead=1)[0])

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """Return (agreeing, all) answer positions of each token of a group."""
        return [self._agreeing(logits, answers) for logits, answers in self._logits_of(group)]

    def _logits_of(self, group: Ids) -> list[tuple[torch.Tensor, Ids]]:
        """Return for each token of a group logits [positions, outputs] where it is an answer token,
        and the positions."""
        self.teacher.ask(group)
        ids = self.data.pad(group).to(self._matrix.device)
        with arithmetic(self._matrix):
            states_of = guesses(self.head, self._embed(ids), self.teacher.features(group))
        pairs = []
        for index in range(self.recipe.group):
            rows, positions = self.data.answer_rows(group, ahead=1 + index)
            pairs.append((self._logits_at(states_of[index], rows), positions))
        return pairs


def guesses(head: ParallelHead, x: torch.Tensor, hidden: torch.Tensor) -> list[torch.Tensor]:
    """Return for each token of a group states [texts, length, width] from which it is guessed, in
    the row of the position where the group begins.

    x       embeddings [texts, length, width]
    hidden  the target's last hidden states [texts, length, width]
    """
    config, (texts, length) = head.config, x.shape[:2]
    following = F.pad(x[:, 1:], (0, 0, 0, 1)).to(head.join.weight.dtype)
    joined = head.join(torch.cat([hidden.to(following.dtype), following], -1))
    masks = head.masks[None, :, None].expand(texts, -1, length, -1).flatten(1, 2)
    rows = torch.cat([joined.to(masks.dtype), masks], 1)
    index = torch.arange(length, device=x.device)
    positions = torch.cat([index + ahead for ahead in range(config.group)])
    keys_and_values = own_rows(config, head.maps, rows, positions)
    sees = group_mask(length, config.group).to(x.device)
    guessed = states(config, head.maps, rows, positions, keys_and_values, sees)
    return [*torch.split(guessed, length, 1)]


def group_mask(length: int, group: int) -> torch.Tensor:
    """Return which rows a row sees [rows, rows]. Block j of `length` rows has the j-th token of
    every group, and its row i belongs to the group that begins at position i."""
    text = torch.ones(length, length, dtype=torch.bool).tril()
    same = torch.eye(length, dtype=torch.bool)
    none = torch.zeros(length, length, dtype=torch.bool)
    blocks = [
        torch.cat([text, *([same] * index), *([none] * (group - 1 - index))], 1)
        for index in range(group)
    ]
    return torch.cat(blocks)
