"""Measure which modes of transformers' `generate` keep the target's distribution when they sample.

Each mode writes three tokens behind a prompt, again and again, with tiny random models of three
tokens. A chi-square test compares the counts with the target's probabilities from plain passes. The
documentation's table is made of the file with the result.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers.generation.utils import _speculative_sampling
from transformers.modeling_layers import MtpModel

from ouroboros_core.locations import assets
from visualize.proof.chi_square import fit, pooled

FILE = assets() / "hf_lossless.json"
SIZE, LENGTH = 3, 3
PROMPT = [1, 2, 0, 1, 2, 0, 1]
SIZES: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
SIZES |= {"num_hidden_layers": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
SIZES |= {"head_dim": 8, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}


def model(kind: str = "llama", seed: int = 0, size: int = SIZE, **settings: Any) -> Any:
    """Return a random model with distributions between flat and certain."""
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, "vocab_size": size, **settings})
    torch.manual_seed(seed)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.4)
        scale = 1.2 / network(torch.tensor([PROMPT])).logits.std()
        network.get_output_embeddings().weight.mul_(scale)
    return network


def tokenizer(letters: str, *, in_order: bool) -> Any:
    """Return a tokenizer of one letter for each id; transformers reads its vocabulary in the order
    of the ids, or with the first two exchanged."""
    words = {letter: n for n, letter in enumerate(letters)}
    backend = Tokenizer(WordLevel(words, unk_token=letters[0]))
    backend.pre_tokenizer = Split("", "isolated")
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    order = list(letters) if in_order else [letters[1], letters[0], *letters[2:]]
    wrapped.get_vocab = lambda: {letter: words[letter] for letter in order}
    return wrapped


class Gemma4AssistantTable(torch.nn.Module):
    """Gemma 4's assistant, which transformers 5.23 cannot construct: constant logits."""

    def __init__(self, logits: Sequence[float]) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(logits))
        self.device = torch.device("cpu")
        self.config = transformers.PreTrainedConfig(vocab_size=SIZE)
        self.generation_config = transformers.GenerationConfig(num_assistant_tokens=2)

    def forward(self, inputs_embeds: torch.Tensor, **_: Any) -> Any:
        width = inputs_embeds.shape[-1] // 2
        return SimpleNamespace(
            logits=self.logits[None, None], last_hidden_state=inputs_embeds[..., width:]
        )


def modes() -> dict[str, Callable[[], tuple[Any, dict[str, Any]]]]:
    """Return for each mode a function that makes the target and the arguments of `generate`."""

    def draft(**settings: Any) -> Any:
        small = model(seed=1, **settings)
        small.generation_config.num_assistant_tokens = 2
        small.generation_config.assistant_confidence_threshold = 0.0
        return small

    def mtp() -> tuple[Any, dict[str, Any]]:
        target = model()
        target.config.num_mtp_layers = 2
        torch.manual_seed(2)
        layers = MtpModel(target, 2).eval()
        MtpModel.from_pretrained = classmethod(lambda *_, **__: layers)
        return target, {"use_mtp": True}

    def dflash() -> tuple[Any, dict[str, Any]]:
        sizes = {**SIZES, "sliding_window": 64, "block_size": 3, "mask_token_id": SIZE - 1}
        config = transformers.AutoConfig.for_model(
            "muse_glimmer_assistant", **sizes, target_layer_ids=[0, 1]
        )
        torch.manual_seed(3)
        drafter = transformers.AutoModel.from_config(config).eval()
        return model(), {"assistant_model": drafter, "speculation_type": "dflash"}

    def tli(*, in_order: bool) -> tuple[Any, dict[str, Any]]:
        words = tokenizer("abc", in_order=True), tokenizer("abcd", in_order=in_order)
        tokenizers = {"tokenizer": words[0], "assistant_tokenizer": words[1]}
        return model(), {"assistant_model": draft(size=SIZE + 1), **tokenizers}

    def gemma4() -> tuple[Any, dict[str, Any]]:
        layers: dict[str, Any] = {"sliding_window": 64}
        layers |= {"layer_types": ["sliding_attention", "full_attention"]}
        layers |= {"global_head_dim": 8, "hidden_size_per_layer_input": 0}
        target = model("gemma4_text", **layers, vocab_size_per_layer_input=SIZE)
        return target, {"assistant_model": Gemma4AssistantTable([0.9, 0.4, 0.0])}

    return {
        "`assistant_model`": lambda: (model(), {"assistant_model": draft()}),
        "`prompt_lookup_num_tokens`": lambda: (model(), {"prompt_lookup_num_tokens": 2}),
        "`assistant_early_exit`": lambda: (model(), {"assistant_early_exit": 1}),
        "`use_mtp`": mtp,
        '`speculation_type="dflash"`': dflash,
        "`assistant_tokenizer`, vocabulary in the order of its ids": lambda: tli(in_order=True),
        "`assistant_tokenizer`, two entries in another order": lambda: tli(in_order=False),
        "Gemma 4's assistant": gemma4,
        "`assistant_ensemble_weight=0.5`": lambda: (
            model(),
            {"assistant_model": draft(), "assistant_ensemble_weight": 0.5},
        ),
    }


@torch.inference_mode()
def distribution(target: Any) -> dict[tuple[int, ...], float]:
    """Return the probability of every text of LENGTH tokens, from plain passes."""
    texts = list(itertools.product(range(SIZE), repeat=LENGTH))
    ids = torch.tensor([[*PROMPT, *text] for text in texts])
    logs = target(ids, use_cache=False).logits.double().log_softmax(-1)
    rows = logs[:, len(PROMPT) - 1 : -1]
    total = rows.gather(-1, ids[:, len(PROMPT) :, None]).sum((1, 2)).exp()
    return dict(zip(texts, total.tolist(), strict=True))


@torch.inference_mode()
def measured(make: Callable[[], tuple[Any, dict[str, Any]]], samples: int) -> dict[str, Any]:
    target, extra = make()
    ids = torch.tensor([PROMPT])
    arguments: dict[str, Any] = {"do_sample": True, "top_k": 0, "max_new_tokens": LENGTH}
    arguments |= {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, **extra}
    torch.manual_seed(7)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(samples):
        counts[tuple(target.generate(ids, **arguments)[0, len(PROMPT) :].tolist())] += 1
    expected = distribution(target)
    test = fit(*pooled([counts[text] for text in expected], [*expected.values()]))
    assert test is not None
    chi, freedom, chance = test.statistic, test.degrees, test.p_value
    return {"samples": samples, "chi_square": chi, "freedom": freedom, "p": chance}


def counterexample(
    p: Sequence[float], reported: Sequence[float], draws: Sequence[float], count: int = 20_000
) -> list[float]:
    """Return the shares of tokens that transformers' own rule emits for one drafted token.

    p, reported, draws: the target's probabilities, the draft's reported ones and its true ones
    """
    torch.manual_seed(7)
    rows = [torch.tensor([[list(row)]]).log() for row in (p, reported)]
    target = rows[0].repeat(1, 2, 1)
    drawn = torch.multinomial(torch.tensor(draws), count, replacement=True).tolist()
    first: Counter[int] = Counter()
    for token in drawn:
        valid, _ = _speculative_sampling(torch.tensor([[0, token]]), rows[1], 1, target)
        first[int(valid[0, 0])] += 1
    return [round(first[token] / count, 3) for token in range(len(p))]


SMALLEST = {
    "Gemma 4's assistant": ([0.4, 0.4, 0.2], [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]),
    "`assistant_tokenizer`, two entries in another order": ([0.5, 0.5], [0.2, 0.8], [0.8, 0.2]),
}
"""For a mode that fails: the target's p, the reported q and the true q."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=500, help="texts of each mode")
    samples = parser.parse_args().samples
    transformers.utils.logging.set_verbosity_error()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, encoding="utf-8", check=True
    ).stdout.strip()
    result: dict[str, Any] = {"transformers": transformers.__version__, "commit": commit}
    result |= {"torch": torch.__version__, "tokens": SIZE, "length": LENGTH, "modes": {}}
    for name, make in modes().items():
        result["modes"][name] = measured(make, samples)
        print(name, result["modes"][name], flush=True)
    result["counterexamples"] = {
        name: {"p": p, "reported": q, "true": true, "text": counterexample(p, q, true)}
        for name, (p, q, true) in SMALLEST.items()
    }
    assert all(math.isfinite(mode["p"]) for mode in result["modes"].values())
    FILE.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
