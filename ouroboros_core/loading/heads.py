"""Heads that were trained for a target: which folders are read, and published EAGLE checkpoints.

A published checkpoint is a `config.json`, most of whose keys are a Llama configuration's, and its
weights in `model.safetensors` or `pytorch_model.bin`. EAGLE and EAGLE-2 share one layout: `fc`
joins embedding and feature, with or without a bias, and one layer follows, without a norm before
its attention or after it; embeddings and output matrix are the target's. In EAGLE-3's, `fc` merges
three of the target's states, by default those after two layers, after half of them and after all
but three; the layer, `midlayer`, reads the embedding as well, each after its norm; and `lm_head`
has a row for every token of a smaller vocabulary, `d2t` the distance from its number to the
target's. The source is github.com/SafeAILab/EAGLE at cb7e084: eagle/model/cnets1.py, cnets.py,
ea_model.py and, for the states, modeling_llama_kv.py.

Speculators (github.com/vllm-project/speculators at c05b95b, src/speculators/models/eagle3) calls
the layer `layers.0`, has its sizes in `transformer_layer_config`, and has flags: `fc_norm` (a norm
for each state before `fc`), `norm_before_fc` (one for all, `input_norm`), `norm_before_residual`,
and `norm_output` (the head continues from its normed output). SpecForge (github.com/sgl-project/
SpecForge at a6b6b02, specforge/modeling/draft/llama3_eagle.py) has SafeAILab's names and `fc_norm`.
Speculators count layers from 1 in `eagle_aux_hidden_state_layer_ids`, where 2 is the state after
two layers; inside `eagle_config`, where SpecForge has it, they are counted from 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from ouroboros_core.errors import (
    InvalidInput,
    OuroborosError,
    UnsupportedModel,
    VocabularyMismatch,
    WeightsUnavailable,
)
from ouroboros_core.loading import embedded
from ouroboros_core.loading.weights import fetched, short_name
from ouroboros_core.models import heads, state_candidates
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.eagle import EagleConfig, EagleHead, Layout
from ouroboros_core.models.heads.eagle3 import Eagle3Head
from ouroboros_core.models.heads.head import ABOUT, WEIGHTS, HeadDrafter, described
from ouroboros_core.models.heads.mtp import ShippedMtp
from ouroboros_core.models.heads.recipes import EAGLE, EAGLE3, HEADS, MTP, RECIPES

NONE = "none"
PUBLISHED_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
EXPECTED = (
    "a head is what `train eagle` or `train eagle3` makes (head.json, head.safetensors) or a "
    "checkpoint in the layout of SafeAILab's EAGLE, EAGLE-2 or EAGLE-3, of Speculators or of "
    "SpecForge (config.json, and model.safetensors or pytorch_model.bin)"
)
LAYER = "layers.0."
"""How names of the layer's weights begin; EAGLE-3 says `midlayer.`."""

UNREAD = frozenset({"embed_tokens.weight", "d2t", "t2d"})
"""Weights that the head does not need, or has in another form."""

OUTPUT = "lm_head.weight"

ROPES = ("default", "linear", "llama3")

FEWEST = 7
"""Fewest layers of a target with three different states for EAGLE-3, if none are named."""

STATES = "eagle_aux_hidden_state_layer_ids"
NORMS = {"rms_norm_eps", "norm_before_residual", "norm_before_fc", "fc_norm", "norm_output"}
"""Keys about norms that are read."""

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class _Checkpoint:
    """A published head as it was read.

    outputs  the token ids that it can draft, ascending
    """

    name: str
    config: dict[str, Any]
    tensors: Tensors
    outputs: Sequence[int] = ()

    @property
    def third(self) -> bool:
        """Whether it is EAGLE-3's layout."""
        return LAYER + "hidden_norm.weight" in self.tensors

    @property
    def speculators(self) -> bool:
        """Whether Speculators wrote it."""
        return "speculators_model_type" in self.config

    def depths(self, target: CausalLM) -> tuple[int, ...]:
        """The numbers of layers of the target after which EAGLE-3 reads its states."""
        usual = 2, target.layers // 2, target.layers - 3
        inner = (self.config.get("eagle_config") or {}).get(STATES)
        named = tuple(inner or self.config.get(STATES) or usual)
        # Some trainers count the usual ones from 0 everywhere.
        if named in (usual, tuple(n - 1 for n in usual)):
            return usual
        return tuple(n + 1 for n in named) if inner else named

    def size(self, key: str, default: int | None = None) -> int:
        value = self.config.get(key, default)
        if not isinstance(value, int) or value < 1:
            raise InvalidInput(
                f"config.json of the head {self.name} must have a whole number above 0 as {key}, "
                f"got {value}; {EXPECTED}"
            )
        return value

    @property
    def rope(self) -> dict[str, Any]:
        """transformers' `rope_parameters`, also from the older keys. The base is 10,000 by default,
        as in the authors' code, not the target's."""
        rope = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        kind = rope.get("rope_type") or rope.get("type") or "default"
        base = rope.get("rope_theta") or self.config.get("rope_theta") or 10_000.0
        rest = {key: value for key, value in rope.items() if key != "type"}
        return {**rest, "rope_type": kind, "rope_theta": float(base)}


def drafter_class(kind: str) -> type[HeadDrafter]:
    """Return the class that drafts with heads of a kind."""
    drafter: type[HeadDrafter] = heads.class_in(f"{heads.__name__}.{kind}", HeadDrafter)
    return drafter


def kind_of(name: str | Path) -> str:
    """Return the kind of a head in a folder or a repository on the Hub; EAGLE if nothing says it.

    Its description names it, or a published configuration has EAGLE-3's vocabulary or name.
    """
    try:
        kind = described(_json(str(name), ABOUT))
    except (OuroborosError, ValueError):
        kind = None
    if kind is not None:
        return kind if kind in HEADS else EAGLE
    try:
        config = _json(str(name), "config.json")
    except (OuroborosError, ValueError):
        return EAGLE
    names = f"{config.get('architectures')} {config.get('speculators_model_type')}".lower()
    return EAGLE3 if "draft_vocab_size" in config or EAGLE3 in names else EAGLE


def _json(name: str, file: str) -> dict[str, Any]:
    """Return the object in a JSON file of a head, an empty one for other JSON. Raises ValueError or
    the errors of `fetched`."""
    data = json.loads(fetched(name, file).read_text(encoding="utf-8"))
    return data if isinstance(data, dict) else {}


def _names(named: str | Sequence[str] | None) -> list[str]:
    return [named] if isinstance(named, str) else list(named or ())


def choose_folders(named: str | Sequence[str] | None, shipped: bool) -> dict[str, str]:
    """Return the folder of each kind of head: the named ones and, for the embedded target, the
    shipped ones of the other kinds. 'none' leaves the shipped ones out.

    Raises InvalidInput if two folders are of one kind.
    """
    names = _names(named)
    folders: dict[str, str] = {}
    for name in names:
        if name == NONE:
            continue
        kind = kind_of(name)
        if kind in folders:
            raise InvalidInput(
                f"{folders[kind]} and {name} are both of the kind {kind}: name one of them"
            )
        folders[kind] = name
    if not shipped or NONE in names:
        return folders
    ours = {kind: embedded.head_folder(kind) for kind in HEADS}
    return {kind: str(folder) for kind, folder in ours.items() if folder.exists()} | folders


def load_heads(folders: dict[str, str], target: CausalLM) -> dict[str, HeadDrafter]:
    """Return the drafters of some heads, by kind; raises the errors of `load_head`."""
    return {kind: load_head(folders[kind], target, kind) for kind in HEADS if kind in folders}


def shipped_mtp(named: str | Sequence[str] | None, target: CausalLM) -> dict[str, HeadDrafter]:
    """Return the drafter of the MTP layer in a target's files, by kind; nothing if 'none' is named,
    if transformers finds no layer, or if it has a sliding window."""
    if NONE in _names(named) or not state_candidates.mtp_layers(target.model):
        return {}
    try:
        layers = state_candidates.load_mtp(target.model)
    except UnsupportedModel:
        return {}  # many configurations name a layer that the files lack
    kinds = getattr(layers.config, "layer_types", None) or ["full_attention"]
    return {MTP: ShippedMtp(layers, target)} if kinds[0] == "full_attention" else {}


def load_head(name: str, target: CausalLM, kind: str = "") -> HeadDrafter:
    """Return the drafter of a head in a folder or a repository on the Hub, for this target.

    kind  of the head, by default what `kind_of` says

    Raises WeightsUnavailable if there is no head or it is damaged, InvalidInput for a layout that
    is not computed here, VocabularyMismatch if the head was trained for another target.
    """
    kind = kind or kind_of(name)
    drafter = drafter_class(kind)
    try:
        folder = fetched(name, ABOUT).parent
    except WeightsUnavailable as error:
        if kind not in (EAGLE, EAGLE3):
            phrase = drafter.weights.Recipe.phrase
            raise WeightsUnavailable(f"{name} does not hold {phrase}: {error}") from None
        return drafter(_published(name, target, kind), target, short_name(name))
    fetched(name, WEIGHTS)
    return drafter(drafter.weights.load(folder, target.model), target, short_name(name))


def _published(name: str, target: CausalLM, kind: str) -> EagleHead:
    try:
        config = _json(name, "config.json")
        tensors = _read(_weights(name))
    except (WeightsUnavailable, ValueError) as error:
        raise WeightsUnavailable(
            f"{name} holds no EAGLE head ({error}). {_folder_content(name)}{EXPECTED}"
        ) from None
    tensors = {key.replace("midlayer.", LAYER): value for key, value in tensors.items()}
    if not {"fc.weight", LAYER + "self_attn.q_proj.weight"} <= tensors.keys():
        raise InvalidInput(
            f"{name} holds no EAGLE head: among its weights are {_some(tensors)}, but not both "
            f"fc.weight and midlayer or layers.0.self_attn.q_proj.weight; {EXPECTED}"
        )
    # Speculators have the layer's sizes apart, NVIDIA's heads their flags.
    inner = (config.get("transformer_layer_config") or {}, config, config.get("eagle_config") or {})
    config = {key: value for part in inner for key, value in part.items()}
    checkpoint = _Checkpoint(name, config, tensors)
    if checkpoint.third != (kind == EAGLE3):
        raise InvalidInput(
            f"config.json of the head {name} is {RECIPES[kind].phrase}'s, but its weights are not: "
            f"among them are {_some(tensors)}; {EXPECTED}"
        )
    _check_layout(checkpoint, target)
    _check_target(checkpoint, target)
    return _assembled(_trimmed(checkpoint), target)


def _weights(name: str) -> Path:
    """Return the first file of weights that exists."""
    try:
        return fetched(name, PUBLISHED_WEIGHTS[0])
    except WeightsUnavailable:
        return fetched(name, PUBLISHED_WEIGHTS[1])


def _folder_content(name: str) -> str:
    """Name some files of a local folder."""
    folder = Path(name).expanduser()
    if not os.path.isdir(folder):
        return ""
    return f"Found: {_some((p.name for p in folder.iterdir()), 8) or 'nothing'}; "


def _some(names: Iterable[str], count: int = 4) -> str:
    """Return the first names in words."""
    ordered = sorted(names)
    return ", ".join(ordered[:count]) + (" ..." if len(ordered) > count else "")


def _read(file: Path) -> Tensors:
    """Return the tensors of a file; of a pickle only the tensors are read."""
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a foreign file can fail in any way
        raise WeightsUnavailable(f"{file.name} cannot be read: {str(error)[:300]}") from None
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        raise WeightsUnavailable(f"{file.name} holds other things than named tensors")
    return tensors


def _check_layout(checkpoint: _Checkpoint, target: CausalLM) -> None:
    """Raise InvalidInput if the configuration asks for a layout that is not computed here."""
    config = checkpoint.config
    odd = {
        "hidden_act": config.get("hidden_act", "silu") != "silu",
        "rope_scaling": checkpoint.rope["rope_type"] not in ROPES,
        # SpecForge's versions disagree on it: to feed the norm's output back, or to use it at all.
        "norm_output": "norm_output" in config and not checkpoint.speculators,
        "norm_before_fc": bool(config.get("norm_before_fc") and config.get("fc_norm")),
    }
    odd |= {key: bool(config[key]) for key in config if "norm" in key and key not in NORMS}
    values = {**config, "rope_scaling": checkpoint.rope}
    for name in (name for name, is_odd in odd.items() if is_odd):
        raise InvalidInput(
            f"config.json of the head {checkpoint.name} says {name}: {values[name]}, which is not "
            "computed here: name a head as EAGLE's authors publish them, or train one (train "
            "eagle3)"
        )
    if not checkpoint.third:
        return
    depths = checkpoint.depths(target)
    layered = any(hasattr(target.model.get_decoder(), name) for name in ("layers", "h"))
    if layered and depths != (2, target.layers // 2, target.layers - 3):
        if len({*depths}) < len(depths) or not all(0 < n < target.layers for n in depths):
            raise InvalidInput(
                f"config.json of the head {checkpoint.name} reads the states of {target.name} "
                f"after {', '.join(map(str, depths))} layers, which must be different numbers from "
                f"1 to {target.layers - 1}: name a head of this target"
            )
    elif target.layers < FEWEST or not layered:
        raise InvalidInput(
            f"the EAGLE-3 head {checkpoint.name} reads the target's states after two layers, half "
            f"of them and all but three, so that the target must have {FEWEST} layers at least, "
            f"which transformers calls layers; {target.name} has {target.layers}: name an EAGLE "
            "or EAGLE-2 head, or train one (train eagle)"
        )


def _check_target(checkpoint: _Checkpoint, target: CausalLM) -> None:
    """Raise VocabularyMismatch if the sizes are another target's."""
    config: Any = target.model.config.get_text_config(decoder=True)
    width = checkpoint.size("hidden_size")
    if checkpoint.third:
        width = checkpoint.tensors["fc.weight"].shape[1] // len(checkpoint.depths(target))
    for size, needed, actual in (
        ("hidden states of width", width, config.hidden_size),
        ("a vocabulary of size", checkpoint.size("vocab_size"), config.vocab_size),
    ):
        if needed != actual:
            raise VocabularyMismatch(
                f"the EAGLE head {checkpoint.name} is for a target with {size} {needed}, but "
                f"{target.name} has {actual}: name a head that was trained for this target, or "
                "train one (train eagle)"
            )


def _trimmed(checkpoint: _Checkpoint) -> _Checkpoint:
    """Return the checkpoint with the token ids that it can draft, and with the rows of its output
    matrix in their order."""
    vocabulary = checkpoint.size("vocab_size")
    if not checkpoint.third:  # the output matrix is the target's, even if the file has a copy
        tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != OUTPUT}
        return _Checkpoint(checkpoint.name, checkpoint.config, tensors, range(vocabulary))
    matrix, distances = (checkpoint.tensors.get(key) for key in (OUTPUT, "d2t"))
    if matrix is None:
        raise InvalidInput(f"the EAGLE-3 head {checkpoint.name} has no lm_head.weight; {EXPECTED}")
    ids = torch.arange(len(matrix))
    if len(ids) != vocabulary:
        if distances is None or distances.shape != ids.shape:
            raise InvalidInput(
                f"the EAGLE-3 head {checkpoint.name} drafts {len(ids)} of {vocabulary} tokens and "
                f"must have {len(ids)} distances d2t, which say which these are, got "
                f"{'none' if distances is None else list(distances.shape)}"
            )
        ids = ids + distances.long()
    ordered = torch.unique(ids)
    if len(ordered) < len(ids) or ordered[0] < 0 or ordered[-1] >= vocabulary:
        raise InvalidInput(
            f"d2t of the EAGLE-3 head {checkpoint.name} must lead to {len(ids)} different ids from "
            f"0 to {vocabulary - 1}, got {len(ordered)} from {int(ordered[0])} to "
            f"{int(ordered[-1])}: the file is damaged, or its map has another form"
        )
    tensors = {**checkpoint.tensors, OUTPUT: matrix[ids.argsort()]}
    return _Checkpoint(checkpoint.name, checkpoint.config, tensors, ordered.tolist())


def _assembled(checkpoint: _Checkpoint, target: CausalLM) -> EagleHead:
    """Return the head with its weights, in the target's dtype and on its device."""
    like = target.model.get_input_embeddings().weight
    width = checkpoint.size("hidden_size")
    head = _empty(checkpoint, target, own_embedding=_has_own_embedding(checkpoint, like))
    shapes = {ours: weight.shape for ours, weight in head.state_dict().items()}
    weights = {
        "outputs": torch.tensor(checkpoint.outputs, dtype=torch.int32),
        "body.embed_tokens.weight": torch.zeros(1, width, dtype=like.dtype),
    }
    names = {ours: _published_name(ours, checkpoint) for ours in shapes.keys() - weights.keys()}
    wrong = sorted(checkpoint.tensors.keys() - set(names.values()) - UNREAD)
    for ours, name in names.items():
        weight = checkpoint.tensors.get(name)
        if weight is None or weight.shape != shapes[ours]:
            got = "missing" if weight is None else list(weight.shape)
            wrong.append(f"{name} ({got} instead of {list(shapes[ours])})")
        else:
            weights[ours] = weight.to(like.dtype)
    if wrong:
        raise InvalidInput(
            f"the weights of the EAGLE head {checkpoint.name} are not those that its config.json "
            f"and the layout of EAGLE{'-3' if checkpoint.third else ''} say: {_some(wrong)}; one "
            "layer and what the authors' checkpoints have is computed here"
        )
    if not checkpoint.third:  # in the checkpoint the embedding is first, here the feature
        weights["join.weight"] = weights["join.weight"].roll(-width, 1)
    head.load_state_dict(weights, assign=True)
    head.body.rotary_emb = type(head.body.rotary_emb)(config=head.body.config)
    return head.requires_grad_(False).to(like.device).eval()


def _has_own_embedding(checkpoint: _Checkpoint, target: torch.Tensor) -> bool:
    """Whether the embeddings differ from the target's; many checkpoints have a copy."""
    matrix = checkpoint.tensors.get("embed_tokens.weight")
    if matrix is None or matrix.shape != target.shape:
        return matrix is not None
    return not torch.equal(matrix.to(device=target.device, dtype=target.dtype), target)


def _empty(checkpoint: _Checkpoint, target: CausalLM, *, own_embedding: bool) -> EagleHead:
    """Return the head without weights, on no device."""
    width, queries = checkpoint.size("hidden_size"), checkpoint.size("num_attention_heads")
    embedding = width if own_embedding else target.model.get_input_embeddings().weight.shape[1]
    third, read = checkpoint.third, checkpoint.config.get
    depths = checkpoint.depths(target) if third else ()
    state_norms = len(depths) if read("fc_norm") else int(bool(read("norm_before_fc")))
    after: Literal["features", "logits"] = "features" if read("norm_output") else "logits"
    config = EagleConfig(
        width=width,
        embedding=embedding,
        intermediate=checkpoint.size("intermediate_size"),
        heads=queries,
        key_value_heads=checkpoint.size("num_key_value_heads", queries),
        target=target.name,
        signature=(),
        eps=float(read("rms_norm_eps", 1e-6)),
        depths=depths,
    )
    layout = Layout(
        separate=third,
        between=checkpoint.tensors["fc.weight"].shape[1] // len(depths) if third else None,
        state_norms=state_norms if third else 0,
        input_norm=third,
        residual_norm=third and bool(read("norm_before_residual")),
        query_norm=LAYER + "self_attn.q_norm.weight" in checkpoint.tensors,
        last_norm=after if third else "none",
        bias="fc.bias" in checkpoint.tensors,
        attention_bias=LAYER + "self_attn.q_proj.bias" in checkpoint.tensors,
        attention_width=checkpoint.size("head_dim", width // queries),
        rope=checkpoint.rope,
        own_outputs=third,
        own_tokens=checkpoint.size("vocab_size") if own_embedding else 0,
    )
    try:
        with torch.device("meta"):
            made = Eagle3Head if third else EagleHead
            return made(config, checkpoint.outputs, layout)
    except Exception as error:  # transformers can refuse the values in any way
        raise InvalidInput(
            f"config.json of the head {checkpoint.name} cannot be used: {error}"
        ) from None


def _published_name(weight: str, checkpoint: _Checkpoint) -> str:
    """Return the authors' name of a weight of the head."""
    weight = weight.removeprefix("body.").replace("state_norms.", "fc_norm.")
    if checkpoint.third:
        weight = weight.replace("input_layernorm.", "hidden_norm.")
    renamed = {
        "join": "fc",
        "deeper": "fc",
        "embedding_norm": LAYER + "input_layernorm",
        "residual_norm": LAYER + "hidden_norm",
        "last_norm": "norm",
        "output": "lm_head",
        "embedding": "embed_tokens",
    }
    if not checkpoint.config.get("fc_norm"):
        renamed["fc_norm.0"] = "input_norm"
    module, _, kind = weight.rpartition(".")
    return f"{renamed.get(module, module)}.{kind}"
