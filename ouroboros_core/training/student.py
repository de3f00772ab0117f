"""The base of all students: loss and agreement over the target's answers, and the first weights of
a head's layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from ouroboros_core.models.heads.head import Head, signature
from ouroboros_core.models.heads.recipes import HeadRecipe, Recipe
from ouroboros_core.models.kv_cache import attention_shape, layer_configs
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.teacher import Teacher

LLAMA = "llama"
"""The `model_type` of targets from whose layers a head can begin."""

SAMPLE = 20_000
"""Tokens over which the linear guess is fitted."""


class Columns:
    """The column of each token id in a trimmed output vocabulary."""

    def __init__(self, outputs: Sequence[int], vocabulary: int, device: torch.device) -> None:
        self.ids = torch.tensor(outputs, device=device)
        self._column = torch.full((vocabulary,), -1, device=device)
        self._column[self.ids] = torch.arange(len(outputs), device=device)

    def of(self, ids: torch.Tensor) -> torch.Tensor:
        return self._column[ids]


def soft_cross_entropy(
    logits: torch.Tensor, columns: torch.Tensor, p: torch.Tensor
) -> torch.Tensor:
    """Return the cross-entropy from the target's likeliest tokens to the student, the mean over
    rows, in nats. Tokens that the student cannot write have no weight.

    logits   [rows, outputs]
    columns  [rows, k] of the target's tokens, -1 for a token that the student cannot write
    p        [rows, k], the target's probabilities
    """
    logits = logits.float()
    p = p * (columns >= 0)
    chosen = logits.gather(1, columns.clamp(min=0))
    return (p.sum(-1) * logits.logsumexp(-1) - (p * chosen).sum(-1)).mean()


def learning_dtype(matrix: torch.Tensor) -> torch.dtype:
    """Return the dtype of a student's products: bfloat16 if the target's `matrix` is in half
    precision, else float32, which a processor without bfloat16 multiplies six times as fast."""
    return torch.bfloat16 if matrix.dtype.itemsize == 2 else torch.float32


def arithmetic(matrix: torch.Tensor) -> torch.autocast:
    """Compute products of float32 weights in `learning_dtype`."""
    half = learning_dtype(matrix) == torch.bfloat16
    return torch.autocast(matrix.device.type, torch.bfloat16, enabled=half)


class Student(ABC):
    """Parameters that learn what their target answers."""

    module: nn.Module

    def __init__(
        self, target: PreTrainedModel, teacher: Teacher, recipe: Any, outputs: Sequence[int]
    ) -> None:
        """outputs: the token ids that the student can write."""
        self.recipe, self.data, self.teacher = recipe, teacher.data, teacher
        device = target.get_output_embeddings().weight.device
        self._columns = Columns(sorted(outputs), target.config.vocab_size, device)

    @classmethod
    def teacher_options(cls, recipe: Any) -> dict[str, Any]:
        """Return the arguments of the `Teacher` that say which states the student reads."""
        return {"features": False}

    def prepare(self) -> None:  # noqa: B027 - most students have nothing to prepare
        """Set the first weights of a new run."""

    @abstractmethod
    def start_from(self, folder: Path) -> None:
        """Begin with finished weights. Raises InvalidInput."""

    @abstractmethod
    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        """Return the mean loss in nats over a group of conversations, and the number of positions
        in the mean."""

    @abstractmethod
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """Return (agreeing, all) answer positions, one or several steps ahead."""

    def calibrate(self, groups: Iterable[Ids]) -> None:  # noqa: B027 - most have nothing to measure
        """Measure on the held-out conversations when the run ends."""

    @abstractmethod
    def save(self, out: Path, bits: int) -> str:
        """Write the weights to a folder, and return their shape in words.

        bits: of each weight in the matrices of a head.
        """

    def _answer_loss(self, logits: torch.Tensor, positions: Ids) -> torch.Tensor:
        """Return the loss of logits [positions, outputs] before answer tokens."""
        ids, p = self.teacher.likeliest(positions)
        return soft_cross_entropy(logits, self._columns.of(ids), p)

    def _agreeing(self, logits: torch.Tensor, positions: Ids) -> tuple[int, int]:
        """Return the number of positions where the student chooses like the target, and the number
        of all positions."""
        choice = self._columns.ids[logits.argmax(-1)]
        equal = choice == self.teacher.likeliest(positions)[0][:, 0]
        return int(equal.sum()), len(positions)


class HeadStudent(Student):
    """A head and its loss; embeddings and output matrix are the target's."""

    recipe: HeadRecipe
    head: Head

    def __init__(
        self, target: PreTrainedModel, teacher: Teacher, recipe: Any, outputs: Sequence[int]
    ) -> None:
        super().__init__(target, teacher, recipe, outputs)
        output, ids = target.get_output_embeddings(), self._columns.ids
        self.head = self.make_head(target, outputs).float().to(ids.device)
        self._matrix = output.weight.detach()[ids].contiguous()
        self._bias = None if output.bias is None else output.bias.detach()[ids]
        self._embed = target.get_input_embeddings()
        self.module = self.head.train()

    @classmethod
    def teacher_options(cls, recipe: Any) -> dict[str, Any]:
        return {"features": True}

    @abstractmethod
    def make_head(self, target: PreTrainedModel, outputs: Sequence[int]) -> Head:
        """Return the untrained head."""

    def start_from(self, folder: Path) -> None:
        self.head.start_from(folder)

    def save(self, out: Path, bits: int) -> str:
        self.head.save(out, bits)
        return self.head.shape + ("" if bits == 16 else f"; stored in {bits} bits a weight")

    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return logits [rows, outputs] of states [rows, width]."""
        return F.linear(states.to(self._matrix.dtype), self._matrix, self._bias)

    def _logits_at(self, states: torch.Tensor, rows: Ids) -> torch.Tensor:
        """Return logits [rows, outputs] at some rows of the flat states [texts, length, width]."""
        return self._logits(states.flatten(0, 1)[torch.from_numpy(rows).to(states.device)])


class JoiningStudent(HeadStudent):
    """A head with a matrix that joins a feature and the next token, as EAGLE's has."""

    continues = False
    """Whether the head's layer begins as the target's last layer."""

    @property
    @abstractmethod
    def join(self) -> nn.Linear:
        """The joining matrix."""

    def beside(self, features: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """Return the input of the joining matrix."""
        return torch.cat([features, embedded], dim=-1)

    def prepare(self) -> None:
        """Fit the joining matrix by least squares over a sample of conversations: it maps feature
        and next token to the input of the target's last layer if the head begins as that layer,
        otherwise to the next feature."""
        weight = linear_guess(self.teacher, self.recipe, -2 if self.continues else -1, self.beside)
        with torch.no_grad():
            self.join.weight.copy_(weight)


def linear_guess(
    teacher: Teacher,
    recipe: Recipe,
    layer: int,
    beside: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Return the least-squares matrix [width, width + embedding] that maps a feature and the
    embedding of the next token to the target's state of that token after a layer.

    layer   an index of the target's `hidden_states`
    beside  makes the matrix's input of features and embeddings
    """
    data, embed = teacher.data, teacher.target.get_input_embeddings()
    indices = data.split(recipe.held_out, recipe.seed)[0]
    hidden = teacher.target.get_output_embeddings().weight.shape[1]
    width = hidden + embed.weight.shape[1]
    square = torch.zeros(width, width, dtype=torch.float64)
    cross = torch.zeros(width, hidden, dtype=torch.float64)
    count = 0
    for group in data.epoch(indices, recipe.batch_tokens, recipe.seed, 0):
        ids = data.pad(group).to(embed.weight.device)
        with torch.no_grad():
            states = teacher.target.get_decoder()(
                ids, use_cache=False, output_hidden_states=True
            ).hidden_states
        with torch.no_grad():
            inputs = beside(states[-1][:, :-1], embed(ids[:, 1:])).cpu().double()
        results = states[layer][:, 1:].cpu().double()
        lengths = torch.tensor([data.length(i) for i in group])
        inside = torch.arange(1, ids.shape[1])[None] < lengths[:, None]
        x, y = inputs[inside], results[inside]
        square += x.T @ x
        cross += x.T @ y
        count += len(x)
        if count >= SAMPLE:
            break
    square += 1e-4 * square.diagonal().mean() * torch.eye(width, dtype=torch.float64)
    solution: torch.Tensor = torch.linalg.solve(square, cross).T
    return solution


def layer_sizes(target: PreTrainedModel) -> dict[str, Any]:
    """Return the sizes of the target's last layer, as fields of the configurations of an EAGLE head
    and of a `OneLayer`."""
    config = target.config.get_text_config(decoder=True)
    width = target.get_output_embeddings().weight.shape[1]
    layer = layer_configs(config)[-1]
    heads, shared, _ = attention_shape(layer)
    rope = getattr(config, "rope_parameters", None) or {}
    return {
        "signature": signature(target),
        "width": width,
        "embedding": target.get_input_embeddings().weight.shape[1],
        "intermediate": getattr(layer, "intermediate_size", None) or 4 * width,
        "heads": heads,
        "key_value_heads": shared,
        "rope_theta": float(rope.get("rope_theta") or 10_000.0),
        "eps": float(getattr(config, "rms_norm_eps", None) or 1e-6),
    }


def one_layer_sizes(target: PreTrainedModel) -> dict[str, Any]:
    """Return the sizes of a `OneLayer`: its attention heads have an even width."""
    sizes = layer_sizes(target)
    width, shared = sizes["width"], sizes["key_value_heads"]
    heads = next(n for n in range(sizes["heads"], 0, -1) if width % (2 * n) == 0)
    return {**sizes, "heads": heads, "key_value_heads": shared if heads % shared == 0 else heads}


def begin_as(layer: Any, attention: Any, mlp: Any) -> None:
    """Copy the self-attention of one Llama layer and the MLP of another, where the shapes are
    equal.

    layer: the modules by name, a `OneLayer` or a `ModuleDict`.
    """
    modules = dict(layer.named_children())
    for name in ("query", "key", "value", "out"):
        copy_weight(modules[name], getattr(attention.self_attn, f"{name[0]}_proj"))
    for name in ("gate", "up", "down"):
        copy_weight(modules[name], getattr(mlp.mlp, f"{name}_proj"))
    copy_weight(modules["norm_own"], attention.input_layernorm)
    copy_weight(modules["norm_middle"], mlp.post_attention_layernorm)


def copy_weight(own: Any, module: Any) -> None:
    """Copy a matrix or norm of the target if it has the same shape."""
    if own.weight.shape == module.weight.shape:
        with torch.no_grad():
            own.weight.copy_(module.weight)
