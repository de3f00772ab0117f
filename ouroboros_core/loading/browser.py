"""Files for a browser: the weights of the embedded models as the pass reads them, and the pass.

`python -m ouroboros_core.loading.browser FOLDER` writes them. A weights file has the text MAGIC,
the number of bytes of a header in four bytes, the header as JSON, and behind it at a multiple of
64 bytes the data. `visualize/live/pass.js` reads it without a reader of GGUF files.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.loading import embedded
from ouroboros_core.loading.blocks import in_order
from ouroboros_core.loading.drafts import assemble_draft, read_outputs
from ouroboros_core.loading.gguf import read_blocks
from ouroboros_core.models.engines.native import build
from ouroboros_core.models.engines.native.blocks import KINDS, Blocks, BlocksOf, joined
from ouroboros_core.models.engines.native.decoder import PRODUCTS, exact, fits, panels
from ouroboros_core.models.heads.eagle3 import Eagle3Head
from ouroboros_core.models.heads.head import SCALE, WEIGHTS
from ouroboros_core.models.kv_cache import attention_shape
from ouroboros_core.progress import accept_any_text

MAGIC = b"OUROBORO"
ALIGNMENT = 64


class _Data:
    """The data of a file, and where each part of it begins."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, tensor: torch.Tensor) -> dict[str, int]:
        """Append the bytes of a tensor; return where they are."""
        data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        extent = {"begin": self.size, "bytes": len(data)}
        self.parts += data, bytes(-len(data) % ALIGNMENT)
        self.size += len(data) + -len(data) % ALIGNMENT
        return extent


def weights_file(
    model: PreTrainedModel,
    blocks: BlocksOf | None = None,
    *,
    outputs: Sequence[int] | None = None,
    embeddings: bool = True,
) -> bytes:
    """Return the file of a model of the Llama family.

    blocks      weights in blocks, which are written instead of bfloat16
    outputs     the token ids that it can write, if not all
    embeddings  write the embeddings, which must be the output matrix; otherwise they are another
                model's
    """
    config = model.config
    body: Any = model.base_model
    _check(model, embeddings)
    heads, shared, head = attention_shape(config)
    data, matrices, norms = _Data(), [], []

    def add(layer: int, index: int, names: Sequence[str], weights: Sequence[torch.Tensor]) -> None:
        weight = torch.cat([*weights])
        outer, inner = weight.shape
        stored = joined([(blocks or {}).get(name) for name in names])
        if stored is None or not _same_shape(stored, weight):
            kind, tensor = 0, _strips(panels(weight))
        else:
            kind, tensor = KINDS[stored.kind], stored.packed()
        sizes = {"inner": inner, "outer": outer, "kind": kind}
        matrices.append({"layer": layer, "place": index, **sizes, **data.add(tensor)})

    def add_norm(layer: int, index: int, weight: torch.Tensor) -> None:
        norms.append({"layer": layer, "place": index, **data.add(weight.detach().float())})

    if embeddings:
        add(-1, 0, ["token_embd"], [model.get_input_embeddings().weight.detach()])
    for number, layer in enumerate(body.layers):
        attention, mlp = layer.self_attn, layer.mlp
        linears = (
            (attention.q_proj, attention.k_proj, attention.v_proj),
            (attention.o_proj,),
            *((linear,) for linear in (mlp.gate_proj, mlp.up_proj, mlp.down_proj)),
        )
        for index, (names, group) in enumerate(zip(PRODUCTS.values(), linears, strict=True)):
            stored = [f"blk.{number}.{name}" for name in names]
            add(number, index, stored, [linear.weight.detach() for linear in group])
        add_norm(number, 0, layer.input_layernorm.weight)
        add_norm(number, 1, layer.post_attention_layernorm.weight)
    add_norm(-1, 0, body.norm.weight)
    shape = {
        "width": config.hidden_size,
        "heads": heads,
        "shared": shared,
        "head": head,
        "middle": config.intermediate_size,
        "layers": len(body.layers),
        "eps": float(body.norm.variance_epsilon),
        "theta": float(config.rope_parameters["rope_theta"]),
        "longest": config.max_position_embeddings,
        "vocabulary": config.vocab_size,
    }
    written = None if outputs is None else sorted(outputs)
    return _file(data, {"shape": shape, "matrices": matrices, "norms": norms, "outputs": written})


def _strips(laid: torch.Tensor) -> torch.Tensor:
    """Return panels in the order of the pass for a browser: in strips of at most 16 pairs of
    inputs, a strip in two halves of 16 outputs."""
    strips = [laid[:, pair : pair + 16] for pair in range(0, laid.shape[1], 16)]
    halves = [strip.reshape(len(strip), -1, 2, 16, 2).transpose(1, 2) for strip in strips]
    return torch.cat([strip.flatten(1) for strip in halves], dim=1)


def _file(data: _Data, facts: dict[str, Any]) -> bytes:
    header = json.dumps(facts, separators=(",", ":")).encode()
    begin = MAGIC + len(header).to_bytes(4, "little") + header
    return b"".join([begin, bytes(-len(begin) % ALIGNMENT), *data.parts])


HEAD_PRODUCTS = {
    (0, 0): tuple(f"body.layers.0.self_attn.{name}_proj.weight" for name in "qkv"),
    (0, 1): ("body.layers.0.self_attn.o_proj.weight",),
    (0, 2): ("body.layers.0.mlp.gate_proj.weight",),
    (0, 3): ("body.layers.0.mlp.up_proj.weight",),
    (0, 4): ("body.layers.0.mlp.down_proj.weight",),
    (-1, 1): ("join.weight",),
    (-1, 2): ("deeper.weight",),
}
"""The matrices of an EAGLE-3 head by layer and place, see `web_matrix` of web.cpp."""
HEAD_NORMS = {
    (0, 0): "body.layers.0.input_layernorm.weight",
    (0, 1): "body.layers.0.post_attention_layernorm.weight",
    (-1, 0): "body.norm.weight",
}
EIGHT_BITS = 3
"""The kind of a matrix of 8-bit numbers and a factor for each row, ROWS of web.cpp."""


def head_file(folder: Path, target: PreTrainedModel) -> bytes:
    """Return the file of an EAGLE-3 head that is stored in 8 bits, with the same numbers."""
    config = Eagle3Head.load(folder, target).config
    weights, data, matrices, norms = load_file(folder / WEIGHTS), _Data(), [], []
    for (layer, place), names in HEAD_PRODUCTS.items():
        matrix = torch.cat([weights[name] for name in names])
        factors = torch.cat([weights[name + SCALE] for name in names])
        parts = [part.contiguous().view(torch.uint8).flatten() for part in (matrix, factors)]
        sizes = {"outer": matrix.shape[0], "inner": matrix.shape[1], "kind": EIGHT_BITS}
        extent = data.add(torch.cat(parts))
        matrices.append({"layer": layer, "place": place, **sizes, **extent})
    for (layer, place), name in HEAD_NORMS.items():
        norms.append({"layer": layer, "place": place, **data.add(weights[name].float())})
    shape = {
        "width": config.width,
        "heads": config.heads,
        "shared": config.key_value_heads,
        "head": config.width // config.heads,
        "middle": config.intermediate,
        "layers": 1,
        "eps": config.eps,
        "theta": config.rope_theta,
        "longest": target.config.max_position_embeddings,
        "vocabulary": target.config.vocab_size,
    }
    outputs = weights["outputs"].tolist()
    facts = {"shape": shape, "matrices": matrices, "norms": norms, "outputs": outputs}
    return _file(data, {**facts, "depths": config.depths})


def _check(model: PreTrainedModel, embeddings: bool) -> None:
    """Raise InvalidInput for a model whose rows the pass in a browser does not compute."""
    config: Any = model.config
    weight = model.get_input_embeddings().weight
    tied = model.get_output_embeddings().weight is weight
    biased = any(name.endswith("bias") for name, _ in model.named_parameters())
    normed = any("q_norm" in name for name, _ in model.named_parameters())
    turned = config.rope_parameters.get("rope_type", "default") == "default"
    plain = config.model_type == "llama" and turned and not biased and not normed
    if not (plain and fits(model.base_model) and (tied or not embeddings) and exact(weight)):
        raise InvalidInput(
            f"the pass in a browser does not compute {config.model_type} models of this kind: it "
            "needs a Llama model with bfloat16 weights, tied embeddings and no biases"
        )


def _same_shape(stored: Blocks, weight: torch.Tensor) -> bool:
    outer, groups, _ = stored.data.shape
    return (outer, 32 * groups) == tuple(weight.shape)


def write(folder: Path) -> dict[str, int]:
    """Write the weights of the embedded target, its draft model and its EAGLE-3 head, and the
    builds of the pass. Return the bytes of each file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in build.browser_builds().items():
        shutil.copyfile(file, folder / f"pass-{name}.wasm")
    target = AutoModelForCausalLM.from_pretrained(embedded.ensure_target(), dtype=torch.bfloat16)
    metadata, stored = read_blocks(embedded.ensure_gguf())
    blocks = in_order(metadata, stored, target.config)
    (folder / "target.bin").write_bytes(weights_file(target, blocks))
    source = embedded.draft_folder()
    draft = assemble_draft(source, target, torch.bfloat16)
    outputs = read_outputs(source)
    (folder / "draft.bin").write_bytes(weights_file(draft, outputs=outputs, embeddings=False))
    (folder / "eagle3.bin").write_bytes(head_file(embedded.head_folder(), target))
    return {file.name: file.stat().st_size for file in sorted(folder.iterdir())}


def main() -> int:
    """Write the files and print their sizes. Return 0, or 2 after an error message."""
    accept_any_text()
    if len(sys.argv) != 2:
        print("usage: python -m ouroboros_core.loading.browser FOLDER", file=sys.stderr)
        return 2
    try:
        sizes = write(Path(sys.argv[1]))
    except OuroborosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, size in sizes.items():
        print(f"{name}  {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
