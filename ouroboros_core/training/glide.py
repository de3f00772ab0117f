"""Train a GliDe draft on what its target wrote, beside the target's own keys and values (arXiv
2402.02082, section 3).

The text is cut into blocks, as drafts cut it: a token sees the keys and values of the target up to
where its block begins, and its own draft's tokens behind. Where the blocks begin changes from batch
to batch. Where the target is of type llama, self-attention begins as that of its first layer,
cross-attention and MLP as its last layer's, since its keys and values are what they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel

from ouroboros_core.models.heads.glide import GlideConfig, GlideDraft, glance
from ouroboros_core.models.layer import Rows, own_rows, split, states
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.layer import begin_as, layer_of, take
from ouroboros_core.training.loop import (
    Columns,
    HeadStudent,
    Recipe,
    arithmetic,
    soft_cross_entropy,
)
from ouroboros_core.training.teacher import Teacher

MEASURED = 3
"""Places in a block whose agreement is measured."""


@dataclass(frozen=True)
class GlideRecipe(Recipe):
    """Everything that decides the draft's weights.

    block  tokens of a draft
    start  name of the draft it goes on from, if any
    """

    learning_rate: float = 1e-3
    block: int = 5
    start: str = ""


def make_draft(
    target: PreTrainedModel, recipe: GlideRecipe, keys: Sequence[int], outputs: Sequence[int]
) -> GlideDraft:
    """An untrained draft; keys: how many keys the target's last layer has for a token, and their
    width."""
    about = layer_of(target)
    heads: int = about["heads"]
    draft = GlideDraft(
        GlideConfig(
            target=recipe.target,
            **about,
            memory_heads=keys[0],
            memory_width=keys[1],
            memory_queries=max(1, heads // keys[0]) * keys[0],
            block=recipe.block,
            rotates=bool((getattr(target.config, "rope_parameters", None) or {}).get("rope_theta")),
        ),
        outputs,
    )
    if target.config.model_type == "llama":
        first, last = target.base_model.layers[0], target.base_model.layers[-1]
        begin_as(draft, first, last, target.base_model.norm)
        take(draft, "memory_query", last.self_attn.q_proj)
        take(draft, "memory_out", last.self_attn.o_proj)
        take(draft, "norm_cross", last.input_layernorm)
    return draft.float().to(target.device)


class GlideStudent(HeadStudent):
    """The draft and its loss."""

    kind = "glide"

    def __init__(
        self,
        target: PreTrainedModel,
        teacher: Teacher,
        recipe: GlideRecipe,
        outputs: Sequence[int],
    ) -> None:
        self.recipe, self.data, self.teacher = recipe, teacher.data, teacher
        self.head: GlideDraft = make_draft(target, recipe, teacher.memory_shape, outputs)
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
            f"one layer of width {config.width} with cross-attention, {len(self.head.outputs)} "
            "output tokens; embeddings and output matrix are the target's"
        )

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        block = self.recipe.block
        length = max(self.data.length(i) for i in group)
        places = (np.arange(length) + int(rng.integers(block))) % block
        logits, rows = self._logits(group, places)
        wanted, p = self.teacher.likeliest(rows)
        return soft_cross_entropy(logits, self._columns.of(wanted), p), len(rows)

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """(agreeing, all) answer positions as the first, second and third token of a draft."""
        length, counts = max(self.data.length(i) for i in group), []
        for place in range(min(MEASURED, self.recipe.block)):
            logits, rows = self._logits(group, np.full(length, place))
            choice = self._columns.ids[logits.argmax(-1)]
            right = (choice == self.teacher.likeliest(rows)[0][:, 0]).sum()
            counts.append((int(right), len(rows)))
        return counts

    def _logits(self, group: Ids, places: Ids) -> tuple[torch.Tensor, Ids]:
        """Logits [rows, outputs] where an answer's token comes next, and those places of the data;
        places: of each row in its draft, from 0."""
        self.teacher.ask(group)
        device = self._matrix.device
        ids = self.data.pad(group).to(device)
        rows, found = self.data.answer_rows(group)
        with arithmetic(self._matrix):
            guessed = guesses(self.head, self._embed(ids), self.teacher.features(group), places)
        guessed = guessed.flatten(0, 1)[torch.from_numpy(rows).to(device)]
        return F.linear(guessed.to(self._matrix.dtype), self._matrix, self._bias), found

    def start_from(self, folder: Path) -> None:
        self.head.start_from(folder)


def guesses(head: GlideDraft, x: torch.Tensor, memory: torch.Tensor, places: Ids) -> torch.Tensor:
    """States [texts, length, width] behind every token, from which the next one is guessed.

    x       embeddings [texts, length, width]
    memory  [texts, length, keys and values], the target's
    places  [length], of each token in its draft: it sees the target's keys and values of all
            tokens before the draft. Those of a text's first token it always sees, which hold
            nothing of the others
    """
    config, maps = head.config, head.maps
    index = torch.arange(x.shape[1], device=x.device)
    behind = index - torch.from_numpy(places).to(x.device)
    sees = index[None, :] < behind.clamp(min=1)[:, None]
    x = x.to(head.key.weight.dtype)
    x = x if head.enter is None else head.enter(x)
    keys, values = (split(part, config.memory_heads) for part in memory.chunk(2, -1))
    own = own_rows(config, maps, x, index)
    given: Rows = keys.to(own[0].dtype), values.to(own[1].dtype)
    cross = partial(glance, config, maps, positions=index, memory=given, mask=sees)
    return states(config, maps, x, index, own, index[None, :] <= index[:, None], cross)
