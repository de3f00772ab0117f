"""Results: the benchmark's file as charts, beside the numbers that the papers publish."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import gradio as gr

from ouroboros_core.benchmark.report import shown
from ouroboros_core.locations import assets
from ouroboros_core.messages import say
from visualize.kit import plots
from visualize.kit.events import PRIVATE
from visualize.kit.markup import safe
from visualize.kit.plot_view import PlotView
from visualize.results import data as results
from visualize.results import figures as result_figures
from visualize.results.data import Bar, Benchmark, Over, Published
from visualize.what_if import view as what_if_view

MISSING = "There is no benchmark here: `make bench` measures one."
NOTE = (
    "A bar is the speedup over all prompts, its whisker the 95% interval from resampling the "
    "prompts, each method with its own defaults. Point at a bar for tokens per pass, tokens "
    "checked per token written and how the texts compare."
)
APART = "Their models, their GPUs: not comparable with the bars."
HEAD = ("method", "speedup", "models and hardware", "task", "source")


@cache
def benchmark() -> Benchmark | None:
    """Return the benchmark that ships with the project, None without its file."""
    file = assets() / "benchmark.json"
    return Benchmark.read(file) if file.exists() else None


@cache
def _bars(over: Over) -> list[Bar]:
    data = benchmark()
    return data.bars(over) if data else []


class ResultsPanel:
    """Builds the tab inside an open gr.Blocks."""

    def __init__(self) -> None:
        data = benchmark()
        if data is None:
            gr.Markdown(MISSING, elem_id="results")
            _published()
        else:
            self._build(data)

    def _build(self, data: Benchmark) -> None:
        gr.HTML(top(data), elem_id="results")
        overs = data.overs
        self.over = gr.Radio(
            [(f"over {results.WORDS[over]}", over.value) for over in overs],
            value=overs[0].value,
            show_label=False,
            container=False,
            visible=len(overs) > 1,
            elem_id="results-over",
        )
        bars = _bars(overs[0])
        main = [bar for bar in bars if bar.main]
        high = result_figures.height(main)
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
            label="Tokens per pass vs tokens checked per token written: the larger the mark, the "
            "faster",
            height=result_figures.PRICE_HEIGHT,
            elem_id="chart-price",
        )
        with gr.Accordion(f"All {len(bars)} settings that were measured", open=False) as rest:
            tall, empty = result_figures.height(bars), {"seq": 0, "figure": plots.empty("")}
            self.every = [
                PlotView(empty, label="Speedup of every setting", height=tall),
                PlotView(
                    empty,
                    label="Speedup of every setting by group of prompts",
                    height=tall,
                    scrolls=True,
                    elem_classes="ouro-wide-chart",
                ),
            ]
        other_pairs = results.other_pairs()
        if other_pairs:
            gr.HTML("".join(map(pair_table, other_pairs)), elem_id="other-pairs")
        gr.HTML(modelled_table(data), elem_id="modelled")
        options: dict[str, Any] = {"queue": False, **PRIVATE}
        self.over.change(
            lambda over: _figures(Over(over)),
            self.over,
            [self.speedups, self.groups, self.price],
            **options,
        )
        gr.on([rest.expand, self.over.change], _every, self.over, self.every, **options)


def _published() -> None:
    gr.HTML(published_table(results.published(), results.without()), elem_id="published")


def _figures(over: Over) -> list[dict[str, Any]]:
    """Return the values of the three charts; the first two show only default settings."""
    data, bars = benchmark(), _bars(over)
    assert data is not None
    main = [bar for bar in bars if bar.main]
    return _values(
        result_figures.speedups(main, over),
        result_figures.heatmap(data, main, over),
        result_figures.price(bars, over),
    )


def _every(over: str) -> list[dict[str, Any]]:
    """Return the values of the charts of every setting."""
    data, bars = benchmark(), _bars(Over(over))
    assert data is not None
    return _values(
        result_figures.speedups(bars, Over(over)), result_figures.heatmap(data, bars, Over(over))
    )


def _values(*drawn: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"seq": time.time_ns(), "run": "", "figure": figure} for figure in drawn]


def top(data: Benchmark) -> str:
    """Return the HTML of the result and its conditions, with cut texts and command folded."""
    cut = results.cut_texts(data)
    folded = f"<p>{safe(cut)}</p>" if cut else ""
    if data.command:
        folded += f"<pre><code>{safe(data.command)}</code></pre>"
    fold = f"<details><summary>How it was measured</summary>{folded}</details>" if folded else ""
    return (
        f'<section class="ouro-result-top"><p class="ouro-headline">'
        f"{safe(results.headline(data))}</p>"
        f"<p>{safe(results.details(data))} {safe(results.measured_on(data))}</p>"
        f"{fold}</section>"
    )


def pair_table(data: Benchmark) -> str:
    """Return the HTML table of another pair or machine: every method over all prompts, with
    prefill and for decoding only."""
    overs = [over for over in (Over.PLAIN, Over.HF) if over in data.overs]
    head = '<th scope="col" rowspan="2">method</th>'
    for over in overs:
        head += f'<th scope="colgroup" colspan="2">over {safe(results.WORDS[over])}</th>'
    for name in ("tokens per pass", "s to the first token"):
        head += f'<th scope="col" rowspan="2">{name}</th>'
    kinds = ("with prefill", "decoding only") * len(overs)
    under = "".join(f'<th scope="col">{name}</th>' for name in kinds)
    body = []
    for bar in data.bars(overs[0]):
        row = bar.row
        speedups = [(row.speedup, row.decode_speedup), (row.speedup_hf, row.decode_speedup_hf)]
        numbers = [shown(number) for pair in speedups[: len(overs)] for number in pair]
        numbers += [shown(row.tokens_per_pass), shown(row.first_token_seconds)]
        setting = f" ({bar.setting})" if bar.setting else ""
        cells = "".join(f"<td>{cell}</td>" for cell in numbers)
        body.append(f'<tr><th scope="row">{safe(bar.name + setting)}</th>{cells}</tr>')
    models = f"{data.target} with {data.draft or 'no draft model'} on {data.where}"
    about = f"{data.questions} prompts, {data.limit} new tokens at most. {results.cut_texts(data)}"
    return (
        '<section class="ouro-published ouro-machines ouro-box">'
        f"<h2>{safe(models)}</h2><p>{safe(about.strip())}</p>"
        f'<div class="ouro-scroll" tabindex="0" role="group" aria-label="{safe(models)}">'
        f'<table class="ouro-table"><thead><tr>{head}</tr><tr>{under}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div></section>"
    )


def modelled_table(data: Benchmark) -> str:
    """Return the HTML table of the methods on other machines: the second column is measured, the
    others are modelled."""
    clocks = [name for _, name in what_if_view.clock_names()]
    names = ["method", "measured here", *clocks]
    head = "".join(f'<th scope="col">{safe(name)}</th>' for name in names)
    body = []
    table = what_if_view.benchmark_speedups(data)
    for bar, speeds in ((bar, speeds) for bar, speeds in table if bar.main):
        setting = f" ({bar.setting})" if bar.setting else ""
        numbers = (bar.row.speedup, *speeds)
        cells = "".join(f"<td>{number:.2f}×</td>" for number in numbers)
        body.append(f'<tr><th scope="row">{safe(bar.name + setting)}</th>{cells}</tr>')
    return (
        '<section class="ouro-published ouro-machines ouro-box">'
        "<h2>On other machines, modelled</h2>"
        f"<p>{safe(say('results.modelled'))}</p>"
        '<div class="ouro-scroll" tabindex="0" role="group" '
        'aria-label="Modelled speedups of the benchmark\'s methods">'
        f'<table class="ouro-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div></section>"
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
        '<section class="ouro-published ouro-box"><h2>What the papers report</h2>'
        f"<p><strong>{APART}</strong> Each number stands as its source gives it; "
        "an empty cell is what the source does not say.</p>"
        '<div class="ouro-scroll" tabindex="0" role="group" '
        'aria-label="Speedups that papers publish">'
        f'<table class="ouro-table"><thead><tr>{head}</tr></thead>'
        f"{''.join(body)}</table></div>{left_out}</section>"
    )


def _published_row(row: Published, same: bool) -> str:
    """Return the HTML of a row. same: whether the row above has the same name, which is not
    repeated."""
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
