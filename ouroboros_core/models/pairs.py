"""A target model, a draft model with the same vocabulary, and their tokenizer.

Sources: the embedded pair, a local folder or GGUF file, a Hub id. Weights are safetensors or GGUF only, and no code out of a
model repository is ever run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import ouroboros_core
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput, UnsupportedModel, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.models import embedded
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.check import check_tree_support
from ouroboros_core.models.machine import DType, choose_device, choose_dtype, device_name, processor

Quantize = Literal["8bit", "4bit"]
SHARED = "shared with the target"
FITTING = (
    "SmolLM2-360M-Instruct with SmolLM2-135M-Instruct, Qwen2.5-7B-Instruct with Qwen2.5-0.5B-Instruct, Llama-3.1-8B with 3.2-1B"
)


@dataclass(frozen=True)
class Pair:
    """Loaded, checked and ready. The draft may be missing; then only methods that need none can run."""

    target: CausalLM
    draft: CausalLM | None
    tokenizer: PreTrainedTokenizerBase
    stop_tokens: frozenset[int]
    quantization: Quantize | None = None

    def encode(self, prompt: str, *, chat: bool, history: Sequence[str] = ()) -> list[int]:
        """Token ids of a prompt, with the tokenizer's chat template around it or raw.

        history: earlier turns, user and assistant alternately; needs the chat template.
        """
        if history and not chat:
            raise InvalidInput("earlier turns need the chat template: leave them out, or do not send the prompt raw")
        if chat:
            if not self.tokenizer.chat_template:
                raise InvalidInput(f"{self.target.name} has no chat template: send the prompt raw")
            roles = ("user", "assistant")
            turns = [{"role": roles[n % 2], "content": text} for n, text in enumerate((*history, prompt))]
            try:
                prompt = str(self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))
            except Exception as error:  # the template is a program of the model's author
                raise InvalidInput(f"the chat template of {self.target.name} fails: {error}. Send the prompt raw") from None
        return list(self.tokenizer(prompt, add_special_tokens=not chat).input_ids)

    @cached_property
    def fingerprint(self) -> str:
        """Of the tokenizer: equal exactly where token ids mean the same."""
        return fingerprint(self.tokenizer)

    @cached_property
    def environment(self) -> Environment:
        return Environment(
            device=device_name(self.target.device),
            dtype=str(self.target.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            processor=processor(),
            python=platform.python_version(),
            torch=torch.__version__,
            transformers=transformers.__version__,
            ouroboros=ouroboros_core.__version__,
            quantization=self.quantization,
        )


def fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Sixteen hex digits of a hash over the vocabulary."""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()), ensure_ascii=False)
    return hashlib.sha256(vocabulary.encode()).hexdigest()[:16]


def load_pair(
    target: str | None = None,
    draft: str | None = None,
    *,
    device: str = "auto",
    dtype: DType = "auto",
    device_map: str | None = None,
    quantize: Quantize | None = None,
) -> Pair:
    """Load and check a pair.

    target, draft  folder, GGUF file, Hub id, or `repository:file.gguf`; None is the embedded model. Another target than the
                   embedded one has no draft unless one is named; 'none' means no draft
    device         auto (CUDA, else MPS, else CPU), cpu, cuda, cuda:1, mps
    device_map     handed to accelerate ('auto' spreads a large target over devices); overrides device for the target
    quantize       the target's weights in 8 or 4 bits, by bitsandbytes; needs an NVIDIA GPU

    Raises UnsupportedModel, VocabularyMismatch, WeightsUnavailable or InvalidInput.
    """
    where = choose_device(device)
    kind = choose_dtype(dtype, where)
    folder = str(embedded.ensure_target()) if target is None else target
    name = embedded.FOLDER if target is None else _short_name(folder)
    model = _load_model(folder, kind, where, device_map, quantize)
    tokenizer = _load_tokenizer(folder)
    big = CausalLM(model, name)
    check_tree_support(big)
    if draft is None and target is None and embedded.draft_folder().exists():
        draft = str(embedded.draft_folder())
    small = None if draft in (None, "none") else _load_draft(str(draft), big, tokenizer, kind, where)
    return Pair(big, small, tokenizer, _stop_tokens(model, tokenizer), quantize)


def make_pair(target: PreTrainedModel, draft: PreTrainedModel | None, tokenizer: PreTrainedTokenizerBase) -> Pair:
    """A pair of models already in memory, checked like loaded ones."""
    big = CausalLM(target, _short_name(target.name_or_path) or type(target).__name__)
    check_tree_support(big)
    small = None
    if draft is not None:
        check_vocabulary(_vocabulary_size(draft), big, "the draft model")
        small = _join(draft, _short_name(draft.name_or_path) or "draft", big)
    return Pair(big, small, tokenizer, _stop_tokens(target, tokenizer))


def check_vocabulary(
    size: int, target: CausalLM, name: str, tokenizers: tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase] | None = None
) -> None:
    """Raise VocabularyMismatch unless the draft's token ids mean what the target's do.

    Output layers may be padded to different sizes (as in Qwen2.5); the words may not differ. tokenizers: draft's and target's.
    """
    reason = None
    if tokenizers is not None:
        mine, theirs = (t.get_vocab() for t in tokenizers)
        if mine != theirs:
            other = next((w for w, i in mine.items() if theirs.get(w) != i), next(iter(theirs.keys() - mine.keys()), ""))
            reason = f"has {len(mine)} tokens, target {target.name} has {len(theirs)}, and they differ at {other!r}"
    if reason is None and abs(size - target.vocabulary) > 0.01 * target.vocabulary:
        reason = f"has {size} tokens, target {target.name} has {target.vocabulary}"
    if reason:
        raise VocabularyMismatch(
            f"Draft model {name} {reason}: speculative decoding needs one shared vocabulary. Pairs that fit: {FITTING}."
        )


def _load_draft(
    name: str, target: CausalLM, tokenizer: PreTrainedTokenizerBase, dtype: torch.dtype, device: torch.device
) -> CausalLM:
    index = Path(name) / "model.safetensors.index.json"
    if index.exists() and json.loads(index.read_text()).get("metadata", {}).get("embeddings") == SHARED:
        model = assemble_draft(Path(name), target.model, dtype)
    else:
        model = _load_model(name, dtype, device, None)
        check_vocabulary(_vocabulary_size(model), target, name)
        with contextlib.suppress(WeightsUnavailable):  # a draft without tokenizer files is judged by its size alone
            check_vocabulary(_vocabulary_size(model), target, name, (_load_tokenizer(name), tokenizer))
    return _join(model, _short_name(name), target)


def _join(model: PreTrainedModel, name: str, target: CausalLM) -> CausalLM:
    """The checked wrapper of a draft; where output layers are padded differently, both score the smaller vocabulary."""
    small = CausalLM(model, name, vocabulary=target.vocabulary)
    target.vocabulary = small.vocabulary
    check_tree_support(small)
    return small


def _vocabulary_size(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config(decoder=True).vocab_size)


def assemble_draft(folder: Path, target: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A draft that was saved without embeddings, put together with the target's; the matrix is shared, not copied."""
    from safetensors.torch import load_file

    config = transformers.AutoConfig.from_pretrained(folder)
    for key in ("hidden_size", "vocab_size"):
        if getattr(config, key) != getattr(target.config, key):
            raise VocabularyMismatch(
                f"Draft model {folder.name} was made for a target with {key} {getattr(config, key)}, this one has "
                f"{getattr(target.config, key)}: its embeddings are the target's. Use the target named in its card."
            )
    config.dtype = dtype
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    embeddings = target.get_input_embeddings()
    state: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        state |= {k: v.to(device=embeddings.weight.device, dtype=dtype) for k, v in load_file(file).items()}
    model.load_state_dict(state, strict=False, assign=True)
    model.set_input_embeddings(embeddings)
    model.set_output_embeddings(target.get_output_embeddings())
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config).to(embeddings.weight.device)
    left = [name for name, p in model.named_parameters() if p.is_meta]
    if left:
        raise WeightsUnavailable(f"the draft in {folder.name} is incomplete: {left[0]} is missing. Fetch the project again.")
    return model.eval()


def _source(name: str) -> dict[str, Any]:
    """Arguments of from_pretrained for a folder, a GGUF file, a Hub id, or `repository:file.gguf`."""
    path = Path(name).expanduser()
    if path.suffix == ".gguf" and path.exists():
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, "local_files_only": True}
    if path.is_dir():
        return {"pretrained_model_name_or_path": str(path), "local_files_only": True}
    if name.startswith((".", "/", "~")):
        raise InvalidInput(f"there is no model folder or GGUF file {name}")
    repository, _, file = name.partition(":")
    return {"pretrained_model_name_or_path": repository, **({"gguf_file": file} if file else {})}


def _quantization(quantize: Quantize, dtype: torch.dtype, device: torch.device) -> Any:
    """The configuration for bitsandbytes; raises InvalidInput where it cannot work."""
    if device.type != "cuda":
        raise InvalidInput(
            f"quantize {quantize} needs an NVIDIA GPU, the device is {device.type}: leave it out, or use a smaller model"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise InvalidInput(f"quantize {quantize} needs the package bitsandbytes: pip install bitsandbytes")
    if quantize == "8bit":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_type="nf4")


def _load_model(
    name: str, dtype: torch.dtype, device: torch.device, device_map: str | None, quantize: Quantize | None = None
) -> PreTrainedModel:
    source = _source(name)
    if quantize is not None:
        if "gguf_file" in source:
            raise InvalidInput(f"{name} is a GGUF file, which is quantized already: leave --quantize out, or name a folder")
        source["quantization_config"] = _quantization(quantize, dtype, device)
        device_map = device_map or str(device)
    if "gguf_file" in source:
        source["quantization_config"] = transformers.GgufConfig(dequantize=True)
    else:
        source["use_safetensors"] = True
    if device_map:
        source["device_map"] = device_map
    transformers.utils.logging.disable_progress_bar()
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(**source, dtype=dtype, trust_remote_code=False)
    except Exception as error:  # a foreign file can fail in any way; what it says is the reason
        if "not recogni" in str(error) or "Unrecognized" in str(error):
            raise UnsupportedModel(f"{name} is not a causal language model that transformers knows: {error}") from None
        raise WeightsUnavailable(f"{name} could not be loaded: {error}") from None
    return model if device_map else model.to(device)


def _load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(**_source(name), trust_remote_code=False)
    except Exception as error:  # as above
        raise WeightsUnavailable(f"the tokenizer of {name} could not be loaded: {error}") from None
    return tokenizer


def _stop_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> frozenset[int]:
    """The ids at which `generate` would stop: the generation config's, else the model's, else the tokenizer's."""
    configs = (model.generation_config, model.config, tokenizer)
    for found in (getattr(c, "eos_token_id", None) for c in configs if c is not None):
        if found is not None:
            return frozenset([found] if isinstance(found, int) else found)
    return frozenset()


def _short_name(name: str) -> str:
    path = Path(name)
    return path.name if path.exists() else name
