"""Results: the fastest of the benchmark, its tables as files, and what the papers publish."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import gradio as gr

from ouroboros_core.benchmark.report import OVERALL, loops
from ouroboros_core.locations import assets
from visualize.kit.events import PRIVATE
from visualize.kit.markup import safe
from visualize.kit.plot_view import PlotView
from visualize.results import data as results
from visualize.results import figures
from visualize.results.data import Benchmark, Over, Published

MISSING = "There is no benchmark here: `make bench` measures one."
NOTE = (
    "A bar is the speedup on these prompts, its whisker the 95% interval from resampling them. "
    "Each method has its own defaults. Point at a bar for tokens per pass, tokens checked per "
    "token written and how the texts compare. The files have every setting and every group."
)
APART = "Their models, their GPUs: not comparable with the bars."
HEAD = ("method", "speedup", "models and hardware", "task", "source")


@cache
def benchmark() -> Benchmark | None:
    file = assets() / "benchmark.json"
    return Benchmark.read(file) if file.exists() else None


class ResultsPanel:
    """Builds the tab inside an open gr.Blocks."""

    def __init__(self) -> None:
        data = benchmark()
        if data is None:
            gr.Markdown(MISSING, elem_id="results")
        else:
            self._build(data)
        gr.HTML(published_table(results.published(), results.without()), elem_id="published")

    def _build(self, data: Benchmark) -> None:
        gr.HTML(top(data), elem_id="results")
        look: dict[str, Any] = {"show_label": False, "container": False}
        with gr.Row(elem_classes="ouro-results"):
            self.over = gr.Radio(
                [(f"over {results.WORDS[over]}", over.value) for over in data.overs],
                value=data.overs[0].value,
                visible=len(data.overs) > 1,
                elem_id="results-over",
                **look,
            )
            names = [(group.replace("_", " "), group) for group in data.groups]
            self.group = gr.Dropdown(
                [("all prompts", OVERALL), *names],
                value=OVERALL,
                label="Prompts",
                elem_id="results-group",
                **look,
            )
        self.speedups = PlotView(
            _figure(data.overs[0], OVERALL),
            label="Speedups, the fastest first",
            height=figures.height(figures.few(data.bars(data.overs[0]))),
            elem_id="chart-speedups",
        )
        gr.Markdown(NOTE, elem_classes="ouro-note")
        with gr.Row(elem_classes="ouro-tables"):
            for name, table in results.tables().items():
                gr.DownloadButton(
                    f"{name}.csv: {table.target}, {table.questions} prompts, on {table.where}",
                    value=str(assets() / f"{name}.csv"),
                    size="sm",
                )
        gr.on(
            [self.over.change, self.group.change],
            _figure,
            [self.over, self.group],
            self.speedups,
            queue=False,
            **PRIVATE,
        )


def _figure(over: str, group: str) -> dict[str, Any]:
    data = benchmark()
    assert data is not None
    bars = figures.few(data.bars(Over(over), group))
    figure = figures.speedups(bars, Over(over))
    return {"seq": time.time_ns(), "run": "", "figure": figure}


def top(data: Benchmark) -> str:
    """Return the HTML of the result and its conditions, with cut texts and command folded."""
    cut = loops(data.rows)
    folded = f"<p>{safe(cut)}</p>" if cut else ""
    if data.command:
        folded += f'<pre class="ouro-framed ouro-size-s"><code>{safe(data.command)}</code></pre>'
    title = '<summary class="ouro-press ouro-small">How it was measured</summary>'
    fold = f"<details>{title}{folded}</details>" if folded else ""
    return (
        f'<section class="ouro-result-top"><p class="ouro-headline">'
        f"{safe(results.headline(data))}</p>"
        f"<p>{safe(results.details(data))} Measured with "
        f"{safe(results.measured_on(data))}.</p>"
        f"{fold}</section>"
    )


def published_table(rows: list[Published], without: list[dict[str, str]]) -> str:
    """Return the HTML table of the papers' numbers, a method's rows together."""
    body = []
    for method in dict.fromkeys(row.method for row in rows):
        method_rows = sorted(
            (row for row in rows if row.method == method), key=lambda row: -row.speedup
        )
        names = ["", *(row.name for row in method_rows)]
        lines = (
            _published_row(row, row.name == name)
            for row, name in zip(method_rows, names, strict=False)
        )
        body.append(f"<tbody>{''.join(lines)}</tbody>")
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    left_out = "".join(
        f'<p>Not listed: <a href="{safe(method["url"])}">{safe(method["name"])}</a>; '
        f"{safe(method['why'])}.</p>"
        for method in without
    )
    return (
        '<section class="ouro-published ouro-box">'
        '<h2 class="ouro-size-m ouro-strong">What the papers report</h2>'
        f"<p><strong>{APART}</strong> Each number stands as its source gives it; "
        "an empty cell is what the source does not say.</p>"
        '<div class="ouro-scroll" tabindex="0" role="group" '
        'aria-label="Speedups that papers publish">'
        f'<table class="ouro-table"><thead><tr>{head}</tr></thead>'
        f"{''.join(body)}</table></div>{left_out}</section>"
    )


def _published_row(row: Published, same: bool) -> str:
    """Return the HTML of a row. same: the row above has this name."""
    over = "" if row.over == "autoregressive decoding" else f" over {row.over}"
    speedup = f"{row.bound} {row.speedup:.2f}×{over}".strip()
    source = (
        f'<a href="{safe(row.source.url)}" target="_blank" rel="noreferrer">'
        f"{safe(row.source.paper)}</a>, {safe(row.source.where)}"
    )
    where = ", ".join(filter(None, (row.model, row.hardware)))
    cells = [*(safe(text) for text in (speedup, where, row.task)), source]
    columns = "".join(
        f'<td data-label="{name}">{cell}</td>' for name, cell in zip(HEAD[1:], cells, strict=True)
    )
    look = ' class="ouro-same"' if same else ""
    return (
        f'<tr data-method="{safe(row.method)}"{look}>'
        f'<th scope="row">{safe(row.name)}</th>{columns}</tr>'
    )
