"""How much of an answer is a copy at all: what limits every method that copies.

    python -m scripts.copies [--prompts FILE] [--limit N] [--max-new-tokens N]

For each group of prompts the share of the answers' tokens that stood behind the same n tokens
before, in prompt or answer; the answers are the target's own, by plain decoding.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ouroboros_core import methods
from ouroboros_core.benchmark import prompts

LENGTHS = (1, 2, 3, 5)


def copyable(prompt: Sequence[int], answer: Sequence[int], n: int) -> int:
    """How many of the answer's tokens come behind n tokens behind which they have come before.

    For the prompt `a b c`, the answer `a b c` and n = 2 it is one: the c behind `a b`.
    """
    text = [*prompt, *answer]
    seen: set[tuple[int, ...]] = set()
    found = 0
    for end in range(n, len(text)):
        gram = tuple(text[end - n : end + 1])
        found += end >= len(prompt) and gram in seen
        seen.add(gram)
    return found


def table(counts: dict[str, list[int]]) -> str:
    """Markdown; counts by group: tokens, then those copyable behind each of LENGTHS tokens."""
    heads = " | ".join(f"behind {n}" for n in LENGTHS)
    lines = [f"| group | {heads} |", f"|---|{'---:|' * len(LENGTHS)}"]
    for group, (tokens, *copies) in counts.items():
        lines.append(f"| {group} | {' | '.join(f'{count / tokens:.0%}' for count in copies)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--prompts", type=Path, help="JSON lines, as for bench (default: our own)")
    parser.add_argument("--limit", type=int, help="questions, taken from the groups in turn")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="default: 128")
    options = parser.parse_args()
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.loading.pairs import load_pair

    pair = load_pair(draft="none", head="none", corpus="none")
    plain = methods.get("autoregressive")
    questions = prompts.read(options.prompts) if options.prompts else prompts.own_prompts()
    counts: dict[str, list[int]] = {}
    for question in prompts.spread(questions, options.limit):
        task = Task(
            question.turns[0],
            plain.id,
            plain.Hyperparameters(),
            max_new_tokens=options.max_new_tokens,
        )
        trace = Generation(pair, task).run()
        found = [
            len(trace.tokens),
            *(copyable(trace.prompt.tokens, trace.tokens, n) for n in LENGTHS),
        ]
        for group in (question.group, "overall"):
            counts[group] = [
                a + b for a, b in zip(counts.get(group, [0] * len(found)), found, strict=True)
            ]
    counts["overall"] = counts.pop("overall")
    print(table(counts))


if __name__ == "__main__":
    main()
