"""What each piece of the adaptive policy earns: runs without it against runs with all of it, priced
by the cost model.

python -m scripts.ablation [--methods M,M,...] [--pieces P,P,...] [--prompts FILE] [--limit 12]
                           [--max-new-tokens 48] [--costs FILE] [--target X --draft Y]

For every method and every piece it prints by how much a run without the piece is faster (the
geometric mean over prompts, in percent; negative: slower) and the 95% interval of that by
bootstrap. The seconds are those that the cost model gives to the passes that were made, as in
`scripts.price_runs`, so that other work on the machine does not matter.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ouroboros_core.adaptive import acceptance, controller
from ouroboros_core.adaptive.acceptance import Acceptance
from ouroboros_core.adaptive.controller import Throughput
from ouroboros_core.benchmark.entrants import MethodEntrant, parse
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import TokenTree
from scripts.price_runs import add_options, asked, seconds

METHODS = "speculative,multi_candidate,ouroboros,eagle2,token_recycling,prompt_lookup,union"
RESAMPLES = 2000
NEVER = 10**9


def _unshared(self: Acceptance, tree: TokenTree) -> list[float]:
    """`Acceptance.path_chances` without siblings that share."""
    alone = self.node_chances(tree)
    whole = [1.0] + [0.0] * (len(tree) - 1)
    for node in tree.proposals:
        whole[node] = whole[tree.parents[node]] * alone[node]
    return whole


PIECES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "trial": lambda: patch.object(controller, "TRIAL", NEVER),
    "hope for a draft": lambda: patch.object(acceptance, "HIT", 0.5),
    "factor of a source": lambda: patch.object(Acceptance, "factor", lambda self, source: 1.0),
    "fading": lambda: patch.object(acceptance, "MEMORY", 1.0),
    "siblings share": lambda: patch.object(Acceptance, "path_chances", _unshared),
    "own rate": lambda: patch.object(
        Throughput,
        "rate",
        property(lambda self: 1 / self.target.of(1)),
    ),
}
"""Name -> how to decide without it. What a run took is priced with all of the cost model."""


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% interval of logarithms of ratios, as percent."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    low, high = means[RESAMPLES // 40], means[-RESAMPLES // 40]
    mean, low, high = (100 * math.expm1(one) for one in (statistics.fmean(logs), low, high))
    return mean, low, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, max_new_tokens=48)
    parser.set_defaults(methods=METHODS)
    parser.add_argument("--pieces", default=",".join(PIECES))
    arguments = parser.parse_args()
    pair, questions = asked(arguments)
    without: dict[str, Callable[[], AbstractContextManager[Any]]] = {"": nullcontext}
    without |= {name: PIECES[name] for name in arguments.pieces.split(",")}
    kept: dict[str, dict[str, list[float]]] = {}
    for spec in parse(arguments.methods, Sampling()):
        if spec.method == "autoregressive":
            continue
        entrant = MethodEntrant(pair, spec)
        taken: dict[str, list[float]] = {name: [] for name in without}
        for question in questions:
            for name, patched in without.items():
                with patched():
                    given = question.turns[0], (), arguments.max_new_tokens, question.prediction
                    trace = entrant.trace(*given)
                taken[name].append(seconds(pair, trace))
        for name in list(without)[1:]:
            logs = [
                math.log(whole / less) for whole, less in zip(taken[""], taken[name], strict=True)
            ]
            mean, low, high = interval(logs)
            told = f"{mean:+6.2f}% [{low:+.2f}, {high:+.2f}]"
            print(f"{entrant.label:20} {name:30} {told}", flush=True)
        kept[entrant.label] = taken
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(kept, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
