"""The measured tables of README.md and docs/benchmarks.md, from the files that `make bench` and
`make bench-pair` wrote."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Iterable, Sequence
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
    return "\n".join([*lines, "", textwrap.fill(_conditions(data, overall), 140), ""])


def _conditions(data: dict[str, Any], overall: dict[str, report.Row]) -> str:
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
    """Return the tables of the file of `make bench`, with command and environment."""
    data = _benchmark()
    return measured(data, unmeasured(row["method"] for row in data["rows"]))


def pairs_section(folder: Path | None = None) -> str:
    """Return a section for each other pair or machine, from the files `benchmark-*.json`."""
    files = sorted((folder or assets()).glob("benchmark-*.json"))
    benchmarks = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return "".join(f"\n## {title_of(data)}\n\n{measured(data)}" for data in benchmarks)


def pair_of(data: dict[str, Any]) -> str:
    """Return the models of a benchmark."""
    settings = data["settings"]
    return f"{settings['target']} with {settings['draft'] or 'no draft model'}"


def title_of(data: dict[str, Any]) -> str:
    """Return models, dtype and processor of a benchmark."""
    environment = data["environment"]
    processor = processor_name(environment["processor"])
    return f"{pair_of(data)}, {environment['dtype']}, {processor}"


def measured(data: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """Return conditions, a table for each limit of new tokens, and the command of a benchmark.

    missing  methods that have dashes in the table of the largest limit
    """
    settings, environment = data["settings"], data["environment"]
    largest = settings["max_new_tokens"]
    tables = {int(n): rows for n, rows in data.get("shorter", {}).items()}
    tables[largest] = data["rows"]
    lines = [
        f"Version {environment['ouroboros']}, {environment.get('passes', '')} pass, "
        f"{pair_of(data)}, {settings['questions']} prompts, {environment['processor']}, "
        f"{environment['threads']} threads, {environment['dtype']}.\n"
    ]
    for limit, rows in sorted(tables.items()):
        table = report.read_rows(rows)
        dashes = missing if limit == largest else ()
        lines += [f"{limit} new tokens at most:\n", report.markdown(table, dashes)]
        lines += [f"{textwrap.fill(text, 140)}\n"] if (text := report.loops(table)) else []
    lines += [f"{remark}\n" for remark in data.get("remarks", ())]
    names = {"torch": "torch", "transformers": "transformers", "Python": "python"}
    versions = ", ".join(f"{name} {environment[key]}" for name, key in names.items())
    return "\n".join([*lines, f"`{data['command']}` - {versions}.\n"])


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
