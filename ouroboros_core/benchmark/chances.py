"""How often each kind of proposal is right, measured: the priors of `memory.chances`.

Union runs over our own prompts with everything that its sources offer checked, and counts, for every node whose parent was
accepted, whether the target said the same. Prints the table.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from ouroboros_core import methods
from ouroboros_core.benchmark.prompts import Question, own_prompts
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.memory.chances import Kind, kind_of
from ouroboros_core.models.pairs import Pair, load_pair

NODES = 63
RUNS = (
    ("union", {"tree_size": NODES}),
    ("prompt_lookup", {"num_tokens": 12, "max_matches": 4}),
    ("ngram", {"gamma": 8}),
    ("rest", {"tree_size": 32}),
    ("token_recycling", {"tree_size": 48}),
    ("lookahead", {"window_size": 7}),
    ("ouroboros", {"gamma": 1, "window_size": 4, "top_k_suffixes": 6}),
)
"""What runs, and with which knobs: sources are met at their best, not as they would be chosen."""


def count(pair: Pair, questions: Sequence[Question], max_new_tokens: int) -> tuple[Counter[Kind], Counter[Kind]]:
    """By kind, how many nodes were right, and how many were tested."""
    right: Counter[Kind] = Counter()
    tested: Counter[Kind] = Counter()
    for name, knobs in RUNS:
        kind = methods.get(name)
        for question in questions:
            task = Task(question.turns[0], name, kind.Hyperparameters.parse(knobs), max_new_tokens=max_new_tokens)
            for step in Generation(pair, task).run().steps:
                for node in range(1, len(step.tree)):
                    if step.tree.parents[node] in {0, *step.path}:
                        found = kind_of(step.tree.provenance[node], step.tree.depths[node])
                        tested[found] += 1
                        right[found] += node in step.path
    return right, tested


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--limit", type=int, default=12, help="questions, taken from the groups in turn (default: 12)")
    parser.add_argument("--max-new-tokens", type=int, default=64, help="default: 64")
    options = parser.parse_args()
    right, tested = count(load_pair(), own_prompts(options.limit), options.max_new_tokens)
    print("| source | grade | another source agrees | tested | right |\n|---|---:|---|---:|---:|")
    for found in sorted(tested):
        source, grade, agreed = found
        print(f"| {source} | {grade} | {'yes' if agreed else 'no'} | {tested[found]} | {right[found] / tested[found]:.3f} |")


if __name__ == "__main__":
    main()
