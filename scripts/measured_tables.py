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
    "rag": "answers from passages (RAG)",
    "code": "code",
    "edit": "edit of a file",
    "similar": "questions in series",
}
"""Groups of prompts, and a user's names for them."""


TARGETS = {
    "SmolLM2-135M-Instruct": "dequantised Q4_1, with an EAGLE-3 head trained for it",
    "Qwen2.5-Coder-1.5B-Instruct": "dequantised Q4_K_M, with the 0.5B model as its draft",
}
"""Weights of the benchmarks' targets, and what drafts for them in the default method."""

SPEC_BENCH = "benchmark-spec-bench"
"""The benchmark on prompts of Spec-Bench; the others are on the project's own."""


def result() -> str:
    """Return the README's table, for every benchmark in bfloat16: speedup of the default method,
    and tokens per second of it and of plain decoding: ours, transformers', llama.cpp's."""
    lines = [
        f"| target, prompts | speedup [95%] | `{methods.DEFAULT}` | plain, ours | plain, "
        "transformers | plain, llama.cpp |",
        "|---|---:|---:|---:|---:|---:|",
        *map(_speeds, _in_bfloat16()),
    ]
    return "\n".join([_above(), "", *lines, "", *(f"* {text}" for text in _below()), ""])


def _above() -> str:
    """Return the sentences above the README's table."""
    greedy, sampled = (
        [
            _overall(data)[methods.DEFAULT]
            for data in _in_bfloat16()
            if (data["settings"]["sampling"]["temperature"] > 0) == drawn
        ]
        for drawn in (False, True)
    )
    return (
        f"On two cores of an {_processor()}, in bfloat16, the default method `{methods.DEFAULT}` "
        f"writes greedy text {_range([row.speedup for row in greedy])} times as fast as plain "
        f"decoding, and sampled text {_range([row.speedup for row in sampled])} times. In the "
        "table's first row, the speedup ranges by [task](docs/methods/index.md#choose-one) from "
        f"{_by_task()}. [The text is the same](docs/losslessness.md) in greedy decoding and in "
        "sampling by `match` (shared noise); by `rejection` (the papers' rule), only the "
        "distribution is. **No complete run has been timed on a GPU.** Tokens per second (in "
        "brackets: excluding prompt processing):"
    )


def _by_task() -> str:
    """Return the lowest and the highest speedup of the default method on a kind of prompts."""
    rows = [
        row
        for row in report.read_rows(_benchmark()["rows"])
        if row.method == methods.DEFAULT and row.group in TASKS
    ]
    low, high = (end(rows, key=lambda row: row.speedup) for end in (min, max))
    return " to ".join(f"{row.speedup:.2f} for {TASKS[row.group]}" for row in (low, high))


def _range(speedups: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{end(speedups):.1f}" for end in (min, max)))


def _processor() -> str:
    """Return the processor of the benchmarks of the README's table, which is the same for all."""
    (processor,) = {processor_name(data["environment"]["processor"]) for data in _in_bfloat16()}
    return processor


def _speeds(data: dict[str, Any]) -> str:
    rows = _overall(data)
    plain, ours = rows["autoregressive"], rows[methods.DEFAULT]
    target = data["settings"]["target"].removesuffix("-Instruct")
    sampling = data["settings"]["sampling"]
    sampled = f", sampled, `{sampling['acceptance']}`" if sampling["temperature"] else ""
    low, high = ours.ci95
    cells = [
        f"{target}, {prompts_of(data)}{sampled}",
        f"**{ours.speedup:.2f}×** [{low:.2f},&nbsp;{high:.2f}]",
        *map(_tokens_per_second, (ours, plain, rows[report.HF_GREEDY])),
        next(map(_tokens_per_second, _by_llama_cpp(rows)), "–"),
    ]
    return f"| {' | '.join(cells)} |"


def _tokens_per_second(row: report.Row) -> str:
    return f"{row.tokens_per_second:.1f} ({row.decode_tokens_per_second:.1f})"


def _fastest(rows: Iterable[report.Row]) -> report.Row:
    """Return the fastest lossless method of this project."""
    ours = [row for row in rows if row.lossless and not row.method.startswith(report.PEERS)]
    return max(ours, key=lambda row: row.speedup)


def _below() -> list[str]:
    """Return the notes below the README's table."""
    settings, environment = _benchmark()["settings"], _benchmark()["environment"]
    names = dict.fromkeys(data["settings"]["target"] for data in _in_bfloat16())
    targets = "; ".join(
        f"{name.removesuffix('-Instruct')} is {TARGETS.get(name, 'as published')}" for name in names
    )
    equal, texts = _equal_texts()
    return [
        f"**Conditions**: {environment['threads']} threads, prompt processing included, at most "
        f"{settings['max_new_tokens']} new tokens; {targets}; sampled at temperature 0.8. Each row "
        "is a separate run, and machines with the same name differ: compare only within a row. "
        "[Benchmarks](docs/benchmarks.md#on-other-models-and-prompts) has the commits "
        "and [commands](docs/benchmarks.md#measure-it-yourself).",
        f"**Same text**: {equal:,} of {texts:,} texts (every measured method and setting, greedy "
        "or by `match`, float32 included) equal plain decoding's, on the native CPU pass.",
        _llama_cpp(),
    ]


def _equal_texts() -> tuple[int, int]:
    """Return how many texts of lossless methods equal plain decoding's, and how many there are."""
    equal = texts = 0
    for data in _benchmarks().values():
        for row in report.read_rows(data["rows"]):
            ours = row.lossless and not row.method.startswith(report.PEERS)
            overall = row.group == report.OVERALL and row.method != BASELINE
            if ours and overall and row.equal is not None:
                equal, texts = equal + row.equal, texts + row.questions
    return equal, texts


def _llama_cpp() -> str:
    pairs = {
        data["settings"]["target"].removesuffix("-Instruct"): (
            _overall(data)[methods.DEFAULT],
            _by_llama_cpp(_overall(data))[0],
        )
        for data in _in_bfloat16()
        if _by_llama_cpp(_overall(data))
    }
    ahead = [
        target
        for target, (ours, theirs) in pairs.items()
        if theirs.decode_tokens_per_second > ours.decode_tokens_per_second
    ]
    return (
        "**llama.cpp** ran the same files, in 4 bits, from an [AVX2 wheel](docs/benchmarks.md"
        "#llamacpp-beside-them) with slow prompt processing"
        + (f"; it decodes {' and '.join(ahead)} faster than `{methods.DEFAULT}`." if ahead else ".")
    )


def _by_llama_cpp(rows: dict[str, report.Row]) -> list[report.Row]:
    return [row for name, row in rows.items() if name.startswith(llama_cpp.NAME)]


def measured(target: str, method: str) -> tuple[dict[str, Any], float]:
    """Return the settings of the greedy benchmark of a target, and a method's speedup in it."""
    (data,) = (
        data
        for data in _in_bfloat16()
        if data["settings"]["target"] == target
        and sampling_of(data) == "greedy"
        and data["file"] != SPEC_BENCH
    )
    return data["settings"], _overall(data)[method].speedup


def _overall(data: dict[str, Any]) -> dict[str, report.Row]:
    """Return the rows of a benchmark over all prompts by method, at default settings."""
    return {row.method: row for row in defaults(report.read_rows(data["rows"]))}


def _in_bfloat16() -> list[dict[str, Any]]:
    """Return the benchmarks of the README's table, greedy ones first."""
    halves = [data for data in _benchmarks().values() if data["environment"]["dtype"] == "bfloat16"]
    return sorted(halves, key=lambda data: data["settings"]["sampling"]["temperature"])


@functools.cache
def _benchmark() -> dict[str, Any]:
    """Return the benchmark of the embedded pair."""
    return _benchmarks()["benchmark"]


@functools.cache
def _benchmarks(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the benchmarks in a folder by the stems of their files."""
    files = sorted((folder or assets()).glob("benchmark*.json"), key=lambda file: file.stem)
    return {
        file.stem: {"file": file.stem, **json.loads(file.read_text(encoding="utf-8"))}
        for file in files
    }


def bench_section() -> str:
    """Return the table of all methods, with conditions."""
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
    methods_measured = {row.method.partition("[")[0] for row in table}
    missing = [
        f"`{name}`"
        for name in methods.available()
        if name not in methods_measured and not name.startswith("hf_")
    ]
    left_out = f"Not in this run: {', '.join(missing)}.\n"
    return "\n".join([*lines, *peers, "", *([left_out] if missing else [])])


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
    """Return the lowest speedups of a lossless method and of the default on a group of prompts, of
    all benchmarks."""
    slow = sorted(
        (row.speedup, row.method, row.questions, data["environment"]["dtype"], sampling_of(data))
        for data in _benchmarks().values()
        for row in report.read_rows(data["rows"])
        if row.lossless and "[" not in row.method and not row.method.startswith(report.PEERS)
    )
    speed, method, count, dtype, sampling = slow[0]
    usual = next(row for row in slow if row[1] == methods.DEFAULT)
    return (
        textwrap.fill(
            "* **Drafts can cost more than they save.** On the worst kind of prompt of all "
            f"benchmarks, `{method}` reaches {speed:.2f} times the speed of plain decoding "
            f"({sampling}, {dtype}, automatic settings, [Benchmarks](benchmarks.md)), and the "
            f"default, `{methods.DEFAULT}`, {usual[0]:.2f} ({usual[-1]}). With only "
            f"{counted(count, 'prompt')} of a kind, part of this is chance.",
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
    named = [_title(data) for data in benchmarks.values()]
    same = {fact for fact in named[0] if all(fact in facts for facts in named)}
    titles = (", ".join(fact for fact in facts if fact not in same) for facts in named)
    lines = [f"| method | {' | '.join(titles)} |"]
    lines.append("|---" + "|---:" * len(benchmarks) + "|")
    for method in (*RESULT, report.HF_GREEDY, *MODES):
        cells = (rows.get(method, "–") for rows in speedups.values())
        plain = method == report.HF_GREEDY  # which draws where the others do
        name = "transformers, plain" if plain else f"`{method}`"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("")
    every = [_conditions(data) for data in benchmarks.values()]
    shared = [fact for fact in every[0] if all(fact in facts for facts in every)]
    lines += [f"{', '.join(shared)}. Each file:", ""]
    for name, own in zip(benchmarks, every, strict=True):
        differs = ", ".join(one for one in own if one not in shared)
        link = f"* [{name}.csv](../assets/{name}.csv): {differs}."
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


def prompts_of(data: dict[str, Any]) -> str:
    source = " of Spec-Bench" if data["file"] == SPEC_BENCH else ""
    return f"{data['settings']['questions']} prompts{source}"


def _title(data: dict[str, Any]) -> list[str]:
    environment = data["environment"]
    return [
        data["settings"]["target"].removesuffix("-Instruct"),
        processor_name(environment["processor"]),
        environment["dtype"],
        prompts_of(data),
        sampling_of(data),
    ]


def sampling_of(data: dict[str, Any]) -> str:
    sampling = data["settings"]["sampling"]
    if not sampling["temperature"]:
        return "greedy"
    return f"sampled at {sampling['temperature']:g} by `{sampling['acceptance']}`"


def conditions(data: dict[str, Any]) -> str:
    return ", ".join(_conditions(data))


def _conditions(data: dict[str, Any]) -> list[str]:
    settings, environment = data["settings"], data["environment"]
    return [
        f"Version {environment['ouroboros']}",
        f"commit {data['commit']}" if data.get("commit") else "commit not recorded",
        f"{environment.get('passes', '')} pass",
        pair_of(data),
        prompts_of(data),
        f"{settings['max_new_tokens']} new tokens",
        sampling_of(data),
        environment["processor"],
        f"{environment['threads']} threads",
        environment["dtype"],
        f"torch {environment['torch']}",
        f"transformers {environment['transformers']}",
    ]


def sampled_speedups(method: str) -> dict[str, float]:
    """Return a method's speedup over plain decoding in sampling, by acceptance rule."""
    return {
        data["settings"]["sampling"]["acceptance"]: next(
            row.speedup for row in defaults(report.read_rows(data["rows"])) if row.method == method
        )
        for name, data in _benchmarks().items()
        if name.startswith("benchmark-sampled")
    }
