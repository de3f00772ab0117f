"""From measurements to a table: one row per method and group, every number with its formula.

Group `overall` pools all questions. A repeat of the questions is a round of the speedup, see
`ouroboros_core.trace.speedup`: its speedup is the ratio of all tokens per second, and the repeat
with the median speedup gives the numbers of a table.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, Protocol

from pydantic import TypeAdapter

from ouroboros_core.benchmark import llama_cpp
from ouroboros_core.benchmark.entrants import BASELINE, split
from ouroboros_core.benchmark.prompts import GROUPS
from ouroboros_core.benchmark.repeats import repeats, speed_and_texts, whole
from ouroboros_core.benchmark.store import Measurement
from ouroboros_core.messages import counted
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Timing

OVERALL = "overall"
PEER = "hf-"
"""Prefix of the names of transformers' modes of decoding."""
HF_GREEDY = f"{PEER}greedy"
PEERS = PEER, llama_cpp.NAME
"""Prefixes of the names of all peers."""
WARM = "warm=true"
"""The setting of a method that keeps its memory from prompt to prompt."""
ABSENT = "–"
"""In a table, for a number that was not measured or does not apply."""


@dataclass(frozen=True)
class Row:
    """One method on one group.

    setting                 of a peer: the one of its settings that was fastest overall, which is
                            the one reported
    tokens_per_pass         emitted tokens / target passes (prefill is not one); 0 if the target
                            made none
    rows_per_token          rows in target passes / emitted tokens: the price
    draft_passes_per_token  draft model passes / emitted tokens
    tokens_per_second       emitted tokens / seconds, prefill included (as Spec-Bench)
    decode_tokens_per_second  tokens after the first step / seconds after it
    speedup                 over our autoregressive decoding, the median of the repeats, see
                            `ouroboros_core.trace.speedup`; tokens per second are of that repeat
    speedup_hf              the same over transformers' greedy generation, if it ran
    ci95                    95% confidence interval of speedup, from resampling the questions
    equal, ties, differences  texts equal to the baseline's, first differing at a rounding tie, and
                              beyond; null if the text
                            need not be equal
    largest_ulps            the largest gap among ties and differences, in units in the last place
    seconds                 of prefill and of each phase, summed over all runs. Of a peer on a GPU,
                            draft and verify are the times until a pass is launched, and the rest is
                            in host
    peak_memory_mb          the largest of its runs; 0 if it is not known
    decode_speedup, decode_speedup_hf  as speedup and speedup_hf, of decode_tokens_per_second
    first_token_seconds     the median from the start to the first token, prefill included; null if
                            there is no run
    cut                     texts that were cut where a repetition loop begins
    lossless                whether the texts follow the target's probabilities
    plain_tokens_per_second  of our autoregressive decoding in that repeat
    """

    method: str
    group: str
    setting: str
    questions: int
    tokens: int
    tokens_per_pass: float
    rows_per_token: float
    draft_passes_per_token: float
    tokens_per_second: float
    decode_tokens_per_second: float
    speedup: float
    speedup_hf: float | None
    ci95: tuple[float, float]
    equal: int | None
    ties: int | None
    differences: int | None
    largest_ulps: float | None
    seconds: dict[str, float]
    peak_memory_mb: float
    decode_speedup: float | None = None
    decode_speedup_hf: float | None = None
    first_token_seconds: float | None = None
    cut: int = 0
    lossless: bool = True
    plain_tokens_per_second: float | None = None


def read_rows(data: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of a file; numbers that a later version adds are left out."""
    return TypeAdapter(list[Row]).validate_python(data)


def decoding(run: Measurement) -> Timing:
    """Return what comes after the first step. It compares all entrants equally: transformers and
    llama.cpp find the first token within prefill, our loop one pass later."""
    after = whole(run)
    return Timing(after.tokens - run.first_tokens, after.seconds - run.first_seconds)


def rows(measurements: Sequence[Measurement]) -> list[Row]:
    """All rows, methods in the order in which they were measured first, but a warm one behind the
    same one cold; the groups of each with `overall` last."""
    runs = _best_settings(measurements)
    names = _warm_beside_cold(dict.fromkeys(run.method for run in _in_order(measurements)))
    found = {run.group for run in runs}
    groups = [g for g in GROUPS if g in found] + sorted(found - set(GROUPS)) + [OVERALL]
    return [
        _row(name, group, [run for run in runs if group in (run.group, OVERALL)])
        for name in names
        for group in groups
        if runs
    ]


def _in_order(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the baseline first and the peers last, the others as in the first unit."""
    return sorted(
        measurements, key=lambda run: (run.method != BASELINE, run.method.startswith(PEERS))
    )


def cold_name(name: str) -> str:
    """Return the name of a warm method without `warm=true`.

    `sam[warm=true]` is `sam`, and `ouroboros[gamma=3,warm=true]` is `ouroboros[gamma=3]`.
    """
    method, _, rest = name.partition("[")
    settings = split(rest.removesuffix("]"))
    if WARM not in settings:
        return name
    rest_of_settings = ",".join(setting for setting in settings if setting != WARM)
    return f"{method}[{rest_of_settings}]" if rest_of_settings else method


def _warm_beside_cold(names: Iterable[str]) -> list[str]:
    """In the given order, but a warm method directly behind the same one cold, where that ran."""
    order = list(names)
    rank = {name: number for number, name in enumerate(order)}
    return sorted(order, key=lambda name: (rank.get(cold_name(name), rank[name]), rank[name]))


def _best_settings(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Of methods with several settings, the runs of the fastest."""
    plain = [run for run in measurements if run.method == BASELINE]
    by_setting: dict[tuple[str, str], list[Measurement]] = {}
    for run in measurements:
        by_setting.setdefault((run.method, run.setting), []).append(run)
    best: dict[str, tuple[float, str]] = {}
    for (method, setting), runs in by_setting.items():
        speedup = repeats(runs, plain).speedup.median
        if method not in best or speedup > best[method][0]:
            best[method] = speedup, setting
    return [run for run in measurements if run.setting == best[run.method][1]]


def _row(method: str, group: str, runs: Sequence[Measurement]) -> Row:
    own_runs, plain, greedy = (
        [run for run in runs if run.method == name] for name in (method, BASELINE, HF_GREEDY)
    )
    decoded = repeats(own_runs, plain, decoding)
    waits = [run.first_seconds for run in own_runs]
    cuts = {(run.question, run.turn): run.cut for run in own_runs}
    tokens = sum(run.tokens for run in own_runs)
    passes = sum(run.passes for run in own_runs)
    ulps = (run.difference.ulps for run in own_runs if run.difference is not None)
    phases = [f.name for f in fields(own_runs[0].seconds)] if own_runs else []
    return Row(
        **speed_and_texts(repeats(own_runs, plain), own_runs),
        method=method,
        group=group,
        setting=own_runs[0].setting if own_runs else "",
        questions=len({(run.question, run.turn) for run in own_runs}),
        tokens_per_pass=metrics.ratio(tokens, passes),
        rows_per_token=metrics.ratio(sum(run.rows for run in own_runs), tokens),
        draft_passes_per_token=metrics.ratio(sum(run.draft_passes for run in own_runs), tokens),
        decode_tokens_per_second=decoded.timed.method.tokens_per_second,
        speedup_hf=repeats(own_runs, greedy).speedup.median if greedy else None,
        largest_ulps=max(ulps, default=None),
        seconds={name: sum(getattr(run.seconds, name) for run in own_runs) for name in phases},
        peak_memory_mb=max((run.peak_memory_mb for run in own_runs), default=0.0),
        decode_speedup=decoded.speedup.median,
        decode_speedup_hf=repeats(own_runs, greedy, decoding).speedup.median if greedy else None,
        first_token_seconds=median(waits) if waits else None,
        cut=sum(bool(cut) for cut in cuts.values()),
    )


def to_csv(table: Sequence[Row]) -> str:
    """The rows as CSV; seconds and the interval are spread over columns."""
    phases = list(dict.fromkeys(phase for row in table for phase in row.seconds))
    plain = [f.name for f in fields(Row) if f.name not in ("ci95", "seconds")]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*plain, "ci95_low", "ci95_high", *(f"{phase}_seconds" for phase in phases)])
    for row in table:
        cells = [getattr(row, name) for name in plain]
        writer.writerow([*cells, *row.ci95, *(row.seconds.get(phase, 0.0) for phase in phases)])
    return out.getvalue()


def speeds(row: Row, baseline: Row | None) -> str:
    """Tokens per second; and plain decoding's in that repeat, if its own row shows another."""
    plain = row.plain_tokens_per_second
    beside = plain and baseline and plain != baseline.tokens_per_second
    return f"{row.tokens_per_second:.1f}" + (f" (plain {plain:.1f})" if beside else "")


def baselines(table: Sequence[Row]) -> dict[str, Row]:
    return {row.group: row for row in table if row.method == BASELINE}


def both_speedups(row: Row) -> str:
    return f"{row.speedup:.2f} / {shown(row.decode_speedup)}"


def shown(number: float | None) -> str:
    """A number with two digits behind the point, or the sign for what there is none of."""
    return f"{number:.2f}" if number else ABSENT


def loops(table: Sequence[Row]) -> str:
    """Say how many texts of each group run into a loop; empty without a baseline."""
    plain = baselines(table)
    total = plain.get(OVERALL)
    if total is None:
        return ""
    if not total.cut:
        return f"None of {counted(total.questions, 'text')} runs into a repetition loop."
    cuts = [f"{name} {row.cut}" for name, row in plain.items() if row.cut and name != OVERALL]
    return (
        f"{total.cut} of {counted(total.questions, 'text')} ({total.cut / total.questions:.0%}: "
        f"{', '.join(cuts)}) run into a repetition loop: they end with one sequence "
        f"that is repeated at least {metrics.LOOP_ROUNDS} times and fills at least "
        f"{metrics.LOOP_TOKENS} tokens. They are cut where it begins, for every method alike; all "
        "numbers cover only the text before it."
    )


class Compared(Protocol):
    """Texts counted by how they compare with the baseline's."""

    @property
    def equal(self) -> int | None: ...
    @property
    def ties(self) -> int | None: ...
    @property
    def differences(self) -> int | None: ...
    @property
    def lossless(self) -> bool: ...


NOT_LOSSLESS = "its own, not lossless"
"""The remark on a text that no target has checked token by token, such as the draft model's."""


def equality(row: Compared) -> str:
    """How the texts compare with the baseline's, in a few words."""
    if row.equal is None:
        return "its own" if row.lossless else NOT_LOSSLESS
    texts = [f"{row.equal} equal"]
    if row.ties:
        texts.append(counted(row.ties, "tie"))
    if row.differences:
        texts.append(f"{row.differences} DIFFER")
    return ", ".join(texts)


def explanations(measurements: Sequence[Measurement]) -> list[str]:
    """Explain every difference that rounding does not explain, and each widest tie."""
    lines = []
    differing = [(run, run.difference) for run in measurements if run.difference is not None]
    for method in dict.fromkeys(run.method for run, _ in differing):
        own = [(run, difference) for run, difference in differing if run.method == method]
        own.sort(key=lambda pair: pair[1].ulps, reverse=True)
        for run, _ in [pair for pair in own if not pair[1].tie] or own[:1]:
            lines.append(f"{method}, question {run.question}: {run.explanation}")
    return lines
