"""Prompts in Spec-Bench's format: one JSON object a line with question_id, category and turns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets


@dataclass(frozen=True)
class Question:
    """One line of the file; the first turn is the prompt."""

    id: int
    category: str
    turns: tuple[str, ...]


def own_prompts() -> list[Question]:
    """The project's own prompts."""
    return read(assets() / "prompts.jsonl")


def read(path: Path) -> list[Question]:
    """The questions of a file; raises InvalidInput naming the line that is wrong."""
    questions = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip():
            try:
                data = json.loads(line)
                questions.append(Question(int(data["question_id"]), str(data["category"]), tuple(map(str, data["turns"]))))
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidInput(f"{path.name}, line {number}: expected question_id, category and turns ({error!r})") from None
    return questions
