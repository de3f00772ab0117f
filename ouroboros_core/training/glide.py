"""Train a GliDe draft on what its target wrote, beside the target's own keys and values (arXiv
2402.02082, section 3).

The text is cut into blocks, one for each draft: a token sees the keys and values of the target
before its block, and the tokens of its draft. The blocks begin at other positions in each batch. If
the target is of type llama, self-attention begins as that of its first layer, cross-attention and
MLP as those of its last layer, because the draft reads keys and values of that layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from ouroboros_core.models.heads.glide import GlideConfig, GlideDraft, glance
from ouroboros_core.models.heads.layer import Rows, after_layer, own_rows, split
from ouroboros_core.models.heads.recipes import GlideRecipe
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.student import (
    LLAMA,
    HeadStudent,
    arithmetic,
    begin_as,
    copy_weight,
    one_layer_sizes,
)

MEASURED = 3
"""Number of draft tokens whose agreement is measured."""


class GlideStudent(HeadStudent):
    """The draft and its loss."""

    recipe: GlideRecipe
    head: GlideDraft

    @classmethod
    def teacher_options(cls, recipe: GlideRecipe) -> dict[str, Any]:
        return {"features": True, "memory": True}

    def make_head(self, target: PreTrainedModel, outputs: Sequence[int]) -> GlideDraft:
        keys, width = self.teacher.memory_shape
        sizes = one_layer_sizes(target)
        heads: int = sizes["heads"]
        rope = getattr(target.config, "rope_parameters", None) or {}
        config = GlideConfig(
            target=self.recipe.target,
            **sizes,
            memory_heads=keys,
            memory_width=width,
            memory_queries=max(1, heads // keys) * keys,
            block=self.recipe.block,
            rotates=bool(rope.get("rope_theta")),
        )
        draft = GlideDraft(config, outputs)
        if target.config.model_type == LLAMA:
            first, last = target.base_model.layers[0], target.base_model.layers[-1]
            begin_as(draft, first, last)
            copy_weight(draft.norm_last, target.base_model.norm)
            copy_weight(draft.memory_query, last.self_attn.q_proj)
            copy_weight(draft.memory_out, last.self_attn.o_proj)
            copy_weight(draft.norm_cross, last.input_layernorm)
        return draft

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        block = self.recipe.block
        length = max(self.data.length(i) for i in group)
        depths = (np.arange(length) + int(rng.integers(block))) % block
        logits, answers = self._logits_of(group, depths)
        return self._answer_loss(logits, answers), len(answers)

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """Return (agreeing, all) answer positions for the first, second and third token of a
        draft."""
        length = max(self.data.length(i) for i in group)
        return [
            self._agreeing(*self._logits_of(group, np.full(length, depth)))
            for depth in range(min(MEASURED, self.recipe.block))
        ]

    def _logits_of(self, group: Ids, depths: Ids) -> tuple[torch.Tensor, Ids]:
        """Return logits [rows, outputs] before each answer token, and the positions in the data.

        depths: of each token in its draft, from 0.
        """
        self.teacher.ask(group)
        ids = self.data.pad(group).to(self._matrix.device)
        rows, answers = self.data.answer_rows(group)
        with arithmetic(self._matrix):
            guessed = guesses(self.head, self._embed(ids), self.teacher.features(group), depths)
        return self._logits_at(guessed, rows), answers


def guesses(head: GlideDraft, x: torch.Tensor, memory: torch.Tensor, depths: Ids) -> torch.Tensor:
    """Return states [texts, length, width] after every token, from which the next one is guessed.

    x       embeddings [texts, length, width]
    memory  [texts, length, keys and values], the target's
    depths  [length], of each token in its draft, from 0. A token sees the target's keys and values
            of all tokens before its draft, and always those of the text's first token, which
            depend on no other token
    """
    config, maps = head.config, head.maps
    index = torch.arange(x.shape[1], device=x.device)
    first = index - torch.from_numpy(depths).to(x.device)
    sees = index[None, :] < first.clamp(min=1)[:, None]
    x = x.to(head.norm_last.weight.dtype)
    x = x if head.enter is None else head.enter(x)
    keys, values = (split(half, config.memory_heads) for half in memory.chunk(2, -1))
    rows = own_rows(config, maps, x, index)
    target_rows: Rows = keys.to(rows[0].dtype), values.to(rows[1].dtype)
    cross = partial(glance, config, maps, positions=index, memory=target_rows, mask=sees)
    x = after_layer(config, maps, x, index, rows, index[None, :] <= index[:, None], cross)
    normed: torch.Tensor = head.norm_last(x)
    return normed
