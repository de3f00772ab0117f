"""Tiny random models of many architectures, with a draft that is a noisy copy, and the oracles they
are compared with."""

import copy
import random
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedModel
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator
from transformers.modeling_layers import MtpModel

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.adaptive.cost_model import TYPICAL, Costs
from ouroboros_core.decoding.loop import decode
from ouroboros_core.decoding.recorder import Recorder
from ouroboros_core.loading.heads import drafter_class
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.memory import Memory
from ouroboros_core.methods.parts.base import Method, Resources
from ouroboros_core.methods.parts.needs import ASSISTED, HEAD_KINDS, Need
from ouroboros_core.models import candidates, state_candidates
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.recipes import EAGLE, EAGLE3, HEADS, RECIPES
from ouroboros_core.models.self_draft import SelfDraft
from ouroboros_core.models.skips import Skips
from ouroboros_core.sampling import Sampler, Sampling, process
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

VOCABULARY = 31
LETTERS = "abcdefghijklmnopqrstuvwxyz01234"

_SIZES: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48}
_SIZES |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
_SIZES |= {"max_position_embeddings": 256, "tie_word_embeddings": False}
_SIZES |= {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
_LAYERS = ["sliding_attention", "full_attention"]
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
CONFIGS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("llama", "qwen2", "olmo2", "granite", "cohere", "stablelm")},
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 9, "head_dim": 8},
    "gemma": {"head_dim": 8},
    "gemma2": {"sliding_window": 9, "head_dim": 8},
    "gemma3_text": {"sliding_window": 9, "head_dim": 8, "layer_types": _LAYERS},
    "phi3": {"sliding_window": None},
    "gpt2": _GPT2,
    "gpt_neox": {"rotary_pct": 0.5},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "falcon": {"alibi": False, "new_decoder_architecture": True, "num_kv_heads": 2},
    "starcoder2": {"sliding_window": 9},
}
EIGHT = ("llama", "qwen3", "mistral", "gemma3_text", "phi3", "gpt2", "gpt_neox", "opt")
WHOLE = {"gpt2", "gpt_neox", "opt"}
"""Whose passes transformers cannot end early."""
EAGER_ONLY = ("gemma2",)
SEEDS = (1, 2, 3)


READING_STATES = {"hf_mtp", "hf_dflash"}


def possible(architecture: str, method: str) -> bool:
    """Whether a method runs with an architecture at all."""
    if method in READING_STATES:
        return architecture in ("llama", "qwen3")
    return method != "hf_early_exit" or architecture not in WHOLE


@cache
def target(
    architecture: str, attention: str = "eager", dtype: torch.dtype = torch.float64, seed: int = 0
) -> PreTrainedModel:
    """A random model whose next-token distributions are peaked, so that guesses can be right, and
    depend on the context."""
    settings = {**_SIZES, **CONFIGS.get(architecture, {}), "attn_implementation": attention}
    config = transformers.AutoConfig.for_model(architecture, **settings)
    torch.manual_seed(seed)
    model: PreTrainedModel = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                embeds = any(part in name for part in ("embed", "wte", "wpe"))
                weight.normal_(0, 0.25 if embeds else 0.15)
    _peak(model)
    model.generation_config.eos_token_id = None
    return model


def _peak(model: PreTrainedModel) -> None:
    """Scale the output layer so that the logits of a random text spread by about three."""
    ids = torch.arange(VOCABULARY)[None]  # below those that stand for pictures
    with torch.no_grad():
        spread = model(ids).logits.std()
        model.get_output_embeddings().weight.mul_(3.0 / spread)
        if model.get_output_embeddings().bias is not None:
            model.get_output_embeddings().bias.zero_()


_SEEING: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
_SEEING |= {"num_attention_heads": 2, "image_size": 16, "patch_size": 8}
_VIDEO: dict[str, Any] = {"video_token_id": 36, "vision_start_token_id": 37}
_VIDEO |= {"vision_end_token_id": 38}
_TURNED: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
_VL: dict[str, Any] = {"depth": 1, "num_heads": 2, "out_hidden_size": 32, "spatial_merge_size": 1}
READING = 60
READERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "llava": ({"model_type": "llama"}, {"model_type": "clip_vision_model"}, {}),
    "mistral3": (
        {"model_type": "mistral", "head_dim": 8, "sliding_window": None},
        {"model_type": "pixtral", "head_dim": 16},
        {"image_token_index": 35},
    ),
    "qwen3_vl": (
        {"head_dim": 8, "rope_parameters": {**_TURNED, "mrope_interleaved": True}},
        {**_VL, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
        _VIDEO,
    ),
    "qwen2_5_vl": ({"rope_parameters": _TURNED}, _VL, _VIDEO),
    "internvl": (
        {"model_type": "qwen2"},
        {"model_type": "internvl_vision", "image_size": [16, 16], "patch_size": [8, 8]},
        {},
    ),
    "smolvlm": ({"model_type": "llama"}, {}, {"scale_factor": 2}),
    "gemma3": (CONFIGS["gemma3_text"], {}, {"boi_token_index": 36, "eoi_token_index": 37}),
    "gemma4": (
        {"vocab_size_per_layer_input": READING, "hidden_size_per_layer_input": 8}
        | {**CONFIGS["gemma3_text"], "global_head_dim": 16},
        {},
        {"vision_config": None, "audio_config": None},
    ),
}
"""Models that read pictures and text, by what differs of their text part and their eyes, and the
rest of their configuration. Ids beyond the usual ones stand for pictures."""


@cache
def reader(architecture: str) -> PreTrainedModel:
    """A random model of pictures and text, in single precision."""
    text, eyes, more = READERS[architecture]
    sizes = {**_SIZES, "vocab_size": READING, **text}
    parts = {"text_config": sizes, "vision_config": {**_SEEING, **eyes}, "image_token_id": 35}
    config = transformers.AutoConfig.for_model(architecture, **{**parts, **more})
    torch.manual_seed(0)
    model: PreTrainedModel = transformers.AutoModelForImageTextToText.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.2)
    _peak(model)
    model.generation_config.eos_token_id = None
    return model


@cache
def draft(
    architecture: str,
    attention: str = "eager",
    dtype: torch.dtype = torch.float64,
    noise: float = 0.12,
) -> PreTrainedModel:
    """The target with noise on its output layer: right often, not always."""
    model = copy.deepcopy(target(architecture, attention, dtype))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        weight = model.get_output_embeddings().weight
        weight += noise * weight.std() * torch.randn(weight.shape, generator=generator, dtype=dtype)
    return model


def pair(
    architecture: str, attention: str = "eager", dtype: torch.dtype = torch.float64
) -> tuple[CausalLM, CausalLM]:
    """Fresh wrappers around the cached models."""
    one, other = (make(architecture, attention, dtype) for make in (target, draft))
    return CausalLM(one, architecture), CausalLM(other, f"{architecture}-draft")


def prompt(length: int = 12, seed: int = 5) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, (length,), generator=generator).tolist()


def random_tree(rng: random.Random, root: int, size: int, window: int = 0) -> TokenTree:
    """A tree of `size` nodes, any of which may go on from any other, and a lookahead window."""
    builder = TreeBuilder(root)
    while len(builder) < size:
        above = rng.randrange(len(builder))
        builder.add(rng.randrange(VOCABULARY), above, Provenance(Source.DRAFT))
    for _ in range(window):
        token, above = rng.randrange(VOCABULARY), rng.randrange(len(builder))
        builder.add_window(token, above, silent=rng.random() < 0.5)
    return builder.build()


@cache
def written(architecture: str, kind: str) -> Any:
    """Conversations that a copy of the target in single precision wrote, and that copy; for an
    EAGLE head of the model that has other weights, because it was made in single precision."""
    from ouroboros_core.training.corpus import Conversations

    single = kind in (EAGLE, EAGLE3)
    made = target(architecture, "eager", torch.float32) if single else target(architecture)
    model = copy.deepcopy(made).float()
    count, length = 160, 48
    starts = torch.randint(1, VOCABULARY, (count, 8), generator=torch.Generator().manual_seed(9))
    options = {"max_new_tokens": length - 8, **_GREEDY, "attention_mask": torch.ones_like(starts)}
    texts = model.generate(starts, **options)
    offsets = np.arange(0, count * length + 1, length)
    return Conversations(texts.flatten().numpy(), offsets, np.full(count, 4)), model


_GREEDY = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


@cache
def head(architecture: str, kind: str = EAGLE) -> Any:
    """A head for the target, trained for a few seconds on what it writes."""
    from accelerate import Accelerator

    from ouroboros_core.training.loop import Trainer
    from ouroboros_core.training.session import make_student

    data, model = written(architecture, kind)
    options: dict[str, Any] = {"outputs": 0, "tokens": TRAINING[kind], "batch_tokens": 768}
    options |= {"learning_rate": 4e-3, "held_out": 8}
    options |= {"depths": (1,)} if "depths" in RECIPES[kind].settings() else {}
    recipe, accelerator = RECIPES[kind](target=architecture, **options), Accelerator(cpu=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        teacher = folder / "teacher"
        student: Any = make_student(model, [data], recipe, teacher, accelerator, stored=False)
        student.prepare()
        trainer = Trainer(student, data, recipe, folder, accelerator)
        trainer.train()
        trainer.finish()
    return student.head.eval()


@cache
def head_in(dtype: torch.dtype, architecture: str, kind: str = EAGLE) -> Any:
    """The same in a dtype; not to be changed, because all drafters read it."""
    return copy.deepcopy(head(architecture, kind)).to(dtype)


TRAINING = dict.fromkeys(HEADS, 24_000) | {"medusa": 20_000, "dspark": 12_000}
"""Answer tokens that a head is trained on, by kind."""


@cache
def corpus(architecture: str) -> Corpus:
    """What the target writes behind some prompts of the tests' kind, and noise."""
    model = target(architecture)
    written = [[*prompt(seed=seed), *plain(model, prompt(seed=seed), 40)] for seed in range(5, 9)]
    return Corpus.build([*written, *(prompt(40, seed=seed) for seed in range(50, 60))])


def drafter(model: CausalLM, kind: str = EAGLE) -> Any:
    """The trained head of a target that is named after its architecture, in the target's dtype."""
    made: Any = drafter_class(kind)
    return made(head_in(model.dtype, model.name, kind), model)


def self_draft(model: CausalLM) -> SelfDraft:
    """The target without the MLP of its last layer: right often, not always."""
    return SelfDraft(model, Skips(mlp=frozenset({model.layers - 1})))


@cache
def letters(alphabet: str = LETTERS) -> Any:
    """A tokenizer with one letter for each token id."""
    model = Tokenizer(WordLevel({letter: n for n, letter in enumerate(alphabet)}, unk_token="a"))
    model.pre_tokenizer, model.decoder = Split("", "isolated"), Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model)


def copying() -> Any:
    """A candidate generator of transformers that keeps nothing of a text."""
    return PromptLookupCandidateGenerator(num_output_tokens=4, max_length=10_000)


def candidate_generators(models: tuple[CausalLM, CausalLM]) -> dict[str, Any]:
    """transformers' own candidate generators for one run."""
    target, draft = models
    found: dict[str, Any] = Pair(target, draft, letters(), frozenset()).candidate_generators
    if possible(target.name, "hf_mtp"):
        layers = mtp_layers(target.model)
        found["mtp"] = state_candidates.mtp(target, lambda: layers)
        found["dflash"] = state_candidates.dflash(
            target, block_drafter(target.dtype, spread=0.2), "block"
        )
    return {**found, "candidates": candidates.anybodys(copying(), target.device)}


@cache
def with_mtp(model: PreTrainedModel, count: int = 1) -> PreTrainedModel:
    """A copy of a target whose configuration names MTP layers."""
    model = copy.deepcopy(model)
    model.config.num_mtp_layers = count
    if getattr(model.config, "layer_types", None):
        model.config.mtp_layer_types = ["full_attention"] * count
    return model


@cache
def mtp_layers(model: PreTrainedModel, count: int = 1) -> Any:
    """Random MTP layers of a target that mostly repeat its last guess."""
    torch.manual_seed(4)
    whole = with_mtp(model, count)
    layers = MtpModel(whole, count).to(model.dtype).eval()
    width = model.config.hidden_size
    with torch.no_grad():
        for layer in layers.layers:
            layer.eh_proj.weight.copy_(torch.eye(width).repeat(1, 2))
            for weight in layer.mtp_block.parameters():
                weight.normal_(0, 0.1) if weight.dim() > 1 else weight.fill_(1)
    return layers


@cache
def block_drafter(dtype: torch.dtype, block: int = 2, spread: float = 0.02) -> Any:
    """A random DFlash drafter for targets of 32 features. The larger the spread of its weights, the
    more its guesses depend on the text."""
    sizes = {**_SIZES, "head_dim": 8, "sliding_window": 300, "block_size": block}
    sizes |= {"mask_token_id": 30, "target_layer_ids": [0, 1], "attn_implementation": "sdpa"}
    del sizes["vocab_size"]
    torch.manual_seed(6)
    config = transformers.AutoConfig.for_model("muse_glimmer_assistant", **sizes)
    model = transformers.AutoModel.from_config(config).to(dtype).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, spread)
    return model


def drafters(model: CausalLM, kinds: Iterable[str]) -> dict[str, Any]:
    """Heads of several kinds of such a target."""
    return {kind: drafter(model, kind=kind) for kind in kinds}


def writer(models: tuple[CausalLM, CausalLM], method: str) -> CausalLM:
    """The model whose text a method writes, and whose plain decoding is its oracle."""
    return models[0] if methods.get(method).writer is Source.TARGET else models[1]


@torch.inference_mode()
def plain(
    model: PreTrainedModel,
    text: Sequence[int],
    count: int,
    sampling: Sampling | None = None,
    stop: frozenset[int] = frozenset(),
) -> list[int]:
    """The oracle: one token at a time, the whole text anew each time, no cache, no wrapper. What it
    has written of a text before is not computed again."""
    sampling = sampling or Sampling()
    known = _written.setdefault(model, {}).setdefault((tuple(text), sampling), [])
    found: list[int] = []
    while len(found) < count and not (found and found[-1] in stop):
        if len(found) == len(known):
            known.append(_next(model, text, known, sampling))
        found.append(known[len(found)])
    return found


_Texts = dict[tuple[tuple[int, ...], Sampling], list[int]]
_written: WeakKeyDictionary[PreTrainedModel, _Texts] = WeakKeyDictionary()
"""Of each model, what plain decoding writes behind a text."""


def _next(
    model: PreTrainedModel, text: Sequence[int], written: Sequence[int], sampling: Sampling
) -> int:
    """The token that plain decoding writes behind a prompt and what it has written already."""
    ids = [*text, *written]
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    if sampling.temperature == 0:
        return int(logits.argmax())
    sampler = Sampler(sampling, model.config.vocab_size)
    sampler.begin(text)
    return int((process(logits.numpy(), sampling) + sampler.noise(len(ids))).argmax())


@torch.inference_mode()
def generated(model: PreTrainedModel, text: Sequence[int], count: int) -> list[int]:
    """What transformers' own greedy generation writes."""
    known = _generated.setdefault(model, {})
    if (tuple(text), count) not in known:
        ids = torch.tensor([list(text)])
        options = {**_GREEDY, "attention_mask": torch.ones_like(ids), "max_new_tokens": count}
        known[tuple(text), count] = model.generate(ids, **options)[0, len(text) :].tolist()
    return list(known[tuple(text), count])


_Found = dict[tuple[tuple[int, ...], int], list[int]]
_generated: WeakKeyDictionary[PreTrainedModel, _Found] = WeakKeyDictionary()
"""Of each model, what `generated` has found."""


def run(
    models: tuple[CausalLM, CausalLM],
    method: str,
    text: Sequence[int],
    count: int,
    sampling: Sampling | None = None,
    stop: frozenset[int] = frozenset(),
    memory: Memory | None = None,
    retrieve: bool = True,
    automatic: bool = False,
    costs: Costs = TYPICAL,
    record: bool = False,
    **settings: Any,
) -> list[Step]:
    """All steps of one run; with `retrieve`, there is a corpus to look into. Settings that may be
    'auto' are so if `automatic`."""
    kind, target = methods.get(method), models[0]
    runs = memory.runs if memory is not None else 0
    sampler = Sampler(sampling or Sampling(), target.vocabulary, run=runs)
    chosen = kind.Hyperparameters(**_settings(kind, automatic, settings))
    needed = methods.needed(kind, chosen)
    given: dict[str, Any] = {
        "heads": drafters(target, (HEAD_KINDS[need] for need in needed if need in HEAD_KINDS)),
        "corpus": corpus(target.name) if retrieve and target.name in EIGHT else None,
        "self_draft": self_draft(target) if Need.SELF_DRAFT in kind.needs else None,
    }
    if needed & ASSISTED.keys():
        given["candidate_generators"] = candidate_generators(models)
    resources = Resources(sampler, models[1], stop, memory, sizing=costs.sizing, **given)
    instance = controlled(methods.create(kind, chosen, resources), costs)
    limits: dict[str, Any] = {"max_new_tokens": count, "stop_tokens": stop}
    limits["recorder"] = Recorder(sampler) if record else None
    return list(decode(writer(models, method), instance, text, sampler=sampler, **limits))


def _settings(kind: type[Method], automatic: bool, settings: dict[str, Any]) -> dict[str, Any]:
    return settings if automatic else kind.Hyperparameters.fixed(**settings)


def new_memory(method: str, automatic: bool = False, **settings: Any) -> Memory:
    """An empty memory for the settings that `run` takes."""
    kind = methods.get(method)
    memory = kind.new_memory(kind.Hyperparameters(**_settings(kind, automatic, settings)))
    assert memory is not None
    return memory


def emitted(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]
