"""Multi-token prediction heads, from a target's files and trained. The oracle is plain torch: one
forward over the whole text for each drafted token, without a cache."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair, Placement, load_pair
from ouroboros_core.methods import get
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.mtp import ShippedMtp
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import Provenance, TreeBuilder
from tests import folders, tiny

EPS = 1e-6
MIXTURE: dict[str, Any] = {
    **{"moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2},
    **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "num_hidden_layers": 3},
    **{"eos_token_id": None, "rms_norm_eps": EPS, "alphabet": tiny.LETTERS},
}
FAMILIES: dict[str, dict[str, Any]] = {
    "glm4_moe": {"head_dim": 16, **MIXTURE},
    "deepseek_v3": {
        "num_key_value_heads": 4,
        **{"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8},
        **{"v_head_dim": 16, "head_dim": 8, **MIXTURE},
    },
}
PARTS = ("enorm", "hnorm", "eh_proj", "shared_head.norm")
QWEN = dict(zip(PARTS, ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"), strict=True))
"""DeepSeek's names, which GLM has, too, and Qwen3-Next's."""


class Layer:
    """A layer of a model and what stands beside it, as rows [n, width] of features and tokens."""

    def __init__(self, model: Any, block: Any, weights: dict[str, torch.Tensor]) -> None:
        self.model, self.block, self.weights = model, block, weights

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * self.weights[name]

    def __call__(self, features: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        embedded = self.model.get_input_embeddings()(tokens)
        pair = [self._norm(embedded, "enorm"), self._norm(features, "hnorm")]
        x = (torch.cat(pair, -1) @ self.weights["eh_proj"].T)[None]
        rows = torch.arange(len(tokens))
        later = torch.zeros(len(rows), len(rows)).masked_fill(rows[:, None] < rows, -torch.inf)
        angles = self.model.model.rotary_emb(x, position_ids=rows[None])
        mask = later[None, None].to(x.dtype)
        return self._norm(
            self.block(x, position_embeddings=angles, attention_mask=mask)[0], "shared_head.norm"
        )

    @torch.inference_mode()
    def logits(self, text: list[int], drafted: list[int]) -> torch.Tensor:
        """After a text and drafted tokens: the target's features as far as there are any, then what
        the layer itself has said."""
        states = self.model(torch.tensor([text]), output_hidden_states=True).hidden_states[-1]
        features, tokens = states[0, :-1], torch.tensor([*text[1:], *drafted])
        while len(features) <= len(tokens):
            rows = self(features, tokens[: len(features)])
            features = torch.cat([features, rows[-1:]])
        logits: torch.Tensor = self.model.get_output_embeddings()(rows[-1])
        return logits


def files(folder: Path, family: str, names: dict[str, str], prefix: str) -> Layer:
    """Write a target of two layers whose file has a third one with the parts of MTP."""
    folders.save(folder, family=family, **FAMILIES[family])
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    torch.manual_seed(5)
    width = model.config.hidden_size
    weights = {name: torch.rand(width) + 0.5 for name in PARTS}
    weights["eh_proj"] = torch.randn(width, 2 * width) * 0.2
    state = load_file(folder / "model.safetensors")
    old, new = "model.layers.2.", f"{prefix}layers.0." if prefix == "mtp." else "model.layers.2."
    state = {key.replace(old, new): value for key, value in state.items()}
    beside = prefix if prefix == "mtp." else new
    state |= {f"{beside}{names[name]}.weight": weight for name, weight in weights.items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"num_hidden_layers": 2, "num_nextn_predict_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    block = copy.deepcopy(model.model.layers[2])
    del model.model.layers[2]
    return Layer(model, block, weights)


def check_equal(drafter: Any, layer: Layer) -> None:
    """Every node of a tree, after two texts of which the second continues the first."""
    text = tiny.prompt(20)
    for end in (15, 20):
        builder = TreeBuilder(text[end - 1])
        for token, parent in ((2, 0), (9, 0), (5, 1), (14, 1), (3, 3), (8, 5)):
            builder.add(token, parent, Provenance(Source.DRAFT))
        tree = builder.build()
        evaluation = drafter.evaluate(text[:end], tree)
        for node in range(len(tree)):
            wanted = layer.logits(text[:end], tree.tokens_to(node))
            np.testing.assert_allclose(evaluation.logits(node), wanted, rtol=1e-3, atol=1e-4)


def run(pair: Pair, method: str, **settings: Any) -> Trace:
    chosen = get(method).Hyperparameters.parse(settings)
    return Generation(pair, Task("abcab", method, chosen, max_new_tokens=60, chat=False)).run()


def first_drafts(trace: Trace) -> dict[int, int]:
    """The first drafted token by the number of tokens before it."""
    drafts, length = {}, 0
    for step in trace.steps:
        if len(step.tree) > 1:
            drafts[length] = step.tree.tokens[1]
        length += len(step.tokens)
    return drafts


@pytest.mark.parametrize(
    ("family", "prefix"),
    [("glm4_moe", "model."), ("deepseek_v3", "model."), ("glm4_moe", "mtp.")],
)
def test_a_layer_in_the_targets_files_drafts_without_a_flag(
    family: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what the formula says; the text is plain decoding's; transformers' own mode, which
    writes one token, writes the same first ones."""
    names = QWEN if prefix == "mtp." else dict(zip(PARTS, PARTS, strict=True))
    layer = files(tmp_path, family, names, prefix)
    # The released models' number of layers is a part of the pattern.
    kept = {"^mtp.*" if prefix == "mtp." else r"model\.layers\.2.*"}
    monkeypatch.setattr(type(layer.model), "_keys_to_ignore_on_load_unexpected", kept)
    pair = load_pair(str(tmp_path), placement=Placement("cpu", "float32"))
    drafter = pair.heads["mtp"]
    assert isinstance(drafter, ShippedMtp) and pair.mtp_layers is drafter.layers
    check_equal(drafter, layer)
    plain, chain, theirs = (
        run(pair, "autoregressive"),
        run(pair, "mtp", gamma=3),
        run(pair, "hf_mtp"),
    )
    assert chain.tokens == theirs.tokens == plain.tokens
    assert any(step.path for step in chain.steps) and any(not step.path for step in chain.steps)
    ours, others = first_drafts(run(pair, "mtp", gamma=1)), first_drafts(theirs)
    assert len(ours.keys() & others.keys()) > 20
    assert all(ours[length] == others[length] for length in ours.keys() & others.keys())
    assert not load_pair(str(tmp_path), head="none", placement=Placement("cpu", "float32")).heads


def test_a_target_whose_files_lack_the_layer_has_no_head(tmp_path: Path) -> None:
    """The configuration of the family names a layer in any case."""
    pair = load_pair(
        folders.save(tmp_path, family="glm4_moe", **FAMILIES["glm4_moe"]),
        placement=Placement("cpu"),
    )
    assert pair.target.model.config.num_mtp_layers == 1 and not pair.heads


def test_a_trained_head_says_what_the_formula_says() -> None:
    model = tiny.target("llama", "sdpa")
    head = copy.deepcopy(tiny.head("llama", kind="mtp")).double()
    assert head.join is not None
    state, token = (norm.weight for norm in head.joined_norms)
    weights = {"hnorm": state, "enorm": token, "shared_head.norm": head.body.norm.weight}
    weights["eh_proj"] = head.join.weight.roll(model.config.hidden_size, 1)  # embedding first
    drafter = tiny.drafters(CausalLM(model, "llama"), ["mtp"])["mtp"]
    check_equal(drafter, Layer(model, head.body.layers[0], weights))
