"""How a comparison and a sweep show themselves in a notebook: HTML and CSS alone, as a run does
(`notebook`); and in letters, without pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ouroboros_core.benchmark.comparison import Comparison, Lane
from ouroboros_core.benchmark.report import NOT_LOSSLESS, equality
from ouroboros_core.messages import aligned
from ouroboros_core.notebook.runs import block, legend, safe
from ouroboros_core.sweeps.call import SweepResult
from ouroboros_core.sweeps.cells import CellRow
from ouroboros_core.sweeps.grid import show
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace

TOKENS = 300
"""The largest number of tokens of a lane in the race."""
HEADS = ("method", "seconds", "forward passes", "tokens per pass", "speedup", "text")


def comparison_html(comparison: Comparison) -> str:
    """Bars of seconds, a table, and the texts as they appeared on one clock."""
    longest = max(max(lane.all_seconds) for lane in comparison.lanes)
    rows = "".join(
        f'<tr><th scope="row">{safe(lane.name)}</th>{_bar(lane, comparison, longest)}'
        f"{''.join(f'<td>{safe(cell)}</td>' for cell in _cells(lane, comparison)[1:])}</tr>"
        for lane in comparison.lanes
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in _heads(HEADS))
    body = (
        f"<p>{safe(_title(comparison))}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"{''.join(f'<p>{safe(line)}</p>' for line in _notes(comparison))}"
        f"<details><summary>The race: each text as it appeared, on one clock</summary>"
        f'<label><input type="checkbox" class="ouro-nb-replay"> Run it again</label>'
        f"{''.join(map(_lane, comparison.lanes))}"
        f"{legend(*(lane.trace for lane in comparison.lanes))}</details>"
    )
    return block(body)


def comparison_text(comparison: Comparison) -> str:
    rows = [HEADS, *((lane.name, *_cells(lane, comparison)) for lane in comparison.lanes)]
    return "\n".join([_title(comparison), *aligned(rows), *_notes(comparison)])


def _title(comparison: Comparison) -> str:
    rounds = len(comparison.baseline.traces)
    times = "measured once" if rounds == 1 else f"medians of {rounds} rounds in turn"
    return f"{times}; {comparison.target}, on {comparison.environment.where}"


def _heads(names: Sequence[str]) -> Iterator[str]:
    """Generate the heads. The column of the bars has no separate number."""
    yield names[0]
    yield f"{names[1]} (line: least to most)"
    yield from names[2:]


def _cells(lane: Lane, comparison: Comparison) -> tuple[str, ...]:
    run = Summary(lane.trace)
    between = f" {lane.rounds.between}".rstrip()
    plain = lane is comparison.baseline
    without_reference = "its own" if run.lossless else NOT_LOSSLESS
    same = {True: "identical", False: "DIFFERS", None: without_reference}[lane.identical]
    return (
        _seconds(lane, comparison),
        str(run.steps),
        f"{run.tokens_per_pass:.2f}",
        "1" if plain else f"{lane.speedup:.2f}×{between}",
        "the reference" if plain else same,
    )


def _bar(lane: Lane, comparison: Comparison, longest: float) -> str:
    """Seconds as a bar, and from the least to the most of them a line."""

    def at(seconds: float) -> float:
        return 60 * seconds / longest if longest else 0.0

    least, largest = min(lane.all_seconds), max(lane.all_seconds)
    return (
        f'<td class="ouro-nb-bar"><i style="width:{at(lane.seconds):.1f}%"></i>'
        f'<u style="left:{at(least):.1f}%;width:{at(largest) - at(least):.1f}%"></u>'
        f"{_seconds(lane, comparison)}</td>"
    )


def _seconds(lane: Lane, comparison: Comparison) -> str:
    """Seconds, and those of plain decoding in that round, if its own row shows another."""
    beside = lane.plain_seconds != comparison.baseline.seconds
    return f"{lane.seconds:.2f}" + (f" (plain {lane.plain_seconds:.2f})" if beside else "")


def _notes(comparison: Comparison) -> list[str]:
    lines = [f"{lane.name}: {lane.difference}" for lane in comparison.lanes if lane.difference]
    busy = [lane for lane in comparison.lanes if lane.busy]
    if busy:
        lines.append(f"Measured on a busy machine: {busy[0].busy}. Measure again when it is idle.")
    return lines


def _lane(lane: Lane) -> str:
    """The text of a lane; a token appears after as many seconds as it took."""
    trace = lane.trace
    texts = "".join(_appearing(trace))
    cut = f"<p>The first {TOKENS} tokens.</p>" if len(trace.tokens) > TOKENS else ""
    return (
        f"<p><strong>{safe(lane.name)}</strong>, {metrics.total_seconds(trace):.2f} s</p>"
        f'<div class="ouro-nb-lane" dir="auto" translate="no">{texts}</div>{cut}'
    )


def _appearing(trace: Trace) -> Iterator[str]:
    times = metrics.seconds_to_token(trace)
    for look, text, seconds in list(zip(trace.looks, trace.texts, times, strict=True))[:TOKENS]:
        yield f'<span data-look="{look}" style="--at:{seconds:.2f}s">{safe(text)}</span>'


def sweep_html(result: SweepResult) -> str:
    """A table of all settings with bars of their speedups; of two varied settings a grid."""
    table = _grid(result) if len(result.axes) == 2 else _list(result)
    lines = "".join(f"<p>{safe(line)}</p>" for line in result.conclusions)
    return block(f"<p>{safe(result.about)}</p>{table}{lines}")


def sweep_text(result: SweepResult) -> str:
    return result.text


def _numbers(row: CellRow) -> tuple[str, ...]:
    rate = "–" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}"
    return f"{row.acceptance_length:.2f}", rate, equality(row)


def _list(result: SweepResult) -> str:
    largest = max((row.speedup for row in result.rows), default=1.0) or 1.0
    names = (result.axes[0].name, "speedup", "tokens per pass", "accepted", "text")
    head = "".join(f'<th scope="col">{safe(name)}</th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{safe(show(row.coordinates[0]))}</th>'
        f'<td class="ouro-nb-bar"><i style="width:{60 * row.speedup / largest:.1f}%"></i>'
        f"{row.speedup:.2f}×</td>{''.join(f'<td>{safe(cell)}</td>' for cell in _numbers(row))}</tr>"
        for row in result.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _grid(result: SweepResult) -> str:
    """Speedup and tokens per pass of each pair of values; the fastest is starred."""
    down, across = result.axes
    rows, best = {row.coordinates: row for row in result.rows}, result.best
    head = "".join(f'<th scope="col">{safe(show(value))}</th>' for value in across.values)
    lines = ""
    for value in down.values:
        texts = (_cell(rows.get((value, across_value)), best) for across_value in across.values)
        row_cells = "".join(f"<td>{text}</td>" for text in texts)
        lines += f'<tr><th scope="row">{safe(show(value))}</th>{row_cells}</tr>'
    corner = f'<th scope="col">{safe(down.name)} ↓ {safe(across.name)} →</th>'
    return (
        f"<table><thead><tr>{corner}{head}</tr></thead><tbody>{lines}</tbody></table>"
        "<p>Speedup, and in brackets tokens per pass.</p>"
    )


def _cell(row: CellRow | None, best: CellRow | None) -> str:
    if row is None:
        return "–"
    text = f"{row.speedup:.2f}× ({row.acceptance_length:.2f})"
    return f"<strong>★ {text}</strong>" if row is best else text
