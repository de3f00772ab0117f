"""Train a parallel drafter on what its target wrote, group by group (ParallelSpec, arXiv
2410.05589, section 3).

Every position of a text begins a group: its own row, which says the token after next, and behind it
the masks, which say those that follow. All groups of a text are one pass, in which a mask sees the
text up to where its group begins, and the masks of its own group before it; so that masks of
different groups know nothing of each other.
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
            begin_as(head, last, last, target.base_model.norm)
        return head

    @property
    def join(self) -> nn.Linear:
        return self.head.join

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        total = torch.zeros((), device=self._matrix.device)
        for place, (logits, places) in enumerate(self._logits_of(group)):
            total = total + 0.0 * logits.sum()
            if len(places):  # else no text is long enough to look so far ahead
                total = total + self.recipe.decay**place * self._answer_loss(logits, places)
        return total, len(self.data.answer_rows(group, ahead=1)[0])

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """(agreeing, all) answer positions of each token of a group."""
        return [self._agreeing(logits, places) for logits, places in self._logits_of(group)]

    def _logits_of(self, group: Ids) -> list[tuple[torch.Tensor, Ids]]:
        """For each token of a group, logits [places, outputs] wherever it is an answer's, and those
        places."""
        self.teacher.ask(group)
        ids = self.data.pad(group).to(self._matrix.device)
        with arithmetic(self._matrix):
            states_of = guesses(self.head, self._embed(ids), self.teacher.features(group))
        pairs = []
        for place in range(self.recipe.group):
            rows, places = self.data.answer_rows(group, ahead=1 + place)
            pairs.append((self._logits_at(states_of[place], rows), places))
        return pairs


def guesses(head: ParallelHead, x: torch.Tensor, hidden: torch.Tensor) -> list[torch.Tensor]:
    """States [texts, length, width] from which the tokens of a group are guessed, in the row of the
    position at which the group begins, for each place in a group.

    x       embeddings [texts, length, width]
    hidden  the target's last hidden states [texts, length, width]
    """
    config, (texts, length) = head.config, x.shape[:2]
    behind = F.pad(x[:, 1:], (0, 0, 0, 1)).to(head.join.weight.dtype)
    joined = head.join(torch.cat([hidden.to(behind.dtype), behind], -1))
    masks = head.masks[None, :, None].expand(texts, -1, length, -1).flatten(1, 2)
    rows = torch.cat([joined.to(masks.dtype), masks], 1)
    index = torch.arange(length, device=x.device)
    positions = torch.cat([index + place for place in range(config.group)])
    own = own_rows(config, head.maps, rows, positions)
    sees = group_mask(length, config.group).to(x.device)
    found = states(config, head.maps, rows, positions, own, sees)
    return [*torch.split(found, length, 1)]


def group_mask(length: int, group: int) -> torch.Tensor:
    """Who sees whom [rows, rows]: block j of `length` rows is the j-th place of every group, and
    its row i belongs to the group that begins at position i."""
    text = torch.ones(length, length, dtype=torch.bool).tril()
    same = torch.eye(length, dtype=torch.bool)
    none = torch.zeros(length, length, dtype=torch.bool)
    blocks = [
        torch.cat([text, *([same] * place), *([none] * (group - 1 - place))], 1)
        for place in range(group)
    ]
    return torch.cat(blocks)
