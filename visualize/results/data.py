"""The benchmark's file, and the numbers that papers publish for their models and GPUs: plain data
for the figures and tables of Results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ouroboros_core import methods
from ouroboros_core.benchmark import report
from ouroboros_core.benchmark.entrants import BASELINE, read_spec, split
from ouroboros_core.benchmark.repeats import repeats, whole
from ouroboros_core.benchmark.report import HF_GREEDY, OVERALL, PEER, PEERS, WARM, Row
from ouroboros_core.benchmark.store import Measurement
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.methods.parts.base import Guesser
from ouroboros_core.methods.parts.needs import HEAD_KINDS, Need
from ouroboros_core.sampling import Sampling

HEADS = HEAD_KINDS.keys()
DRAFTS = {Need.DRAFT_MODEL, Need.HF_DRAFT, Need.TRANSLATED, Need.SHARED_TOKENS, Need.BLOCK_DRAFT}
LONG = re.compile(r" (?:(?:speculative|assisted) )?(?:decoding|drafting)$| of all sources$")
"""Endings of many methods' names that a short name omits."""


class Over(StrEnum):
    """The reference of a speedup, which has speed 1."""

    PLAIN = BASELINE
    HF = HF_GREEDY


WORDS = {Over.HF: "transformers' greedy generation", Over.PLAIN: "our plain decoding"}
"""The reference in the middle of a sentence."""


class Family(StrEnum):
    """The drafter of a method; each value is a label of the legend."""

    NONE = "no draft model"
    DRAFT = "draft model"
    HEAD = "head on the target's states"
    UNION = "union of all sources"
    PEER = "transformers' own"
    ENGINE = "another engine"
    PLAIN = "plain decoding"


@dataclass(frozen=True)
class Bar:
    """One method over all prompts. name, setting: the two lines of its label; low, high: the 95%
    interval of the speedup."""

    row: Row
    name: str
    setting: str
    family: Family
    speedup: float
    low: float
    high: float

    @property
    def main(self) -> bool:
        """Whether it is a method with its own default settings, or another program's."""
        return not self.setting or self.family in (Family.PEER, Family.ENGINE)


@dataclass(frozen=True)
class Benchmark:
    """The rows of a benchmark's file, and where and how they were measured."""

    rows: tuple[Row, ...]
    runs: tuple[Measurement, ...]
    command: str
    where: str
    target: str
    draft: str | None
    questions: int
    limit: int
    """New tokens at most."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> Benchmark:
        """Return the benchmark of a file; an unfinished one has its rows computed."""
        runs = TypeAdapter(list[Measurement]).validate_python(data["runs"])
        rows = report.read_rows(data["rows"]) if "rows" in data else report.rows(runs)
        settings = data["settings"]
        where = Environment(**settings["environment"]).where
        return cls(
            tuple(rows),
            tuple(runs),
            data.get("command", ""),
            where,
            settings["target"],
            settings["draft"],
            settings["questions"],
            settings["max_new_tokens"],
        )

    @classmethod
    def read(cls, path: Path) -> Benchmark:
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    @property
    def overs(self) -> list[Over]:
        return [over for over in Over if any(row.method == over for row in self.rows)]

    @property
    def groups(self) -> list[str]:
        """Return the groups of prompts, in the report's order."""
        return list(dict.fromkeys(row.group for row in self.rows if row.group != OVERALL))

    def bars(self, over: Over, group: str = OVERALL) -> list[Bar]:
        """Return every lossless method on a group of prompts, the fastest first."""
        rows = [row for row in self.rows if row.group == group]
        return bars(rows, over, lambda row: self._interval(row, over))

    def _interval(self, row: Row, over: Over) -> tuple[float, float]:
        if over is Over.PLAIN:
            return row.ci95
        runs = [run for run in self.runs if row.group in (OVERALL, run.group)]
        method = [run for run in runs if (run.method, run.setting) == (row.method, row.setting)]
        reference = [run for run in runs if run.method == HF_GREEDY]
        return repeats(method, reference, whole).ci95


def bars(
    rows: Iterable[Row],
    over: Over = Over.PLAIN,
    interval: Callable[[Row], tuple[float, float]] = attrgetter("ci95"),
) -> list[Bar]:
    """Return the bars of lossless methods, the fastest first; the draft model alone makes no pass
    of the target, and has none."""
    found = [
        Bar(row, *label(row.method), family(row.method), speedup(row, over), *interval(row))
        for row in rows
        if row.tokens_per_pass and row.lossless
    ]
    return sorted(found, key=lambda bar: -bar.speedup)


def speedup(row: Row, over: Over) -> float:
    return row.speedup if over is Over.PLAIN else row.speedup_hf or 0.0


def parts(entrant: str) -> tuple[str, list[str]]:
    """Return the method of an entrant's name, and its written settings."""
    name, _, rest = entrant.partition("[")
    return name, split(rest.removesuffix("]"))


def label(entrant: str) -> tuple[str, str]:
    """Return a short name and its settings: `sam[auxiliary=eagle3]` is SAM-Decoding, auxiliary
    EAGLE-3."""
    name, settings = parts(entrant)
    if name.startswith(PEER):
        return name.removeprefix(PEER).replace("-", " "), "transformers"
    if name in PEERS:
        return name, "8-bit activations"
    return short(name), ", ".join(map(_setting_in_words, settings))


def short(method: str) -> str:
    """Return the name of a method without its common ending."""
    kind = methods.available().get(method)
    return LONG.sub("", kind.name) if kind else method


def _setting_in_words(setting: str) -> str:
    """Return a setting in words: `auxiliary=eagle3` is auxiliary EAGLE-3."""
    name, _, value = setting.partition("=")
    special = {"published": "as published", WARM: "warm"}.get(setting)
    return special or f"{name.replace('_', ' ')} {short(value)}".strip()


def family(entrant: str) -> Family:
    """Return the family of an entrant, which follows from its needs."""
    name, _ = parts(entrant)
    fixed = {BASELINE: Family.PLAIN, methods.DEFAULT: Family.UNION}
    if name.startswith(PEER) or name in fixed:
        return fixed.get(name, Family.PEER)
    if name in PEERS:
        return Family.ENGINE
    needs = _needs(entrant)
    if needs & HEADS:
        return Family.HEAD
    return Family.DRAFT if needs & DRAFTS else Family.NONE


def _needs(entrant: str) -> frozenset[Need]:
    """Return the needs of an entrant; none if this version does not know it."""
    try:
        spec = read_spec(entrant, Sampling())
    except InvalidInput:
        return frozenset()
    kind = methods.get(spec.method)
    heads = {Need.EAGLE} if kind.on_map and kind.on_map[0] is Guesser.HEAD else set()
    return methods.needed(kind, spec.hyperparameters) | heads


def fastest(benchmark: Benchmark) -> Bar:
    """Return the bar of the fastest method with default settings; of all methods if there is none.

    The page offers it first, and the small picture shows it on top."""
    bars = benchmark.bars(benchmark.overs[0])
    return next((bar for bar in bars if not bar.setting), bars[0])


def headline(benchmark: Benchmark) -> str:
    over, best = benchmark.overs[0], fastest(benchmark)
    row = best.row
    name = f"{best.name} ({best.setting})" if best.setting else best.name
    also = f", and {row.speedup_hf:.2f}× as fast as {WORDS[Over.HF]}" if row.speedup_hf else ""
    return (
        f"{name} is {best.speedup:.2f}× as fast as {WORDS[over]} "
        f"(95% interval {best.low:.2f} to {best.high:.2f}){also}."
    )


def details(benchmark: Benchmark) -> str:
    """Return a sentence with the yield of the fastest method and the equality of its texts."""
    row = fastest(benchmark).row
    return (
        f"It yields {row.tokens_per_pass:.2f} tokens per forward pass over {row.questions} "
        f"prompts; {equality(row)}."
    )


def equality(row: Row) -> str:
    """Return in words how the texts compare with the baseline's."""
    if row.equal is None:
        return "its text is its own" if row.lossless else "its text is its own, not lossless"
    sentence = f"{row.equal} of {row.questions} texts are identical to plain decoding's"
    if row.ties:
        sentence += f", {row.ties} first differ at a rounding tie"
    return sentence + (f", {row.differences} differ" if row.differences else "")


def tables(folder: Path | None = None) -> dict[str, Benchmark]:
    """Return the benchmarks by the stems of their files, the first one first."""
    files = sorted((folder or assets()).glob("benchmark*.json"), key=lambda file: file.stem)
    return {file.stem: Benchmark.read(file) for file in files}


def measured_on(benchmark: Benchmark) -> str:
    draft = f" with the draft model {benchmark.draft}" if benchmark.draft else ""
    return f"{benchmark.target}{draft} on {benchmark.where}"


@dataclass(frozen=True)
class Source:
    """The source of a number: paper, table or section, and address."""

    paper: str
    where: str
    url: str


@dataclass(frozen=True)
class Published:
    """A speedup that a paper gives. bound: `up to` for the best case; over: the reference. A text
    is empty if the source does not give it."""

    method: str
    name: str
    speedup: float
    bound: str
    over: str
    model: str
    hardware: str
    task: str
    source: Source


def published() -> list[Published]:
    """Return the numbers of assets/published.json."""
    return TypeAdapter(list[Published]).validate_python(_published()["rows"])


def without() -> list[dict[str, str]]:
    """Return methods without a published speedup: name, why, url."""
    rows: list[dict[str, str]] = _published()["without"]
    return rows


def _published() -> dict[str, Any]:
    text = (assets() / "published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
