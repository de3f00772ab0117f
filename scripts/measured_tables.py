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
from ouroboros_core.benchmark import llama_cpp, report
from ouroboros_core.benchmark.entrants import BASELINE
from ouroboros_core.environment import processor_name
from ouroboros_core.locations import assets
from ouroboros_core.messages import counted

COMPARED = ("union", "speculative", "eagle3", "prompt_lookup", "sam")
"""Columns of the table of tasks: the default, a draft model, a head, and two methods without."""

RESULT = ("autoregressive", *COMPARED, "ouroboros", "ngram", "lookahead")
"""Methods of the table of processors and models."""

MODES = ("hf-assisted", "hf-prompt-lookup")
"""Modes of transformers beside greedy generation."""

TASKS = {
    "mt_bench": "chat (MT-bench)",
    "translation": "translation",
    "summarization": "summary",
    "qa": "question",
    "math_reasoning": "arithmetic",
    "rag": "answer from passages (RAG)",
    "code": "code",
    "edit": "edit of a file",
    "similar": "questions in series",
}
"""Groups of prompts, and a user's names for them."""


def result() -> str:
    """Return the README's table: tokens per second of transformers, of our plain decoding and of
    the fastest method, for every benchmark in bfloat16."""
    lines = [
        "| target, processor | transformers | ours, plain | with speculation |",
        "|---|---:|---:|---:|",
    ]
    for data in _in_bfloat16():
        lines += _speeds(data)
    words = (textwrap.fill(text, 140) for text in (_above(), _below()))
    above, below = words
    return "\n".join([above, "", *lines, "", below, ""])


def _above() -> str:
    """Return the sentence above the README's table."""
    gains: dict[bool, list[float]] = {True: [], False: []}
    for data in _in_bfloat16():
        best = _fastest(defaults(report.read_rows(data["rows"])))
        gains[data["settings"]["sampling"]["temperature"] > 0].append(best.speedup)
    greedy, sampled = (f"{min(g):.1f} to {max(g):.1f} times" for g in (gains[False], gains[True]))
    return (
        f"Tokens per second on two CPU cores. Speculation makes greedy text {greedy} as fast, and "
        f"sampled text {sampled}."
    )


def _speeds(data: dict[str, Any]) -> list[str]:
    rows = {row.method: row for row in defaults(report.read_rows(data["rows"]))}
    plain, best = rows["autoregressive"], _fastest(rows.values())
    processor = processor_name(data["environment"]["processor"])
    target = data["settings"]["target"].removesuffix("-Instruct")
    sampling = data["settings"]["sampling"]
    sampled = f", sampled, `{sampling['acceptance']}`" if sampling["temperature"] else ""
    low, high = best.ci95
    cells = [
        f"{target}{sampled}, {processor}",
        f"{rows[report.HF_GREEDY].tokens_per_second:.1f}" if report.HF_GREEDY in rows else "–",
        f"{plain.tokens_per_second:.1f}",
        f"**{best.tokens_per_second:.1f}**, {best.speedup:.2f}× ({low:.2f} to {high:.2f})",
    ]
    lines = [f"| {' | '.join(cells)} |"]
    for name, row in rows.items():
        if name.startswith(llama_cpp.NAME):
            speeds = f"{row.tokens_per_second:.1f}; {row.decode_tokens_per_second:.1f} in decoding"
            lines.append(
                f"| the same file in {name} ([wheel](docs/benchmarks.md#llamacpp-beside-them)) | – "
                f"| {speeds} only | – |"
            )
    return lines


def _fastest(rows: Iterable[report.Row]) -> report.Row:
    """Return the fastest lossless method of this project."""
    ours = [row for row in rows if row.lossless and not row.method.startswith(report.PEERS)]
    return max(ours, key=lambda row: row.speedup)


def _below() -> str:
    equal = texts = 0
    for data in _benchmarks().values():
        for row in report.read_rows(data["rows"]):
            ours = row.lossless and not row.method.startswith(report.PEERS)
            overall = row.group == report.OVERALL and row.method != BASELINE
            if ours and overall and row.equal is not None:
                equal, texts = equal + row.equal, texts + row.questions
    settings, environment = _benchmark()["settings"], _benchmark()["environment"]
    counts = {data["settings"]["target"]: data["settings"]["questions"] for data in _in_bfloat16()}
    prompts = " and ".join(
        f"{count} prompts for {target.removesuffix('-Instruct')}"
        for target, count in counts.items()
    )
    best = {_fastest(defaults(report.read_rows(data["rows"]))).method for data in _in_bfloat16()}
    fastest = " or ".join(f"`{name}`" for name in sorted(best))
    return (
        f"bfloat16, {environment['threads']} threads, with the time to read the prompt; {prompts}, "
        f"{settings['max_new_tokens']} new tokens at most; sampled at temperature 0.8. The fastest "
        f"method is {fastest}; its factor is over our plain decoding (95% interval). In all "
        f"files and settings, greedy and by `match`, {equal:,} of {texts:,} texts equal plain "
        "decoding's."
    )


def _in_bfloat16() -> list[dict[str, Any]]:
    """Return the benchmarks of the README's table."""
    return [data for data in _benchmarks().values() if data["environment"]["dtype"] == "bfloat16"]


@functools.cache
def _benchmark() -> dict[str, Any]:
    """Return the benchmark of the embedded pair."""
    return _benchmarks()["benchmark"]


@functools.cache
def _benchmarks(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the benchmarks in a folder by the stems of their files."""
    files = sorted((folder or assets()).glob("benchmark*.json"), key=lambda file: file.stem)
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


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
    # Modes of transformers are peers in the table.
    measured = {row.method.partition("[")[0] for row in table}
    missing = [name for name in methods.available() if name not in measured]
    lines += [f"| `{name}` |{' – |' * 5}" for name in missing if not name.startswith("hf_")]
    count = data["settings"]["questions"]
    command = f"`rm assets/benchmark.json && make bench LIMIT={count}` measures this anew."
    return "\n".join([*lines, *peers, "", command, ""])


def _line(row: report.Row) -> str:
    low, high = row.ci95
    yields = f"{row.tokens_per_pass:.2f}" if row.tokens_per_pass else "–"
    numbers = f"{row.speedup:.2f} [{low:.2f}, {high:.2f}] | {report.shown(row.decode_speedup)}"
    cells = (yields, numbers, report.shown(row.speedup_hf), _texts(row))
    return f"| `{row.method}` | {' | '.join(cells)} |"


def _texts(row: report.Row) -> str:
    return report.equality(row) if row.lossless else "its own"


def warm_section() -> str:
    """Return the speedups of methods at their defaults, cold and warm."""
    rows = {
        row.method: row.speedup
        for row in report.read_rows(_benchmark()["rows"])
        if row.group == report.OVERALL
    }
    pairs = [
        f"`{name}` {rows[name]:.2f} to {rows[f'{name}[{report.WARM}]']:.2f}"
        for name in methods.available()
        if f"{name}[{report.WARM}]" in rows
    ]
    text = f"* Cold to warm: {', '.join(pairs)}. Differences within the intervals are chance."
    return textwrap.fill(text, 140, subsequent_indent="  ") + "\n"


def worst() -> str:
    """Return the lowest speedup of a lossless method on a group of prompts, of all benchmarks."""
    speed, method, dtype, count = min(
        (row.speedup, row.method, data["environment"]["dtype"], row.questions)
        for data in _benchmarks().values()
        for row in report.read_rows(data["rows"])
        if row.lossless and "[" not in row.method and not row.method.startswith(report.PEERS)
    )
    return (
        textwrap.fill(
            "* **Drafts can cost more than they save.** In the worst group of all benchmarks, at "
            f"default settings, `{method}` reaches {speed:.2f} times the speed of plain decoding "
            f"({dtype}, {counted(count, 'prompt')}, [Benchmarks](benchmarks.md)). Part of this is "
            "chance.",
            140,
            subsequent_indent="  ",
        )
        + "\n"
    )


def tasks_section() -> str:
    """Return the fastest method for each kind of task, and the speedups of five methods."""
    rows = report.read_rows(_benchmark()["rows"])
    heads = " | ".join(f"`{name}`" for name in COMPARED)
    lines = [f"| task | fastest at its defaults | {heads} |", "|---|---|" + "---:|" * len(COMPARED)]
    for group, task in TASKS.items():
        here = {row.method: row for row in rows if row.group == group and "[" not in row.method}
        best = _fastest(here.values())
        cells = (f"{here[name].speedup:.2f}" for name in COMPARED)
        lines.append(f"| {task} | `{best.method}` {best.speedup:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def pairs_section(folder: Path | None = None) -> str:
    """Return one table of all benchmarks' files `benchmark*.json`: speedups over plain decoding,
    and over transformers' greedy generation."""
    benchmarks = _benchmarks(folder)
    speedups = {
        name: {
            row.method: f"{row.speedup:.2f} / {report.shown(row.speedup_hf)}"
            for row in defaults(report.read_rows(data["rows"]))
        }
        for name, data in benchmarks.items()
    }
    titles = (f"{title_of(data)}, {sampling_of(data)}" for data in benchmarks.values())
    lines = [f"| method | {' | '.join(titles)} |"]
    lines.append("|---" + "|---:" * len(benchmarks) + "|")
    for method in (*RESULT, report.HF_GREEDY, *MODES):
        cells = (rows.get(method, "–") for rows in speedups.values())
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    lines.append("")
    for name, data in benchmarks.items():
        link = f"* [{name}.csv](../assets/{name}.csv): {conditions(data)}."
        lines.append(textwrap.fill(link, 140, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines) + "\n"


def defaults(rows: Iterable[report.Row]) -> list[report.Row]:
    """Return the overall rows of methods with their default settings, and of peers."""
    return [row for row in rows if row.group == report.OVERALL and "[" not in row.method]


def csv_files(folder: Path | None = None) -> dict[str, str]:
    """Return all rows of each benchmark's file as CSV, by the name of the file."""
    benchmarks = _benchmarks(folder).items()
    tables = ((name, report.to_csv(report.read_rows(data["rows"]))) for name, data in benchmarks)
    return {f"{name}.csv": table.replace("\r\n", "\n") for name, table in tables}


def pair_of(data: dict[str, Any]) -> str:
    settings = data["settings"]
    return f"{settings['target']} with {settings['draft'] or 'no draft model'}"


def title_of(data: dict[str, Any]) -> str:
    environment = data["environment"]
    processor = processor_name(environment["processor"])
    return f"{data['settings']['target']}, {environment['dtype']}, {processor}"


def sampling_of(data: dict[str, Any]) -> str:
    sampling = data["settings"]["sampling"]
    if not sampling["temperature"]:
        return "greedy"
    return f"sampled at {sampling['temperature']:g} by `{sampling['acceptance']}`"


def conditions(data: dict[str, Any]) -> str:
    settings, environment = data["settings"], data["environment"]
    commit = f", commit {data['commit']}" if data.get("commit") else ""
    return (
        f"Version {environment['ouroboros']}{commit}, {environment.get('passes', '')} pass, "
        f"{pair_of(data)}, {settings['questions']} prompts, {settings['max_new_tokens']} new "
        f"tokens, {sampling_of(data)}, {environment['processor']}, "
        f"{environment['threads']} threads, "
        f"{environment['dtype']}, torch {environment['torch']}, transformers "
        f"{environment['transformers']}"
    )


def sampled_speedups(method: str) -> dict[str, float]:
    """Return a method's speedup over plain decoding in sampling, by acceptance rule."""
    return {
        data["settings"]["sampling"]["acceptance"]: next(
            row.speedup for row in defaults(report.read_rows(data["rows"])) if row.method == method
        )
        for name, data in _benchmarks().items()
        if name.startswith("benchmark-sampled")
    }
