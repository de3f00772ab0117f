"""Results: the benchmark's file as charts, beside the numbers that the papers publish."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import gradio as gr

from ouroboros_core.benchmark.report import shown
from ouroboros_core.locations import assets
from ouroboros_core.words import say
from visualize.kit.events import PRIVATE
from visualize.kit.markup import safe
from visualize.kit.plot_view import PlotView
from visualize.results import data as results
from visualize.results import figures as result_figures
from visualize.results.data import Bar, Benchmark, Over, Published
from visualize.run import figures
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
            tall, empty = result_figures.height(bars), {"seq": 0, "figure": figures.empty("")}
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
        others = results.other_pairs()
        if others:
            gr.HTML("".join(map(pair_table, others)), elem_id="other-pairs")
        gr.HTML(modelled_table(found), elem_id="modelled")
        here: dict[str, Any] = {"queue": False, **PRIVATE}
        self.over.change(
            lambda over: _figures(Over(over)),
            self.over,
            [self.speedups, self.groups, self.price],
            **here,
        )
        gr.on([rest.expand, self.over.change], _every, self.over, self.every, **here)


def _published() -> None:
    gr.HTML(published_table(results.published(), results.without()), elem_id="published")


def _figures(over: Over) -> list[dict[str, Any]]:
    """The values of the three charts: the first two of each method's own defaults."""
    found, bars = benchmark(), _bars(over)
    assert found is not None
    main = [bar for bar in bars if bar.main]
    return _values(
        result_figures.speedups(main, over),
        result_figures.heatmap(found, main, over),
        result_figures.price(bars, over),
    )


def _every(over: str) -> list[dict[str, Any]]:
    """The values of the charts of every setting, for whom wants to see them."""
    found, bars = benchmark(), _bars(Over(over))
    assert found is not None
    return _values(
        result_figures.speedups(bars, Over(over)), result_figures.heatmap(found, bars, Over(over))
    )


def _values(*drawn: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"seq": time.time_ns(), "run": "", "figure": figure} for figure in drawn]


def top(found: Benchmark) -> str:
    """The result in a sentence, and where it was measured; which texts are cut, and the command,
    for whom wants to see them."""
    cut = results.cut_texts(found)
    folded = f"<p>{safe(cut)}</p>" if cut else ""
    if found.command:
        folded += f"<pre><code>{safe(found.command)}</code></pre>"
    how = f"<details><summary>How it was measured</summary>{folded}</details>" if folded else ""
    return (
        f'<section class="ouro-result-top"><p class="ouro-headline">'
        f"{safe(results.headline(found))}</p>"
        f"<p>{safe(results.details(found))} {safe(results.measured_on(found))}</p>"
        f"{how}</section>"
    )


def pair_table(found: Benchmark) -> str:
    """The benchmark of another pair, or of the embedded one elsewhere: every method over all
    prompts, prefill included and decoding only."""
    overs = [over for over in (Over.PLAIN, Over.HF) if over in found.overs]
    head = '<th scope="col" rowspan="2">method</th>'
    for over in overs:
        head += f'<th scope="colgroup" colspan="2">over {safe(results.WORDS[over])}</th>'
    for name in ("tokens per pass", "s to the first token"):
        head += f'<th scope="col" rowspan="2">{name}</th>'
    kinds = ("with prefill", "decoding only") * len(overs)
    under = "".join(f'<th scope="col">{name}</th>' for name in kinds)
    body = []
    for bar in found.bars(overs[0]):
        row = bar.row
        speedups = [(row.speedup, row.decode_speedup), (row.speedup_hf, row.decode_speedup_hf)]
        told = [shown(number) for both in speedups[: len(overs)] for number in both]
        told += [shown(row.tokens_per_pass), shown(row.first_token_seconds)]
        setting = f" ({bar.setting})" if bar.setting else ""
        cells = "".join(f"<td>{cell}</td>" for cell in told)
        body.append(f'<tr><th scope="row">{safe(bar.name + setting)}</th>{cells}</tr>')
    models = f"{found.target} with {found.draft or 'no draft model'} on {found.where}"
    about = (
        f"{found.questions} prompts, {found.limit} new tokens at most. {results.cut_texts(found)}"
    )
    return (
        '<section class="ouro-published ouro-machines ouro-box">'
        f"<h2>{safe(models)}</h2><p>{safe(about.strip())}</p>"
        f'<div class="ouro-scroll" tabindex="0" role="group" aria-label="{safe(models)}">'
        f'<table class="ouro-table"><thead><tr>{head}</tr><tr>{under}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div></section>"
    )


def modelled_table(found: Benchmark) -> str:
    """The benchmark's methods on other machines: all but the second column is modelled."""
    clocks = [name for _, name in what_if_view.clock_names()]
    names = ["method", "measured here", *clocks]
    head = "".join(f'<th scope="col">{safe(name)}</th>' for name in names)
    body = []
    told = what_if_view.benchmark_speedups(found)
    for bar, speeds in ((bar, speeds) for bar, speeds in told if bar.main):
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
        '<section class="ouro-published ouro-box"><h2>What the papers report</h2>'
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
