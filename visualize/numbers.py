"""Why a run was as fast as it was, and what its phrase pool was good for: sections of text and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.trace import Step, Trace
from ouroboros_core.tree import Learned, Source
from visualize.reasons import LEARNED

Section = dict[str, Any]

PHRASES = (Source.SUFFIX, Source.PHRASE)
PAID_SHOWN = 8


def sections(trace: Trace, baseline: Trace | None) -> list[Section]:
    """What there is to say of a finished run, a title with lines and perhaps a table each."""
    found = [{"title": "Why this fast", "lines": diagnosis(trace, baseline)}] if baseline is not None and trace.steps else []
    pool = phrase_pool(trace)
    return [*found, *([pool] if pool else [])]


def diagnosis(trace: Trace, baseline: Trace) -> list[str]:
    """What a step costs and yields, measured against plain decoding, in words."""
    cost, plain = metrics.step_cost(trace, baseline), metrics.plain_step_seconds(baseline)
    if cost is None:
        return []
    count, length = len(trace.steps), metrics.mean_acceptance_length(trace)
    phases = {
        name: sum(getattr(step.seconds, name) for step in trace.steps) / count / plain
        for name in ("draft", "verify", "learn", "host")
    }
    rows = sum(step.width for step in trace.steps) / count
    writer = "the target's pass" if trace.steps[0].writer is Source.TARGET else "the draft model's pass"
    rest = phases["learn"] + phases["host"]
    drafting = f"{phases['draft']:.2f} for the draft, " if phases["draft"] > 0.005 else ""
    lines = [
        f"A step costs {cost:.2f} plain steps: {drafting}{phases['verify']:.2f} for {writer} over {rows:.1f} rows, "
        f"{rest:.2f} for everything else. It yields {length:.2f} tokens, so that decoding is {length / cost:.2f}× as fast."
    ]
    c, rate, gamma = (
        metrics.draft_cost(trace, baseline),
        metrics.draft_acceptance_rate(trace.steps),
        metrics.proposal_depth(trace),
    )
    if c is not None and rate is not None and gamma:
        needed = metrics.break_even(gamma, cost)
        even = f"break-even needs {needed:.0%}" if needed is not None else "even full acceptance would not pay"
        lines.append(
            f"Each draft pass costs {c:.2f} of a plain step, and {rate:.0%} of tested tokens are accepted; with proposals "
            f"{gamma:.1f} tokens deep, {even}."
        )
    if length < cost:
        alone = sum(step.seconds.verify for step in baseline.steps) / len(baseline.steps) / plain
        excess = {
            "drafting": phases["draft"],
            "the wider passes of the target": phases["verify"] - alone,
            "the work between the passes": rest - (1 - alone),
        }
        dearest = max(excess, key=lambda name: excess[name])
        lines.append(f"It loses: what costs most beyond a plain step is {dearest}, and too little of it is accepted.")
    mine, theirs = (sum(step.seconds.prefill for step in run.steps) for run in (trace, baseline))
    whole = metrics.speedup(trace, baseline)
    lines.append(f"Reading the prompt took {mine:.2f} s, plain decoding's {theirs:.2f} s: with it, {whole:.2f}× as fast in all.")
    return lines


def phrase_pool(trace: Trace) -> Section | None:
    """How often the pool had something to offer, what was accepted, where it was learned; None for a method without a pool."""
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
        f"{steps[-1].pool_size} phrases at the end. In {hits} of {len(steps)} steps ({hits / len(steps):.0%}) some of them were "
        f"checked by the target; {sum(kept.values())} of their tokens were accepted."
    ]
    best = Counter(text for _, _, text in paid).most_common(PAID_SHOWN)
    if best:
        listed = ", ".join(f"‘{text}’" + (f" ({times} times)" if times > 1 else "") for text, times in best)
        lines.append(f"Phrases that paid off: {listed}.")
    rows = [[LEARNED[learned], count, kept[learned]] for learned, count in offered.most_common()]
    table = {"head": ["learned", "tokens checked", "accepted"], "rows": rows} if rows else {}
    return {"title": "Phrase pool", "lines": lines, **table}


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
