"""The result of a training: a folder with weights, the recorded run, and a model card. The page
reads the record, so that the file imports no torch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.locations import as_utf8
from ouroboros_core.models.heads.recipes import RECIPES, Recipe

if TYPE_CHECKING:
    from ouroboros_core.training.loop import Progress
    from ouroboros_core.training.student import Student

RECORD = "training.json"


@dataclass(frozen=True)
class Circumstances:
    """The command of a run, and its machine.

    before   the record of the finished weights that the run began with, if any
    note     description of the texts, for the card
    license  for the card; None: the target's license
    bits     of each stored weight in a head's matrices
    """

    command: Sequence[str]
    machine: str
    versions: str
    before: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    license: str | None = None
    bits: int = 16


def earlier(folder: Path | None) -> dict[str, Any]:
    """Return the record of a finished draft, or an empty one."""
    if folder is None or not (folder / RECORD).exists():
        return {}
    record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return record


EARLIER = "in the earlier runs: "


def joined_note(before: str, note: str) -> str:
    """Return the description of the texts of a run and of the runs before it."""
    if not before or before == note or (note and before.startswith(f"{note}; {EARLIER}")):
        return before or note
    old = before if before.startswith(EARLIER) else EARLIER + before
    return f"{note}; {old}" if note else old


def joined_curve(
    before: Sequence[dict[str, Any]], curve: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the points of the earlier run and of this one, whose tokens and seconds are added."""
    tokens, seconds = (before[-1]["tokens"], before[-1].get("seconds", 0.0)) if before else (0, 0.0)
    later = [
        {**p, "tokens": p["tokens"] + tokens, "seconds": round(p["seconds"] + seconds, 1)}
        for p in curve
    ]
    return [*before, *later]


def save(
    student: Student,
    out: Path,
    recipe: Recipe,
    progress: Progress,
    circumstances: Circumstances,
) -> None:
    """Write weights, the recorded run, and the card."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("model*.safetensors*"), *out.glob("head*")):
        old.unlink()
    shape = student.save(out, circumstances.bits)
    before: list[dict[str, Any]] = circumstances.before.get("curve", [])
    record = {
        "kind": recipe.kind,
        "shape": shape,
        "recipe": recipe.record,
        "command": shlex.join(circumstances.command),
        "machine": circumstances.machine,
        "versions": circumstances.versions,
        "note": joined_note(circumstances.before.get("note", ""), circumstances.note),
        "license": circumstances.license,
        "earlier": before[-1]["tokens"] if before else 0,
        "curve": joined_curve(before, progress.curve),
    }
    (out / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (out / "README.md").write_text(card(as_utf8(out.name), record), encoding="utf-8")


def agreement_of(point: dict[str, Any]) -> list[float]:
    """Return the agreement one token ahead, two ..., at a point of a recorded run."""
    agreement = point["agreement"]
    return list(map(float, agreement)) if isinstance(agreement, list) else [float(agreement)]


def card(name: str, record: dict[str, Any]) -> str:
    """Return the model card, from the record of the run."""
    recipe, curve, phrase = record["recipe"], record["curve"], RECIPES[record["kind"]].phrase
    last = curve[-1]
    head = record["kind"] != "draft"
    agreement = [
        f"{share:.1%}" + f" {n} ahead" * head for n, share in enumerate(agreement_of(last), 1)
    ]
    texts = ", ".join(recipe["data"]) + (f" ({record['note']})" if record["note"] else "")
    lines = ["---", f"license: {record['license']}", "---", ""] if record["license"] else []
    lines += [
        f"# {name}",
        "",
        f"{phrase[0].upper()}{phrase[1:]} for {recipe['target']}: {record['shape']}.",
        "",
        f"- licence: {record['license'] or 'that of its target'}",
        f"- trained on: {texts}",
        f"- command of the last run: `{record['command']}`",
        f"- seed {recipe['seed']}; {record['machine']}; {record['versions']}",
        f"- {last['tokens']:,} answer tokens, all epochs and earlier runs together",
        f"- its choice is the target's on {recipe['held_out']} held-out conversations: "
        f"{', '.join(agreement)}",
        "",
        "| tokens | training loss | agreement | minutes |",
        "|---:|---:|---:|---:|",
    ]
    for n in sorted({round(n * (len(curve) - 1) / 7) for n in range(8)}):
        point = curve[n]
        shares = ", ".join(f"{share:.3f}" for share in agreement_of(point))
        minutes = f"{point['seconds'] / 60:.0f}" if "seconds" in point else "–"
        lines.append(f"| {point['tokens']:,} | {point['loss']:.3f} | {shares} | {minutes} |")
    if record["earlier"]:
        lines += [
            "",
            f"The first {record['earlier']:,} tokens are an earlier run's, which had held-out "
            "texts and a loss of its own; it may have learned from what is held out now.",
        ]
    return "\n".join([*lines, "", f"The whole recorded run is in {RECORD}.", ""])
