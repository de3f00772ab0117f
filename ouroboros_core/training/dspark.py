"""Train a block drafter on what its target wrote (DFlash, arXiv 2602.06036; DSpark, arXiv
2607.05147).

Blocks begin at random rows of a text before answer tokens, its anchors. One pass computes all
blocks: a row sees the text before its anchor and the rows before it in its block, and nothing of
other blocks. The correction reads the text's own token before each place. The loss of a place is
the cross-entropy from the target's probabilities, with a weight that falls along the block. The
confidence learns the chance of acceptance under rejection: the sum of min(p, q) over the target's
likeliest tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from ouroboros_core.models.heads.dspark import DSparkHead, joined_rows
from ouroboros_core.models.heads.layer import after_layer, own_rows
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.student import (
    LLAMA,
    JoiningStudent,
    arithmetic,
    begin_as,
    copy_weight,
    one_layer_sizes,
)

AT_ONCE = 1024
"""Blocks that are measured together."""


class DSparkStudent(JoiningStudent):
    """The drafter and its loss."""

    recipe: Any
    """A DSparkRecipe, or that of another block drafter."""
    head: DSparkHead
    kind: ClassVar[type[DSparkHead]] = DSparkHead
    """The class of the head."""

    @classmethod
    def teacher_options(cls, recipe: Any) -> dict[str, Any]:
        return {"features": True, "depths": recipe.depths}

    def make_head(self, target: PreTrainedModel, outputs: Sequence[int]) -> DSparkHead:
        """Return the untrained drafter. Its layers begin as the target's last layer if the shapes
        are equal, those after the first with a zero at their ends."""
        sizes = one_layer_sizes(target) | self.sizes
        head = self.kind(self.kind.Config(target=self.recipe.target, **sizes), outputs)
        self.continues = target.config.model_type == LLAMA
        layers: list[Any] = [*head.layers]
        for layer in layers:
            if self.continues:
                last = target.base_model.layers[-1]
                begin_as(layer, last, last)
        for layer in layers[1:]:
            nn.init.zeros_(layer["out"].weight)
            nn.init.zeros_(layer["down"].weight)
        if self.continues:
            copy_weight(head.norm_last, target.base_model.norm)
        return head

    @property
    def sizes(self) -> dict[str, Any]:
        """The fields of the head's configuration that the recipe names."""
        names = ("layers", "block", "rank", "depths")
        return {name: getattr(self.recipe, name) for name in names}

    def weight(self, depth: int) -> float:
        """Return the weight of a place of the block in the loss."""
        return math.exp(-depth / self.recipe.decay)

    def chosen(self, anchors: Ids, rng: np.random.Generator) -> Ids:
        """Return the anchors of a batch."""
        if len(anchors) <= self.recipe.anchors:
            return anchors
        return np.sort(rng.choice(anchors, self.recipe.anchors, replace=False))

    @property
    def join(self) -> nn.Linear:
        return self.head.join

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        anchors = self.chosen(self._anchors(group), rng)
        total = torch.zeros((), device=self._matrix.device)
        for depth, (logits, sure, positions) in enumerate(self._places(group, anchors)):
            total = total + logits[:0].sum()  # gradients of several processes have the same parts
            total = total if sure is None else total + sure[:0].sum()
            if not len(positions):  # all answers are too short for this place
                continue
            loss = self._answer_loss(logits, positions)
            if sure is not None:
                chances = self._overlap(logits.detach(), positions)
                loss = loss + F.binary_cross_entropy_with_logits(sure.float(), chances)
            total = total + self.weight(depth) * loss
        return total, len(anchors)

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """Return (agreeing, all) answer positions of each place, after the text's own tokens."""
        anchors = self._anchors(group)
        counts = np.zeros((self.head.config.block, 2), dtype=np.int64)
        for group_anchors in np.array_split(anchors, -(-len(anchors) // AT_ONCE) or 1):
            guessed = self._places(group, group_anchors)
            counts += [self._agreeing(logits, positions) for logits, _, positions in guessed]
        return [(int(equal), int(every)) for equal, every in counts]

    def _overlap(self, logits: torch.Tensor, positions: Ids) -> torch.Tensor:
        """Return the chance [positions] that a token drawn from the logits is accepted."""
        ids, p = self.teacher.likeliest(positions)
        columns = self._columns.of(ids)
        q = logits.float().softmax(-1).gather(1, columns.clamp(min=0)) * (columns >= 0)
        return torch.minimum(p.to(q), q).sum(-1).clamp(max=1.0)

    def _anchors(self, group: Ids) -> Ids:
        """Return the rows of the flat padded batch at which a block may begin: the token after next
        is an answer's."""
        return self.data.answer_rows(group, ahead=1)[0]

    def _places(
        self, group: Ids, anchors: Ids
    ) -> list[tuple[torch.Tensor, torch.Tensor | None, Ids]]:
        """Return for each place of the blocks logits [positions, outputs] and confidences
        [positions], if the head estimates any, where it is an answer token, and the positions."""
        self.teacher.ask(group)
        head, device = self.head, self._matrix.device
        ids = self.data.pad(group).to(device)
        texts, length = ids.shape
        grid, blocks = laid_out(anchors, texts, length)
        with arithmetic(self._matrix):
            guessed = guesses(
                head, self._embed(ids), self.teacher.features(group).to(device), grid.to(device)
            )
        result = []
        flat = ids.flatten()
        for depth in range(head.config.block):
            rows, positions = self.data.answer_rows(group, ahead=1 + depth)
            inside = np.isin(rows, anchors)
            rows, positions = rows[inside], positions[inside]
            chosen = torch.from_numpy(blocks[np.searchsorted(anchors, rows)]).to(device)
            states = guessed[:, :, depth].flatten(0, 1)[chosen]
            before = flat[torch.from_numpy(rows + 1 + depth).to(device)]
            with arithmetic(self._matrix):
                correction, joined = corrections(head, states, self._embed(before))
                sure = None if head.confidence is None else head.confidence(joined)[:, 0]
            logits = self._logits(states)
            result.append((logits if correction is None else logits + correction, sure, positions))
        return result


def corrections(
    head: DSparkHead, states: torch.Tensor, embedded: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return the correction [rows, outputs] of logits by the tokens before, or None without one,
    and the input of the confidence.

    states    [rows, width] of the places
    embedded  [rows, embedding] of the tokens before
    """
    if not head.config.rank:
        return None, states
    before = head.before(embedded.to(states.dtype))
    return head.correction(before), torch.cat([states, before.to(states.dtype)], -1)


def laid_out(anchors: Ids, texts: int, length: int) -> tuple[torch.Tensor, Ids]:
    """Return the anchors of each text [texts, most of a text], padded with 0, and the index of each
    anchor in the flat grid.

    anchors: ascending rows of the flat batch [texts * length].
    """
    owner, inside = anchors // length, anchors % length
    count = np.bincount(owner, minlength=texts)
    most = max(1, int(count.max()))
    nth = np.arange(len(anchors)) - np.repeat(np.cumsum(count) - count, count)
    grid = np.zeros((texts, most), dtype=np.int64)
    grid[owner, nth] = inside
    return torch.from_numpy(grid), owner * most + nth


def guesses(
    head: DSparkHead, x: torch.Tensor, features: torch.Tensor, anchors: torch.Tensor
) -> torch.Tensor:
    """Return normalised states [texts, blocks, places, width].

    x         embeddings [texts, length, width]
    features  [texts, length, width * (1 + depths)], the target's
    anchors   [texts, blocks], the row with which each block begins
    """
    config, (texts, length), blocks = head.config, x.shape[:2], anchors.shape[1]
    kind, device, block = head.join.weight.dtype, x.device, config.block
    following = F.pad(x[:, 1:], (0, 0, 0, 1)).to(kind)
    text = joined_rows(config, head.join, head.deeper, features.to(kind), following).to(kind)
    index = torch.arange(length, device=device)
    root = text[torch.arange(texts, device=device)[:, None], anchors]
    masks = head.masks.expand(texts, blocks, -1, -1)
    inputs = torch.cat([root[:, :, None], masks], 2).flatten(1, 2)
    offsets = torch.arange(block, device=device)
    positions = (anchors[..., None] + offsets).flatten(1)
    of_text = (index < anchors[:, :, None]).repeat_interleave(block, 1)
    owner = torch.arange(blocks, device=device).repeat_interleave(block)
    offset = offsets.repeat(blocks)
    of_block = (owner == owner[:, None]) & (offset <= offset[:, None])
    mask = torch.cat([of_text, of_block.expand(texts, -1, -1)], -1)[:, None]

    x, layers = inputs, cast(Sequence[Any], head.layers)
    for layer in layers:
        maps = dict(layer.items())
        of_blocks = own_rows(config, maps, x, positions[:, None])
        of_text_rows = own_rows(config, maps, text, index)
        keys, values = (torch.cat(pair, -2) for pair in zip(of_text_rows, of_blocks, strict=True))
        x = after_layer(config, maps, x, positions[:, None], (keys, values), mask)
    normed: torch.Tensor = head.norm_last(x)
    return normed.view(texts, blocks, block, -1)
