"""Checks whether a text fits: its characters before tokenization, its memory before computation."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerBase

from ouroboros_core.errors import InvalidInput, NotEnoughMemory
from ouroboros_core.models.kv_cache import attention_shape, layer_configs

if TYPE_CHECKING:
    from ouroboros_core.models.causal_lm import CausalLM

SPARE = 128 * 2**20
"""Bytes reserved for other data than keys and values, such as activations and the trace."""


def check_characters(
    text: str, tokenizer: PreTrainedTokenizerBase, max_length: int, name: str
) -> None:
    """Raise InvalidInput for a text that is too long in any tokenization.

    text  prompt and history, to which a chat template adds
    """
    if len(text) <= max_length:
        return
    longest = max(map(len, tokenizer.get_vocab()))
    if len(text) > max_length * longest and _counts_bytes(tokenizer):
        raise InvalidInput(
            f"the prompt has {len(text):,} characters, at least {-(-len(text) // longest):,} "
            f"tokens, but {name} has room for {max_length:,}: shorten the prompt"
        )


def _counts_bytes(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether no token stands for more characters than its vocabulary entry has.

    This holds if an entry has one character for each byte of the text and no byte is dropped. Other
    tokenizers compose or drop characters, or read a word of any length as one unknown token.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.normalizer is not None or backend.pre_tokenizer is None:
        return False
    outer = json.loads(backend.pre_tokenizer.__getstate__())
    steps = outer["pretokenizers"] if outer["type"] == "Sequence" else [outer]
    return (
        steps[-1]["type"] == "ByteLevel"
        and all(step["type"] in ("ByteLevel", "Digits", "Split") for step in steps)
        and all(step.get("behavior") != "Removed" for step in steps)
        and tokenizer.get_vocab().keys() >= set(ByteLevel.alphabet())
        and not any(
            added.lstrip or added.rstrip for added in tokenizer.added_tokens_decoder.values()
        )
    )


def check_text(text: str) -> None:
    """Raise InvalidInput for half a surrogate pair, which is no character and has no tokens."""
    half = next((n for n, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
    if half is not None:
        raise InvalidInput(
            f"character {half + 1} is U+{ord(text[half]):04X}, half of a surrogate pair and no "
            "text: take it out"
        )


def cache_bytes(model: CausalLM, tokens: int) -> int:
    """Return the bytes of keys and values of `tokens` tokens."""
    layers = layer_configs(model.model.config.get_text_config(decoder=True))
    shapes = [attention_shape(layer) for layer in layers]
    row = sum(2 * shape.key_value_heads * shape.width for shape in shapes)
    return tokens * row * model.dtype.itemsize


def check_memory(models: Sequence[CausalLM], tokens: int, free: int | None = None) -> None:
    """Raise NotEnoughMemory unless keys and values of `tokens` tokens of each model fit into the
    free memory of its device and the model's present cache.

    free  free bytes, by default those of the device
    """
    for device in {model.device for model in models}:
        available = free_memory(device) if free is None else free
        on_device = [model for model in models if model.device == device]
        needed = sum(cache_bytes(model, tokens) for model in on_device)
        cached = sum(model.cache.bytes for model in on_device)
        if available is not None and needed + SPARE > available + cached:
            raise NotEnoughMemory(
                f"{tokens:,} tokens of prompt and answer need {_mib(needed + SPARE)} of memory, "
                f"{_mib(available)} are free: shorten the prompt, ask for fewer tokens, or choose "
                "smaller models"
            )


def give_back() -> None:
    """Return free memory to the system, of which glibc would keep fragments (takes about 1 ms)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        trim(0)


def free_memory(device: torch.device, limits: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the available bytes of a device within the container's limit, or None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    free = int(psutil.virtual_memory().available)
    for limit, used, caches in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            files = (limits / limit, limits / used, (limits / used).with_name("memory.stat"))
            allowed, in_use, details = (file.read_text(encoding="utf-8") for file in files)
            facts = dict(line.split() for line in details.splitlines())
            free = min(free, int(allowed) - int(in_use) + int(facts.get(caches, 0)))
        except (OSError, ValueError):  # no such file, or 'max': no limit
            continue
    return max(0, free)


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
