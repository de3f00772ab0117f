"""Measure how well the token after next can be guessed without knowing the next one.

At random positions of the target's own answers the 16 likeliest next tokens x are weighted with
their probabilities p(x), scaled to a sum of 1, and p(y|x) is computed for each. A block drafter
without a correction can at best guess the y of the largest sum of p(x) p(y|x); a drafter that knows
x guesses the y of the largest p(y|x). The last line has the chances of both guesses when text is
drawn at temperature 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ouroboros_core.benchmark.prompts import own_prompts
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.loading.pairs import load_pair
from ouroboros_core.methods.autoregressive import Autoregressive
from ouroboros_core.sampling import softmax
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TreeBuilder

LIKELIEST = 16


def chances(target: LanguageModel, context: Sequence[int]) -> tuple[float, float]:
    """Return the chances that the best guesses of the token after next are right, made without and
    with the next one."""
    root = TreeBuilder(context[-1])
    p = softmax(np.asarray(target.evaluate(context, root.build()).logits(0), np.float64))
    first = np.argsort(-p)[:LIKELIEST]
    for token in first:
        root.add(int(token), 0, Provenance(Source.DRAFT))
    evaluation = target.evaluate(context, root.build())
    after: npt.NDArray[np.float64] = np.array(
        [softmax(np.asarray(evaluation.logits(n), np.float64)) for n in range(1, len(first) + 1)]
    )
    weights = p[first] / p[first].sum()
    return float((weights @ after).max()), float(weights @ after.max(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, default=500, metavar="N")
    parser.add_argument("--limit", type=int, default=36, metavar="N", help="prompts")
    arguments = parser.parse_args()
    pair, rng = load_pair(), np.random.default_rng(0)
    prompts = own_prompts(arguments.limit)
    each = -(-arguments.positions // len(prompts))
    measured = []
    for question in prompts:
        task = Task(question.turns[0], Autoregressive.id, Autoregressive.Hyperparameters())
        trace = Generation(pair, task).run()
        text = [*trace.prompt.tokens, *trace.tokens]
        ends = rng.choice(len(trace.tokens), min(each, len(trace.tokens)), replace=False)
        for end in sorted(int(end) + len(trace.prompt.tokens) for end in ends):
            measured.append(chances(pair.target, text[:end]))
    alone, knowing = np.mean(measured, axis=0)
    print(
        f"{len(measured)} positions of {len(prompts)} answers: the token after next is right in "
        f"{alone:.0%} without the next one, in {knowing:.0%} with it"
    )


if __name__ == "__main__":
    main()
