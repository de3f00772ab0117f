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
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned

Section = dict[str, Any]

PHRASES = (Source.SUFFIX, Source.PHRASE)
PAID_SHOWN = 8


def sections(trace: Trace, baseline: Trace | None) -> list[Section]:
    """What there is to say of a finished run, a title with lines and perhaps a table each."""
    found: list[Section] = []
    if baseline is not None and trace.steps:
        found.append({"title": "What a step costs and yields", "lines": diagnosis(trace, baseline)})
    elif trace.steps:
        found.append({"title": "What a step costs", "lines": [alone(trace)]})
    if found and (without := metrics.skipped(trace)):
        found[0]["lines"].append(f"{without[0].upper()}{without[1:]}.")
    return [*found, *filter(None, (phrase_pool(trace), merging(trace)))]


def diagnosis(trace: Trace, baseline: Trace) -> list[str]:
    """What a step costs and yields, measured against plain decoding, in words."""
    cost, plain = metrics.step_cost(trace, baseline), metrics.plain_step_seconds(baseline)
    if cost is None:
        return []
    count, length = len(trace.steps), metrics.mean_acceptance_length(trace)
    rows = sum(step.width for step in trace.steps) / count
    writer = (
        "the target's pass" if trace.steps[0].writer is Source.TARGET else "the draft model's pass"
    )
    draft, verify, rest = parts(trace, baseline)
    drafting = f"{draft:.2f} for the draft, " if draft > 0.005 else ""
    busy = metrics.busy(trace, baseline)
    lines = [busy_warning(*busy)] if busy else []
    lines.append(
        f"A step costs {cost:.2f} plain steps: {drafting}{verify:.2f} for {writer} over "
        f"{rows:.1f} tokens, {rest:.2f} for everything else. It yields {length:.2f} tokens, so "
        f"that decoding is {length / cost:.2f}× as fast."
    )
    c = metrics.draft_cost(trace, baseline)
    rate = metrics.draft_acceptance_rate(trace.steps)
    proposed = metrics.proposal_acceptance_rate(trace.steps)
    gamma = metrics.proposal_depth(trace)
    if proposed is not None and c is not None and rate is not None and gamma:
        needed = metrics.break_even(gamma, cost)
        even = "even full acceptance would not pay"
        if needed is not None:
            even = f"break-even needs {needed:.0%}"
        lines.append(
            f"Each draft pass costs {c:.2f} of a plain step, and {rate:.0%} of tested tokens are "
            f"accepted ({proposed:.0%} of all that were proposed); with proposals {gamma:.1f} "
            f"tokens deep, {even}."
        )
    if length < cost:
        alone = sum(step.seconds.verify for step in baseline.steps) / len(baseline.steps) / plain
        excess = {
            "drafting": draft,
            "wider passes of the target": verify - alone,
            "work between the passes": rest - (1 - alone),
        }
        dearest = max(excess, key=lambda name: excess[name])
        lines.append(
            f"It loses: beyond a plain step, {dearest} costs most, and too few guesses are "
            "accepted."
        )
    mine, theirs = (sum(step.seconds.prefill for step in run.steps) for run in (trace, baseline))
    whole = metrics.speedup(trace, baseline)
    lines.append(
        f"Reading the prompt took {mine:.2f} s, plain decoding's {theirs:.2f} s: with "
        f"it, {whole:.2f}× as fast in all."
    )
    return lines


def parts(trace: Trace, baseline: Trace) -> tuple[float, float, float]:
    """What the draft, the target's pass and everything else cost in a step, in plain steps, rounded
    so that they add up to the rounded whole."""
    plain = metrics.plain_step_seconds(baseline)
    (draft, verify, rest), _ = adding_up([one / plain for one in _step_parts(trace)], 2)
    return draft, verify, rest


def _step_parts(trace: Trace) -> tuple[float, float, float]:
    """Seconds of a step, the mean: the draft's, those of the target's pass, and all others."""
    draft, verify, learn, host = (
        sum(getattr(step.seconds, name) for step in trace.steps) / len(trace.steps)
        for name in ("draft", "verify", "learn", "host")
    )
    return draft, verify, learn + host


def adding_up(parts: Sequence[float], digits: int) -> tuple[list[float], float]:
    """Parts and their sum, rounded so that they add up as shown: what rounding leaves over goes to
    the parts that lost most by it."""
    whole, found = round(sum(parts), digits), [round(part, digits) for part in parts]
    step = 10.0**-digits
    over = round((whole - sum(found)) / step)
    left = [round(part - shown, digits + 6) for part, shown in zip(parts, found, strict=True)]
    lost = sorted(range(len(parts)), key=lambda n: (left[n], n), reverse=over > 0)
    for n in lost[: abs(over)]:
        found[n] = round(found[n] + (step if over > 0 else -step), digits)
    return found, whole


def busy_warning(sign: metrics.Sign, number: float) -> str:
    """What to say of a speedup that `metrics.busy` doubts."""
    why = metrics.why_busy(sign, number)
    return f"The speedup was measured on a busy machine: {why}. Do not trust it."


def alone(trace: Trace) -> str:
    """What a step costs and yields where there is no plain run to compare it with."""
    rows = sum(step.width for step in trace.steps) / len(trace.steps)
    (draft, verify, rest), whole = adding_up([1000 * one for one in _step_parts(trace)], 0)
    length = metrics.mean_acceptance_length(trace)
    return (
        f"A step takes {whole:.0f} ms: {draft:.0f} for the draft, {verify:.0f} for "
        f"the target's pass over {rows:.1f} tokens, {rest:.0f} for everything else. It yields "
        f"{length:.2f} tokens."
    )


def phrase_pool(trace: Trace) -> Section | None:
    """How often the pool had something to offer, what was accepted, where it was learned; None for
    a method without a pool."""
    steps = trace.steps
    if not steps or steps[-1].pool_size is None:
        return None
    offered: Counter[Learned] = Counter()
    for step in steps:
        offered.update(p.learned for p in step.tree.provenance if p.source in PHRASES and p.learned)
    paid = [(learned, count, text) for step in steps for learned, count, text in _paid(step, trace)]
    kept: Counter[Learned] = Counter()
    for learned, count, _ in paid:
        kept[learned] += count
    hits = sum(any(p.source in PHRASES for p in step.tree.provenance) for step in steps)
    lines = [
        f"{steps[-1].pool_size} phrases at the end. In {hits} of {len(steps)} steps "
        f"({hits / len(steps):.0%}) some of them were checked by the target; "
        f"{sum(kept.values())} of their tokens were accepted."
    ]
    best = Counter(text for _, _, text in paid).most_common(PAID_SHOWN)
    if best:
        listed = ", ".join(
            f"‘{isolated(text)}’" + (f" ({times} times)" if times > 1 else "")
            for text, times in best
        )
        lines.append(f"Phrases that paid off: {listed}.")
    rows = [[LEARNED[learned], count, kept[learned]] for learned, count in offered.most_common()]
    table = {"head": ["learned", "tokens checked", "accepted"], "rows": rows} if rows else {}
    return {"title": "Phrase pool", "lines": lines, **table}


def merging(trace: Trace) -> Section | None:
    """What was not drafted twice, and what became of the copies; None where nothing was merged."""
    saved = sum(step.draft_rows_saved for step in trace.steps)
    copies = [[n for n in range(1, len(s.tree)) if _merged(s, n)] for s in trace.steps]
    if not saved and not any(copies):
        return None
    count, steps = sum(map(len, copies)), sum(step.draft_rows_saved > 0 for step in trace.steps)
    kept = sum(_merged(step, node) for step in trace.steps for node in step.path)
    line = (
        f"Continuations that are equal were drafted once: {counted(saved, 'token')} fewer in "
        f"{steps} of {counted(len(trace.steps), 'step')}. {counted(count, 'token')} checked by the "
        f"target came from another branch, {kept} of them accepted."
    )
    return {"title": "Merging", "lines": [line]}


def _merged(step: Step, node: int) -> bool:
    """Whether a node is a copy of what was drafted in another branch."""
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
