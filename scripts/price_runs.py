"""Runs of several settings, priced by the cost model: tokens per pass, and speed over
autoregressive decoding without noise.

python -m scripts.price_runs --methods 'speculative,speculative[gamma=4],union' [--prompts FILE]
[--limit 12]
                             [--max-new-tokens 32] [--target X --draft Y] [--json FILE]

The seconds are those that the cost model gives to each pass of decoding
(`ouroboros_core.adaptive.cost_model`), so that the figures of a busy machine are those of an idle
one; what passes cost is measured when the pair is loaded, or was measured before (`--costs`).
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import BASELINE, MethodEntrant, parse
from ouroboros_core.benchmark.prompts import Question, own_prompts, read, spread
from ouroboros_core.cli import options
from ouroboros_core.loading.costs import read_costs
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.trace import Trace


def seconds(pair: Pair, trace: Trace) -> float:
    """What decoding takes in a run, by the cost model."""
    costs = pair.costs
    kind = methods.get(trace.method)
    kinds = [HEAD_KINDS[need] for need in kind.needs if need in HEAD_KINDS]
    if trace.method == "union" and "eagle" in pair.heads:
        kinds = ["eagle"]
    drafter = costs.heads.get(kinds[0]) if kinds else costs.draft
    total = 0.0
    for step in trace.steps:
        total += costs.target.of(step.width)
        if drafter is not None and step.draft_passes:
            rows = max(1.0, step.draft_rows / step.draft_passes)
            total += step.draft_passes * drafter.of(rows)
    return total


def add_options(parser: argparse.ArgumentParser, max_new_tokens: int) -> None:
    """What is run: pair, methods, prompts, and costs."""
    options.add_pair(parser)
    parser.add_argument("--methods")
    parser.add_argument(
        "--prompts",
        metavar="FILE",
        help="questions in Spec-Bench's format (default: the project's own)",
    )
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--max-new-tokens", type=int, default=max_new_tokens)
    parser.add_argument("--json", metavar="FILE", help="writes the figures of every prompt")
    parser.add_argument("--costs", metavar="FILE", help="costs that were measured before")


def asked(arguments: argparse.Namespace) -> tuple[Pair, list[Question]]:
    """The pair with the costs that were asked for, and the prompts."""
    pair = options.load_pair(arguments)
    if arguments.costs:
        pair = replace(
            pair, costs=read_costs(json.loads(Path(arguments.costs).read_text(encoding="utf-8")))
        )
    questions = read(Path(arguments.prompts)) if arguments.prompts else own_prompts()
    return pair, spread(questions, arguments.limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, max_new_tokens=32)
    parser.set_defaults(methods=BASELINE)
    arguments = parser.parse_args()
    pair, questions = asked(arguments)
    entrants = [MethodEntrant(pair, spec) for spec in parse(arguments.methods, Sampling())]
    found: dict[str, list[tuple[str, float, float, float]]] = {
        entrant.label: [] for entrant in entrants
    }
    for question in questions:
        plain = 0.0
        for entrant in sorted(entrants, key=lambda entrant: entrant.label != BASELINE):
            trace = entrant.trace(
                question.turns[0], (), arguments.max_new_tokens, question.prediction
            )
            taken = seconds(pair, trace)
            tokens = sum(len(step.tokens) for step in trace.steps)
            plain = taken if entrant.label == BASELINE else plain
            drafts = sum(step.draft_passes for step in trace.steps) / len(trace.steps)
            found[entrant.label].append(
                (question.group, tokens / len(trace.steps), drafts, plain / taken)
            )
        print(question.id, *(f"{runs[-1][3]:.2f}" for runs in found.values()), flush=True)
    for label, runs in found.items():
        per_pass, drafts, speed = (
            statistics.fmean(column) for column in list(zip(*runs, strict=True))[1:]
        )
        least = min(run[3] for run in runs)
        print(
            f"{label:40} {per_pass:5.2f} tokens/pass {drafts:5.2f} draft passes/step {speed:5.3f} "
            f"x (least {least:.2f})"
        )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
