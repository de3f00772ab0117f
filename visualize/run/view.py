"""Plain data for the browser, made from steps and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ouroboros_core.benchmark.protocol import Speedup
from ouroboros_core.environment import processor_name
from ouroboros_core.messages import counted
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import LOOKS, Source, key_of
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.reasons import Piece, Reasons, origin
from ouroboros_core.trace.trace import Judged, Step, Trace
from visualize.kit import labels as spoken
from visualize.run import diagnosis as numbers

View = dict[str, Any]
"""What a script of the page draws."""
LIVE = "live"
"""The badge of a run that a visitor makes here; token_view.js knows it, too."""


def step_view(step: Step, texts: Sequence[str], sampling: Sampling, piece: Piece) -> View:
    """One step: what was proposed, what of it was accepted, the target's own token, why, and what
    it cost.

    texts  those of its own tokens; piece  the text of a token id on its own
    """
    reasons = Reasons(step, sampling, piece)
    # Its look is that of its node, nodes[node - 1] below: token_text.js joins them.
    tokens: list[View] = [
        {"text": text, "node": node, "why": reasons.of_token(index)}
        for index, (node, text) in enumerate(zip(step.path, texts, strict=False))
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
        **({"saved": step.draft_rows_saved} if step.draft_rows_saved else {}),
        "seconds": [round(value, 6) for value in step.seconds.phases],
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
    # Where the card has the draft's exact probability, it need not tell a rounded one.
    shown = any(
        judged.node == tree.parents[node] and judged.draft and token in judged.tokens
        for judged in step.judged
    )
    told = origin(replace(provenance, confidence=None) if shown else provenance)
    view |= {"origin": told} if told else {}
    return view if node in step.path else view | {"why": reasons.of_node(node)}


def odds_view(judged: Judged, piece: Piece) -> list[list[Any]]:
    """Rows [id, text, target, draft, noise, left], the target's likeliest first; null if there
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


def tiles(
    trace: Trace,
    baseline: Trace | None,
    difference: Divergence | None = None,
    rounds: Speedup | None = None,
) -> list[View]:
    """The headline numbers, each with the sentence that defines it; measured or absent.

    difference: where the text first differs from that of the baseline, judged.
    rounds: the speedup of all rounds, where that is known.
    """
    speedup = metrics.speedup(trace, baseline) if baseline is not None else None
    speedup = rounds.median if rounds else speedup
    saved, count = metrics.target_passes_saved(trace), metrics.new_tokens(trace)
    note = (
        "Tokens per second / those of plain decoding, both measured here, one after the other."
        if baseline is None
        else (
            f"Plain decoding: {metrics.tokens_per_second(baseline):.1f} tokens per second, "
            "measured on the same machine."
        )
    )
    busy = baseline is not None and metrics.busy(trace, baseline) is not None
    mark = {"mark": "measured on a busy machine"} if busy and speedup is not None else {}
    mark |= {"spread": rounds.remark} if rounds else {}
    rate = f"{metrics.tokens_per_second(trace):.1f}"
    length = f"{metrics.mean_acceptance_length(trace):.2f}"
    factor = "–" if speedup is None else f"{speedup:.2f}×"
    return [
        _tile("Tokens per second", rate, "Emitted tokens / wall-clock seconds, prefill included."),
        _tile("Speedup", factor, note) | mark,
        _tile(
            "Tokens per pass",
            length,
            "Mean acceptance length: tokens that one target pass yields, the target's own "
            "included; plain decoding has 1.",
        ),
        _tile(
            "Forward passes saved",
            f"{saved} of {count}",
            "Tokens that needed no forward pass of the target of their own.",
        ),
        _tile("Identical text", *_identical(trace, baseline, difference)),
    ]


def sentence(trace: Trace, baseline: Trace | None, difference: Divergence | None = None) -> str:
    """A run in one sentence: forward passes, speed, and whether the text is the same."""
    steps, tokens = len(trace.steps), metrics.new_tokens(trace)
    if not steps:
        return ""
    if any(step.writer is not Source.TARGET for step in trace.steps):
        alone = f"{counted(tokens, 'token')} by the draft model alone, which nobody checks"
        return f"{alone}{_faster(trace, baseline)}."
    passes = f"{steps} forward pass{'' if steps == 1 else 'es'}"
    if trace.method == "autoregressive":
        return f"{passes} for {counted(tokens, 'token')}: plain decoding."
    plain = tokens if baseline is None else len(baseline.steps)
    drafted = sum(step.draft_passes for step in trace.steps)
    small = f", plus {drafted} draft pass{'' if drafted == 1 else 'es'}" if drafted else ""
    parts = f"{passes} instead of {plain}{small}{_faster(trace, baseline)}"
    if baseline is None:
        return f"{parts}."
    verdict = _identical(trace, baseline, difference)[0]
    if verdict == "in distribution":
        return f"{parts}, same distribution."
    if verdict == "not lossless":
        return f"{parts}, not lossless: typical acceptance."
    same = {"yes": "same text", "up to a tie": "same text up to a rounding tie"}
    return f"{parts}, {same.get(verdict, 'another text')}."


def _faster(trace: Trace, baseline: Trace | None) -> str:
    speedup = metrics.speedup(trace, baseline) if baseline is not None else None
    return "" if speedup is None else f", {speedup:.2f}× as fast"


def _tile(label: str, value: str, note: str) -> View:
    return {"label": label, "value": value, "note": note}


def notices(trace: Trace, baseline: Trace | None, can_rerun: bool) -> list[View]:
    """What a reader must know of a run before believing it: words, and what to do about it where
    the run can be made again."""
    found: list[View] = []
    if trace.ended_at_once:
        end = piece_of(trace)(trace.tokens[-1])
        found.append({"words": _empty_answer(end, trace.prompt.chat)})
        if can_rerun and not trace.prompt.chat:
            found[-1] |= {"act": "chat", "label": "Run it with the chat template"}
    busy = metrics.busy(trace, baseline) if baseline is not None else None
    if busy and not trace.ended_at_once:
        found.append({"words": numbers.busy_warning(*busy)})
        found[-1] |= {"act": "again", "label": "Measure again"} if can_rerun else {}
    return found


def _empty_answer(end: str, chat: bool) -> str:
    if chat:
        return (
            f"The answer is empty. The model said {end} at once: its sign for the end of a text. "
            "Ask in other words."
        )
    return (
        "The answer is empty. The model got the prompt as it stands, without the chat template, "
        f"and said {end} at once: its sign for the end of a text."
    )


def status_of(trace: Trace) -> str:
    """How much was written in how many steps, and how it ended."""
    tokens, steps = metrics.new_tokens(trace), len(trace.steps)
    status = f"{counted(tokens, 'token')} in {counted(steps, 'step')}"
    status += "" if metrics.lossless(trace) else " (not lossless)"
    if trace.ending != "stop token" or not trace.steps:
        return status
    end = piece_of(trace)(trace.tokens[-1])
    return f"{status}; the last one, {end}, is the model's sign for the end of its text"


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
    """With which model, where and when a run was recorded."""
    where = processor_name(trace.environment.processor)
    return f"recorded with {model_name(trace.target)} on {where}, {trace.created[:10]}"


def model_name(model: str) -> str:
    """A model without whom it is by on the Hub."""
    return model.rsplit("/", maxsplit=1)[-1]


def describe(method: str, settings: Mapping[str, Any], target: str, *others: str | None) -> str:
    """Method, settings and models in one line, in words; others: draft model or head, and corpus,
    where there are such."""
    beside = " and ".join(model_name(name) for name in others if name)
    run = f"{spoken.run(method, settings)}, on {model_name(target)}"
    return f"{run} with {beside}" if beside else run


def title(trace: Trace) -> str:
    """The line above a run: method, settings and models, and what of the checkpoint's own
    generation settings held."""
    described = describe(
        trace.method, trace.hyperparameters, trace.target, trace.draft, trace.corpus
    )
    if not trace.generation_config:
        return described
    own = metrics.in_words(trace.generation_config)
    return f"{described}, under its generation_config.json: {own}"


def _identical(
    trace: Trace, baseline: Trace | None, difference: Divergence | None
) -> tuple[str, str]:
    """The verdict in a word or two, and its explanation."""
    if baseline is None:
        return "–", "The text compared token by token with plain decoding."
    written_alone = any(step.writer is not Source.TARGET for step in trace.steps)
    if Sampling.model_validate(trace.sampling).rejects and not written_alone:
        return "in distribution", (
            "This acceptance rule keeps the target's probabilities; the text of a seed is "
            "another one."
        )
    if not metrics.lossless(trace) and not written_alone:
        return "not lossless", (
            "Typical acceptance keeps what the target finds likely enough; the target alone need "
            "not write this text."
        )
    where = metrics.first_difference(trace.tokens, baseline.tokens)
    if where is None:
        count = metrics.new_tokens(trace)
        if count == 1:
            return "yes", "The one token is that of plain decoding."
        return "yes", f"All {count} tokens are those of plain decoding."
    verdict = f"no, from token {where + 1} on"
    if written_alone:
        return verdict, "The draft model wrote this alone; nobody checked it."
    if difference is None:
        return verdict, "Not judged yet."
    note = difference.sentence(trace.pieces | baseline.pieces)
    return ("up to a tie", note) if difference.tie else (verdict, f"{note} Please report this.")


def run_view(
    trace: Trace,
    baseline: Trace | None,
    *,
    run: str,
    seq: int,
    badge_text: str,
    difference: Divergence | None = None,
    start: int = 0,
    can_rerun: bool = False,
    rounds: Speedup | None = None,
) -> View:
    """A run from step `start` on, and what is said of the whole: what a token view shows at once.

    can_rerun: whether a visitor has just made it, and can make it again
    rounds: the speedup of all rounds, where there are several; these two are then of the median one
    """
    status = status_of(trace)
    if baseline is not None and difference is not None and difference.tie:
        status += f". {difference.sentence(trace.pieces | baseline.pieces)}"
    more = {
        "theory": theory_view(trace, baseline),
        "parts": parting_view(trace, baseline, difference),
    }
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
        "title": title(trace),
        "tiles": tiles(trace, baseline, difference, rounds),
        "notices": notices(trace, baseline, can_rerun),
        "numbers": numbers.sections(trace, baseline),
        "status": status,
        "sentence": sentence(trace, baseline, difference),
        "ended": trace.ending == "stop token",
        "done": True,
    } | {name: view for name, view in more.items() if view}


def parting_view(
    trace: Trace, baseline: Trace | None, difference: Divergence | None
) -> View | None:
    """Where the text of a run parts from that of plain decoding, for a mark on its first token that
    differs; None where the two ought not to be equal, or are.

    index: of the token, from 0; mark: "tie", or "other" where nobody judged it or rounding does not
    explain it; words: why
    """
    verdict, note = _identical(trace, baseline, difference)
    if baseline is None or not verdict.startswith(("up to", "no")):
        return None
    index = metrics.first_difference(trace.tokens, baseline.tokens)
    if index is None or index >= len(trace.tokens):
        return None
    tie = difference is not None and difference.tie
    told = note if difference is not None else f"From here on plain decoding differs. {note}"
    return {"index": index, "mark": "tie" if tie else "other", "words": told}


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


def lane_view(
    name: str,
    trace: Trace,
    baseline: Trace,
    difference: Divergence | None,
    rounds: Speedup | None = None,
) -> View:
    """A lane of a race: its steps, and its row of the table. rounds: its speedup in all rounds,
    where that is known; what stands behind the speedup's comma is a remark."""
    steps = steps_view(
        trace.steps, trace.texts, Sampling.model_validate(trace.sampling), piece_of(trace)
    )
    speedup = rounds.median if rounds else metrics.speedup(trace, baseline)
    plain = trace is baseline
    busy = not plain and metrics.busy(trace, baseline) is not None
    factor = "–" if speedup is None else f"{speedup:.2f}×"
    if rounds and not plain:
        factor += f", {rounds.remark}"
    if busy and speedup is not None:
        factor += ", measured on a busy machine"
    parts = parting_view(trace, baseline, difference)
    return {
        "name": name,
        "busy": busy,
        "steps": steps,
        **({"parts": parts} if parts else {}),
        "row": [
            str(metrics.new_tokens(trace)),
            str(len(trace.steps)),
            f"{metrics.mean_acceptance_length(trace):.2f}",
            f"{metrics.total_seconds(trace):.2f}",
            f"{metrics.tokens_per_second(trace):.1f}",
            factor,
            "the reference" if trace is baseline else _identical(trace, baseline, difference)[0],
        ],
    }
