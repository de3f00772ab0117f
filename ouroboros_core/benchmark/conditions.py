"""What a measurement was made on: two of them can be joined only where this is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ouroboros_core.benchmark.prompts import Question, digest

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling


@dataclass(kw_only=True)
class Conditions:
    """What everything was measured on: number and digest of the questions, lengths, sampling,
    models, machine."""

    questions: int
    prompts: str
    max_new_tokens: int
    sampling: dict[str, Any]
    repeats: int
    target: str
    draft: str | None
    environment: dict[str, Any]


def conditions(
    pair: Pair, questions: Sequence[Question], sampling: Sampling, count: int, repeats: int
) -> dict[str, Any]:
    """The fields of Conditions; count: new tokens of a run at most."""
    return {
        "questions": len(questions),
        "prompts": digest(questions),
        "max_new_tokens": count,
        "sampling": sampling.model_dump(),
        "repeats": repeats,
        "target": pair.target.name,
        "draft": pair.draft_name,
        "environment": asdict(pair.environment),
    }
