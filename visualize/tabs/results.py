"""Results: the benchmark's file as charts, beside the numbers that the papers publish."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import gradio as gr

from ouroboros_core.locations import assets
from visualize import result_figures, results
from visualize.components.plot_view import PlotView
from visualize.markup import safe
from visualize.results import Bar, Benchmark, Over, Published

OVER = {Over.HF: "transformers' greedy generation", Over.PLAIN: "our autoregressive baseline"}
MISSING = "There is no benchmark here: `make bench` measures one."
NOTE = (
    "A bar is the speedup over all prompts, its whisker the 95% interval from resampling the "
    "prompts. Point at a bar for tokens per pass, rows per token and how the texts compare."
)
APART = "Their models, their GPUs: not comparable with the bars."
HEAD = ("method", "speedup", "models and hardware", "task", "source")


@cache
def benchmark() -> Benchmark | None:
    """The benchmark that ships with the project; None where there is none."""
    file = assets() / "benchmark.json"
    return Benchmark.read(file) if file.exists() else None


@cache
def _bars(over: Over) -> list[Bar]:
    found = benchmark()
    return found.bars(over) if found else []


class ResultsPanel:
    """Builds the tab inside an open gr.Blocks."""

    def __init__(self) -> None:
        found = benchmark()
        if found is None:
            gr.Markdown(MISSING, elem_id="results")
            _published()
        else:
            self._build(found)

    def _build(self, found: Benchmark) -> None:
        gr.HTML(top(found), elem_id="results")
        overs = found.overs
        self.over = gr.Radio(
            [(f"over {OVER[over]}", over.value) for over in overs],
            value=overs[0].value,
            show_label=False,
            container=False,
            visible=len(overs) > 1,
            elem_id="results-over",
        )
        bars = _bars(overs[0])
        high = result_figures.height(bars)
        speedups, groups, price = _figures(overs[0])
        with gr.Row(elem_classes="ouro-results"):
            self.speedups = PlotView(
                speedups, label="Speedup of each method", height=high, elem_id="chart-speedups"
            )
            _published()
        gr.Markdown(NOTE, elem_classes="ouro-note")
        self.groups = PlotView(
            groups,
            label="Speedup by group of prompts",
            height=high,
            scrolls=True,
            elem_id="chart-groups",
        )
        self.price = PlotView(
            price,
            label="Tokens per pass vs rows per token: the larger the mark, the faster",
            height=460,
            elem_id="chart-price",
        )
        self.over.change(
            lambda over: _figures(Over(over)),
            self.over,
            [self.speedups, self.groups, self.price],
            queue=False,
            api_visibility="private",
            show_progress="hidden",
        )


def _published() -> None:
    gr.HTML(published_table(results.published(), results.without()), elem_id="published")


def _figures(over: Over) -> list[dict[str, Any]]:
    """The values of the three charts."""
    found, bars = benchmark(), _bars(over)
    assert found is not None
    drawn = (
        result_figures.speedups(bars, over),
        result_figures.heatmap(found, bars, over),
        result_figures.price(bars, over),
    )
    return [{"seq": time.time_ns(), "run": "", "figure": figure} for figure in drawn]


def top(found: Benchmark) -> str:
    """The result in a sentence, where it was measured, and the command."""
    command = (
        f"<details><summary>The command</summary><pre><code>{safe(found.command)}</code></pre>"
        "</details>"
        if found.command
        else ""
    )
    return (
        f'<section class="ouro-result-top"><p class="ouro-headline">'
        f"{safe(results.headline(found))}</p>"
        f"<p>{safe(results.details(found))} {safe(results.measured_on(found))}</p>"
        f"{command}</section>"
    )


def published_table(rows: list[Published], without: list[dict[str, str]]) -> str:
    """The papers' numbers as a table, a method's rows together."""
    body = []
    for method in dict.fromkeys(row.method for row in rows):
        mine = sorted((row for row in rows if row.method == method), key=lambda row: -row.speedup)
        names = ["", *(row.name for row in mine)]
        lines = (
            _published_row(row, row.name == name) for row, name in zip(mine, names, strict=False)
        )
        body.append(f"<tbody>{''.join(lines)}</tbody>")
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    left_out = "".join(
        f'<p>Not listed: <a href="{safe(one["url"])}">{safe(one["name"])}</a>; '
        f"{safe(one['why'])}.</p>"
        for one in without
    )
    return (
        '<section class="ouro-published"><h2>What the papers report</h2>'
        f"<p><strong>{APART}</strong> Each number stands as its source gives it; "
        "an empty cell is what the source does not say.</p>"
        '<div class="ouro-scroll" tabindex="0" role="group" '
        'aria-label="Speedups that papers publish">'
        f'<table class="ouro-table"><thead><tr>{head}</tr></thead>'
        f"{''.join(body)}</table></div>{left_out}</section>"
    )


def _published_row(row: Published, same: bool) -> str:
    """same: whether the row above has the same name, which is then not shown again."""
    over = "" if row.over == "autoregressive decoding" else f" over {row.over}"
    speedup = f"{row.bound} {row.speedup:.2f}×{over}".strip()
    source = (
        f'<a href="{safe(row.source.url)}" target="_blank" rel="noreferrer">'
        f"{safe(row.source.paper)}</a>, {safe(row.source.where)}"
    )
    where = ", ".join(filter(None, (row.model, row.hardware)))
    cells = [*(safe(text) for text in (speedup, where, row.task)), source]
    told = "".join(
        f'<td data-label="{name}">{cell}</td>' for name, cell in zip(HEAD[1:], cells, strict=True)
    )
    look = ' class="ouro-same"' if same else ""
    return (
        f'<tr data-method="{safe(row.method)}"{look}>'
        f'<th scope="row">{safe(row.name)}</th>{told}</tr>'
    )
