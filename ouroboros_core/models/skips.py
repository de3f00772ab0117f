"""Which sublayers of a model are skipped, and the model without them.

A decoder layer adds the output of its attention to its input, and then the output of its MLP; each
can be left out separately (Draft & Verify, arXiv 2309.08168, section 3.2).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.models.kv_cache import TreeCache

ATTENTION = ("self_attn", "attn", "attention", "self_attention")
"""Names of the attention of a layer in transformers' models."""

MLP: tuple[tuple[str, ...], ...] = (("mlp",), ("feed_forward",), ("fc1", "fc2"))
"""Names of the MLP, or of the matrices that it consists of."""

SKIPPABLE = "Llama, Qwen2/3, Mistral, Gemma, Phi-3, GPT-2, GPT-NeoX or OPT"


@dataclass(frozen=True)
class Skips:
    """Layers, from 0, whose attention is skipped, and layers whose MLP is skipped."""

    attention: frozenset[int] = frozenset()
    mlp: frozenset[int] = frozenset()

    def rows(self, cache: TreeCache) -> int:
        """Return the number of rows in the layers whose attention runs."""
        running = (n for n in range(len(cache.layers)) if n not in self.attention)
        length: int = cache.layers[next(running, 0)].length
        return length

    def __str__(self) -> str:
        return f"without {len(self.attention)} attentions and {len(self.mlp)} MLPs"


NOTHING = Skips()


def generic(layers: int) -> Skips:
    """Return a choice for any model: in the middle half of its layers, which the
    paper's searches skip most (section 4.1), every second attention and every fourth MLP."""
    middle = range(layers // 4, layers - layers // 4)
    return Skips(frozenset(middle[::2]), frozenset(middle[1::4]))


@dataclass(frozen=True)
class Sublayers:
    """Names of a layer's modules in the model: its attention, and its MLP or the MLP's matrices."""

    attention: str
    mlp: tuple[str, ...]


def sublayers(model: PreTrainedModel) -> list[Sublayers]:
    """Return the sublayers of every layer; raise UnsupportedModel if they cannot be separated."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            layers = [_sublayers(layer, f"{path}.{number}") for number, layer in enumerate(module)]
            if all(layers):
                return [layer for layer in layers if layer]
    raise UnsupportedModel(
        f"the layers of a {model.config.model_type} cannot be skipped here: each would have to "
        f"consist of one attention and one MLP, as in {SKIPPABLE}"
    )


def _sublayers(layer: nn.Module, path: str) -> Sublayers | None:
    """Return the sublayers of a layer; None without attention or MLP, or if a pass runs more than
    the modules, such as the hooks of `device_map`."""
    inside = dict(layer.named_children())
    attention = next((name for name in ATTENTION if name in inside), None)
    mlp = next((names for names in MLP if all(name in inside for name in names)), None)
    if attention is None or mlp is None or "forward" in vars(layer):
        return None
    return Sublayers(f"{path}.{attention}", tuple(f"{path}.{name}" for name in mlp))


def parameters(model: PreTrainedModel, names: Sequence[str]) -> int:
    """Return the number of weights in some modules."""
    return sum(p.numel() for name in names for p in model.get_submodule(name).parameters())


def share_read(model: PreTrainedModel, skips: Skips) -> float:
    """Return the share of a pass's weights (all layers and the output matrix) that is read without
    these sublayers, above 0 and at most 1."""
    layers = sublayers(model)
    every = [parameters(model, (layer.attention, *layer.mlp)) for layer in layers]
    left_out = sum(parameters(model, (layers[n].attention,)) for n in skips.attention)
    left_out += sum(parameters(model, layers[n].mlp) for n in skips.mlp)
    total: int = sum(every) + model.get_output_embeddings().weight.numel()
    return 1.0 - left_out / total


@dataclass(frozen=True)
class ReducedModel:
    """A model without some sublayers; `view` shares all other modules with it."""

    skips: Skips
    view: PreTrainedModel


class _Silent(nn.Module):
    """Replacement of an attention, or of the last matrix of an MLP, that adds 0."""

    def __init__(self, is_attention: bool) -> None:
        super().__init__()
        self.is_attention = is_attention

    def forward(self, *inputs: torch.Tensor, **named: Any) -> Any:
        states = inputs[0] if inputs else named["hidden_states"]
        nothing = torch.zeros_like(states)
        return (nothing, None) if self.is_attention else nothing


def without(model: PreTrainedModel, skips: Skips) -> PreTrainedModel:
    """Return a view of a model without some sublayers. It shares the other modules and weights; the
    model is unchanged. Raise UnsupportedModel."""
    view: nn.Module = model
    for number, layer in enumerate(sublayers(model)):
        if number in skips.attention:
            view = _replaced(view, layer.attention, _Silent(True))
        if number in skips.mlp:
            *before, last = layer.mlp
            for name in before:
                view = _replaced(view, name, nn.Identity())
            view = _replaced(view, last, _Silent(False))
    assert isinstance(view, PreTrainedModel)
    return view


def _replaced(module: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """Return a module in which `path` leads to a new module: a copy of the modules on the path,
    with all others shared."""
    name, _, rest = path.partition(".")
    view = copy.copy(module)
    inside = dict(module._modules)
    below = inside[name]
    assert below is not None
    inside[name] = _replaced(below, rest, new) if rest else new
    view.__dict__["_modules"] = inside
    return view
