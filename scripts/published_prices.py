"""What `what-if` says of speedups that papers publish for known GPUs and models. Their table is
printed by `python -m scripts.check_prices --papers`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from ouroboros_core.trace import metrics
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.estimate import ModelSize, Roofline, Work, price_work

EAGER = 0.98e-3
"""Fixed seconds of a layer where Python launches every kernel: gpt-fast's authors report 25.5
tokens/s for Llama-7B before they compile it (pytorch.org/blog/accelerating-generative-ai-2), 39.2
ms a pass, of which reading its weights takes 7.8; the rest by 32 layers."""
TEXT = 500
"""Tokens of the context in which a paper's steps are priced."""
BENCH, SAM = "Spec-Bench", "SAM-Decoding"
T5 = ModelSize("T5-XXL decoder", 24 * 226.5e6 + 131.6e6, 24, 64, 64, 131.6e6)
T5_SMALL = ModelSize("T5-small decoder", 8 * 2.75e6 + 16.4e6, 8, 6, 64, 16.4e6)
"""Of an encoder-decoder model a pass uses the decoder alone; T5 v1.1's configurations."""
SHAPES = {
    "EAGLE-2": (60, 6, 10),
    "EAGLE": (26, 5, 5),
    "speculative": (6, 5, 1),
    "prompt lookup": (11, 0, 1),
    "Medusa-1": (64, 1, 1),
    "REST": (64, 0, 1),
    "lookahead": (57, 0, 1),
    "Token Recycling": (80, 0, 1),
}
"""Rows of the target's pass, draft passes and rows of each, by the settings that Spec-Bench runs
the methods with; of `speculative` five drafted tokens are taken. Token Recycling's are those of its
authors."""
REPORTED = {
    ("rtx-3090", "vicuna-7b"): {
        "EAGLE-2": (4.36, 2.25),
        "EAGLE": (3.57, 2.16),
        "speculative": (2.29, 1.83),
        "prompt lookup": (1.74, 1.55),
        "Medusa-1": (2.32, 1.44),
        "REST": (1.63, 1.32),
        "lookahead": (1.65, 1.08),
    },
    ("a100", "vicuna-7b"): {
        "EAGLE": (3.61, 2.29),
        "speculative": (2.28, 1.49),
        "prompt lookup": (1.73, 1.59),
        "Medusa-1": (2.32, 1.78),
        "REST": (1.82, 1.48),
        "lookahead": (1.66, 1.27),
    },
    ("a100", "vicuna-13b"): {
        "EAGLE": (3.64, 2.34),
        "speculative": (2.18, 1.49),
        "prompt lookup": (1.68, 1.48),
        "Medusa-1": (2.39, 1.75),
        "REST": (1.82, 1.38),
        "lookahead": (1.63, 1.22),
    },
    ("a100", "vicuna-33b"): {
        "EAGLE": (3.39, 2.47),
        "speculative": (2.01, 1.61),
        "prompt lookup": (1.55, 1.42),
        "Medusa-1": (2.33, 1.79),
        "REST": (1.80, 1.48),
        "lookahead": (1.61, 1.24),
    },
    ("rtx-a6000", "vicuna-7b"): {
        "EAGLE-2": (4.36, 2.38),
        "EAGLE": (3.57, 2.27),
        "Token Recycling": (2.83, 1.84),
    },
}
"""Mean accepted tokens, which count the target's own, and overall speedup on Spec-Bench, by machine
and model. On the RTX A6000 they are those of SAM-Decoding's authors (github.com/hyx1999/
SAM-Decoding, README.md), whose own methods have steps of two shapes and are left out; all others
are Spec-Bench's leaderboard (github.com/hemingkx/Spec-Bench, Leaderboard.md)."""
LEVIATHAN = ((7, 0.75, 3.4), (7, 0.62, 2.6), (5, 0.65, 3.1), (5, 0.53, 2.3))
"""Draft length, acceptance rate and speedup of T5-XXL with T5-small on a TPU v4 (Leviathan et al.,
arXiv 2211.17192, table 2): translation at temperatures 0 and 1, then summaries at both."""


@dataclass(frozen=True)
class Reported:
    """A published speedup, and what it was measured with."""

    method: str
    machine: str
    target: ModelSize
    draft: ModelSize | None
    shape: tuple[int, int, int]
    tokens: float
    speedup: float
    source: str

    def modelled(self, layer_seconds: float) -> float:
        """Speedup over plain decoding, prefill left out, at a fixed cost of each layer."""
        machine = replace(machines.machine(self.machine), layer_seconds=layer_seconds)
        rows, passes, draft_rows = self.shape
        work = [Work(rows, self.tokens, TEXT, passes, draft_rows)]
        # Many equal steps, so that the tokens that they emit are a whole number.
        draft = Roofline(machine, self.draft) if self.draft else None
        return price_work(work * 100, TEXT, Roofline(machine, self.target), draft).decode_speedup


def drafter(method: str, target: ModelSize) -> ModelSize | None:
    """What drafts, in Spec-Bench."""
    if method.startswith("EAGLE"):
        return target.head
    if method == "Medusa-1":
        hidden = target.output_parameters / 32000
        heads = 4 * (hidden**2 + target.output_parameters)
        return replace(target, name="four heads", parameters=heads, layers=1)
    return machines.model("vicuna-68m") if method == "speculative" else None


def reported() -> list[Reported]:
    """Published speedups that come with tokens per step, a machine and a model."""
    found = [
        Reported(
            method,
            machine,
            machines.model(model),
            drafter(method, machines.model(model)),
            SHAPES[method],
            *numbers,
            SAM if machine == "rtx-a6000" else BENCH,
        )
        for (machine, model), rows in REPORTED.items()
        for method, numbers in rows.items()
    ]
    for gamma, alpha, speedup in LEVIATHAN:
        tokens = metrics.expected_tokens(alpha, gamma)
        shape = (gamma + 1, gamma, 1)
        source = "Leviathan et al."
        row = Reported("speculative", "tpu-v4", T5, T5_SMALL, shape, tokens, speedup, source)
        found.append(row)
    return found


def papers() -> list[str]:
    """The table of published speedups, in Markdown."""
    lines = [
        "| method | model | machine | source | tokens a step | published | modelled, compiled | "
        "modelled, eager |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    ratios = []
    for row in reported():
        machine = machines.machine(row.machine)
        compiled = row.modelled(machine.layer_seconds)
        ratios.append(compiled / row.speedup)
        eager = "–" if row.machine == "tpu-v4" else f"{row.modelled(EAGER):.2f}"
        lines.append(
            f"| {row.method} | {row.target.name} | {machine.name} | {row.source} | "
            f"{row.tokens:.2f} | {row.speedup:.2f} | {compiled:.2f} | {eager} |"
        )
    low, high = min(ratios), max(ratios)
    told = f"{median(ratios):.2f} in the median, {low:.2f} to {high:.2f}"
    return [*lines, "", f"Modelled, compiled / published: {told}."]
