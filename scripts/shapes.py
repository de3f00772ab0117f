"""Which draft is fastest, not most accurate: cost and acceptance of drafts of several shapes (`make
shapes`).

    python -m scripts.shapes DIR [DIR ...] --json assets/models/shapes.json

For every draft: c, its pass as a share of a plain target pass; and at each draft length the tokens
per target pass on our own prompts, and the speed that follows, tokens per pass / (gamma c + t(gamma
+ 1) / t(1)); t(n) is the time of a target pass of n rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ouroboros_core import methods
from ouroboros_core.adaptive.profiler import pass_seconds
from ouroboros_core.benchmark.prompts import Question, own_prompts

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair


from ouroboros_core.benchmark.draft_shapes import GAMMAS, Measured, table


def measure(
    folder: Path, pair: Pair, questions: Sequence[Question], max_new_tokens: int
) -> Measured:
    """Measure the draft of a pair; its record lies in `folder`."""
    from ouroboros_core.decoding.generation import Generation, Task

    assert pair.draft is not None
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    kind = methods.get("speculative")
    per_pass: dict[int, float] = {}
    for gamma in GAMMAS:
        tokens = passes = 0
        for question in questions:
            task = Task(
                question.turns[0],
                kind.id,
                kind.Hyperparameters.parse({"gamma": gamma}),
                max_new_tokens=max_new_tokens,
            )
            trace = Generation(pair, task).run()
            tokens += len(trace.tokens)
            passes += len(trace.steps)
        per_pass[gamma] = tokens / passes
    target = [(pair.target, gamma + 1) for gamma in (0, *GAMMAS)]
    plain, *wide, draft = pass_seconds([*target, (pair.draft, 1)])
    speed = {
        g: per_pass[g] / (g * draft / plain + t / plain) for g, t in zip(GAMMAS, wide, strict=True)
    }
    last = record["curve"][-1]
    return Measured(
        folder.name,
        record["shape"],
        last["tokens"],
        last["agreement"][0],
        draft / plain,
        per_pass,
        speed,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "drafts", nargs="+", type=Path, metavar="DIR", help="folders of trained drafts"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures there")
    parser.add_argument(
        "--limit",
        type=int,
        default=12,
        help="questions, taken from the groups in turn (default: 12)",
    )
    parser.add_argument("--max-new-tokens", type=int, default=64, help="default: 64")
    options = parser.parse_args()
    from ouroboros_core.loading.pairs import load_pair

    rows: list[Measured] = []
    environment: dict[str, object] = {}
    for folder in options.drafts:
        pair = load_pair(draft=str(folder), head="none")
        rows.append(measure(folder, pair, own_prompts(options.limit), options.max_new_tokens))
        environment = asdict(pair.environment)
        print(table(rows[-1:]), flush=True)
    if options.json:
        content = {
            "environment": environment,
            "questions": options.limit,
            "max_new_tokens": options.max_new_tokens,
        }
        options.json.write_text(
            json.dumps({**content, "drafts": [asdict(row) for row in rows]}, indent=1) + "\n",
            encoding="utf-8",
        )
    print(table(rows))


if __name__ == "__main__":
    main()
