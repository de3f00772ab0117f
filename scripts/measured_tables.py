"""The measured tables of README.md and docs/benchmarks.md, from the files that `make bench` and
`make bench-pair` wrote."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ouroboros_core import methods
from ouroboros_core.benchmark import report
from ouroboros_core.environment import processor_name
from ouroboros_core.locations import assets

SEED_TABLE = {
    "PLD": "prompt_lookup",
    "SAM": "sam[auxiliary=none]",
    "Token Recycling": "token_recycling",
    "SAM[Token Recycling]": "sam",
    "EAGLE-2": "eagle2",
    "SAM[EAGLE-2]": "sam[auxiliary=eagle2]",
}
"""The methods of SAM-Decoding's table, and what they are called here."""

RESULT = {
    "autoregressive": "plain decoding",
    "speculative": "speculative decoding",
    "ouroboros": "Ouroboros",
    "prompt_lookup": "prompt lookup",
    "sam": "SAM-Decoding",
    "eagle2": "EAGLE-2",
    "union": "union of all sources (default)",
}
"""Rows of the README's table."""

MODES = {"hf-assisted": "assisted generation", "hf-prompt-lookup": "prompt lookup"}
"""Modes of transformers beside greedy generation, and their names."""


def result() -> str:
    """Return the README's table, at the largest limit of new tokens."""
    data = _benchmark()
    rows = report.read_rows(data["rows"])
    overall = {row.method: row for row in rows if row.group == report.OVERALL}
    lines = [
        "| decoding | tokens per forward pass | speedup over our plain decoding [95% interval] | "
        "speedup over transformers' greedy generation |",
        "|---|---:|---:|---:|",
    ]
    for method, name in RESULT.items():
        row = overall[method]
        low, high = row.ci95
        speedup = f"{row.speedup:.2f} [{low:.2f}, {high:.2f}]"
        over_hf = report.shown(row.speedup_hf)
        lines.append(f"| {name} | {row.tokens_per_pass:.2f} | {speedup} | {over_hf} |")
    modes = [overall[mode] for mode in MODES if mode in overall]
    if modes:
        row = max(modes, key=lambda mode: mode.speedup_hf or 0.0)
        name = f"transformers' fastest mode here, {MODES[row.method]}"
        over_hf = report.shown(row.speedup_hf)
        lines.append(f"| {name} | {row.tokens_per_pass:.2f} | {row.speedup:.2f} | {over_hf} |")
    return "\n".join([*lines, "", textwrap.fill(_below(data, overall), 140), ""])


def _below(data: dict[str, Any], overall: dict[str, report.Row]) -> str:
    """Return the sentences below the README's table."""
    settings, environment = data["settings"], data["environment"]
    others = [overall[method] for method in RESULT if method != "autoregressive"]
    equal, texts = sum(row.equal or 0 for row in others), sum(row.questions for row in others)
    peer, peer_texts = overall.get("hf-greedy"), ""
    if peer is not None and peer.equal is not None and not peer.differences:
        peer_texts = (
            f"; so do {peer.equal} of transformers' {peer.questions} greedy texts, and the others "
            "diverge after a near tie"
        )
    return (
        f"{settings['questions']} of our own prompts, at most {settings['max_new_tokens']} new "
        f"tokens, with the time to read the prompt; {settings['target']} in "
        f"{environment['dtype']}, {environment['threads']} CPU threads "
        f"({environment['processor']}), version {environment['ouroboros']}. {equal} of {texts} "
        f"texts equal our plain decoding's{peer_texts}."
    )


@functools.cache
def _benchmark() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((assets() / "benchmark.json").read_text(encoding="utf-8"))
    return data


def bench_section() -> str:
    """Return the table of all methods, with conditions and command."""
    data = _benchmark()
    table = report.read_rows(data["rows"])
    lines = [
        f"{textwrap.fill(conditions(data), 140)}.\n",
        "| method | tokens per pass | over plain decoding [95%] | decoding only | over "
        "transformers' greedy | texts |",
        "|---|---:|---:|---:|---:|---|",
    ]
    rows = {row.method: _line(row) for row in defaults(table)}
    peers = [rows.pop(name) for name in list(rows) if name.startswith(report.PEER)]
    lines += rows.values()
    lines += [f"| `{name}` |{' – |' * 5}" for name in unmeasured(row.method for row in table)]
    return "\n".join([*lines, *peers, "", f"`{data['command']}`", ""])


def _line(row: report.Row) -> str:
    """Return a row's line of the table."""
    low, high = row.ci95
    yields = f"{row.tokens_per_pass:.2f}" if row.tokens_per_pass else "–"
    numbers = f"{row.speedup:.2f} [{low:.2f}, {high:.2f}] | {report.shown(row.decode_speedup)}"
    cells = (yields, numbers, report.shown(row.speedup_hf), _texts(row))
    return f"| `{row.method}` | {' | '.join(cells)} |"


def _texts(row: report.Row) -> str:
    return report.equality(row) if row.lossless else "its own"


def groups_section() -> str:
    """Return the table of speedups over plain decoding by group of prompts."""
    rows = report.read_rows(_benchmark()["rows"])
    groups = list(dict.fromkeys(row.group for row in rows if row.group != report.OVERALL))
    speedups = {(row.method, row.group): f"{row.speedup:.2f}" for row in rows}
    names = [row.method for row in defaults(rows) if row.lossless]
    heads = " | ".join(group.replace("_", " ") for group in groups)
    lines = [f"| method | {heads} |", "|---" + "|---:" * len(groups) + "|"]
    lines += [
        f"| `{name}` | {' | '.join(speedups[name, group] for group in groups)} |" for name in names
    ]
    return "\n".join(lines) + "\n"


def pairs_section(folder: Path | None = None) -> str:
    """Return one table of all benchmarks' files `benchmark*.json`: speedups over plain decoding,
    and over transformers' greedy generation."""
    files = sorted((folder or assets()).glob("benchmark*.json"), key=lambda file: file.stem)
    benchmarks = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    speedups = {
        name: {row.method: _both(row) for row in defaults(report.read_rows(data["rows"]))}
        for name, data in benchmarks.items()
    }
    methods = dict.fromkeys(method for rows in speedups.values() for method in rows)
    lines = [f"| method | {' | '.join(map(title_of, benchmarks.values()))} |"]
    lines.append("|---" + "|---:" * len(benchmarks) + "|")
    for method in methods:
        cells = (rows.get(method, "–") for rows in speedups.values())
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    lines.append("")
    for name, data in benchmarks.items():
        link = f"* [{name}.csv](../assets/{name}.csv): {conditions(data)}."
        lines.append(textwrap.fill(link, 140, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines) + "\n"


def _both(row: report.Row) -> str:
    """Return the two speedups of a row."""
    return f"{row.speedup:.2f} / {report.shown(row.speedup_hf)}"


def defaults(rows: Iterable[report.Row]) -> list[report.Row]:
    """Return the overall rows of methods with their default settings, and of peers."""
    return [row for row in rows if row.group == report.OVERALL and "[" not in row.method]


def csv_files(folder: Path | None = None) -> dict[str, str]:
    """Return all rows of each benchmark's file as CSV, by the name of the file."""
    files = sorted((folder or assets()).glob("benchmark*.json"))
    benchmarks = ((file.stem, json.loads(file.read_text(encoding="utf-8"))) for file in files)
    tables = ((name, report.to_csv(report.read_rows(data["rows"]))) for name, data in benchmarks)
    return {f"{name}.csv": table.replace("\r\n", "\n") for name, table in tables}


def pair_of(data: dict[str, Any]) -> str:
    """Return the models of a benchmark."""
    settings = data["settings"]
    return f"{settings['target']} with {settings['draft'] or 'no draft model'}"


def title_of(data: dict[str, Any]) -> str:
    """Return target, dtype and processor of a benchmark."""
    environment = data["environment"]
    processor = processor_name(environment["processor"])
    return f"{data['settings']['target']}, {environment['dtype']}, {processor}"


def conditions(data: dict[str, Any]) -> str:
    """Return the conditions of a benchmark in a line."""
    settings, environment = data["settings"], data["environment"]
    return (
        f"Version {environment['ouroboros']}, {environment.get('passes', '')} pass, "
        f"{pair_of(data)}, {settings['questions']} prompts, {settings['max_new_tokens']} new "
        f"tokens, {environment['processor']}, {environment['threads']} threads, "
        f"{environment['dtype']}, torch {environment['torch']}, transformers "
        f"{environment['transformers']}"
    )


def unmeasured(measured: Iterable[str]) -> list[str]:
    """Return the methods without a row; modes of transformers are peers in the table."""
    rows = {name.partition("[")[0] for name in measured}
    names = [name for name in methods.available() if not name.startswith("hf_")]
    return [name for name in names if name not in rows]


def sam_section() -> str:
    """Return SAM-Decoding's table on our pair."""
    rows = {(row.method, row.group): row for row in report.read_rows(_benchmark()["rows"])}
    lines = [
        "| SAM-Decoding's name | here | tokens per pass | rows per token | speedup [95%] | "
        "decoding only | over hf-greedy | decoding only | tokens per pass, summarization |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, method in SEED_TABLE.items():
        row, summaries = rows[method, report.OVERALL], rows[method, "summarization"]
        low, high = row.ci95
        over = (row.decode_speedup, row.speedup_hf, row.decode_speedup_hf)
        lines.append(
            f"| {name} | `{method}` | {row.tokens_per_pass:.2f} | {row.rows_per_token:.1f} | "
            f"{row.speedup:.2f} [{low:.2f}, {high:.2f}] | "
            f"{' | '.join(map(report.shown, over))} | {summaries.tokens_per_pass:.2f} |"
        )
    return "\n".join(lines) + "\n"
