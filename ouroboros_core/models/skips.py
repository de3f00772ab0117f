"""Which sublayers of a model are skipped, and the model without them.

A decoder layer adds to its input what its attention says, and then what its MLP says; each of the
two can be left out by itself (Draft & Verify, arXiv 2309.08168, section 3.2).
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
"""What the attention of a layer is called in transformers' models."""

MLP: tuple[tuple[str, ...], ...] = (("mlp",), ("feed_forward",), ("fc1", "fc2"))
"""What the MLP is called, or the matrices that it consists of."""

SKIPPABLE = "Llama, Qwen2/3, Mistral, Gemma, Phi-3, GPT-2, GPT-NeoX or OPT"


@dataclass(frozen=True)
class Skips:
    """The layers, from 0, whose attention is skipped, and those whose MLP is."""

    attention: frozenset[int] = frozenset()
    mlp: frozenset[int] = frozenset()

    def rows(self, cache: TreeCache) -> int:
        """The rows that the layers hold whose attention runs."""
        running = (n for n in range(len(cache.layers)) if n not in self.attention)
        length: int = cache.layers[next(running, 0)].length
        return length

    def __str__(self) -> str:
        return f"without {len(self.attention)} attentions and {len(self.mlp)} MLPs"


NOTHING = Skips()


def generic(layers: int) -> Skips:
    """The choice for a model of which nothing is known: in the middle half of its layers, which
    the paper's searches skip most of (section 4.1), every second attention and every fourth MLP."""
    middle = range(layers // 4, layers - layers // 4)
    return Skips(frozenset(middle[::2]), frozenset(middle[1::4]))


@dataclass(frozen=True)
class Sublayers:
    """The names of a layer's modules within the model: its attention, and its MLP or the matrices
    of that."""

    attention: str
    mlp: tuple[str, ...]


def sublayers(model: PreTrainedModel) -> list[Sublayers]:
    """The sublayers of every layer; raises UnsupportedModel for a model in which they cannot be
    told apart."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            found = [_parts(layer, f"{path}.{number}") for number, layer in enumerate(module)]
            if all(found):
                return [one for one in found if one]
    raise UnsupportedModel(
        f"the layers of a {model.config.model_type} cannot be skipped here: each would have to "
        f"consist of one attention and one MLP, as in {SKIPPABLE}"
    )


def _parts(layer: nn.Module, path: str) -> Sublayers | None:
    """None where there is no attention or MLP, or where forward passes go through something else
    than the modules, such as the hooks of `device_map`."""
    inside = dict(layer.named_children())
    attention = next((name for name in ATTENTION if name in inside), None)
    mlp = next((names for names in MLP if all(name in inside for name in names)), None)
    if attention is None or mlp is None or "forward" in vars(layer):
        return None
    return Sublayers(f"{path}.{attention}", tuple(f"{path}.{name}" for name in mlp))


def parameters(model: PreTrainedModel, names: Sequence[str]) -> int:
    """The number of weights in some modules."""
    return sum(p.numel() for name in names for p in model.get_submodule(name).parameters())


def share_read(model: PreTrainedModel, skips: Skips) -> float:
    """The share of a pass's weights that is read without these sublayers: of all layers and the
    output matrix, above 0 and at most 1."""
    layers = sublayers(model)
    every = [parameters(model, (layer.attention, *layer.mlp)) for layer in layers]
    left_out = sum(parameters(model, (layers[n].attention,)) for n in skips.attention)
    left_out += sum(parameters(model, layers[n].mlp) for n in skips.mlp)
    whole: int = sum(every) + model.get_output_embeddings().weight.numel()
    return 1.0 - left_out / whole


@dataclass(frozen=True)
class ReducedModel:
    """A model without some sublayers; `view` shares all other modules with it."""

    skips: Skips
    view: PreTrainedModel


class _Silent(nn.Module):
    """Stands for an attention, or the last matrix of an MLP, that adds nothing."""

    def __init__(self, is_attention: bool) -> None:
        super().__init__()
        self.is_attention = is_attention

    def forward(self, *given: torch.Tensor, **named: Any) -> Any:
        states = given[0] if given else named["hidden_states"]
        nothing = torch.zeros_like(states)
        return (nothing, None) if self.is_attention else nothing


def without(model: PreTrainedModel, skips: Skips) -> PreTrainedModel:
    """A view of a model without some sublayers: its modules and weights are the model's own, and
    the model itself is as it was. Raises UnsupportedModel."""
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
    """A copy of a module, and of those on the way to `path`, in which another one stands there; all
    other modules are shared."""
    name, _, rest = path.partition(".")
    view = copy.copy(module)
    inside = dict(module._modules)
    below = inside[name]
    assert below is not None
    inside[name] = _replaced(below, rest, new) if rest else new
    view.__dict__["_modules"] = inside
    return view
