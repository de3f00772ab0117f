"""Train a parallel drafter on what its target wrote, group by group (ParallelSpec, arXiv
2410.05589, section 3).

Every position of a text begins a group: its own row, which says the token after next, and behind it
the masks, which say those that follow. All groups of a text are one pass, in which a mask sees the
text up to where its group begins, and the masks of its own group before it; so that masks of
different groups know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel

from ouroboros_core.models.heads.parallel import ParallelConfig, ParallelHead
from ouroboros_core.models.layer import own_rows, states
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.eagle import linear_guess
from ouroboros_core.training.layer import begin_as, layer_of
from ouroboros_core.training.loop import (
    Columns,
    HeadStudent,
    Recipe,
    arithmetic,
    soft_cross_entropy,
)
from ouroboros_core.training.teacher import Teacher


@dataclass(frozen=True)
class ParallelRecipe(Recipe):
    """Everything that decides the drafter's weights.

    group  tokens of one pass
    decay  weight of each further token of a group
    start  name of the drafter it goes on from, if any
    """

    learning_rate: float = 1e-3
    group: int = 4
    decay: float = 0.8
    start: str = ""


class ParallelStudent(HeadStudent):
    """The drafter and its loss."""

    kind = "parallel"

    def __init__(
        self,
        target: PreTrainedModel,
        teacher: Teacher,
        recipe: ParallelRecipe,
        outputs: Sequence[int],
    ) -> None:
        self.recipe, self.data, self.teacher = recipe, teacher.data, teacher
        config = ParallelConfig(target=recipe.target, **layer_of(target), group=recipe.group)
        head = ParallelHead(config, outputs)
        self.continues = target.config.model_type == "llama"
        if self.continues:
            last = target.base_model.layers[-1]
            begin_as(head, last, last, target.base_model.norm)
        self.head: ParallelHead = head.float().to(target.device)
        output = target.get_output_embeddings()
        self._columns = Columns(
            self.head.outputs.tolist(), target.config.vocab_size, output.weight.device
        )
        kept = self._columns.ids
        self._matrix = output.weight.detach()[kept].contiguous()
        self._bias = None if output.bias is None else output.bias.detach()[kept]
        self._embed = target.get_input_embeddings()
        self.module = self.head
        self.module.train()

    @property
    def shape(self) -> str:
        config = self.head.config
        return (
            f"one layer of width {config.width}, {config.group} tokens in one pass, "
            f"{len(self.head.outputs)} output tokens; embeddings and output matrix are the target's"
        )

    def prepare(self) -> None:
        """Begin where a linear guess ends, as an EAGLE head does."""
        weight = linear_guess(self.teacher, self.recipe, -2 if self.continues else -1)
        with torch.no_grad():
            self.head.join.weight.copy_(weight)

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        total = torch.zeros((), device=self._matrix.device)
        for place, (logits, places) in enumerate(self._logits(group)):
            total = total + 0.0 * logits.sum()
            if len(places):  # else no text is long enough to look so far ahead
                wanted, p = self.teacher.likeliest(places)
                part = soft_cross_entropy(logits, self._columns.of(wanted), p)
                total = total + self.recipe.decay**place * part
        return total, len(self.data.answer_rows(group, ahead=1)[0])

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """(agreeing, all) answer positions of each token of a group."""
        counts = []
        for logits, places in self._logits(group):
            choice = self._columns.ids[logits.argmax(-1)]
            right = (choice == self.teacher.likeliest(places)[0][:, 0]).sum()
            counts.append((int(right), len(places)))
        return counts

    def _logits(self, group: Ids) -> list[tuple[torch.Tensor, Ids]]:
        """For each token of a group, logits [places, outputs] wherever it is an answer's, and those
        places."""
        self.teacher.ask(group)
        device = self._matrix.device
        ids = self.data.pad(group).to(device)
        with arithmetic(self._matrix):
            found = guesses(self.head, self._embed(ids), self.teacher.features(group))
        said = []
        for place in range(self.recipe.group):
            rows, places = self.data.answer_rows(group, ahead=1 + place)
            mine = found[place].flatten(0, 1)[torch.from_numpy(rows).to(device)]
            logits = F.linear(mine.to(self._matrix.dtype), self._matrix, self._bias)
            said.append((logits, places))
        return said

    def start_from(self, folder: Path) -> None:
        self.head.start_from(folder)


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
