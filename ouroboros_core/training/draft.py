"""Distil a small draft model from its target (the recipe of FastDraft, arXiv 2411.11055).

The student is an ordinary causal LM with the target's vocabulary. A student of the target's width
begins as chosen layers of the target, with the target's frozen embeddings and output matrix: only
the layers are stored. A narrower student has its own matrices, which begin as the principal
components of the target's. It learns the target's distribution over the next token, on texts that
the target wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedModel

from ouroboros_core.errors import InvalidInput, UnsupportedModel
from ouroboros_core.loading.drafts import OUTPUTS, SHARED
from ouroboros_core.models.engines.compact import FAMILY
from ouroboros_core.models.heads.recipes import DraftRecipe
from ouroboros_core.models.kv_cache import attention_shape
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.student import Student, arithmetic, learning_dtype
from ouroboros_core.training.teacher import Teacher


def make_student(
    target: PreTrainedModel, layers: Sequence[int], hidden: int = 0
) -> PreTrainedModel:
    """Return the untrained student, in float32. Raises UnsupportedModel outside the Llama
    family."""
    config = target.config
    if config.model_type not in FAMILY:
        raise UnsupportedModel(
            f"drafts are trained for targets of the types {', '.join(sorted(FAMILY))}, this one is "
            f"{config.model_type}; "
            f"an EAGLE head can be trained for it: train eagle"
        )
    changed: dict[str, Any] = {"num_hidden_layers": len(layers), "dtype": "float32"}
    if getattr(config, "layer_types", None):
        changed["layer_types"] = [config.layer_types[n] for n in layers]
    if hidden and hidden != config.hidden_size:
        return _narrow_student(target, changed, hidden)
    student: PreTrainedModel = AutoModelForCausalLM.from_config(
        type(config).from_dict({**config.to_dict(), **changed})
    )
    for index, layer in zip(layers, student.model.layers, strict=True):
        layer.load_state_dict(target.model.layers[index].state_dict())
    student.model.norm.load_state_dict(target.model.norm.state_dict())
    student.set_input_embeddings(target.get_input_embeddings())
    student.set_output_embeddings(target.get_output_embeddings())
    for matrix in (student.get_input_embeddings(), student.get_output_embeddings()):
        matrix.weight.requires_grad_(False)
    return student


def _narrow_student(
    target: PreTrainedModel, changed: dict[str, Any], hidden: int
) -> PreTrainedModel:
    config = target.config
    width = attention_shape(config).width
    if hidden % width or not width <= hidden < config.hidden_size:
        raise InvalidInput(
            f"hidden must be a multiple of the target's head width {width}, from {width} to "
            f"{config.hidden_size}, got {hidden}"
        )
    changed |= {
        "hidden_size": hidden,
        "head_dim": width,
        "num_attention_heads": hidden // width,
        "tie_word_embeddings": True,
    }
    changed |= {
        "num_key_value_heads": 1,
        "intermediate_size": hidden * config.intermediate_size // config.hidden_size,
    }
    student: PreTrainedModel = AutoModelForCausalLM.from_config(
        type(config).from_dict({**config.to_dict(), **changed})
    )
    embeddings = target.get_input_embeddings().weight.detach().float()
    covariance = embeddings.T @ embeddings
    components = torch.linalg.eigh(covariance).eigenvectors[:, -hidden:]
    with torch.no_grad():
        student.get_input_embeddings().weight.copy_(embeddings @ components)
    return student


class DraftStudent(Student):
    """The draft and its loss."""

    recipe: DraftRecipe

    def __init__(
        self, target: PreTrainedModel, teacher: Teacher, recipe: DraftRecipe, outputs: Sequence[int]
    ) -> None:
        super().__init__(target, teacher, recipe, outputs)
        self.model: Any = make_student(target, recipe.layers, recipe.hidden).to(target.device)
        self.shared = (
            self.model.get_output_embeddings().weight is target.get_output_embeddings().weight
        )
        self._target_matrix = target.get_output_embeddings().weight.detach()
        self._matrix = self._target_matrix[self._columns.ids].contiguous() if self.shared else None
        self.module = self.model.train()

    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        logits, positions = self._logits(group)
        return self._answer_loss(logits, positions), len(positions)

    @torch.no_grad()
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        return [self._agreeing(*self._logits(group))]

    def _logits(self, group: Ids) -> tuple[torch.Tensor, Ids]:
        """Return logits [positions, outputs] before each answer token, and the positions."""
        self.teacher.ask(group)
        rows, positions = self.data.answer_rows(group)
        device = self.model.device
        output = self.model.get_output_embeddings().weight
        matrix = output[self._columns.ids] if self._matrix is None else self._matrix
        with arithmetic(self._target_matrix):
            hidden = self.model.base_model(
                self.data.pad(group).to(device), use_cache=False
            ).last_hidden_state
            hidden = hidden.flatten(0, 1)[torch.from_numpy(rows).to(device)]
            kind = learning_dtype(self._target_matrix)
            logits: torch.Tensor = hidden.to(kind) @ matrix.to(kind).T
        return logits, positions

    def start_from(self, folder: Path) -> None:
        from safetensors.torch import load_file

        state: dict[str, torch.Tensor] = {}
        for file in sorted(folder.glob("model*.safetensors")):
            try:
                state |= load_file(file)
            except SafetensorError as error:
                raise InvalidInput(f"{file} is damaged: {error}") from None
        learned = {name for name, p in self.model.named_parameters() if p.requires_grad}
        if not learned <= state.keys():
            raise InvalidInput(
                f"{folder} holds no draft of {len(self.recipe.layers)} such layers to go on from"
            )
        try:
            self.model.load_state_dict(state, strict=False)
        except RuntimeError as error:
            raise InvalidInput(
                f"{folder} holds a draft of another shape: {str(error).splitlines()[-1].strip()}"
            ) from None

    def save(self, out: Path, bits: int) -> str:
        """Write the draft as a model folder, without embeddings if they are the target's."""
        from safetensors.torch import save_file

        model = self.model
        save_file({"outputs": self._columns.ids.cpu().int()}, out / OUTPUTS)
        config = {
            **model.config.to_dict(),
            "dtype": "bfloat16",
            "architectures": [type(model).__name__],
        }
        config.pop("_name_or_path", None)
        (out / "config.json").write_text(
            json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8"
        )
        count = model.config.num_hidden_layers
        shape = (
            f"{count} {'layer' if count == 1 else 'layers'} of width {model.config.hidden_size}, "
            f"{len(self._columns.ids)} output tokens"
        )
        state = {
            k: v.detach().cpu().bfloat16().contiguous()
            for k, v in model.state_dict().items()
            if "lm_head" not in k
        }
        if not self.shared:
            save_file(state, out / "model.safetensors", metadata={"format": "pt"})
            return shape
        files: dict[str, str] = {}
        for n in range(count):
            name = f"model-{n + 1:05d}-of-{count:05d}.safetensors"
            tensors = {
                k: v
                for k, v in state.items()
                if f".layers.{n}." in k
                or (n == count - 1 and ".norm." in k and ".layers." not in k)
            }
            files |= dict.fromkeys(tensors, name)
            save_file(tensors, out / name, metadata={"format": "pt"})
        index = {"metadata": {"embeddings": SHARED}, "weight_map": files}
        (out / "model.safetensors.index.json").write_text(
            json.dumps(index, indent=1) + "\n", encoding="utf-8"
        )
        return f"{shape}; embeddings and output matrix are the target's"
