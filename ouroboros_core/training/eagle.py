"""Train an EAGLE head on what its target wrote (EAGLE, arXiv 2401.15077, section 4.2; more steps as
in HASS, arXiv 2408.15766).

At every position the head takes the target's feature and the embedding of the next token, and
learns the next feature (smooth L1, prompts included) and, in answers, the target's distribution
over the token after next (cross-entropy). Further steps continue from the head's own guesses, as in
a tree: such a step sees the target's features up to the root of the tree, and guesses after it.
Without a loss on features this is the training-time test of EAGLE-3 (`eagle3`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import DynamicCache, PreTrainedModel

from ouroboros_core.models.heads.eagle import EagleConfig, EagleHead, beside, head_input
from ouroboros_core.models.heads.recipes import EagleRecipe
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.student import (
    LLAMA,
    JoiningStudent,
    arithmetic,
    layer_sizes,
    learning_dtype,
)

MEASURED_STEPS = 3


class EagleStudent(JoiningStudent):
    """The head and its loss."""

    recipe: EagleRecipe
    head: EagleHead
    kind: ClassVar[type[EagleHead]] = EagleHead
    """The class of the head."""

    def make_head(self, target: PreTrainedModel, outputs: Sequence[int]) -> EagleHead:
        """Return the untrained head, which begins as the target's last layer if the shapes are
        equal."""
        recipe, body = self.recipe, target.base_model
        sizes = layer_sizes(target)
        depths = self.teacher_options(recipe).get("depths", ())
        head = self.kind(EagleConfig(recipe.target, **sizes, depths=depths), outputs)
        layer = head.body.layers[0]
        self.continues = target.config.model_type == LLAMA and (
            _shapes(layer) == _shapes(body.layers[-1])
        )
        if self.continues:
            layer.load_state_dict(body.layers[-1].state_dict())
            head.body.norm.load_state_dict(body.norm.state_dict())
        return head

    @property
    def join(self) -> nn.Linear:
        assert self.head.join is not None
        return self.head.join

    def beside(self, features: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        norms = self.head.joined_norms
        if not norms:
            return super().beside(features, embedded)
        return beside(features.float(), embedded.float(), norms).to(features.dtype)

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        recipe, device = self.recipe, self._matrix.device
        ids, features = self._inputs(group)
        inputs = self._noisy(features, rng) if recipe.noise else features
        lengths = torch.tensor([self.data.length(i) for i in group], device=device)
        inside = torch.arange(ids.shape[1], device=device) < lengths[:, None]
        steps = self._steps(ids, inputs, recipe.steps)
        total = 0.0 * torch.stack([guessed.float().sum() for guessed in steps]).sum()
        for step, guessed in enumerate(steps, 1):
            rows, positions = self.data.answer_rows(group, ahead=step)
            if not len(rows):
                continue  # all texts are too short for this step
            step_loss = self._answer_loss(self._logits_at(guessed, rows), positions)
            if recipe.feature_weight:
                later = inside[:, step:]
                last = features[..., : self.head.config.width]
                distance = F.smooth_l1_loss(
                    guessed[:, :-step][later].float(), last[:, step:][later].float()
                )
                step_loss = step_loss + recipe.feature_weight * distance
            total = total + recipe.decay ** (step - 1) * step_loss
        return total, len(self.data.answer_rows(group, ahead=1)[0])

    def _noisy(self, features: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        generator = torch.Generator(features.device).manual_seed(int(rng.integers(1 << 62)))
        noise = torch.rand(features.shape, generator=generator, device=features.device) * 2 - 1
        size = self.recipe.noise * features.float().abs().mean()
        return features + (noise * size).to(features.dtype)

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """Return (agreeing, all) answer positions at each step. The head continues from its own
        guesses along the true tokens."""
        ids, features = self._inputs(group)
        counts = []
        for step, guessed in enumerate(self._steps(ids, features, MEASURED_STEPS), 1):
            rows, positions = self.data.answer_rows(group, ahead=step)
            counts.append(self._agreeing(self._logits_at(guessed, rows), positions))
        return counts

    def _inputs(self, group: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        self.teacher.ask(group)
        return self.data.pad(group).to(self._matrix.device), self.teacher.features(group)

    def _steps(self, ids: torch.Tensor, features: torch.Tensor, count: int) -> list[torch.Tensor]:
        """Return features [texts, length, width] that are guessed 1, 2 ... positions ahead, each in
        the row of the true feature that it begins with.

        Row i of step s comes from the guess of step s - 1 at row i and from token i + s, and has
        position i + s - 1. It sees the true rows up to i, and row i of every step up to s.
        """
        texts, length = ids.shape
        device = features.device
        cache = DynamicCache()
        kind = learning_dtype(self._matrix)
        features = features.to(kind)
        with arithmetic(self._matrix):
            features = head_input(features, self.head.config, self.head.deeper).to(kind)
        guesses: list[torch.Tensor] = []
        rows = torch.arange(length, device=device)
        blocks = [rows[None, :] <= rows[:, None]]
        for step in range(1, count + 1):
            ahead = F.pad(ids[:, step:], (0, step))[:, :length]
            mask = torch.zeros(1, 1, length, length * step, device=device, dtype=kind)
            mask.masked_fill_(~torch.cat(blocks, 1), torch.finfo(kind).min)
            with arithmetic(self._matrix):
                joined = self.join(self.beside(features, self._embed(ahead).to(kind)))
                output = self.head.body(
                    inputs_embeds=joined,
                    attention_mask=mask if step > 1 else None,
                    position_ids=(rows + step - 1).expand(texts, -1),
                    past_key_values=cache,
                    use_cache=True,
                )
            guesses.append(output.last_hidden_state)
            features = output.last_hidden_state.to(kind)
            blocks.append(torch.eye(length, dtype=torch.bool, device=device))
        return guesses


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    """Return the shapes of a module's weights by name."""
    return {name: weight.shape for name, weight in module.state_dict().items()}
