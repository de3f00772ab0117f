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
"""Modes of transformers, as people call them."""


def result() -> str:
    """The README's table: over plain decoding, and over transformers' greedy generation, at the
    largest limit of new tokens."""
    data = _benchmark()
    found = {
        row.method: row for row in report.read_rows(data["rows"]) if row.group == report.OVERALL
    }
    lines = [
        "| decoding | tokens per forward pass | speedup over our plain decoding [95% interval] | "
        "speedup over transformers' greedy generation |",
        "|---|---:|---:|---:|",
    ]
    for method, name in RESULT.items():
        row = found[method]
        low, high = row.ci95
        lines.append(
            f"| {name} | {row.tokens_per_pass:.2f} | {row.speedup:.2f} [{low:.2f}, {high:.2f}] | "
            f"{report.shown(row.speedup_hf)} |"
        )
    best = max(
        (row for name, row in found.items() if name.startswith("hf-") and name != "hf-greedy"),
        key=lambda row: row.speedup_hf or 0.0,
        default=None,
    )
    if best is not None:
        named = MODES.get(best.method, f"`{best.method}`")
        lines.append(
            f"| transformers' fastest mode here, {named} | {best.tokens_per_pass:.2f} | "
            f"{best.speedup:.2f} | {report.shown(best.speedup_hf)} |"
        )
    settings, environment = data["settings"], data["environment"]
    others = [found[method] for method in RESULT if method != "autoregressive"]
    equal, texts = sum(row.equal or 0 for row in others), sum(row.questions for row in others)
    said = (
        f"{settings['questions']} of our own prompts, at most {settings['max_new_tokens']} new "
        f"tokens, with the time to read the prompt; {settings['target']} in "
        f"{environment['dtype']}, {environment['threads']} CPU threads "
        f"({environment['processor']}), version {environment['ouroboros']}. {equal} of {texts} "
        f"texts equal our plain decoding's{_peer_texts(found.get('hf-greedy'))}."
    )
    lines += ["", textwrap.fill(said, 140)]
    return "\n".join(lines) + "\n"


def _peer_texts(peer: report.Row | None) -> str:
    """How transformers' own greedy texts compare, where they ran."""
    if peer is None or peer.equal is None or peer.differences:
        return ""
    return (
        f"; so do {peer.equal} of transformers' {peer.questions} greedy texts, and the others "
        "diverge after a near tie"
    )


@functools.cache
def _benchmark() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((assets() / "benchmark.json").read_text(encoding="utf-8"))
    return data


def bench_section() -> str:
    """The benchmark's tables with their command and environment, from the file that `make bench`
    wrote."""
    data = _benchmark()
    return measured(data, unmeasured(row["method"] for row in data["rows"]))


def pairs_section(folder: Path | None = None) -> str:
    """A section for every other pair or machine, from the files that `make bench-pair` or `make
    bench RESULTS=...` wrote; nothing where there are none."""
    files = sorted((folder or assets()).glob("benchmark-*.json"))
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return "".join(f"\n## {title_of(data)}\n\n{measured(data)}" for data in found)


def pair_of(data: dict[str, Any]) -> str:
    """The models of a benchmark's file."""
    settings = data["settings"]
    return f"{settings['target']} with {settings['draft'] or 'no draft model'}"


def title_of(data: dict[str, Any]) -> str:
    """The models of a benchmark's file, and how and where they computed."""
    where = data["environment"]
    return f"{pair_of(data)}, {where['dtype']}, {processor_name(where['processor'])}"


def measured(data: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """What a benchmark's file says: what was measured where, a table for each limit of new tokens,
    the smallest first, and the command. missing: methods that the last one names with dashes."""
    settings, environment = data["settings"], data["environment"]
    most = settings["max_new_tokens"]
    tables = {int(n): rows for n, rows in data.get("shorter", {}).items()} | {most: data["rows"]}
    parts = [
        f"Version {environment['ouroboros']}, {environment.get('passes', '')} pass, "
        f"{pair_of(data)}, {settings['questions']} prompts, {environment['processor']}, "
        f"{environment['threads']} threads, {environment['dtype']}.\n"
    ]
    for limit, rows in sorted(tables.items()):
        table = report.read_rows(rows)
        unnamed = missing if limit == most else ()
        parts += [f"{limit} new tokens at most:\n", report.markdown(table, unnamed)]
        parts += [textwrap.fill(said, 140) + "\n"] if (said := report.loops(table)) else []
    parts += [f"{remark}\n" for remark in data.get("remarks", ())]
    versions = ", ".join(
        f"{name} {environment[key]}"
        for name, key in (
            ("torch", "torch"),
            ("transformers", "transformers"),
            ("Python", "python"),
        )
    )
    return "\n".join([*parts, f"`{data['command']}` - {versions}.\n"])


def unmeasured(measured: Iterable[str]) -> list[str]:
    """The methods that have no row, under any setting; transformers' own modes are peers there."""
    known = {name.partition("[")[0] for name in measured}
    return [
        name for name in methods.available() if name not in known and not name.startswith("hf_")
    ]


def sam_section() -> str:
    """SAM-Decoding's table on our pair, from the file that `make bench` wrote."""
    found = {(row.method, row.group): row for row in report.read_rows(_benchmark()["rows"])}
    lines = [
        "| SAM-Decoding's name | here | tokens per pass | rows per token | speedup [95%] | "
        "decoding only | over hf-greedy | decoding only | tokens per pass, summarization |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, method in SEED_TABLE.items():
        row, summaries = found[method, report.OVERALL], found[method, "summarization"]
        low, high = row.ci95
        over = (row.decode_speedup, row.speedup_hf, row.decode_speedup_hf)
        lines.append(
            f"| {name} | `{method}` | {row.tokens_per_pass:.2f} | {row.rows_per_token:.1f} | "
            f"{row.speedup:.2f} [{low:.2f}, {high:.2f}] | "
            f"{' | '.join(map(report.shown, over))} | {summaries.tokens_per_pass:.2f} |"
        )
    return "\n".join(lines) + "\n"
