"""What passes of known models cost on a GPU, and what `what-if` says of it: milliseconds by rows.

python -m scripts.gpu_passes --machine h200 llama-3-8b llama-3.2-1b smollm2-135m

The weights are random: of a pass only the shape counts. Shapes and machines are those of
assets/machines.json. Passes are timed in turn, behind contexts of a few and of many tokens, as
transformers computes them, in the compact pass, and in fixed shapes (CUDA graphs).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ouroboros_core.adaptive.profiler import in_turn, pass_of, tree_of
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Engine
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.estimate import Roofline

ENGINES: tuple[Engine, ...] = ("transformers", "compact", "static")
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (100, 2000)
ROUNDS, SECONDS = 10, 6.0


def made(name: str, device: str) -> Any:
    """A model of the shape of a known one, in bfloat16, with random weights."""
    sheet = machines.sheets().models[name]
    config = AutoConfig.for_model(
        "qwen2" if name.startswith("qwen") else "llama",
        hidden_size=sheet.hidden,
        intermediate_size=sheet.intermediate,
        num_hidden_layers=sheet.layers,
        num_attention_heads=sheet.heads,
        num_key_value_heads=sheet.kv_heads,
        head_dim=sheet.head_size,
        vocab_size=sheet.vocabulary,
        tie_word_embeddings=sheet.tied,
        max_position_embeddings=8192,
        attn_implementation="sdpa",
    )
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def timed(model: Any, name: str, context: int) -> dict[str, list[float]]:
    """Median milliseconds of a pass by its rows, of each engine."""
    found: dict[str, list[float]] = {}
    for engine in ENGINES:
        wrapper = CausalLM(model, name, engine=engine)
        wrapper.reserve(context + max(ROWS))
        passes = [pass_of(wrapper, rows, context) for rows in ROWS]
        taken = in_turn(passes, ROUNDS, SECONDS)
        found[engine] = [round(1000 * statistics.median(one), 3) for one in taken]
    return found


def prefill(model: Any, name: str, tokens: int) -> float:
    """Milliseconds of reading a prompt, the least of three."""
    wrapper = CausalLM(model, name, engine="compact")
    text = [7 + n % 50 for n in range(tokens + 1)]
    taken = []
    for _ in range(3):
        wrapper.forget()
        begun = time.perf_counter()
        wrapper.prefill(text)
        wrapper.evaluate(text, tree_of(1, text[-1])).argmax()
        taken.append(time.perf_counter() - begun)
    return round(1000 * min(taken), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", help="ids of machines.json")
    parser.add_argument("--machine", default="h200", help="what passes are modelled for")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", help="a file for all numbers")
    arguments = parser.parse_args()
    where = torch.cuda.get_device_name() if arguments.device == "cuda" else arguments.device
    print(f"{where}, torch {torch.__version__}; milliseconds of a pass by its rows")
    found: list[dict[str, Any]] = []
    for name in arguments.models:
        model = made(name, arguments.device)
        price = Roofline(machines.machine(arguments.machine), machines.model(name))
        for context in CONTEXTS:
            rows: dict[str, Any] = timed(model, name, context)
            rows["modelled"] = [round(1000 * price.of(n, context, 1), 3) for n in ROWS]
            found.append({"model": name, "context": context, "rows": ROWS, **rows})
            print(f"{name}, behind {context} tokens; rows {', '.join(map(str, ROWS))}")
            for engine, taken in rows.items():
                print(f"  {engine}: {', '.join(f'{one:.2f}' for one in taken)}", flush=True)
        took, says = prefill(model, name, 2000), 1000 * price.prefill(2000, 1)
        found.append({"model": name, "prefill": took, "modelled": round(says, 3)})
        print(f"  2000 tokens of a prompt: {took:.1f}, modelled {says:.1f}", flush=True)
        del model
        gc.collect()
        torch.cuda.empty_cache()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"where": where, "passes": found}, file, indent=1)


if __name__ == "__main__":
    main()
