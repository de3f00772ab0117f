"""Models and tokenizers from a local folder, a GGUF file or a Hub id: only safetensors or GGUF, and
no code from a repository."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file

from ouroboros_core.errors import InvalidInput, UnsupportedModel, WeightsUnavailable
from ouroboros_core.loading.capacity import SPARE, free_memory
from ouroboros_core.models.state_candidates import is_block_drafter

Quantize = Literal["8bit", "4bit"]

DeviceMap = str | Mapping[str, str | int]
"""A device map of accelerate, such as `auto`."""


def _source(name: str) -> dict[str, Any]:
    """Return the arguments of from_pretrained for a folder, a GGUF file, a Hub id, or
    `repository:file.gguf`."""
    path = Path(name).expanduser()
    if path.suffix == ".gguf" and os.path.exists(path):
        return {
            "pretrained_model_name_or_path": str(path.parent),
            "gguf_file": path.name,
            "local_files_only": True,
        }
    if os.path.isdir(path):  # a name can be too long for a path
        return {"pretrained_model_name_or_path": str(path), "local_files_only": True}
    if name.startswith((".", "/", "~")):
        raise InvalidInput(f"there is no model folder or GGUF file {name}")
    repository, _, file = name.partition(":")
    return {"pretrained_model_name_or_path": repository, **({"gguf_file": file} if file else {})}


def _quantization(quantize: Quantize, dtype: torch.dtype, device: torch.device) -> Any:
    """Return the configuration for bitsandbytes; raises InvalidInput if it cannot be used."""
    if device.type != "cuda":
        raise InvalidInput(
            f"quantize {quantize} needs an NVIDIA GPU, the device is {device.type}: leave it out, "
            "or use a smaller model"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise InvalidInput(
            f"quantize {quantize} needs the package bitsandbytes: pip install bitsandbytes"
        )
    if quantize == "8bit":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_type="nf4"
    )


def load_model(
    name: str,
    dtype: torch.dtype,
    device: torch.device,
    device_map: DeviceMap | None,
    quantize: Quantize | None = None,
    *,
    may_spread: bool = False,
) -> PreTrainedModel:
    """Return the model on `device` or by `device_map`; with `may_spread` on several devices if it
    does not fit on one.

    Raises UnsupportedModel, WeightsUnavailable or InvalidInput.
    """
    source = _source(name)
    if quantize is not None:
        if "gguf_file" in source:
            raise InvalidInput(
                f"{name} is a GGUF file, which is quantized already: leave --quantize out, or name "
                "a folder"
            )
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
        kind = AutoModelForCausalLM if "gguf_file" in source else _auto_class(name)
        if may_spread and not device_map:
            device_map = spread(_source(name), kind, dtype, device)
            source |= {"device_map": device_map} if device_map else {}
        model: PreTrainedModel = kind.from_pretrained(
            **source, dtype=dtype, trust_remote_code=False
        )
    except UnsupportedModel:
        raise
    except Exception as error:  # a foreign file can fail in any way; its error is the reason
        if "not recogni" in str(error) or "Unrecognized" in str(error):
            reason = str(error).split(". ")[0].strip()  # hundreds of names or a pip command follow
            raise UnsupportedModel(
                f"{name} is not a causal language model that transformers knows: {reason}"
            ) from None
        raise WeightsUnavailable(f"{name} could not be loaded: {error}") from None
    return model if device_map else model.to(device)


def spread(
    source: dict[str, Any], kind: Any, dtype: torch.dtype, device: torch.device
) -> str | None:
    """Return the device map of a model that does not fit on a GPU, or None if it fits. The other
    GPUs take layers, then the processor.

    source  arguments of from_pretrained that locate the model
    kind    auto class that loads it
    """
    free = free_memory(device) if device.type == "cuda" else None
    if free is None:
        return None
    config = AutoConfig.from_pretrained(**source, trust_remote_code=False)
    with torch.device("meta"):
        model = kind.from_config(config, trust_remote_code=False)
    needed = model.num_parameters() * dtype.itemsize
    return "auto" if needed + SPARE > free else None


def _auto_class(name: str) -> Any:
    """Return the auto class of transformers for a causal language model, or for the text part of a
    model of pictures and text, or for a DFlash drafter. Raises UnsupportedModel for others."""
    config = AutoConfig.from_pretrained(**_source(name), trust_remote_code=False)
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM
    readers = transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    if type(config) in readers and not config.is_encoder_decoder:
        return AutoModelForImageTextToText
    if is_block_drafter(config):
        return AutoModel
    raise UnsupportedModel(
        f"{name} is a model of the type {config.model_type}, which is not a causal language model "
        "in transformers: name a decoder-only model, such as Llama, Qwen3 or Gemma"
    )


def gguf_file(name: str) -> Path | None:
    """Return the GGUF file of a loaded model, or None if it comes from other files."""
    source = _source(name)
    if "gguf_file" not in source:
        return None
    folder, file = source["pretrained_model_name_or_path"], source["gguf_file"]
    if source.get("local_files_only"):
        return Path(folder, file)
    path = cached_file(folder, file)
    return None if path is None else Path(path)


def fetched(name: str, file: str) -> Path:
    """Return a file of a folder, or of a Hub repository after its download into the cache.

    Raises InvalidInput if the name is no folder or repository, and WeightsUnavailable if the file
    is missing.
    """
    source = _source(name)
    if "gguf_file" in source:
        raise InvalidInput(f"{name} is a GGUF file: name a folder or a Hub id")
    try:
        path = cached_file(source["pretrained_model_name_or_path"], file)
        if path is None:
            raise FileNotFoundError("there is no such file")
    except Exception as error:  # as above
        raise WeightsUnavailable(f"{file} of {name} could not be loaded: {error}") from None
    return Path(path)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            **_source(name), trust_remote_code=False
        )
    except Exception as error:  # as above
        raise WeightsUnavailable(f"the tokenizer of {name} could not be loaded: {error}") from None
    return tokenizer


def short_name(name: str) -> str:
    path = Path(name)
    return path.name if os.path.exists(path) else name


def stop_tokens(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> frozenset[int]:
    """Return the ids at which `generate` stops: those of the generation config, else of the model,
    else of the tokenizer."""
    configs = (model.generation_config, model.config, tokenizer)
    for ids in (getattr(c, "eos_token_id", None) for c in configs if c is not None):
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()
