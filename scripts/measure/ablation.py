"""Gain of each piece of the adaptive policy: runs without it against runs with all of it.

Prints for each method and piece by how much a run without the piece is faster (geometric mean over
prompts, in percent; negative: slower), with a 95% interval by bootstrap. The cost model prices the
passes of a run, so that other work on the machine does not matter.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ouroboros_core import methods
from ouroboros_core.adaptive import acceptance, controller
from ouroboros_core.adaptive.acceptance import Acceptance
from ouroboros_core.adaptive.controller import Throughput
from ouroboros_core.benchmark.entrants import BASELINE, MethodEntrant, Spec, parse
from ouroboros_core.benchmark.prompts import Question, own_prompts, read, spread
from ouroboros_core.cli import options
from ouroboros_core.loading.costs import read_costs
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import TokenTree

METHODS = "speculative,multi_candidate,ouroboros,eagle3,token_recycling,prompt_lookup,union"
RESAMPLES = 2000
NEVER = 10**9


def _chances_without_sharing(self: Acceptance, tree: TokenTree) -> list[float]:
    """Replace `Acceptance.path_chances`: siblings do not share the chance of their parent."""
    node_chances = self.node_chances(tree)
    path_chances = [1.0] + [0.0] * (len(tree) - 1)
    for node in tree.proposals:
        path_chances[node] = path_chances[tree.parents[node]] * node_chances[node]
    return path_chances


PIECES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "trial": lambda: patch.object(controller, "TRIAL", NEVER),
    "hope for a draft": lambda: patch.object(acceptance, "HIT", 0.5),
    "factor of a source": lambda: patch.object(Acceptance, "factor", lambda self, source: 1.0),
    "fading": lambda: patch.object(acceptance, "MEMORY", 1.0),
    "siblings share": lambda: patch.object(Acceptance, "path_chances", _chances_without_sharing),
    "own rate": lambda: patch.object(
        Throughput, "rate", property(lambda self: 1 / self.target.of(1))
    ),
}
"""Name -> patch that decides without the piece. All of the cost model prices each run."""


def seconds(pair: Pair, trace: Trace) -> float:
    """Return the modelled seconds of the passes of a run, prefill apart."""
    costs, method = pair.costs, methods.get(trace.method)
    kinds = [HEAD_KINDS[need] for need in method.needs if need in HEAD_KINDS]
    if trace.method == "union" and "eagle3" in pair.heads:
        kinds = ["eagle3"]
    drafter = costs.heads.get(kinds[0]) if kinds else costs.draft
    total = 0.0
    for step in trace.steps:
        total += costs.target.of(step.width)
        if drafter is not None and step.draft_passes:
            rows = max(1.0, step.draft_rows / step.draft_passes)
            total += step.draft_passes * drafter.of(rows)
    return total


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Return mean and 95% interval of logarithms of ratios, in percent."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    bounds = statistics.fmean(logs), means[RESAMPLES // 40], means[-RESAMPLES // 40]
    mean, low, high = (100 * math.expm1(log) for log in bounds)
    return mean, low, high


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_pair(parser)
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--pieces", default=",".join(PIECES))
    parser.add_argument("--prompts", metavar="FILE", help="in Spec-Bench's format (default: own)")
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--costs", metavar="FILE", help="costs that were measured before")
    return parser.parse_args()


def seconds_by_piece(
    pair: Pair, spec: Spec, questions: Sequence[Question], limit: int, pieces: Sequence[str]
) -> dict[str, list[float]]:
    """Return the modelled seconds of each question without each piece; "" is with all."""
    entrant = MethodEntrant(pair, spec)
    without: dict[str, Callable[[], AbstractContextManager[Any]]] = {"": nullcontext}
    without |= {name: PIECES[name] for name in pieces}
    measured: dict[str, list[float]] = {name: [] for name in without}
    for question in questions:
        for name, patched in without.items():
            with patched():
                trace = entrant.trace(question.turns[0], (), limit, question.prediction)
            measured[name].append(seconds(pair, trace))
    return measured


def main() -> None:
    arguments = read_arguments()
    pair = options.load_pair(arguments)
    if arguments.costs:
        costs = json.loads(Path(arguments.costs).read_text(encoding="utf-8"))
        pair = replace(pair, costs=read_costs(costs))
    questions = read(Path(arguments.prompts)) if arguments.prompts else own_prompts()
    questions = spread(questions, arguments.limit)
    pieces = arguments.pieces.split(",")
    for spec in parse(arguments.methods, Sampling()):
        if spec.method == BASELINE:
            continue
        measured = seconds_by_piece(pair, spec, questions, arguments.max_new_tokens, pieces)
        for name in pieces:
            pairs = zip(measured[""], measured[name], strict=True)
            mean, low, high = interval([math.log(base / without) for base, without in pairs])
            gain = f"{mean:+6.2f}% [{low:+.2f}, {high:+.2f}]"
            print(f"{spec.text:20} {name:30} {gain}", flush=True)
