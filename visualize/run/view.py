"""Plain data for the browser, made from steps and traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ouroboros_core.environment import processor_name
from ouroboros_core.messages import counted
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import AUTO
from ouroboros_core.sources import LOOKS, key_of
from ouroboros_core.trace import metrics
from ouroboros_core.trace.reasons import Piece, Reasons, origin
from ouroboros_core.trace.summary import Summary, Verdict
from ouroboros_core.trace.trace import Judged, Step, Trace
from visualize.kit import labels
from visualize.run import diagnosis, figures

View = dict[str, Any]
"""Data that a script of the page draws."""
NEW_TOKENS = 128
"""The page's default of the most new tokens."""
LIVE = "live"
"""The badge of a run that a visitor makes here; token_view.js also knows it."""
AGAIN = "again"
"""The act of a notice of a busy machine: the same run, measured again."""


def step_view(step: Step, texts: Sequence[str], sampling: Sampling, piece: Piece) -> View:
    """Return one step: its proposal, the accepted tokens, the target's own token, the reasons and
    the costs.

    texts  the texts of the tokens that the step emitted
    piece  returns the text of a token id alone
    """
    reasons = Reasons(step, sampling, piece)
    # Its look is that of its node, nodes[node - 1] below: token_text.js joins them.
    tokens: list[View] = [
        {"text": text, "node": node, "why": reasons.of_token(index)}
        for index, (node, text) in enumerate(zip(step.path, texts, strict=False))
    ]
    if step.target_token is not None:
        target_view: View = {
            "text": texts[-1],
            "id": step.target_token,
            "source": step.writer.value,
            "look": step.looks[-1],
        }
        target_view |= {"kind": step.kind} if step.kind else {}
        tokens.append(target_view | {"why": reasons.of_token(len(step.path))})
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
    has_odds = any(
        judged.node == tree.parents[node] and judged.draft and token in judged.tokens
        for judged in step.judged
    )
    learned_from = origin(replace(provenance, confidence=None) if has_odds else provenance)
    view |= {"origin": learned_from} if learned_from else {}
    return view if node in step.path else view | {"why": reasons.of_node(node)}


def odds_view(judged: Judged, piece: Piece) -> list[list[Any]]:
    """Return [id, text, target, draft, noise, left] or null each, the likeliest first."""
    columns = (judged.target, judged.draft, judged.noise, judged.left)
    rows = [
        [token, piece(token), *(column[row] if column else None for column in columns)]
        for row, token in enumerate(judged.tokens)
    ]
    return sorted(rows, key=lambda row: -row[2])


def steps_view(
    steps: Sequence[Step], texts: Sequence[str], sampling: Sampling, piece: Piece, start: int = 0
) -> list[View]:
    """Return the steps from index `start` on; `texts` has one text for each token of all steps."""
    done = sum(len(step.tokens) for step in steps[:start])
    views = []
    for step in steps[start:]:
        count = len(step.tokens)
        views.append(step_view(step, texts[done : done + count], sampling, piece))
        done += count
    return views


def tiles(summary: Summary) -> list[View]:
    """The headline numbers, each with the sentence that defines it; measured or absent."""
    speedup, plain = summary.speedup, summary.plain
    note = (
        "Tokens per second / those of plain decoding, both measured here, one after the other."
        if plain is None
        else (
            f"Plain decoding: {plain.tokens_per_second:.1f} tokens per second, "
            "measured on the same machine."
        )
    )
    marks: View = {"spread": summary.rounds.remark} if summary.rounds else {}
    if summary.busy and speedup is not None:
        fewer = f"count passes instead: {summary.tokens_per_pass:.2f}× fewer"
        marks |= {"mark": f"measured on a busy machine; {fewer}", "doubtful": True}
    elif summary.is_provisional:
        marks |= {"spread": f"{marks['spread']} so far", "doubtful": True}
    return [
        _tile(
            "Tokens per second",
            f"{summary.tokens_per_second:.1f}",
            "Emitted tokens / wall-clock seconds, prefill included.",
        ),
        _tile("Speedup", _times(summary) or "–", note) | marks,
        _tile(
            "Tokens per pass",
            f"{summary.tokens_per_pass:.2f}",
            "Mean acceptance length: tokens that one target pass yields, the target's own "
            "included; plain decoding has 1.",
        ),
        _tile(
            "Forward passes saved",
            f"{summary.passes_saved} of {summary.tokens}",
            "Tokens that needed no forward pass of the target of their own.",
        ),
        _tile("Identical text", summary.verdict_words, summary.verdict_sentence),
    ]


def sentence(summary: Summary) -> str:
    """A run in one sentence: forward passes, speed, and whether the text is the same."""
    steps, tokens = summary.steps, summary.tokens
    if not steps:
        return ""
    if summary.written_alone:
        unchecked = f"{counted(tokens, 'token')} by the draft model alone, which nobody checks"
        return f"{unchecked}{_faster(summary)}."
    passes = f"{steps} forward pass{'' if steps == 1 else 'es'}"
    if summary.trace.is_plain:
        return f"{passes} for {counted(tokens, 'token')}: plain decoding."
    plain = tokens if summary.plain is None else summary.plain.steps
    drafted = summary.draft_passes
    small = f", plus {drafted} draft pass{'' if drafted == 1 else 'es'}" if drafted else ""
    sameness = _SAMENESS[summary.verdict].format(rule=summary.sampling.rule.name)
    return f"{passes} instead of {plain}{small}{_faster(summary)}{sameness}."


_SAMENESS = {
    Verdict.NOT_COMPARED: "",
    Verdict.IN_DISTRIBUTION: ", same distribution",
    Verdict.NOT_LOSSLESS: ", not lossless: {rule}",
    Verdict.SAME: ", same text",
    Verdict.TIE: ", same text up to a rounding tie",
    Verdict.DIFFERENT: ", another text",
}


def _faster(summary: Summary) -> str:
    """Return the speedup in words; nothing if it may not stay: the first of several rounds, or a
    busy machine."""
    times = _times(summary)
    if not times or summary.busy or summary.is_provisional:
        return ""
    slower = f"slower than plain decoding: {times}"
    return f", {slower}" if summary.is_slower else f", {times} as fast"


def _times(summary: Summary) -> str:
    if summary.rounds is not None:
        return summary.rounds.words
    return "" if summary.speedup is None else f"{summary.speedup:.2f}×"


def _tile(label: str, value: str, note: str) -> View:
    return {"label": label, "value": value, "note": note}


def notices(summary: Summary, can_rerun: bool) -> list[View]:
    """Return warnings about a run: words, and a remedy if the run can be made again.

    Those `beside` the sentence have room there, so that nothing moves when one comes; a `quiet` one
    is no warning. note: a longer explanation.
    """
    trace, notes = summary.trace, list[View]()
    if trace.ended_at_once:
        end = piece_of(trace)(trace.tokens[-1])
        notes.append({"words": _empty_answer(end, trace.prompt.chat)})
        if can_rerun and not trace.prompt.chat:
            notes[-1] |= {"act": "chat", "label": "Run it with the chat template"}
    elif summary.busy:
        note = diagnosis.busy_warning(summary)
        notes.append({"words": "Speedup not shown: busy machine.", "note": note, "beside": True})
        notes[-1] |= {"act": AGAIN, "label": "Measure again"} if can_rerun else {}
    elif summary.is_provisional:
        words = f"So far {_times(summary)} as fast: {counted(1, 'round')}."
        notes.append(quiet(words))
    elif summary.is_slower:
        notes.append(quiet(f"Why: {diagnosis.why_slower(summary)}."))
    if automatic_off(trace) and not trace.ended_at_once:
        note = "Its automatic choice expects no gain from guesses on this machine."
        words = f"{labels.method(trace.method)} switched itself off."
        notes.append({"words": words, "note": note, "beside": True})
        notes[-1] |= {"act": "fixed", "label": "Show it anyway"} if can_rerun else {}
    return notes


def quiet(words: str) -> View:
    """Return a remark beside the sentence of a run."""
    return {"words": words, "beside": True, "quiet": True}


def automatic_off(trace: Trace) -> bool:
    """Return whether an automatic choice checked proposals in under a tenth of the steps."""
    checked = sum(step.width > 1 for step in trace.steps)
    return AUTO in trace.hyperparameters.values() and 10 * checked < len(trace.steps)


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


def status_of(summary: Summary) -> str:
    """How much was written in how many steps, and how it ended."""
    trace = summary.trace
    status = f"{counted(summary.tokens, 'token')} in {counted(summary.steps, 'step')}"
    status += "" if summary.lossless else " (not lossless)"
    if trace.ending != "stop token" or not trace.steps:
        return status
    return f"{status}, ended by the model ({piece_of(trace)(trace.tokens[-1])})"


def legend() -> list[View]:
    """Return the page's legend: the meaning of each class of token."""
    keys = ("label", "proposer", "glyph", "sentence", "colour", "paper", "paper_dark")
    return [
        {"look": look.key, **{key: getattr(look, key) for key in keys}} for look in LOOKS.values()
    ]


def piece_of(trace: Trace) -> Piece:
    """The text of a token id that occurs in a trace; its number where the trace does not say."""
    return lambda token: trace.pieces.get(token, f"#{token}")


def badge(trace: Trace, *, model: bool = False) -> str:
    """Return where and when a run was recorded, and with which model if its title does not say."""
    where = processor_name(trace.environment.processor)
    what = f"with {model_name(trace.target)} " if model else ""
    return f"recorded {what}on {where}, {trace.created[:10]}"


def model_name(model: str) -> str:
    """A model without whom it is by on the Hub."""
    return model.rsplit("/", maxsplit=1)[-1]


def describe(method: str, settings: Mapping[str, Any], target: str, *others: str | None) -> str:
    """Describe method, settings and models in a line; others: draft or head, corpus."""
    companions = " and ".join(model_name(name) for name in others if name)
    run = f"{labels.run(method, settings)}, on {model_name(target)}"
    return f"{run} with {companions}" if companions else run


def title(trace: Trace) -> str:
    """Return the line above a run: method, settings, models, generation settings."""
    described = describe(
        trace.method, trace.hyperparameters, trace.target, trace.draft, trace.corpus
    )
    if not trace.generation_config:
        return described
    settings = metrics.in_words(trace.generation_config)
    return f"{described}, under its generation_config.json: {settings}"


def caption(trace: Trace) -> View:
    """Return what a run was asked for: prompt, method, settings and models, and its conditions, of
    which those that are not the page's defaults are marked."""
    sampling = Sampling.model_validate(trace.sampling)
    defaults = Sampling()
    conditions = [condition("greedy", changed=False)]
    if sampling.temperature:
        words = [
            f"{labels.setting(name)} {value}"
            for name, value in sampling
            if name in ("temperature", "seed") or value != getattr(defaults, name)
        ]
        conditions = [condition(", ".join(words))]
    elif sampling.seed:  # a lookahead window begins with random tokens
        conditions = [condition(f"greedy, seed {sampling.seed}")]
    if trace.max_new_tokens != NEW_TOKENS:
        conditions.append(condition(f"at most {counted(trace.max_new_tokens, 'token')}"))
    if not trace.prompt.chat:
        conditions.append(condition("no chat template"))
    if trace.prediction:
        conditions.append(condition("with a predicted output"))
    conditions += [condition(f"grammar: {kind}") for kind in trace.grammar]
    return {
        "prompt": trace.prompt.text,
        "chat": trace.prompt.chat,
        "title": title(trace),
        "curves": _title_of_curves(trace, sampling),
        "conditions": conditions,
    }


def condition(words: str, *, changed: bool = True) -> View:
    """Return a condition of a run; `changed` marks what is not the page's default."""
    return {"words": words, "changed": changed}


def _title_of_curves(trace: Trace, sampling: Sampling) -> str:
    if trace.is_plain:
        return "Tokens against time"
    over = "plain decoding" if sampling.temperature else "greedy"
    return f"Speedup over {over}: tokens against time"


def run_view(
    summary: Summary,
    *,
    run: str,
    seq: int,
    badge_text: str,
    start: int = 0,
    can_rerun: bool = False,
) -> View:
    """Return a run from step `start` on, and the words about the whole: the value of a token view.

    can_rerun: whether a visitor has just made it, and can make it again
    """
    trace = summary.trace
    status = status_of(summary)
    if summary.difference is not None and summary.difference.tie:
        status += f". {summary.difference_sentence}"
    optional = {
        "theory": theory_view(summary),
        "parts": parting_view(summary),
        "rival": rival_view(summary),
    }
    return {
        "seq": seq,
        "run": run,
        "from": start,
        "steps": steps_view(trace.steps, trace.texts, summary.sampling, piece_of(trace), start),
        **caption(trace),
        "badge": badge_text,
        "tiles": tiles(summary),
        "notices": notices(summary, can_rerun),
        "numbers": diagnosis.sections(summary),
        "status": status,
        "sentence": sentence(summary),
        "charts": figures.first_charts(summary),
        "ended": trace.ending == "stop token",
        "done": True,
    } | {name: view for name, view in optional.items() if view}


def parting_view(summary: Summary) -> View | None:
    """Where the text of a run parts from that of plain decoding, for a mark on its first token that
    differs; None if the two are equal or need not be.

    index: of the token, from 0; mark: "tie", or "other" if nobody judged it or rounding does not
    explain it; words: why
    """
    if summary.verdict not in (Verdict.TIE, Verdict.DIFFERENT):
        return None
    index = summary.first_difference
    if index is None or index >= summary.tokens:
        return None
    note = summary.verdict_sentence
    judged = summary.difference is not None
    words = note if judged else f"From here on plain decoding differs. {note}"
    tie = summary.difference is not None and summary.difference.tie
    return {"index": index, "mark": "tie" if tie else "other", "words": words}


def rival_view(summary: Summary) -> View | None:
    """Return the texts of plain decoding's tokens and their seconds, to stand beside a run."""
    plain = summary.baseline
    if plain is None or not plain.steps:
        return None
    seconds = [round(value, 3) for value in metrics.seconds_to_token(plain)]
    return {"texts": list(plain.texts), "seconds": seconds}


def theory_view(summary: Summary) -> View | None:
    """Return a run as a point on the theory's curves: depth, tokens per step, speed."""
    if summary.speedup is None or not summary.proposal_depth:
        return None
    return {
        "gamma": round(summary.proposal_depth, 2),
        "tokens": round(summary.tokens_per_pass, 3),
        "speedup": round(summary.speedup, 3),
    }
