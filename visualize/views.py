"""Plain data for the browser, made from steps and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.equality import Divergence
from ouroboros_core.decoding.trace import Judged, Step, Trace
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.words import say, several
from visualize import numbers
from visualize.palette import LOOKS, key_of
from visualize.reasons import Piece, Reasons, origin

View = dict[str, Any]


def step_view(step: Step, texts: Sequence[str], sampling: Sampling, piece: Piece) -> View:
    """One step: what was proposed, what of it was accepted, the target's own token, why, and what
    it cost.

    texts  those of its own tokens; piece  the text of a token id on its own
    """
    reasons = Reasons(step, sampling, piece)
    tokens: list[View] = [
        {"text": text, "node": node, "why": reasons.of_token(place)}
        for place, (node, text) in enumerate(zip(step.path, texts, strict=False))
    ]
    if step.target_token is not None:
        look = key_of(step.writer, step.kind)
        own: View = {
            "text": texts[-1],
            "id": step.target_token,
            "source": step.writer.value,
            "look": look,
        }
        own |= {"kind": step.kind} if step.kind else {}
        tokens.append(own | {"why": reasons.of_token(len(step.path))})
    nodes = [node_view(step, node, reasons, piece) for node in range(1, len(step.tree))]
    view: View = {
        "index": step.index,
        "tokens": tokens,
        "root": piece(step.tree.tokens[0]),
        "nodes": nodes,
        "width": step.width,
        "passes": step.draft_passes,
        "seconds": [round(value, 6) for value in astuple(step.seconds)],
    }
    if step.judged:
        view["odds"] = {judged.node: odds_view(judged, piece) for judged in step.judged}
    if step.window:
        view["window"] = [[piece(token), parent] for token, parent in step.window]
    return view


def node_view(step: Step, node: int, reasons: Reasons, piece: Piece) -> View:
    """A proposed node: parent, text, id, origin; why it was not accepted, where it was not."""
    tree = step.tree
    provenance, token = tree.provenance[node], tree.tokens[node]
    view: View = {"parent": tree.parents[node], "text": piece(token), "id": token}
    view |= {"source": provenance.source.value, "look": key_of(provenance.source)}
    for name in ("learned", "step", "position"):
        value = getattr(provenance, name)
        view |= {} if value is None else {name: value}
    told = origin(provenance)
    view |= {"origin": told} if told else {}
    return view if node in step.path else view | {"why": reasons.of_node(node)}


def odds_view(judged: Judged, piece: Piece) -> list[list[Any]]:
    """Rows [id, text, target, draft, noise, left], the target's likeliest first; null where there
    is no such number."""
    columns = (judged.target, judged.draft, judged.noise, judged.left)
    rows = [
        [token, piece(token), *(column[row] if column else None for column in columns)]
        for row, token in enumerate(judged.tokens)
    ]
    return sorted(rows, key=lambda row: -row[2])


def steps_view(
    steps: Sequence[Step], texts: Sequence[str], sampling: Sampling, piece: Piece, start: int = 0
) -> list[View]:
    """Steps from index `start` on; `texts` are those of all tokens of all steps."""
    done = sum(len(step.tokens) for step in steps[:start])
    views = []
    for step in steps[start:]:
        count = len(step.tokens)
        views.append(step_view(step, texts[done : done + count], sampling, piece))
        done += count
    return views


def tiles(trace: Trace, baseline: Trace | None, difference: Divergence | None = None) -> list[View]:
    """The headline numbers, each with the sentence that defines it; measured or absent.

    difference: where the text first differs from that of the baseline, judged.
    """
    speedup = metrics.speedup(trace, baseline) if baseline is not None else None
    saved, count = metrics.target_passes_saved(trace), metrics.new_tokens(trace)
    greedy = Sampling.model_validate(trace.sampling).kind
    note = (
        say("tile.alone")
        if baseline is None
        else say("tile.plain", rate=metrics.tokens_per_second(baseline))
    )
    busy = baseline is not None and metrics.busy(trace, baseline) is not None
    mark = {"mark": say("tile.busy")} if busy and speedup is not None else {}
    rate = f"{metrics.tokens_per_second(trace):.1f}"
    length = f"{metrics.mean_acceptance_length(trace):.2f}"
    return [
        _tile(say("tile.rate"), rate, say("tile.rate.note")),
        _tile(
            say("tile.speedup", plain=greedy), "–" if speedup is None else f"{speedup:.2f}×", note
        )
        | mark,
        _tile(say("tile.length"), length, say("tile.length.note")),
        _tile(
            say("tile.saved"),
            say("tile.saved.value", saved=saved, count=count),
            say("tile.saved.note"),
        ),
        _tile(say("tile.same", plain=greedy), *_identical(trace, baseline, difference)),
    ]


def _tile(label: str, value: str, note: str) -> View:
    return {"label": label, "value": value, "note": note}


def notices(trace: Trace, baseline: Trace | None, live: bool) -> list[View]:
    """What a reader must know of a run before believing it: words, and what to do about it where
    the run is live."""
    found: list[View] = []
    if trace.ended_at_once:
        end = piece_of(trace)(trace.tokens[-1])
        found.append(
            {"words": say("run.empty.chat" if trace.prompt.chat else "run.empty.raw", end=end)}
        )
        if live and not trace.prompt.chat:
            found[-1] |= {"act": "chat", "label": say("run.empty.remedy")}
    busy = metrics.busy(trace, baseline) if baseline is not None else None
    if busy and not trace.ended_at_once:
        sign, number = busy
        found.append({"words": say("run.busy", why=say(f"run.busy.{sign}", n=number))})
        found[-1] |= {"act": "again", "label": say("run.busy.remedy")} if live else {}
    return found


def status_of(trace: Trace) -> str:
    """How much was written in how many steps, and how it ended."""
    facts = {
        "tokens": several("run.tokens", metrics.new_tokens(trace)),
        "steps": several("run.steps", len(trace.steps)),
    }
    if trace.ending != "stop token" or not trace.steps:
        return say("run.status", **facts)
    return say("run.status.ended", **facts, end=piece_of(trace)(trace.tokens[-1]))


def legend() -> list[View]:
    """What each class of token means, for the page's legend."""
    keys = ("label", "who", "glyph", "sentence", "colour", "paper", "paper_dark")
    return [
        {"look": look.key, **{key: getattr(look, key) for key in keys}} for look in LOOKS.values()
    ]


def piece_of(trace: Trace) -> Piece:
    """The text of a token id that occurs in a trace; its number where the trace does not say."""
    return lambda token: trace.pieces.get(token, f"#{token}")


def badge(trace: Trace) -> str:
    """Where and when a trace was recorded."""
    place = trace.environment
    return say("run.badge", where=place.where, day=trace.created[:10])


def describe(method: str, settings: Mapping[str, Any], target: str, *others: str | None) -> str:
    """Method, settings and models in one line; others: draft model or head, and corpus, where there
    are such."""
    listed = ", ".join(
        f"{name} {value}" for name, value in settings.items() if not isinstance(value, bool)
    )
    beside = say("run.and").join(name for name in others if name)
    run = say("run.title", method=f"{method} ({listed})" if listed else method, target=target)
    return say("run.beside", run=run, beside=beside) if beside else run


def _identical(
    trace: Trace, baseline: Trace | None, difference: Divergence | None
) -> tuple[str, str]:
    """The verdict in a word or two, and its explanation."""
    if baseline is None:
        return "–", say("tile.same.note")
    written_alone = any(step.writer is not Source.TARGET for step in trace.steps)
    if Sampling.model_validate(trace.sampling).rejects and not written_alone:
        return say("tile.same.distribution"), say("tile.same.distribution.note")
    where = metrics.first_difference(trace.tokens, baseline.tokens)
    if where is None:
        return say("tile.same.yes"), several("tile.same.yes.note", metrics.new_tokens(trace))
    verdict = say("tile.same.no", n=where + 1)
    if written_alone:
        return verdict, say("tile.same.draft.note")
    if difference is None:
        return verdict, say("tile.same.open.note")
    note = difference.sentence(trace.pieces | baseline.pieces)
    return (
        (say("tile.same.tie"), note)
        if difference.tie
        else (verdict, say("tile.same.report.note", note=note))
    )


def run_view(
    trace: Trace,
    baseline: Trace | None,
    *,
    run: str,
    seq: int,
    badge_text: str,
    difference: Divergence | None = None,
    start: int = 0,
    live: bool = False,
) -> View:
    """A run from step `start` on, and what is said of the whole: what a token view shows at once.

    live: whether a visitor has just made it, and can make it again
    """
    status = status_of(trace)
    if baseline is not None and difference is not None and difference.tie:
        status += f". {difference.sentence(trace.pieces | baseline.pieces)}"
    theory = theory_view(trace, baseline)
    return {
        "seq": seq,
        "run": run,
        "from": start,
        "steps": steps_view(
            trace.steps,
            trace.texts,
            Sampling.model_validate(trace.sampling),
            piece_of(trace),
            start,
        ),
        "prompt": trace.prompt.text,
        "chat": trace.prompt.chat,
        "badge": badge_text,
        "title": describe(
            trace.method, trace.hyperparameters, trace.target, trace.draft, trace.corpus
        ),
        "tiles": tiles(trace, baseline, difference),
        "notices": notices(trace, baseline, live),
        "numbers": numbers.sections(trace, baseline),
        "status": status,
        "ended": trace.ending == "stop token",
        "done": True,
    } | ({"theory": theory} if theory else {})


def theory_view(trace: Trace, baseline: Trace | None) -> View | None:
    """A run as a point on the theory's curves: mean depth of its proposals, tokens per step, speed
    over plain decoding."""
    speedup = metrics.speedup(trace, baseline) if baseline is not None else None
    if speedup is None or not metrics.proposal_depth(trace):
        return None
    tokens = metrics.mean_acceptance_length(trace)
    return {
        "gamma": round(metrics.proposal_depth(trace), 2),
        "tokens": round(tokens, 3),
        "speedup": round(speedup, 3),
    }


def lane_view(name: str, trace: Trace, baseline: Trace, difference: Divergence | None) -> View:
    """A lane of a race: its steps, and its row of the table."""
    steps = steps_view(
        trace.steps, trace.texts, Sampling.model_validate(trace.sampling), piece_of(trace)
    )
    speedup = metrics.speedup(trace, baseline)
    busy = trace is not baseline and metrics.busy(trace, baseline) is not None
    return {
        "name": name,
        "busy": busy,
        "steps": steps,
        "row": [
            str(metrics.new_tokens(trace)),
            str(len(trace.steps)),
            f"{metrics.mean_acceptance_length(trace):.2f}",
            f"{metrics.total_seconds(trace):.2f}",
            f"{metrics.tokens_per_second(trace):.1f}",
            "–"
            if speedup is None
            else say("run.speedup.busy", n=speedup)
            if busy
            else f"{speedup:.2f}×",
            say("run.reference")
            if trace is baseline
            else _identical(trace, baseline, difference)[0],
        ],
    }
