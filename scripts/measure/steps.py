"""Milliseconds of a step in passes and beside them: the table of docs/performance.md.

Every method runs over the same prompts. *Target* is the time inside the target's passes, the search
for argmaxes included, *draft* the time inside passes of draft model or head, *host* the rest:
proposing, masks outside the pass, walking the tree, learning, recording.
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
from ouroboros_core.loading.pairs import Execution, Pair, load_pair
from ouroboros_core.methods.parts.needs import Need

PASSES = ("evaluate", "extend", "draft", "prefill")
"""Calls into a model that compute."""


@dataclass
class Clocked:
    """A model with a clock on its passes; all other attributes are the model's."""

    clocked: Any
    seconds: float = field(default=0.0, init=False)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.clocked, name)
        return self._timed(attribute) if name in PASSES else attribute

    def _timed(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = compute(*args, **kwargs)
            if hasattr(result, "argmax"):
                result.argmax()
            self.seconds += time.perf_counter() - start
            return result

        return timed


@dataclass(frozen=True)
class AverageStep:
    """Milliseconds, rows and tokens of an average step, prefill apart."""

    method: str
    step: float
    target: float
    draft: float
    rows: float
    tokens: float

    @property
    def host(self) -> float:
        return self.step - self.target - self.draft


def profile(
    pair: Pair, name: str, questions: Sequence[Question], max_new_tokens: int
) -> AverageStep:
    """Run one method over the prompts; the first step of each run does not count."""
    target = Clocked(pair.target)
    draft = Clocked(pair.draft) if pair.draft else None
    heads = {kind: Clocked(cast(Any, model)) for kind, model in pair.heads.items()}
    drafters = [model for model in (draft, *heads.values()) if model]
    models: dict[str, Any] = {"target": target, "draft": draft, "heads": heads}
    clocked_pair = replace(pair, **models)
    method, chat = methods.get(name), bool(pair.tokenizer.chat_template)
    seconds = target_seconds = draft_seconds = rows = tokens = steps = 0.0
    for question in questions:
        task = Task(question.turns[0], name, method.Hyperparameters(), chat=chat)
        expected = question.prediction if Need.PREDICTED_OUTPUT in method.uses else ""
        task = replace(task, max_new_tokens=max_new_tokens, prediction=expected)
        for step in Generation(clocked_pair, task):
            if step.index == 0:  # prefill and the first step end here
                target_seconds -= target.seconds
                draft_seconds -= sum(model.seconds for model in drafters)
                continue
            seconds += step.seconds.decode
            rows += step.width
            steps += 1
            tokens += len(step.tokens)
        target_seconds += target.seconds
        draft_seconds += sum(model.seconds for model in drafters)
    whole, target_share, draft_share = (
        1e3 * total / steps for total in (seconds, target_seconds, draft_seconds)
    )
    return AverageStep(name, whole, target_share, draft_share, rows / steps, tokens / steps)


def table(steps: Sequence[AverageStep]) -> str:
    lines = [
        "| method | step, ms | target | draft | host | host, share | rows | tokens |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for s in steps:
        times = f"{s.step:.1f} | {s.target:.1f} | {s.draft:.1f} | {s.host:.1f}"
        share = f"{s.host / s.step:.0%}"
        lines.append(f"| `{s.method}` | {times} | {share} | {s.rows:.1f} | {s.tokens:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=6, help="questions, from all groups alike")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--passes", choices=("auto", "transformers"), default="auto")
    options = parser.parse_args()
    pair = load_pair(execution=Execution(options.passes))
    able = [m for m in methods.available().values() if m.proposes or m.id == methods.PLAIN]
    able = [m for m in able if lacking(pair, m, m.Hyperparameters()) is None]
    for method in able:  # warm up
        Generation(pair, Task("Hello", method.id, method.Hyperparameters(), max_new_tokens=8)).run()
    questions, limit = own_prompts(options.limit), options.max_new_tokens
    print(table([profile(pair, method.id, questions, limit) for method in able]))
