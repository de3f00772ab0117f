"""Where a step's time goes: the table of docs/performance.md.

    python -m scripts.profile_steps [--limit 6] [--max-new-tokens 64] [--passes transformers]

Every method runs over the same prompts. *Target* is the time inside the target's passes, their
sampling of argmaxes included, *draft* that inside the passes of draft model or head, *host* all the
rest: proposing, masks outside the pass, walking the tree, learning, recording.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ouroboros_core import methods
from ouroboros_core.benchmark.prompts import Question, own_prompts
from ouroboros_core.decoding.generation import Generation, Task, lacking
from ouroboros_core.loading.pairs import Pair, load_pair

PASSES = ("evaluate", "extend", "draft", "prefill")
"""Calls into a model that compute."""


@dataclass
class Watched:
    """A model, with a clock on its passes; everything else is the model's own, `model` among it."""

    watched: Any
    seconds: float = field(default=0.0, init=False)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.watched, name)
        return self._timed(found) if name in PASSES else found

    def _timed(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            begun = time.perf_counter()
            result = compute(*args, **more)
            if hasattr(result, "argmax"):
                result.argmax()
            self.seconds += time.perf_counter() - begun
            return result

        return timed


@dataclass(frozen=True)
class Share:
    """Milliseconds of an average step, prefill apart."""

    method: str
    step: float
    target: float
    draft: float
    rows: float
    tokens: float

    @property
    def host(self) -> float:
        return self.step - self.target - self.draft


def profile(pair: Pair, name: str, questions: Sequence[Question], max_new_tokens: int) -> Share:
    """Run one method over the prompts."""
    target = Watched(pair.target)
    draft = Watched(pair.draft) if pair.draft else None
    heads = {kind: Watched(cast(Any, one)) for kind, one in pair.heads.items()}
    drafts = [part for part in (draft, *heads.values()) if part]
    models: dict[str, Any] = {"target": target, "draft": draft, "heads": heads}
    mine = replace(pair, **models)
    kind, chat = methods.get(name), bool(pair.tokenizer.chat_template)
    seconds = rows = tokens = steps = 0.0
    spent = [0.0, 0.0]
    for question in questions:
        task = Task(
            question.turns[0],
            name,
            kind.Hyperparameters(),
            max_new_tokens=max_new_tokens,
            chat=chat,
            prediction=question.expected_by(kind),
        )
        generation = Generation(mine, task)
        for step in generation:
            if (
                not step.index
            ):  # what was computed until here is prefill and one step, which is left out
                spent[0] -= target.seconds
                spent[1] -= sum(part.seconds for part in drafts)
                continue
            seconds += step.seconds.decode
            rows += step.width
            steps += 1
            tokens += len(step.tokens)
        spent[0] += target.seconds
        spent[1] += sum(part.seconds for part in drafts)
    return Share(
        name,
        1e3 * seconds / steps,
        1e3 * spent[0] / steps,
        1e3 * spent[1] / steps,
        rows / steps,
        tokens / steps,
    )


def table(shares: Sequence[Share]) -> str:
    """Markdown."""
    lines = [
        "| method | step, ms | target | draft | host | host, share | rows | tokens |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for s in shares:
        times = (
            f"{s.step:.1f} | {s.target:.1f} | {s.draft:.1f} | {s.host:.1f} | {s.host / s.step:.0%}"
        )
        lines.append(f"| `{s.method}` | {times} | {s.rows:.1f} | {s.tokens:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--limit", type=int, default=6, help="questions, taken from the groups in turn (default: 6)"
    )
    parser.add_argument("--max-new-tokens", type=int, default=64, help="default: 64")
    parser.add_argument(
        "--passes",
        choices=("auto", "transformers"),
        default="auto",
        help="what computes the target's passes",
    )
    options = parser.parse_args()
    pair = load_pair(passes=options.passes)
    able = [m for m in methods.available().values() if m.proposes or m.id == "autoregressive"]
    able = [m for m in able if lacking(pair, m, m.Hyperparameters()) is None]
    for kind in able:
        Generation(pair, Task("Hello", kind.id, kind.Hyperparameters(), max_new_tokens=8)).run()
    print(
        table(
            [
                profile(pair, kind.id, own_prompts(options.limit), options.max_new_tokens)
                for kind in able
            ]
        )
    )


if __name__ == "__main__":
    main()
