"""Tiny models with a real tokenizer: as a folder that can be loaded, and as a pair."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from ouroboros_core.loading.pairs import Pair, make_pair
from tests import tiny

SAMPLES = [
    "Grüße, 你好, naïve café 🙂🙃 ",
    "def f(x):\n    return x ** 2  # ∑\n",
    "the cat sat on the mat. ",
] * 20


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Two families: byte-level (GPT-2, Llama 3, Qwen), where a token may be half a character, and
    Metaspace (Llama 2, Gemma)."""
    raw = Tokenizer(models.BPE(byte_fallback=kind == "metaspace", unk_token=None))
    if kind == "bytes":
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        raw.pre_tokenizer = pre_tokenizers.Metaspace()
        spaces, ends = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
        raw.decoder = decoders.Sequence([spaces, decoders.ByteFallback(), decoders.Fuse(), ends])
        alphabet = []
    special = [f"<0x{b:02X}>" for b in range(256)] if kind == "metaspace" else ["<|end|>"]
    learned: dict[str, Any] = {"initial_alphabet": alphabet, "special_tokens": special}
    raw.train_from_iterator(SAMPLES, trainers.BpeTrainer(vocab_size=600, **learned))
    return PreTrainedTokenizerFast(tokenizer_object=raw)


def save(
    folder: Path,
    kind: str = "bytes",
    seed: int = 0,
    family: str = "llama",
    alphabet: str = "",
    **changes: object,
) -> str:
    """A tiny random model with a real tokenizer, as a folder; with an alphabet each of its letters
    is a token, and there are no others."""
    words: PreTrainedTokenizerFast = tiny.letters(alphabet) if alphabet else tokenizer(kind)
    settings = {**tiny._SIZES, "vocab_size": len(words), "eos_token_id": [3, 4], **changes}
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **settings)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def chatting_pair(folder: Path) -> tuple[str, ...]:
    """Flags for tiny models with a chat template, whose texts never end by themselves: a page that
    answers soon, where it does not matter what."""
    flags: list[str] = []
    for seed, role in enumerate(("target", "draft")):
        save(folder / role, seed=seed, eos_token_id=None)
        template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
        (folder / role / "chat_template.jinja").write_text(template, encoding="utf-8")
        flags += [f"--{role}", str(folder / role)]
    return (*flags, "--dtype", "float32")


def small_pair() -> Pair:
    """Tiny models with a real tokenizer, wide enough for its ids."""
    sizes = {**tiny._SIZES, "vocab_size": len(tokenizer("bytes"))}
    config, make = transformers.LlamaConfig(**sizes), transformers.AutoModelForCausalLM.from_config
    target, draft = (make(config).double() for _ in range(2))
    return make_pair(target, draft, tokenizer("bytes"))
