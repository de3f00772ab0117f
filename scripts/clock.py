"""What the clock earns: runs that decide by the costs timed at loading against runs that decide by
costs corrected by the passes before them, in turn with plain decoding.

python -m scripts.clock [--methods M,M,...] [--prompts FILE] [--limit 12] [--max-new-tokens 96]
                        [--busy] [--target X --draft Y]

Prints tokens a second over plain decoding's, the geometric mean over prompts, for both, and their
ratio with its 95% interval. --busy begins with costs as they come out beside other work that keeps
the memory busy, with made-up factors: passes over few rows count as 1.45 times as long, over 16
rows and more as 1.05 times.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from dataclasses import replace

from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.adaptive.pace import Pace
from ouroboros_core.benchmark.entrants import BASELINE, MethodEntrant, parse
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.sampling import Sampling
from scripts.ablation import interval
from scripts.price_runs import add_options, asked

FEW_ROWS, MANY_ROWS = 1.45, 1.05


def busy(costs: Costs) -> Costs:
    """The target's costs as they come out beside other work."""
    target = costs.target
    slower = [
        FEW_ROWS if rows < 8 else (FEW_ROWS + MANY_ROWS) / 2 if rows < 16 else MANY_ROWS
        for rows in target.rows
    ]
    near, far = (
        tuple(factor * seconds for factor, seconds in zip(slower, line, strict=bool(line)))
        for line in (target.seconds, target.far)
    )
    return replace(costs, target=PassCosts(target.rows, near, far, target.reading))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, max_new_tokens=96)
    parser.set_defaults(methods="union,speculative")
    parser.add_argument("--busy", action="store_true")
    arguments = parser.parse_args()
    loaded, questions = asked(arguments)
    costs = busy(loaded.costs) if arguments.busy else loaded.costs
    stored = replace(loaded, costs=costs)
    pace = Pace(costs)
    pace.look(stored.target)
    pairs: dict[str, Pair] = {"stored": stored, "clock": replace(stored, pace=pace)}
    specs = [spec for spec in parse(arguments.methods, Sampling()) if spec.method != BASELINE]
    plain = MethodEntrant(stored, parse(BASELINE, Sampling())[0])
    speeds: defaultdict[str, list[dict[str, float]]] = defaultdict(list)

    for number, question in enumerate(questions):

        def speed(entrant: MethodEntrant, prompt: str = question.turns[0]) -> float:
            steps = entrant.trace(prompt, (), arguments.max_new_tokens, "").steps
            tokens = sum(len(step.tokens) for step in steps)
            return tokens / sum(step.seconds.decode for step in steps)

        for spec in specs:
            before = speed(plain)
            order = sorted(pairs, reverse=bool(number % 2))
            found = {name: speed(MethodEntrant(pairs[name], spec)) for name in order}
            baseline = (before + speed(plain)) / 2
            speeds[spec.method].append({name: one / baseline for name, one in found.items()})
        for method, rows in speeds.items():
            told = ", ".join(f"{name} {value:.2f}" for name, value in rows[-1].items())
            print(f"{question.id:4} {method:16} {told}", flush=True)

    for method, rows in speeds.items():
        means = {name: statistics.geometric_mean(row[name] for row in rows) for name in pairs}
        mean, low, high = interval([math.log(row["clock"] / row["stored"]) for row in rows])
        told = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
        print(f"{method:16} {told}: {mean:+.1f}% [{low:+.1f}, {high:+.1f}]")


if __name__ == "__main__":
    main()
