"""Published EAGLE heads. The oracle is a plain definition of all layouts, written here after the
descriptions of papers and trainers: it reads the whole text anew for every token, without any
cache, and what it saves is the checkpoint that is loaded."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.loading.heads import load_head
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native.decoder import fits
from ouroboros_core.models.heads.eagle import EagleConfig, EagleHead, Layout
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder
from tests import folders, tiny
from tests.commands import Ask

DRAFTED = [0, 2, 3, 5, 8, 9, 11, 14, 15, 17, 20, 21, 22, 26, 29, 30]
"""The tokens of the trimmed vocabulary."""

CONFIG: dict[str, Any] = {
    **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu"},
    **{"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "rms_norm_eps": 1e-2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": tiny.VOCABULARY},
}
EAGLE_LAYOUT = Layout(input_norm=False, last_norm="none", bias=True)
GUESS = Provenance(Source.DRAFT)


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(width) + 0.5), eps

    def forward(self, x: torch.Tensor) -> Any:
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Attention(nn.Module):
    """Causal attention over [rows, given], with rotary positions and shared keys and values."""

    def __init__(self, config: dict[str, Any], given: int, bias: bool) -> None:
        super().__init__()
        self.heads, self.shared = config["num_attention_heads"], config["num_key_value_heads"]
        self.width = config.get("head_dim", config["hidden_size"] // self.heads)
        self.base = config.get("rope_theta", 10_000.0)
        self.stretch = (config.get("rope_scaling") or {"factor": 1.0})["factor"]
        self.q_proj = nn.Linear(given, self.heads * self.width, bias=bias)
        self.k_proj = nn.Linear(given, self.shared * self.width, bias=bias)
        self.v_proj = nn.Linear(given, self.shared * self.width, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.width, config["hidden_size"], bias=False)
        normed = config.get("model_type") == "qwen3"
        self.q_norm, self.k_norm = (
            Norm(self.width, config["rms_norm_eps"]) if normed else nn.Identity() for _ in range(2)
        )

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """Each pair (j, j + width / 2) as a complex number, turned by its position's angle, which
        transformers computes in float32."""
        half = self.width // 2
        speeds = 1 / self.base ** (torch.arange(half).float() / half) / self.stretch
        angles = torch.arange(len(x)).float()[:, None] * speeds
        turns = torch.complex(angles.cos().double(), angles.sin().double())[:, None]
        pairs = torch.complex(x[..., :half], x[..., half:]) * turns
        return torch.cat([pairs.real, pairs.imag], -1)

    def forward(self, x: torch.Tensor) -> Any:
        rows = len(x)
        q = self.turned(self.q_norm(self.q_proj(x).view(rows, self.heads, self.width)))
        k = self.turned(self.k_norm(self.k_proj(x).view(rows, self.shared, self.width)))
        v = self.v_proj(x).view(rows, self.shared, self.width)
        mixed = []
        for head in range(self.heads):
            of = head * self.shared // self.heads
            scores = q[:, head] @ k[:, of].T / self.width**0.5
            later = torch.ones(rows, rows, dtype=torch.bool).triu(1)
            mixed.append(scores.masked_fill(later, -torch.inf).softmax(-1) @ v[:, of])
        return self.o_proj(torch.cat(mixed, -1))


class Mlp(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """EAGLE's: no norm before the attention."""

    def __init__(self, config: dict[str, Any], bias: bool) -> None:
        super().__init__()
        self.self_attn = Attention(config, config["hidden_size"], bias)
        self.mlp = Mlp(config)
        self.post_attention_layernorm = Norm(config["hidden_size"], config["rms_norm_eps"])

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.self_attn(x)
        return x + self.mlp(self.post_attention_layernorm(x))


class Eagle(nn.Module):
    """EAGLE and EAGLE-2: rows [n, width] from features [n, width] and the next tokens [n]."""

    def __init__(self, config: dict[str, Any], target: PreTrainedModel) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.fc = nn.Linear(2 * width, width, bias=config.get("bias", True))
        self.layers = nn.ModuleList([Layer(config, config.get("qkv_bias", False))])
        self.theirs: list[Any] = [target.get_output_embeddings()]  # not its own: not saved

    def read(self, states: tuple[torch.Tensor, ...]) -> Any:
        """Of the target's hidden states, the embeddings' first: what follows its last norm."""
        return states[-1]

    def forward(self, features: torch.Tensor, tokens: torch.Tensor) -> Any:
        return self.layers[0](self.fc(torch.cat([self.embed_tokens(tokens), features], -1)))

    def logits(self, x: torch.Tensor) -> Any:
        return self.theirs[0](x)


class Midlayer(nn.Module):
    """EAGLE-3's: the attention reads the embedding beside the state."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = Attention(config, 2 * width, False)
        self.mlp = Mlp(config)
        self.hidden_norm, self.input_layernorm = Norm(width, eps), Norm(width, eps)
        self.post_attention_layernorm = Norm(width, eps)
        self.normed_first = config.get("norm_before_residual")

    def forward(self, embedded: torch.Tensor, x: torch.Tensor) -> Any:
        normed = self.hidden_norm(x)
        both = torch.cat([self.input_layernorm(embedded), normed], -1)
        x = (normed if self.normed_first else x) + self.self_attn(both)
        return x + self.mlp(self.post_attention_layernorm(x))


class Eagle3(nn.Module):
    """EAGLE-3: features are the states after two layers, half of them and all but three, or after
    the named ones; the head goes on from its own row in the place of what `fc` makes of these."""

    d2t: torch.Tensor

    def __init__(self, config: dict[str, Any], target: PreTrainedModel) -> None:
        super().__init__()
        width, states = config["hidden_size"], target.config.hidden_size
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.fc = nn.Linear(3 * states, width, bias=config.get("bias", False))
        self.midlayer = Midlayer(config)
        self.norm, self.config = Norm(width, config["rms_norm_eps"]), config
        if config.get("fc_norm"):
            self.fc_norm = nn.ModuleList(Norm(states, config["rms_norm_eps"]) for _ in range(3))
        if config.get("norm_before_fc"):
            self.input_norm = Norm(3 * states, config["rms_norm_eps"])
        self.lm_head = nn.Linear(width, config["draft_vocab_size"], bias=False)
        if config["draft_vocab_size"] < config["vocab_size"]:
            known = torch.tensor(DRAFTED)
            self.register_buffer("d2t", known - torch.arange(len(known)))
            self.register_buffer("t2d", torch.isin(torch.arange(config["vocab_size"]), known))

    def read(self, states: tuple[torch.Tensor, ...]) -> Any:
        layers = len(states) - 1
        named = self.config.get(AUX, (2, layers // 2, layers - 3))
        if "eagle_config" in self.config:  # counted from 0
            named = [n + 1 for n in self.config["eagle_config"][AUX]]
        read = [states[n] for n in named]
        if self.config.get("fc_norm"):
            read = [norm(state) for norm, state in zip(self.fc_norm, read, strict=True)]
        joined = torch.cat(read, -1)
        return self.fc(self.input_norm(joined) if self.config.get("norm_before_fc") else joined)

    def forward(self, features: torch.Tensor, tokens: torch.Tensor) -> Any:
        row = self.midlayer(self.embed_tokens(tokens), features)
        return self.norm(row) if self.config.get("norm_output") else row

    def logits(self, x: torch.Tensor) -> Any:
        """Over the target's vocabulary; no chance for what cannot be drafted."""
        own = self.lm_head(x if self.config.get("norm_output") else self.norm(x))
        if not hasattr(self, "d2t"):
            return own
        columns = torch.arange(own.shape[-1]) + self.d2t
        nothing = torch.full((len(x), tiny.VOCABULARY), -torch.inf).double()
        return nothing.index_copy(-1, columns, own)


@cache
def target(family: str) -> PreTrainedModel:
    """Eight layers, and positions that turn by another base than any head's."""
    more = {"num_hidden_layers": 8, "max_position_embeddings": 512}
    rope = {"rope_type": "default", "rope_theta": 250.0}
    config = transformers.AutoConfig.for_model(
        family, **{**tiny._SIZES, **more}, rope_parameters=rope
    )
    torch.manual_seed(0)
    model: PreTrainedModel = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.2)
    tiny._peak(model)
    return model


def made(version: int, model: PreTrainedModel, **changes: Any) -> tuple[Any, dict[str, Any]]:
    """A random head in the layout of EAGLE-1 or -3, and its configuration; its embeddings are the
    target's unless they are of another width."""
    config = CONFIG | ({"draft_vocab_size": len(DRAFTED)} if version == 3 else {}) | changes
    torch.manual_seed(1)
    head = (Eagle3 if version == 3 else Eagle)(config, model).double().eval()
    with torch.no_grad():
        for weight in head.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.3)
        theirs = model.get_input_embeddings().weight
        if head.embed_tokens.weight.shape == theirs.shape and not changes.get("own"):
            head.embed_tokens.weight.copy_(theirs)
    return head, config


def write(
    folder: Path, head: nn.Module, config: dict[str, Any], kind: str = "bin", leave: str = "-"
) -> str:
    """The checkpoint; without the weights whose names begin with `leave`."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {k: v.contiguous() for k, v in head.state_dict().items() if not k.startswith(leave)}
    if "speculators_model_type" in config:
        state = {k.replace("midlayer.", "layers.0."): v for k, v in state.items()}
        nested = {key: config[key] for key in CONFIG.keys() - {"architectures"}}
        config = {key: value for key, value in config.items() if key not in nested}
        config["transformer_layer_config"] = nested
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if kind == "bin":
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors")
    return str(folder)


def bush(root: int) -> TokenTree:
    """Two branches, three levels deep."""
    builder = TreeBuilder(root)
    for token, parent in ((2, 0), (9, 0), (5, 1), (14, 1), (3, 2), (30, 3), (8, 5)):
        builder.add(token, parent, GUESS)
    return builder.build()


@torch.inference_mode()
def expected(head: Any, model: PreTrainedModel, text: list[int], drafted: list[int]) -> Any:
    """Logits behind a text and drafted tokens: features of the text as far as there are any, then
    what the head itself has said."""
    states = model(torch.tensor([text]), output_hidden_states=True).hidden_states
    features = head.read(tuple(state[0, :-1] for state in states))
    tokens = torch.tensor([*text[1:], *drafted])
    while len(features) <= len(tokens):
        rows = head(features, tokens[: len(features)])
        features = torch.cat([features, rows[-1:]])
    return head.logits(rows[-1:])[0].numpy()


def check_equal(
    name: str, head: Any, model: PreTrainedModel, vocabulary: int | None = None
) -> None:
    """Every node of a tree, after two texts of which the second goes on from the first."""
    drafter, text = load_head(name, CausalLM(model, "target", vocabulary)), tiny.prompt(20)
    for end in (15, 20):
        tree = bush(text[end - 1])
        evaluation = drafter.evaluate(text[:end], tree)
        for node in range(len(tree)):
            path = tree.tokens_to(node)
            wanted = expected(head, model, text[:end], path)[:vocabulary]
            np.testing.assert_allclose(evaluation.logits(node), wanted, rtol=1e-7, atol=1e-7)


KINDS = {1: "eagle", 3: "eagle3"}
AUX = "eagle_aux_hidden_state_layer_ids"
SPECULATORS = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "speculators_config": {"algorithm": "eagle3"},
}
LINEAR = {"type": "linear", "factor": 4.0}
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "EAGLE": (1, {}),
    "EAGLE without bias": (1, {"bias": False, "rope_theta": 500_000.0}),
    "EAGLE for Qwen2": (1, {"qkv_bias": True, "rope_theta": 1e6, "rope_scaling": LINEAR}),
    "EAGLE with other embeddings": (1, {"own": True, "rope_scaling": None}),
    "EAGLE-3": (3, {}),
    "EAGLE-3 for all tokens": (3, {"draft_vocab_size": tiny.VOCABULARY, "rope_theta": 1e6}),
    "EAGLE-3 with bias": (3, {"bias": True, "head_dim": 16}),
    "EAGLE-3 of another width": (3, {"hidden_size": 24, "target_hidden_size": 32}),
    "Speculators": (3, {**SPECULATORS, "norm_before_residual": True, "norm_before_fc": True}),
    "Speculators, EAGLE 3.1": (3, {**SPECULATORS, "fc_norm": True, "norm_output": True}),
    "Speculators, Qwen3's layer": (3, {**SPECULATORS, "model_type": "qwen3", AUX: [6, 1, 3]}),
    "SpecForge": (3, {"fc_norm": True, "eagle_config": {AUX: [0, 2, 5]}}),
}


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("case", CASES)
def test_a_published_head_says_what_its_own_definition_says(
    case: str, family: str, tmp_path: Path
) -> None:
    version, changes = CASES[case]
    head, config = made(version, target(family), **changes)
    kind = "bin" if family == "llama" else "safetensors"
    check_equal(write(tmp_path / "head", head, config, kind), head, target(family))


def test_embeddings_may_be_missing_the_layer_named_otherwise_and_tokens_in_any_order(
    tmp_path: Path,
) -> None:
    """Where the checkpoint has no embeddings they are the target's; some trainers call the layer
    `layers.0`; and the target may score fewer ids."""
    model = target("llama")
    head, config = made(3, model)
    name = write(tmp_path / "head", head, config, leave="embed_tokens")
    file = tmp_path / "head" / "pytorch_model.bin"
    state = torch.load(file, weights_only=True)
    order = torch.randperm(len(DRAFTED))
    state["lm_head.weight"] = state["lm_head.weight"][order]
    state["d2t"] = torch.tensor(DRAFTED)[order] - torch.arange(len(order))
    torch.save({k.replace("midlayer.", "layers.0."): v for k, v in state.items()}, file)
    check_equal(name, head, model, vocabulary=25)
    head, config = made(1, model)
    check_equal(write(tmp_path / "first", head, config), head, model, vocabulary=25)


def test_what_cannot_be_drafted_has_no_chance_under_rejection_sampling(tmp_path: Path) -> None:
    """The probabilities are over the target's vocabulary, the softmax of the definition's."""
    model, sampling = target("llama"), Sampling(temperature=0.8, seed=1, acceptance="rejection")
    head, config = made(3, model)
    drafter = load_head(write(tmp_path / "head", head, config), CausalLM(model, "target"))
    text = tiny.prompt(15)
    evaluation = drafter.evaluate(text, TreeBuilder(text[-1]).build())
    sampler = Sampler(sampling, tiny.VOCABULARY)
    drawn = Resources(sampler, heads={"eagle3": drafter}).drawn_from(evaluation, 0)
    assert drawn is not None
    wanted = torch.from_numpy(expected(head, model, text, []) / 0.8).softmax(-1).numpy()
    got = [float(q) for q in drawn]
    np.testing.assert_allclose(got, wanted, atol=1e-9)
    assert {token for token, q in enumerate(got) if q} == set(DRAFTED)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_tree_of_a_published_head_gives_the_targets_text(
    version: int, temperature: float, tmp_path: Path
) -> None:
    """Greedy and matched, plain decoding is the oracle; a wide tree, so that a random head is right
    now and then."""
    model, text = target("qwen2"), tiny.prompt()
    head, config = made(version, model)
    wrapper = CausalLM(model, "target")
    drafter = load_head(write(tmp_path / "head", head, config), wrapper)
    sampling = Sampling(temperature=temperature, seed=3)
    sampler = Sampler(sampling, tiny.VOCABULARY)
    kind = methods.get("eagle3" if version == 3 else "eagle2")
    chosen = kind.Hyperparameters.parse({"tree_depth": 3, "tree_width": 6, "tree_size": 24})
    method = methods.create(kind, chosen, Resources(sampler, heads={KINDS[version]: drafter}))
    steps = list(decode(wrapper, method, text, sampler=sampler, max_new_tokens=40))
    assert tiny.emitted(steps) == tiny.plain(model, text, 40, sampling)
    assert any(step.path for step in steps) and any(not step.path for step in steps)


def test_the_native_pass_is_not_taken_for_a_layer_that_lacks_norms() -> None:
    """EAGLE's own layer has sizes that the native pass computes, but no norm before or after."""
    config = EagleConfig("target", (), 64, 64, 128, heads=2, key_value_heads=2)
    whole, bare = EagleHead(config, [0]), EagleHead(config, [0], EAGLE_LAYOUT)
    assert fits(whole.bfloat16().body) and not fits(bare.bfloat16().body)


def test_a_hub_id_is_resolved_like_a_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a cache of the Hub, as a download leaves it behind, without a network."""
    model = target("llama")
    head, config = made(1, model)
    store, commit = tmp_path / "models--someone--EAGLE-tiny", "0" * 40
    write(store / "snapshots" / commit, head, config)
    (store / "refs").mkdir()
    (store / "refs" / "main").write_text(commit, encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path), raising=False)
    check_equal("someone/EAGLE-tiny", head, model)
    with pytest.raises(WeightsUnavailable, match="someone/other holds no EAGLE head"):
        load_head("someone/other", CausalLM(model, "target"))


def test_the_command_line_takes_a_published_head(tmp_path: Path, ouroboros: Ask) -> None:
    path = folders.save(tmp_path / "target", num_hidden_layers=8)
    model = transformers.AutoModelForCausalLM.from_pretrained(path)
    head, config = made(1, model, vocab_size=len(folders.tokenizer("bytes")))
    named = ["--target", path, "--head", write(tmp_path / "head", head, config)]
    more = ["--raw", "--compare", "--dtype", "float32", "--max-new-tokens", "8"]
    answer = ouroboros("generate", *named, "--method", "eagle2", *more, "--prompt", "the cat")
    assert answer.returncode == 0, answer.stderr
    assert "identical to plain decoding, token by token" in answer.stderr


class Bad:
    """A pickle that writes a file when it is loaded, as any pickle can do."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.file,)


def test_of_a_pickle_only_tensors_are_made(tmp_path: Path) -> None:
    model = target("llama")
    head, config = made(1, model)
    name = write(tmp_path / "head", head, config)
    torch.save({"fc.weight": Bad(tmp_path / "ran")}, tmp_path / "head" / "pytorch_model.bin")
    with pytest.raises(WeightsUnavailable, match=r"pytorch_model\.bin cannot be read"):
        load_head(name, CausalLM(model, "target"))
    assert not (tmp_path / "ran").exists()


REFUSED: dict[str, tuple[int, dict[str, Any], str, type[Exception], str]] = {
    "width": (1, {"hidden_size": 24}, "-", VocabularyMismatch, "of width 24, but target has 32"),
    "vocabulary": (1, {"vocab_size": 40}, "-", VocabularyMismatch, "size 40, but target has 31"),
    "no size": (1, {"intermediate_size": None}, "-", InvalidInput, "intermediate_size, got None"),
    "inner": (3, {"intermediate_size": 44}, "-", InvalidInput, r"\[44, 32\]"),
    "part": (3, {}, "norm", InvalidInput, r"norm.weight \(missing instead of \[32\]\)"),
    "matrix": (3, {}, "lm_head", InvalidInput, "has no lm_head.weight"),
    "map": (3, {}, "d2t", InvalidInput, "must have 16 distances d2t"),
    "another model": (1, {}, "fc", InvalidInput, "not both fc.weight and"),
    "activation": (1, {"hidden_act": "gelu"}, "-", InvalidInput, "says hidden_act: gelu"),
    "rope": (1, {"rope_scaling": {"type": "yarn"}}, "-", InvalidInput, "rope_scaling: .*yarn"),
    "norms": (3, {"fc_norm": True, "norm_before_fc": True}, "-", InvalidInput, "norm_before_fc: T"),
    "unknown norm": (1, {"layernorms": True}, "-", InvalidInput, "says layernorms: True"),
    "two meanings": (3, {"norm_output": True}, "-", InvalidInput, "says norm_output: True"),
    "states": (3, {AUX: [1, 2, 8]}, "-", InvalidInput, "after 1, 2, 8 layers.*from 1 to 7"),
    "kind": (1, {"draft_vocab_size": 16}, "-", InvalidInput, "is an EAGLE-3 head's, but its"),
    "flag": (3, {"fc_norm": True}, "-", InvalidInput, r"fc_norm.0.weight \(missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    version, changes, leave, kind, message = REFUSED[case]
    head, config = made(version, target("llama"))
    name = write(tmp_path / "head", head, config | changes, leave=leave)
    with pytest.raises(kind, match=message):
        load_head(name, CausalLM(target("llama"), "target"))


def test_what_is_no_head_at_all_says_what_is_there_and_what_is_expected(tmp_path: Path) -> None:
    wrapper = CausalLM(tiny.target("llama"), "small")
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    found = r"Found: notes\.txt; a head is what `train eagle`"
    with pytest.raises(WeightsUnavailable, match=found):
        load_head(str(tmp_path), wrapper)
    with pytest.raises(InvalidInput, match="there is no model folder"):
        load_head(str(tmp_path / "nowhere"), wrapper)
    head, config = made(3, target("llama"))
    with pytest.raises(InvalidInput, match=r"must have 7 layers at least.*small has 2"):
        load_head(write(tmp_path / "head", head, config), wrapper)


def test_the_layers_that_a_configuration_names_are_counted_from_0_or_1(tmp_path: Path) -> None:
    head, config = made(3, target("llama"))
    for named in ({AUX: [2, 4, 5]}, {"eagle_config": {AUX: [1, 3, 4]}}):
        check_equal(write(tmp_path / "head", head, config | named), head, target("llama"))
