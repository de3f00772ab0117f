"""The charts of a run: Plotly figures of its trace, and for each one declaration, a `Chart`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.sources import LOOKS, Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.what_if import draft_length
from visualize.kit.plots import INK, PLAIN, Figure, empty, layout, mark_plain, plain, words_only


@dataclass(frozen=True)
class Chart:
    """A chart of a run: a figure, and how the page shows it.

    id       its element on the page is `chart-ID`
    label    on the button that chooses it
    axis     the unit of the x axis if the chart shares the cursor of the run: `step`, `token` or
             `seconds`
    draw     draws it when the run has ended
    applies  whether it says something of a run
    """

    id: str
    label: str
    title: str
    axis: str | None
    draw: Callable[[Summary], Figure]
    applies: Callable[[Trace], bool] = lambda trace: True


def acceptance_length(steps: Sequence[Step]) -> Figure:
    """Tokens each step emitted, stacked by who wrote them, in the order of the text: the target's
    own are the last. A step has no entry for a source of none of its tokens."""
    counts = [Counter(step.looks) for step in steps]
    figure = go.Figure()
    for look in sorted(
        LOOKS.values(), key=lambda look: look.key in ("correction", "bonus", "target")
    ):
        figure.add_bar(
            x=[step.index + 1 for step in steps],
            y=[count[look.key] or None for count in counts],
            name=f"{look.glyph} {look.label}",
            marker={"color": look.colour, "line": {"width": 0}},
            meta={"look": look.key},
        )
    options = {"barmode": "stack", "showlegend": False, "dragmode": False, "hovermode": False}
    figure.update_layout(layout("", "tokens", **options))
    mark_plain(figure)
    _steady(figure, bottom=22)
    figure.update_xaxes(tickformat="d", title=None)
    figure.update_yaxes(tickformat="d", nticks=4)
    return plain(figure)


def tokens_against_time(trace: Trace | None, baseline: Trace | None) -> Figure:
    """Draw tokens over seconds of a run, which may have no step, and of plain decoding."""
    figure = go.Figure()
    runs = ((trace, "this run", INK, "solid"), (baseline, "plain decoding", PLAIN, "dot"))
    for run, label, colour, dash in runs:
        seconds, tokens = _staircase(run) if run is not None else ([], [])
        figure.add_scatter(
            x=seconds,
            y=tokens,
            name=label,
            mode="lines",
            line={"shape": "hv", "color": colour, "width": 2.5, "dash": dash},
            hovertemplate=f"{label}: %{{y}} tokens<extra></extra>",
        )
    # Names of the curves: a legend would get a scrollbar in a low chart.
    for row, (_, label, colour, _) in enumerate(runs):
        figure.add_annotation(
            text=f"{'┅' if row else '━'} {label}",
            font={"size": 12} | ({"color": colour} if row else {}),  # the page's ink
            showarrow=False,
            **{"xref": "paper", "x": 1, "xanchor": "right"},
            **{"yref": "paper", "y": 0, "yanchor": "bottom", "yshift": 14 * (1 - row)},
        )
    figure.update_layout(layout("", "tokens", dragmode=False, showlegend=False))
    _steady(figure, bottom=22)
    figure.update_xaxes(
        title=None,
        ticksuffix=" s",
        rangemode="tozero",
        unifiedhovertitle={"text": "after %{x:.2f} s"},
    )
    figure.update_yaxes(tickformat="d", nticks=3)
    return plain(figure)


def _staircase(trace: Trace) -> tuple[list[float], list[int]]:
    """Seconds and tokens there, one point per step, beginning at the end of prefill with none."""
    seconds, tokens = [sum(step.seconds.prefill for step in trace.steps)], [0]
    for step in trace.steps:
        seconds.append(seconds[-1] + step.seconds.decode)
        tokens.append(tokens[-1] + len(step.tokens))
    return seconds, tokens


def _steady(figure: go.Figure, bottom: int) -> None:
    """Fix the margins of a chart that grows during its run: Plotly measures no label then."""
    small = {"font": {"size": 12}}
    axis = {"fixedrange": True, "automargin": False, "ticklabeloverflow": "allow", "title": small}
    figure.update_layout(margin={"l": 54, "r": 18, "b": bottom}, xaxis=axis, yaxis=axis)


def choices(steps: Sequence[Step]) -> Figure:
    """Draw the checked guesses and draft passes of each step, with expectation and reason."""
    chosen = [step for step in steps if step.choice is not None]
    if not chosen:
        return empty("Settings were fixed: there was nothing to choose.")
    figure = go.Figure()
    x = [step.index + 1 for step in chosen]
    notes = [_told(step.choice, len(step.tokens)) for step in chosen if step.choice is not None]
    figure.add_bar(
        x=x,
        y=[len(step.tree) - 1 for step in chosen],
        name="guesses checked",
        customdata=notes,
        marker={"color": PLAIN, "line": {"width": 0}},
        hovertemplate="%{customdata}<extra></extra>",
    )
    if any(step.draft_passes for step in chosen):
        figure.add_scatter(
            x=x,
            y=[step.draft_passes for step in chosen],
            name="draft passes",
            mode="lines",
            line={"shape": "hvh", "color": INK, "width": 2},
            hovertemplate="draft passes: %{y}<extra></extra>",
        )
    figure.update_layout(layout("step (one target pass each)", "guesses, passes"))
    figure.update_xaxes(unifiedhovertitle={"text": "step %{x}"})
    return plain(figure)


def _told(choice: Decision, came: int) -> str:
    """Return the decision of a step in words, with the number of tokens that it brought."""
    return (
        f"{choice.size} of {choice.offered} guesses: {choice.why}; {choice.expected:.2f} tokens "
        f"expected, {came} came"
    )


def speedup_by_token(trace: Trace, baseline: Trace | None) -> Figure:
    """Plain decoding's time to token n / this run's time to token n, with the line y = 1."""
    if baseline is None or not trace.steps:
        return empty("There is no plain run to compare with.")
    method_seconds, plain_seconds = (
        metrics.seconds_to_token(trace),
        metrics.seconds_to_token(baseline),
    )
    count = min(len(method_seconds), len(plain_seconds))
    figure = go.Figure()
    figure.add_scatter(
        x=list(range(1, count + 1)),
        y=[plain_seconds[n] / method_seconds[n] for n in range(count)],
        mode="lines",
        name=f"{words_only(trace.method)} over plain decoding",
        line={"color": INK, "width": 2.5},
        hovertemplate="%{y:.2f}×<extra></extra>",
    )
    mark_plain(figure, "as fast as plain decoding")
    figure.update_layout(layout("token", "speedup", showlegend=False))
    figure.update_xaxes(unifiedhovertitle={"text": "token %{x}"})
    return plain(figure)


def acceptance_by_position(trace: Trace) -> Figure:
    """Of the proposals judged at each depth of the walk, the share that was accepted, with their
    number. A proposal is judged only if all before it were accepted."""
    counts = metrics.acceptance_by_position(trace)
    if not counts:
        return empty("Nothing was proposed.")
    figure = go.Figure()
    figure.add_bar(
        x=list(range(1, len(counts) + 1)),
        y=[accepted / tested for tested, accepted in counts],
        text=[f"{accepted}/{tested}" for tested, accepted in counts],
        textposition="outside",
        cliponaxis=False,
        marker={
            "color": PLAIN,
            "opacity": [1 if tested >= FEW else 0.4 for tested, _ in counts],
            "line": {"width": 0},
        },
        hovertemplate="%{y:.0%}: %{text}<extra></extra>",
    )
    axis = f"position, all before it accepted (pale: judged fewer than {FEW} times)"
    figure.update_layout(layout(axis, "accepted", showlegend=False))
    figure.update_yaxes(tickformat=".0%", range=[0, 1.15], tickvals=[0, 0.5, 1])
    figure.update_xaxes(
        dtick=1 if len(counts) <= 16 else None, unifiedhovertitle={"text": "position %{x}"}
    )
    return plain(figure)


FEW = 5
"""With fewer proposals than these a share says little."""
PHASES = {
    "prefill": ("prompt", "#CBD5E1"),
    "draft": ("draft passes", "#94A3B8"),
    "verify": ("target passes", "#64748B"),
    "learn": ("lookup", "#A8A29E"),
    "host": ("the rest", "#57534E"),
}
"""Timed phases of a step: names, and colours, neutral beside those of the sources."""


def time_breakdown(trace: Trace, baseline: Trace | None) -> Figure:
    """Milliseconds per emitted token by phase, of this run and of plain decoding."""
    figure = go.Figure()
    runs = [(words_only(trace.method), trace)] + (
        [("plain decoding", baseline)] if baseline is not None else []
    )
    drawn_runs = [(name, run) for name, run in runs if run.steps][::-1]
    for phase, (name, colour) in PHASES.items():
        values = [
            1000 * sum(getattr(step.seconds, phase) for step in run.steps) / metrics.new_tokens(run)
            for _, run in drawn_runs
        ]
        figure.add_bar(
            y=[name for name, _ in drawn_runs],
            x=values,
            name=name,
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"%{{x:.2f}} ms {name}<extra></extra>",
        )
    shape = layout("ms per token", "", barmode="stack", hovermode="closest")
    figure.update_layout(shape)
    return plain(figure)


def break_even(summary: Summary) -> Figure:
    """Speed over plain decoding against the acceptance rate, at this run's depth and measured
    costs; this run is a point. The prompt does not count: with it the speedup is less.

    The curve is E[tokens] / cost of a step (Leviathan et al., arXiv 2211.17192, theorem 3.8, with
    the cost measured).
    """
    gamma, rate, cost = summary.proposal_depth, summary.acceptance_rate, summary.step_cost
    if not gamma or cost is None or rate is None:
        return empty("Drawn for runs with proposals, compared with plain decoding.")
    alphas = [n / 50 for n in range(51)]
    figure = go.Figure()
    figure.add_scatter(
        x=alphas,
        y=[metrics.expected_tokens(alpha, gamma) / cost for alpha in alphas],
        mode="lines",
        name="by theory",
        line={"color": PLAIN, "width": 2.5},
        hovertemplate="%{y:.2f}×<extra></extra>",
    )
    figure.add_scatter(
        x=[rate],
        y=[summary.tokens_per_pass / cost],
        mode="markers",
        name="this run",
        marker={"color": INK, "size": 11, "symbol": "diamond"},
        hovertemplate="%{y:.2f}× at %{x:.0%}<extra></extra>",
    )
    mark_plain(figure, "break-even")
    figure.update_layout(layout("tested tokens accepted", "decoding alone, over plain"))
    figure.update_xaxes(tickformat=".0%", unifiedhovertitle={"text": "%{x} accepted"})
    return plain(figure)


def draft_lengths(summary: Summary) -> Figure:
    """Predicted speedup by draft length, with this run as it was measured, the best length, and the
    most that any choice in every step could have reached."""
    if summary.baseline is None or not draft_length.applies(summary.trace):
        return empty("Drawn for speculative decoding, compared with plain decoding.")
    try:
        known = draft_length.DraftLengths(summary.trace, summary.baseline)
    except InvalidInput as error:
        return empty(str(error))
    lengths = range(1, draft_length.LONGEST + 1)
    predicted = [known.of(length) for length in lengths]
    best = max(predicted, key=lambda one: one.speedup)
    figure = go.Figure()
    figure.add_scatter(
        x=list(lengths),
        y=[estimate.speedup for estimate in predicted],
        customdata=[estimate.tokens_per_pass for estimate in predicted],
        mode="lines+markers",
        name="predicted",
        line={"color": PLAIN, "width": 2.5},
        hovertemplate="%{y:.2f}×, %{customdata:.2f} tokens per pass<extra></extra>",
    )
    marks = (
        ("this run, measured", summary.proposal_depth, summary.speedup, "diamond"),
        ("best", lengths[predicted.index(best)], best.speedup, "star"),
    )
    for name, length, speedup, symbol in marks:
        figure.add_scatter(
            x=[length],
            y=[speedup],
            mode="markers",
            name=name,
            marker={"color": INK, "size": 12, "symbol": symbol},
            hovertemplate=f"{name}: %{{y:.2f}}×<extra></extra>",
        )
    most = known.oracle.speedup
    figure.add_hline(
        y=most,
        line={"color": PLAIN, "dash": "dash", "width": 1.5},
        annotation_text=f"the best length in every step: {most:.2f}×",
    )
    mark_plain(figure)
    figure.update_layout(layout("draft length (gamma)", "speedup over plain decoding"))
    figure.update_xaxes(dtick=1)
    return plain(figure)


def pool_growth(steps: Sequence[Step]) -> Figure:
    """Phrases in the pool after each step, and where some of them were accepted."""
    sizes = [(step.index + 1, step.pool_size) for step in steps if step.pool_size is not None]
    if not sizes:
        return empty("This method has no phrase pool.")
    figure = go.Figure()
    figure.add_scatter(
        x=[index for index, _ in sizes],
        y=[size for _, size in sizes],
        mode="lines",
        name="phrases in the pool",
        line={"shape": "hv", "color": PLAIN, "width": 2.5},
        hovertemplate="phrases: %{y}<extra></extra>",
    )
    paid = [
        (
            step,
            sum(
                step.tree.provenance[node].source in (Source.SUFFIX, Source.PHRASE)
                for node in step.path
            ),
        )
        for step in steps
    ]
    figure.add_scatter(
        x=[step.index + 1 for step, count in paid if count],
        y=[step.pool_size for step, count in paid if count],
        customdata=[count for _, count in paid if count],
        mode="markers",
        name="some were accepted",
        marker={"color": LOOKS["suffix"].colour, "size": 8, "symbol": "diamond"},
        meta={"look": "suffix"},
        hovertemplate="tokens accepted: %{customdata}<extra></extra>",
    )
    figure.update_layout(layout("step (one target pass each)", "phrases"))
    figure.update_yaxes(rangemode="normal")  # from 0, a pool that begins full is a flat line
    figure.update_xaxes(unifiedhovertitle={"text": "step %{x}"})
    return plain(figure)


def _proposes(trace: Trace) -> bool:
    return any(len(step.tree) > 1 for step in trace.steps)


FIRST_CHARTS = [
    Chart(
        "acceptance",
        "Acceptance length",
        "Acceptance length per step",
        "step",
        lambda run: acceptance_length(run.trace.steps),
    ),
    Chart(
        "time",
        "Speedup over greedy",
        "Speedup over greedy: tokens against time",
        "seconds",
        lambda run: tokens_against_time(run.trace, run.baseline),
    ),
]
"""The charts under the text of a run. The browser adds the steps of a run under way."""
MORE_CHARTS = [
    Chart(
        "speedup",
        "Speedup",
        "Speedup over plain decoding, at each token",
        "token",
        lambda run: speedup_by_token(run.trace, run.baseline),
    ),
    Chart(
        "positions",
        "By draft position",
        "Acceptance rate by draft position",
        None,
        lambda run: acceptance_by_position(run.trace),
        applies=_proposes,
    ),
    Chart(
        "where",
        "Where the time went",
        "Where the time went, per token",
        None,
        lambda run: time_breakdown(run.trace, run.baseline),
    ),
    Chart(
        "even",
        "Break-even",
        "Decoding alone: speedup vs acceptance rate, at what a step costs here",
        None,
        break_even,
        applies=_proposes,
    ),
    Chart(
        "lengths",
        "Other draft lengths",
        "What another draft length would have done",
        None,
        draft_lengths,
        applies=draft_length.applies,
    ),
    Chart(
        "choices",
        "Auto decisions",
        "Verified tokens and draft passes per step",
        "step",
        lambda run: choices(run.trace.steps),
        applies=lambda trace: any(step.choice for step in trace.steps),
    ),
    Chart(
        "pool",
        "Phrase pool",
        "Phrase pool",
        "step",
        lambda run: pool_growth(run.trace.steps),
        applies=lambda trace: any(step.pool_size for step in trace.steps),
    ),
]
"""The other charts of a run, in the order of their buttons; the page shows all."""


def first_charts(summary: Summary) -> dict[str, Figure]:
    """Draw the charts under the text of a run, by their ids."""
    return {chart.id: chart.draw(summary) for chart in FIRST_CHARTS}


def begun_charts() -> dict[str, Figure]:
    """Draw the charts under the text of a run without steps, to which the browser adds them."""
    return {"acceptance": acceptance_length(()), "time": tokens_against_time(None, None)}


def more_charts(summary: Summary) -> dict[str, Figure]:
    """Draw the other charts of a finished run, by their ids."""
    return {chart.id: chart.draw(summary) for chart in MORE_CHARTS}


def applying(trace: Trace) -> list[str]:
    """Return the ids of the other charts that say something of a run."""
    return [chart.id for chart in MORE_CHARTS if chart.applies(trace)]
