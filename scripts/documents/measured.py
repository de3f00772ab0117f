"""The measured tables of README.md and docs/, from the files of `make bench` and `make
bench-pair`."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ouroboros_core import methods
from ouroboros_core.benchmark import llama_cpp, report
from ouroboros_core.benchmark.entrants import BASELINE
from ouroboros_core.environment import processor_name
from ouroboros_core.locations import assets
from ouroboros_core.messages import counted
from scripts.documents.markdown import item, table

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
    "SmolLM2-135M": "dequantised Q4_1, with an EAGLE-3 head trained for it",
    "Qwen2.5-Coder-1.5B": "dequantised Q4_K_M, with the 0.5B model as its draft",
}
"""Weights of the benchmarks' targets, and what drafts for them in the default method."""

SPEC_BENCH = "benchmark-spec-bench"
"""The benchmark on prompts of Spec-Bench; the others are on the project's own."""


@dataclass(frozen=True)
class Benchmark:
    """A file of measurements; `name` is its stem."""

    name: str
    data: dict[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.data["settings"]
        return settings

    @property
    def environment(self) -> dict[str, Any]:
        environment: dict[str, Any] = self.data["environment"]
        return environment

    @cached_property
    def rows(self) -> list[report.Row]:
        return report.read_rows(self.data["rows"])

    @cached_property
    def overall(self) -> dict[str, report.Row]:
        """The rows over all prompts by method, at default settings, and of peers."""
        rows = (row for row in self.rows if row.group == report.OVERALL)
        return {row.method: row for row in rows if "[" not in row.method}

    @property
    def llama_cpp(self) -> report.Row | None:
        names = (name for name in self.overall if name.startswith(llama_cpp.NAME))
        return self.overall.get(next(names, ""))

    @property
    def target(self) -> str:
        return str(self.settings["target"]).removesuffix("-Instruct")

    @property
    def processor(self) -> str:
        return processor_name(self.environment["processor"])

    @property
    def prompts(self) -> str:
        source = " of Spec-Bench" if self.name == SPEC_BENCH else ""
        return f"{self.settings['questions']} prompts{source}"

    @property
    def temperature(self) -> float:
        return float(self.settings["sampling"]["temperature"])

    @property
    def acceptance(self) -> str:
        return str(self.settings["sampling"]["acceptance"])

    @property
    def sampling(self) -> str:
        sampled = f"sampled at {self.temperature:g} by `{self.acceptance}`"
        return sampled if self.temperature else "greedy"

    @property
    def title(self) -> list[str]:
        dtype = self.environment["dtype"]
        return [self.target, self.processor, dtype, self.prompts, self.sampling]

    @property
    def conditions(self) -> list[str]:
        settings, environment = self.settings, self.environment
        commit = self.data.get("commit")
        return [
            f"Version {environment['ouroboros']}",
            f"commit {commit}" if commit else "commit not recorded",
            f"{environment.get('passes', '')} pass",
            f"{settings['target']} with {settings['draft'] or 'no draft model'}",
            self.prompts,
            f"{settings['max_new_tokens']} new tokens",
            self.sampling,
            environment["processor"],
            f"{environment['threads']} threads",
            environment["dtype"],
            f"torch {environment['torch']}",
            f"transformers {environment['transformers']}",
        ]


@functools.cache
def benchmarks(folder: Path | None = None) -> dict[str, Benchmark]:
    """Return the benchmarks in a folder by the stems of their files."""
    files = sorted((folder or assets()).glob("benchmark*.json"), key=lambda file: file.stem)
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    return {name: Benchmark(name, json.loads(text)) for name, text in texts.items()}


def embedded() -> Benchmark:
    """Return the benchmark of the embedded pair."""
    return benchmarks()["benchmark"]


def in_bfloat16() -> list[Benchmark]:
    """Return the benchmarks of the README's table, greedy ones first."""
    halves = [b for b in benchmarks().values() if b.environment["dtype"] == "bfloat16"]
    return sorted(halves, key=lambda benchmark: benchmark.temperature)


def lossless(rows: Iterable[report.Row]) -> list[report.Row]:
    """Return the rows of this project's lossless methods."""
    return [row for row in rows if row.lossless and not row.method.startswith(report.PEERS)]


def result() -> str:
    """Return the README's table, for every benchmark in bfloat16: speedup of the default method,
    and tokens per second of it and of plain decoding: ours, transformers', llama.cpp's."""
    heads = (
        f"target, prompts | speedup [95%]: | `{methods.DEFAULT}`: | plain, ours: | plain, "
        "transformers: | plain, llama.cpp:"
    )
    speeds = table(heads, map(_speeds, in_bfloat16()))
    return "\n".join([_above(), "", speeds, *(f"* {text}" for text in _below()), ""])


def _above() -> str:
    """Return the sentences above the README's table."""
    (processor,) = {benchmark.processor for benchmark in in_bfloat16()}
    gains: dict[bool, list[float]] = {False: [], True: []}
    for benchmark in in_bfloat16():
        gains[benchmark.temperature > 0].append(benchmark.overall[methods.DEFAULT].speedup)
    return (
        f"On two cores of an {processor}, in bfloat16, the default method `{methods.DEFAULT}` "
        f"writes greedy text {_range(gains[False])} times as fast as plain "
        f"decoding, and sampled text {_range(gains[True])} times. In the "
        "table's first row, the speedup ranges by [task](docs/methods/index.md#choose-one) from "
        f"{_by_task()}. [The text is the same](docs/losslessness.md) in greedy decoding and in "
        "sampling by `match` (shared noise); by `rejection` (the papers' rule), only the "
        "distribution is. **No complete run has been timed on a GPU.** Tokens per second (in "
        "brackets: excluding prompt processing):"
    )


def _by_task() -> str:
    """Return the lowest and the highest speedup of the default method on a kind of prompts."""
    ours = (row for row in embedded().rows if row.method == methods.DEFAULT)
    rows = [row for row in ours if row.group in TASKS]
    low, high = (end(rows, key=lambda row: row.speedup) for end in (min, max))
    return " to ".join(f"{row.speedup:.2f} for {TASKS[row.group]}" for row in (low, high))


def _range(speedups: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{end(speedups):.1f}" for end in (min, max)))


def _speeds(benchmark: Benchmark) -> list[str]:
    rows = benchmark.overall
    plain, ours = rows["autoregressive"], rows[methods.DEFAULT]
    sampled = f", sampled, `{benchmark.acceptance}`" if benchmark.temperature else ""
    low, high = ours.ci95
    return [
        f"{benchmark.target}, {benchmark.prompts}{sampled}",
        f"**{ours.speedup:.2f}×** [{low:.2f},&nbsp;{high:.2f}]",
        *map(_tokens_per_second, (ours, plain, rows[report.HF_GREEDY])),
        _tokens_per_second(benchmark.llama_cpp) if benchmark.llama_cpp else "–",
    ]


def _tokens_per_second(row: report.Row) -> str:
    return f"{row.tokens_per_second:.1f} ({row.decode_tokens_per_second:.1f})"


def _below() -> list[str]:
    """Return the notes below the README's table."""
    names = dict.fromkeys(benchmark.target for benchmark in in_bfloat16())
    targets = "; ".join(f"{name} is {TARGETS.get(name, 'as published')}" for name in names)
    equal, texts = _equal_texts()
    return [
        f"**Conditions**: {embedded().environment['threads']} threads, prompt processing included, "
        f"at most {embedded().settings['max_new_tokens']} new tokens; {targets}; sampled at "
        "temperature 0.8. Each row "
        "is a separate run, and machines with the same name differ: compare only within a row. "
        "[Benchmarks](docs/benchmarks.md#on-other-models-and-prompts) has the commits "
        "and [commands](docs/benchmarks.md#measure-it-yourself).",
        f"**Same text**: {equal:,} of {texts:,} texts (every measured method and setting, greedy "
        "or by `match`, float32 included) equal plain decoding's, on the native CPU pass.",
        _llama_cpp(),
    ]


def _equal_texts() -> tuple[int, int]:
    """Return how many texts of lossless methods equal plain decoding's, and how many there are."""
    compared = [
        (row.equal, row.questions)
        for benchmark in benchmarks().values()
        for row in lossless(benchmark.rows)
        if row.group == report.OVERALL and row.method != BASELINE and row.equal is not None
    ]
    return sum(equal for equal, _ in compared), sum(texts for _, texts in compared)


def _llama_cpp() -> str:
    ahead = [
        benchmark.target
        for benchmark in in_bfloat16()
        if (theirs := benchmark.llama_cpp)
        and theirs.decode_tokens_per_second
        > benchmark.overall[methods.DEFAULT].decode_tokens_per_second
    ]
    return (
        "**llama.cpp** ran the same files, in 4 bits, from an [AVX2 wheel](docs/benchmarks.md"
        "#llamacpp-beside-them) with slow prompt processing"
        + (f"; it decodes {' and '.join(ahead)} faster than `{methods.DEFAULT}`." if ahead else ".")
    )


def measured(target: str, method: str) -> tuple[Benchmark, float]:
    """Return the greedy benchmark of a target, and a method's speedup in it."""
    (benchmark,) = (
        benchmark
        for benchmark in in_bfloat16()
        if benchmark.settings["target"] == target
        and not benchmark.temperature
        and benchmark.name != SPEC_BENCH
    )
    return benchmark, benchmark.overall[method].speedup


def sampled_answer() -> str:
    """Return the speedups of the default method in sampling (docs/faq.md)."""
    gains = " and ".join(
        f"{benchmark.overall[methods.DEFAULT].speedup:.2f} times by `{benchmark.acceptance}`"
        for name, benchmark in benchmarks().items()
        if name.startswith("benchmark-sampled")
    )
    return (
        f"In the benchmark at temperature 0.8, the speedup of `{methods.DEFAULT}` over plain "
        f"decoding is {gains}.\n"
    )


def bench_section() -> str:
    """Return the table of all methods, with conditions."""
    heads = (
        "method | tokens per pass: | over plain decoding [95%]: | decoding only: | over "
        "transformers' greedy: | texts"
    )
    rows = sorted(embedded().overall.values(), key=lambda row: row.method.startswith(report.PEER))
    text = f"{textwrap.fill(', '.join(embedded().conditions), 140)}.\n\n"
    text += table(heads, map(_cells, rows)) + "\n"
    # Modes of transformers are peers in the table.
    methods_measured = {row.method.partition("[")[0] for row in embedded().rows}
    missing = [
        f"`{name}`"
        for name in methods.available()
        if name not in methods_measured and not name.startswith("hf_")
    ]
    return text + (f"Not in this run: {', '.join(missing)}.\n" if missing else "")


def _cells(row: report.Row) -> tuple[str, ...]:
    low, high = row.ci95
    yields = f"{row.tokens_per_pass:.2f}" if row.tokens_per_pass else "–"
    speedup = f"{row.speedup:.2f} [{low:.2f}, {high:.2f}]"
    ratios = report.shown(row.decode_speedup), report.shown(row.speedup_hf)
    texts = report.equality(row) if row.lossless else "its own"
    return f"`{row.method}`", yields, speedup, *ratios, texts


def warm_section() -> str:
    """Return the speedups of methods at their defaults, cold and warm."""
    overall = (row for row in embedded().rows if row.group == report.OVERALL)
    speedups = {row.method: row.speedup for row in overall}
    pairs = [
        f"`{name}` {speedups[name]:.2f} to {speedups[f'{name}[{report.WARM}]']:.2f}"
        for name in methods.available()
        if f"{name}[{report.WARM}]" in speedups
    ]
    return (
        item(f"Cold to warm: {', '.join(pairs)}. Differences within the intervals are chance.")
        + "\n"
    )


def worst() -> str:
    """Return the lowest speedups of a lossless method and of the default on a group of prompts, of
    all benchmarks."""
    slow = sorted(
        (row.speedup, row.method, row.questions, benchmark.environment["dtype"], benchmark.sampling)
        for benchmark in benchmarks().values()
        for row in lossless(benchmark.rows)
        if "[" not in row.method
    )
    speed, method, count, dtype, sampling = slow[0]
    usual = next(row for row in slow if row[1] == methods.DEFAULT)
    return (
        item(
            "**Drafts can cost more than they save.** On the worst kind of prompt of all "
            f"benchmarks, `{method}` reaches {speed:.2f} times the speed of plain decoding "
            f"({sampling}, {dtype}, automatic settings, [Benchmarks](benchmarks.md)), and the "
            f"default, `{methods.DEFAULT}`, {usual[0]:.2f} ({usual[-1]}). With only "
            f"{counted(count, 'prompt')} of a kind, part of this is chance."
        )
        + "\n"
    )


def tasks_section() -> str:
    """Return the fastest method for each kind of task, and the speedups of five methods."""
    heads = " | ".join(f"`{name}`:" for name in COMPARED)
    lines = []
    for group, task in TASKS.items():
        rows = (row for row in embedded().rows if row.group == group and "[" not in row.method)
        by_method = {row.method: row for row in rows}
        best = max(lossless(by_method.values()), key=lambda row: row.speedup)
        cells = (f"{by_method[name].speedup:.2f}" for name in COMPARED)
        lines.append((task, f"`{best.method}` {best.speedup:.2f}", *cells))
    return table(f"task | fastest at its defaults | {heads}", lines)


def pairs_section(folder: Path | None = None) -> str:
    """Return one table of all benchmarks' files `benchmark*.json`: speedups over plain decoding,
    and over transformers' greedy generation."""
    every = list(benchmarks(folder).values())
    _, titles = _split_shared([benchmark.title for benchmark in every])
    speedups = []
    for method in (*RESULT, report.HF_GREEDY, *MODES):
        rows = (benchmark.overall.get(method) for benchmark in every)
        cells = (f"{r.speedup:.2f} / {report.shown(r.speedup_hf)}" if r else "–" for r in rows)
        plain = method == report.HF_GREEDY  # which draws where the others do
        name = "transformers, plain" if plain else f"`{method}`"
        speedups.append((name, *cells))
    shared, conditions = _split_shared([benchmark.conditions for benchmark in every])
    lines = [table(" | ".join(["method", *(f"{title}:" for title in titles)]), speedups)]
    lines += [f"{shared}. Each file:", ""]
    for name, differing in zip(benchmarks(folder), conditions, strict=True):
        lines.append(item(f"[{name}.csv](../assets/{name}.csv): {differing}."))
    return "\n".join(lines) + "\n"


def _split_shared(lists: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Return the facts that all lists share, and the others of each list."""
    shared = [fact for fact in lists[0] if all(fact in facts for facts in lists)]
    differing = [", ".join(fact for fact in facts if fact not in shared) for facts in lists]
    return ", ".join(shared), differing


def csv_files(folder: Path | None = None) -> dict[str, str]:
    """Return all rows of each benchmark's file as CSV, by the name of the file."""
    texts = ((name, report.to_csv(b.rows)) for name, b in benchmarks(folder).items())
    return {f"{name}.csv": text.replace("\r\n", "\n") for name, text in texts}
