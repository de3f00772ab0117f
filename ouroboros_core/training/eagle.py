"""Train an EAGLE head on what its target wrote (EAGLE, arXiv 2401.15077, section 4.2; more steps as
in HASS, arXiv 2408.15766).

At every position the head takes the target's feature and the embedding of the next token, and
learns the next feature (smooth L1, prompts included) and, in answers, the target's distribution
over the token after next (cross-entropy). Then it goes on from its own guess for another step,
because in a tree it has nothing else: such a step sees the target's features up to where the tree
begins, and its own behind. With `depths`, without a loss on features and over four or five steps
this is the training-time test of EAGLE-3 (arXiv 2503.01840, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch.nn import functional as F
from transformers import DynamicCache, PreTrainedModel

from ouroboros_core.errors import InvalidInput
from ouroboros_core.models import rounding
from ouroboros_core.models.heads.eagle import FILE, EagleHead, HeadConfig, head_input, signature
from ouroboros_core.models.kv_cache import attention_shape, layer_configs
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.loop import (
    Columns,
    HeadStudent,
    Recipe,
    arithmetic,
    learning_dtype,
    soft_cross_entropy,
)
from ouroboros_core.training.teacher import Teacher

SAME = "llama"
"""The `model_type` of targets whose last layer is built like the head's."""

MEASURED_STEPS = 3

SAMPLE = 20_000
"""Tokens over which the linear guess is fitted."""


@dataclass(frozen=True)
class EagleRecipe(Recipe):
    """Everything that decides the head's weights.

    steps           how far the head goes on from its own guesses in training
    decay           weight of each further step
    feature_weight  of the smooth L1 loss on features, beside the cross-entropy
    noise           uniform noise on the target's features, as a share of their mean size
    start           name of the head it goes on from, if any
    depths          layers of the target behind which its states are read, beside the last one's
    """

    learning_rate: float = 1e-3
    steps: int = 2
    decay: float = 0.8
    feature_weight: float = 0.2
    noise: float = 0.1
    start: str = ""
    depths: tuple[int, ...] = ()


def make_head(
    target: PreTrainedModel, name: str, outputs: Sequence[int], depths: tuple[int, ...] = ()
) -> EagleHead:
    """An untrained head; where the target is of type llama and its layers are alike, it begins as
    the target's last layer."""
    config = target.config.get_text_config(decoder=True)
    width = config.hidden_size
    layer = layer_configs(config)[-1]
    heads, shared, _ = attention_shape(layer)
    rope = getattr(config, "rope_parameters", None) or {}
    head = EagleHead(
        HeadConfig(
            width=width,
            embedding=target.get_input_embeddings().weight.shape[1],
            intermediate=getattr(layer, "intermediate_size", None) or 4 * width,
            heads=heads,
            key_value_heads=shared,
            target=name,
            signature=signature(target),
            rope_theta=float(rope.get("rope_theta") or 10_000.0),
            eps=float(getattr(config, "rms_norm_eps", None) or 1e-6),
            depths=depths,
        ),
        outputs,
    )
    if _continues(head, target):
        body: Any = target.base_model
        head.body.layers[0].load_state_dict(body.layers[-1].state_dict())
        head.body.norm.load_state_dict(body.norm.state_dict())
    return head.float().to(target.device)


def _continues(head: EagleHead, target: PreTrainedModel) -> bool:
    """Whether the target's last layer is built like the head's, which then begins as that layer."""
    body: Any = target.base_model
    if target.config.model_type != SAME:
        return False
    mine, theirs = head.body.layers[0].state_dict(), body.layers[-1].state_dict()
    return {k: v.shape for k, v in mine.items()} == {k: v.shape for k, v in theirs.items()}


class EagleStudent(HeadStudent):
    """The head and its loss."""

    kind = "eagle"

    def __init__(
        self, target: PreTrainedModel, teacher: Teacher, recipe: EagleRecipe, outputs: Sequence[int]
    ) -> None:
        self.recipe, self.data, self.teacher = recipe, teacher.data, teacher
        self.head: EagleHead = make_head(target, recipe.target, outputs, recipe.depths)
        assert self.head.join is not None
        self._join = self.head.join
        self.continues = _continues(self.head, target)
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

    def prepare(self) -> None:
        """Begin where a linear guess ends: the joining matrix maps feature and next token to what
        the head's layer expects.

        That is the input of the target's last layer, where the head begins as that layer, otherwise
        the next feature; by least squares over a sample of conversations.
        """
        weight = linear_guess(self.teacher, self.recipe, -2 if self.continues else -1)
        with torch.no_grad():
            self._join.weight.copy_(weight)

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        recipe, device = self.recipe, self._matrix.device
        ids, features = self._inputs(group)
        given = self._noisy(features, rng) if recipe.noise else features
        lengths = torch.tensor([self.data.length(i) for i in group], device=device)
        real = torch.arange(ids.shape[1], device=device) < lengths[:, None]
        steps = self._steps(ids, given, recipe.steps)
        total = 0.0 * torch.stack([guessed.float().sum() for guessed in steps]).sum()
        for step, guessed in enumerate(steps, 1):
            rows, places = self.data.answer_rows(group, ahead=step)
            if not len(rows):
                continue  # no text is long enough to look so far ahead
            inside = torch.from_numpy(rows).to(device)
            mine = guessed.flatten(0, 1)[inside]
            wanted, p = self.teacher.likeliest(places)
            step_loss = soft_cross_entropy(self._logits(mine), self._columns.of(wanted), p)
            if recipe.feature_weight:
                behind = real[:, step:]
                last = features[..., : self.head.config.width]
                distance = F.smooth_l1_loss(
                    guessed[:, :-step][behind].float(), last[:, step:][behind].float()
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
        """(agreeing, all) answer positions at each step, the head going on from its own guesses
        along the true tokens."""
        ids, given = self._inputs(group)
        counts = []
        for step, guessed in enumerate(self._steps(ids, given, MEASURED_STEPS), 1):
            rows, places = self.data.answer_rows(group, ahead=step)
            logits = self._logits(guessed.flatten(0, 1)[torch.from_numpy(rows).to(guessed.device)])
            choice = self._columns.ids[logits.argmax(-1)]
            counts.append(
                (int((choice == self.teacher.likeliest(places)[0][:, 0]).sum()), len(places))
            )
        return counts

    def _inputs(self, group: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        self.teacher.ask(group)
        return self.data.pad(group).to(self._matrix.device), self.teacher.features(group)

    def _logits(self, features: torch.Tensor) -> torch.Tensor:
        return F.linear(features.to(self._matrix.dtype), self._matrix, self._bias)

    def _steps(self, ids: torch.Tensor, given: torch.Tensor, count: int) -> list[torch.Tensor]:
        """Features [texts, length, width] guessed 1, 2 ... positions on, each in the row of the
        true feature it began with.

        Row i of step s comes from step s - 1's guess at row i and from token i + s, and stands at
        position i + s - 1. It sees the true rows up to i, and the rows of its own line: row i of
        every step up to s.
        """
        texts, length = ids.shape
        device = given.device
        cache = DynamicCache()
        kind = learning_dtype(self._matrix)
        given = given.to(kind)
        with arithmetic(self._matrix):
            given = head_input(given, self.head.config, self.head.deeper).to(kind)
        guesses: list[torch.Tensor] = []
        rows = torch.arange(length, device=device)
        blocks = [rows[None, :] <= rows[:, None]]
        for step in range(1, count + 1):
            ahead = F.pad(ids[:, step:], (0, step))[:, :length]
            mask = torch.zeros(1, 1, length, length * step, device=device, dtype=kind)
            mask.masked_fill_(~torch.cat(blocks, 1), torch.finfo(kind).min)
            with arithmetic(self._matrix):
                joined = self._join(torch.cat([given, self._embed(ahead).to(given.dtype)], dim=-1))
                output = self.head.body(
                    inputs_embeds=joined,
                    attention_mask=mask if step > 1 else None,
                    position_ids=(rows + step - 1).expand(texts, -1),
                    past_key_values=cache,
                    use_cache=True,
                )
            guesses.append(output.last_hidden_state)
            given = output.last_hidden_state.to(kind)
            blocks.append(torch.eye(length, dtype=torch.bool, device=device))
        return guesses

    @property
    def shape(self) -> str:
        head = self.head
        return f"one layer of width {head.config.width}, {len(head.outputs)} output tokens"

    def start_from(self, folder: Path) -> None:
        """Begin with the weights of a finished head."""
        try:
            state = rounding.read(folder / FILE)
            state.pop("outputs")
            self.head.load_state_dict(state, strict=False)
        except (OSError, RuntimeError, KeyError, SafetensorError) as error:
            raise InvalidInput(
                f"{folder} holds no head of this shape to go on from: {error}"
            ) from None


def linear_guess(teacher: Teacher, recipe: Recipe, layer: int) -> torch.Tensor:
    """The matrix [width, width + embedding] that best maps a feature and the embedding of the next
    token to what the target has at that token behind some layer, by least squares over a sample of
    conversations.

    layer  an index of the target's `hidden_states`
    """
    data, embed = teacher.data, teacher.target.get_input_embeddings()
    indices = data.split(recipe.held_out, recipe.seed)[0]
    hidden = teacher.target.get_output_embeddings().weight.shape[1]
    width = hidden + embed.weight.shape[1]
    square = torch.zeros(width, width, dtype=torch.float64)
    cross = torch.zeros(width, hidden, dtype=torch.float64)
    seen = 0
    for group in data.epoch(indices, recipe.batch_tokens, recipe.seed, 0):
        ids = data.pad(group).to(embed.weight.device)
        with torch.no_grad():
            states = teacher.target.get_decoder()(
                ids, use_cache=False, output_hidden_states=True
            ).hidden_states
        given = torch.cat([states[-1][:, :-1], embed(ids[:, 1:])], -1).cpu().double()
        wanted = states[layer][:, 1:].cpu().double()
        real = (
            torch.arange(1, ids.shape[1])[None]
            < torch.tensor([data.length(i) for i in group])[:, None]
        )
        x, y = given[real], wanted[real]
        square += x.T @ x
        cross += x.T @ y
        seen += len(x)
        if seen >= SAMPLE:
            break
    square += 1e-4 * square.diagonal().mean() * torch.eye(width, dtype=torch.float64)
    found: torch.Tensor = torch.linalg.solve(square, cross).T
    return found
