"""Why a run was as fast as it was, and what its phrase pool was good for: sections of text and
tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from ouroboros_core.messages import counted, isolated
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.reasons import LEARNED
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned

Section = dict[str, Any]

PHRASES = (Source.SUFFIX, Source.PHRASE)
PAID_SHOWN = 8


def sections(summary: Summary) -> list[Section]:
    """Return the sections about a finished run, each a title with lines and perhaps a table."""
    trace, run_sections = summary.trace, list[Section]()
    if summary.baseline is not None and trace.steps:
        run_sections.append({"title": "What a step costs and yields", "lines": diagnosis(summary)})
    elif trace.steps:
        run_sections.append({"title": "What a step costs", "lines": [alone(summary)]})
    if run_sections and (without := summary.skipped):
        run_sections[0]["lines"].append(f"{without[0].upper()}{without[1:]}.")
    return [*run_sections, *filter(None, (phrase_pool(trace), merging(trace)))]


def diagnosis(summary: Summary) -> list[str]:
    """Return the costs and the yield of a step beside plain decoding, in words."""
    trace, baseline, plain, cost = (
        summary.trace,
        summary.baseline,
        summary.plain,
        summary.step_cost,
    )
    if baseline is None or plain is None or cost is None:
        return []
    length = summary.tokens_per_pass
    writer = (
        "the target's pass" if trace.steps[0].writer is Source.TARGET else "the draft model's pass"
    )
    draft, verify, rest = parts(trace, baseline)
    drafting = f"{draft:.2f} for the draft, " if draft > 0.005 else ""
    lines = [busy_warning(summary)] if summary.busy else []
    lines.append(
        f"A step costs {cost:.2f} plain steps: {drafting}{verify:.2f} for {writer} over "
        f"{summary.rows_per_pass:.1f} rows, {rest:.2f} for everything else. It yields "
        f"{length:.2f} tokens, so that decoding alone is {shown_ratio(length, cost):.2f}× as fast."
    )
    lines += _draft_lines(summary, cost)
    if length < cost:
        lines.append(f"It loses: beyond a plain step, {_loss(baseline, draft, verify, rest)}.")
    lines.append(
        f"Reading the prompt took {summary.prefill_seconds:.2f} s, plain decoding's "
        f"{plain.prefill_seconds:.2f} s: with it, {summary.speedup:.2f}× as fast in all."
    )
    return lines


def shown_ratio(length: float, cost: float) -> float:
    """Return tokens per step divided by the cost of a step, both as the words round them; a cost
    that they would round to zero is not rounded."""
    return round(length, 2) / (round(cost, 2) or cost)


def _draft_lines(summary: Summary, cost: float) -> list[str]:
    """Return the cost of drafting and its acceptance, no line for a run without draft passes.

    cost  of a step, in plain steps
    """
    rate, proposed = summary.acceptance_rate, summary.proposal_acceptance_rate
    pass_cost, gamma = summary.draft_cost, summary.proposal_depth
    if proposed is None or pass_cost is None or rate is None or not gamma:
        return []
    needed = metrics.break_even(gamma, cost)
    even = "even full acceptance would not pay"
    if needed is not None:
        even = f"break-even needs {needed:.0%}"
    return [
        f"Each draft pass costs {pass_cost:.2f} of a plain step, and {rate:.0%} of tested tokens "
        f"are accepted ({proposed:.0%} of all that were proposed); with proposals {gamma:.1f} "
        f"tokens deep, {even}."
    ]


def why_slower(summary: Summary) -> str:
    """Return the nearest reason for a run that is slower than plain decoding."""
    cost, baseline = summary.step_cost, summary.baseline
    if baseline is None or cost is None or summary.tokens_per_pass >= cost:
        return "reading the prompt takes longer than what its steps save"
    return _loss(baseline, *parts(summary.trace, baseline))


def _loss(baseline: Trace, draft: float, verify: float, rest: float) -> str:
    """Return why a run is slower than plain decoding; costs of a step are plain steps."""
    plain = metrics.plain_step_seconds(baseline)
    plain_pass = sum(step.seconds.verify for step in baseline.steps) / len(baseline.steps) / plain
    excess = {
        "drafting": draft,
        "wider passes of the target": verify - plain_pass,
        "work between the passes": rest - (1 - plain_pass),
    }
    dearest = max(excess, key=lambda name: excess[name])
    return f"{dearest} costs most, and too few guesses are accepted"


def parts(trace: Trace, baseline: Trace) -> tuple[float, float, float]:
    """Return the costs of the draft, the target's pass and everything else in a step, in plain
    steps, rounded so that they add up to the rounded sum."""
    plain = metrics.plain_step_seconds(baseline)
    (draft, verify, rest), _ = adding_up([seconds / plain for seconds in _step_parts(trace)], 2)
    return draft, verify, rest


def _step_parts(trace: Trace) -> tuple[float, float, float]:
    """Return the mean seconds of a step: of the draft, of the target's pass, and the rest."""
    draft, verify, learn, host = (
        sum(getattr(step.seconds, name) for step in trace.steps) / len(trace.steps)
        for name in ("draft", "verify", "learn", "host")
    )
    return draft, verify, learn + host


def adding_up(values: Sequence[float], digits: int) -> tuple[list[float], float]:
    """Round parts and their sum so that they add up: rounding's rest goes to who lost most."""
    total, rounded = round(sum(values), digits), [round(value, digits) for value in values]
    step = 10.0**-digits
    over = round((total - sum(rounded)) / step)
    left = [
        round(value - rounded_value, digits + 6)
        for value, rounded_value in zip(values, rounded, strict=True)
    ]
    lost = sorted(range(len(values)), key=lambda n: (left[n], n), reverse=over > 0)
    for n in lost[: abs(over)]:
        rounded[n] = round(rounded[n] + (step if over > 0 else -step), digits)
    return rounded, total


def busy_warning(summary: Summary) -> str:
    """The warning beside a speedup that was measured on a busy machine."""
    return (
        f"The speedup was measured on a busy machine: {summary.why_busy}. The forward passes are "
        f"counted: {summary.steps} instead of {summary.tokens}."
    )


def alone(summary: Summary) -> str:
    """Return the costs and the yield of a step of a run without a plain run beside it."""
    (draft, verify, rest), total = adding_up(
        [1000 * seconds for seconds in _step_parts(summary.trace)], 0
    )
    return (
        f"A step takes {total:.0f} ms: {draft:.0f} for the draft, {verify:.0f} for "
        f"the target's pass over {summary.rows_per_pass:.1f} rows, {rest:.0f} for everything "
        f"else. It yields {summary.tokens_per_pass:.2f} tokens."
    )


def phrase_pool(trace: Trace) -> Section | None:
    """Return the pool's offers and accepted tokens by origin; None without a pool."""
    steps = trace.steps
    if not steps or steps[-1].pool_size is None:
        return None
    offered: Counter[Learned] = Counter()
    for step in steps:
        offered.update(p.learned for p in step.tree.provenance if p.source in PHRASES and p.learned)
    paid = [(learned, count, text) for step in steps for learned, count, text in _paid(step, trace)]
    accepted: Counter[Learned] = Counter()
    for learned, count, _ in paid:
        accepted[learned] += count
    hits = sum(any(p.source in PHRASES for p in step.tree.provenance) for step in steps)
    lines = [
        f"{steps[-1].pool_size} phrases at the end. In {hits} of {len(steps)} steps "
        f"({hits / len(steps):.0%}) some of them were checked by the target; "
        f"{sum(accepted.values())} of their tokens were accepted."
    ]
    best = Counter(text for _, _, text in paid).most_common(PAID_SHOWN)
    if best:
        listed = ", ".join(
            f"‘{isolated(text)}’" + (f" ({times} times)" if times > 1 else "")
            for text, times in best
        )
        lines.append(f"Phrases that paid off: {listed}.")
    rows = [
        [LEARNED[learned], count, accepted[learned]] for learned, count in offered.most_common()
    ]
    table = {"head": ["learned", "tokens checked", "accepted"], "rows": rows} if rows else {}
    return {"title": "Phrase pool", "lines": lines, **table}


def merging(trace: Trace) -> Section | None:
    """Return the drafts that merging saved and the fate of copies; None if none."""
    saved = sum(step.draft_rows_saved for step in trace.steps)
    copies = [[n for n in range(1, len(s.tree)) if _merged(s, n)] for s in trace.steps]
    if not saved and not any(copies):
        return None
    count, steps = sum(map(len, copies)), sum(step.draft_rows_saved > 0 for step in trace.steps)
    accepted = sum(_merged(step, node) for step in trace.steps for node in step.path)
    line = (
        f"Continuations that are equal were drafted once: {counted(saved, 'token')} fewer in "
        f"{steps} of {counted(len(trace.steps), 'step')}. {counted(count, 'token')} checked by the "
        f"target came from another branch, {accepted} of them accepted."
    )
    return {"title": "Merging", "lines": [line]}


def _merged(step: Step, node: int) -> bool:
    """Whether a node is a copy of a token that was drafted in another branch."""
    origin = step.tree.provenance[node]
    return origin.source is Source.DRAFT and origin.match is not None


def _paid(step: Step, trace: Trace) -> Iterator[tuple[Learned, int, str]]:
    """(where learned, tokens, text) of each accepted run of tokens from one phrase."""

    def key(node: int) -> Any:
        origin = step.tree.provenance[node]
        return origin.source, origin.learned, origin.step, origin.rank

    for (source, learned, *_), group in groupby(step.path, key):
        if source in PHRASES and learned is not None:
            nodes = list(group)
            text = "".join(trace.pieces.get(step.tree.tokens[node], "?") for node in nodes)
            yield learned, len(nodes), text.replace("\n", "↵")
