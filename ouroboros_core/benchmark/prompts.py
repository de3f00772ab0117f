"""Prompts in the formats of Spec-Bench and of the benchmarks that Ouroboros was measured on.

Spec-Bench (hemingkx/Spec-Bench, `question.jsonl`): one JSON object a line with question_id,
category and turns. MT-bench's eight categories are one group, `mt_bench`; every other category is
its own. A question may have a `prediction`: the expected text, such as the old version of an edited
file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets, read_json_lines

MT_BENCH = (
    *("writing", "roleplay", "reasoning", "math"),
    *("coding", "extraction", "stem", "humanities"),
)
SPEC_BENCH = ("mt_bench", "translation", "summarization", "qa", "math_reasoning", "rag")
GROUPS = (*SPEC_BENCH, "code", "edit", "similar")
"""Spec-Bench's groups; functions from a docstring; files to edit, each with its old version; and a
series of similar questions, from which a warm method learns for the next one."""
FIELDS = {
    "turns": "Spec-Bench",
    "prompt": "HumanEval",
    "text": "MBPP",
    "question": "GSM8K",
    "article": "CNN/DM",
    "translation": "WMT",
}
"""Field that holds the prompt -> the benchmark that uses it, in the order of the search."""


@dataclass(frozen=True)
class Question:
    """One line of the file; the first turn is the prompt. prediction: the text that is expected as
    the answer to it; empty if nothing is."""

    id: int | str
    category: str
    turns: tuple[str, ...]
    prediction: str = ""

    @property
    def group(self) -> str:
        """Return the group in which Spec-Bench reports it."""
        return "mt_bench" if self.category in MT_BENCH else self.category


def own_prompts(limit: int | None = None) -> list[Question]:
    """Return at most `limit` of the project's own prompts, from all groups equally."""
    return spread(read(assets() / "prompts.jsonl"), limit)


def spread(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """The first `limit` questions when the groups take turns, in order; all for None."""
    if limit is None or limit >= len(questions):
        return list(questions)
    by_group: dict[str, list[Question]] = {}
    for question in questions:
        by_group.setdefault(question.group, []).append(question)
    chosen = [q for row in zip_longest(*by_group.values()) for q in row if q is not None][:limit]
    return [question for question in questions if question in chosen]


def digest(questions: Iterable[Question]) -> str:
    """Twelve hex digits that identify a set of questions."""
    facts = [
        (q.id, q.group, q.turns, *((q.prediction,) if q.prediction else ())) for q in questions
    ]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def read(path: Path, field: str | None = None) -> list[Question]:
    """The questions of a JSON-lines file, plain or gzipped.

    field: where the prompt stands (`translation.de` for one inside another); None finds turns
    (Spec-Bench), prompt (HumanEval), text (MBPP), question (GSM8K), article (CNN/DM) and
    translation (WMT, its first language). For the last two an instruction is put before
    the text; a field that is named is taken as it is. The predicted output, where there is one,
    stands in `prediction`.

    Raises InvalidInput naming the line that is wrong.
    """
    questions = []
    for number, data in read_json_lines(path):
        try:
            questions.append(_question(data, number, field))
        except InvalidInput as error:
            raise InvalidInput(f"{path.name}, line {number}: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            fields = f"the field {field}" if field else f"any of the fields {', '.join(FIELDS)}"
            names = ", ".join(data) if isinstance(data, dict) else "no object"
            raise InvalidInput(
                f"{path.name}, line {number}: no prompt in {fields}; there is {names}. Name a "
                "field with --field"
            ) from None
    if not questions:
        raise InvalidInput(f"{path} holds no prompts")
    doubles = len(questions) - len({question.id for question in questions})
    if doubles:
        raise InvalidInput(f"{path.name}: {doubles} questions have an id that another one has, too")
    return questions


def _question(data: dict[str, Any], number: int, field: str | None) -> Question:
    path = field or next(name for name in FIELDS if name in data)
    value: Any = data
    for key in path.split("."):
        value = value[key]
    turns = value if isinstance(value, list) else [value]
    if field is None:
        turns = [_instruct(path, turn) for turn in turns]
    if not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise TypeError("expected text")
    prediction = data.get("prediction") or ""
    if not isinstance(prediction, str):
        raise InvalidInput(f"prediction must be a text, got {str(prediction)[:40]}")
    id_ = next((data[name] for name in ("question_id", "task_id", "id") if name in data), number)
    category = data.get("category") or FIELDS.get(path, path)
    id_ = id_ if isinstance(id_, int) else str(id_)
    return Question(id_, str(category), tuple(turns), prediction)


def _instruct(field: str, value: Any) -> Any:
    if field == "article":
        return f"Summarize: {value}"
    if field == "translation":
        (source, text), (into, _) = list(value.items())[:2]
        return f"Translate from {source} to {into}: {text}"
    return value
