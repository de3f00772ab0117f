"""Why a run was as fast as it was, and what its phrase pool was good for: sections of text and
tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.trace import Step, Trace
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned
from ouroboros_core.words import say
from visualize.reasons import LEARNED

Section = dict[str, Any]

PHRASES = (Source.SUFFIX, Source.PHRASE)
PAID_SHOWN = 8


def sections(trace: Trace, baseline: Trace | None) -> list[Section]:
    """What there is to say of a finished run, a title with lines and perhaps a table each."""
    found = []
    if baseline is not None and trace.steps:
        found.append({"title": say("numbers.title"), "lines": diagnosis(trace, baseline)})
    elif trace.steps:
        found.append({"title": say("numbers.alone.title"), "lines": [alone(trace)]})
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
    writer = say("numbers.target" if trace.steps[0].writer is Source.TARGET else "numbers.draft")
    rest = phases["learn"] + phases["host"]
    drafting = say("numbers.drafting", cost=phases["draft"]) if phases["draft"] > 0.005 else ""
    facts = {
        "verify": phases["verify"],
        "writer": writer,
        "rows": rows,
        "rest": rest,
        "length": length,
        "speed": length / cost,
    }
    busy = metrics.busy(trace, baseline)
    lines = [say("run.busy", why=say(f"run.busy.{busy[0]}", n=busy[1]))] if busy else []
    lines.append(say("numbers.step", cost=cost, drafting=drafting, **facts))
    c, rate, gamma = (
        metrics.draft_cost(trace, baseline),
        metrics.draft_acceptance_rate(trace.steps),
        metrics.proposal_depth(trace),
    )
    if c is not None and rate is not None and gamma:
        needed = metrics.break_even(gamma, cost)
        even = say("numbers.even", needed=needed) if needed is not None else say("numbers.never")
        lines.append(say("numbers.passes", c=c, rate=rate, gamma=gamma, even=even))
    if length < cost:
        alone = sum(step.seconds.verify for step in baseline.steps) / len(baseline.steps) / plain
        excess = {
            "draft": phases["draft"],
            "verify": phases["verify"] - alone,
            "rest": rest - (1 - alone),
        }
        dearest = max(excess, key=lambda name: excess[name])
        lines.append(say("numbers.loses", dearest=say(f"numbers.excess.{dearest}")))
    mine, theirs = (sum(step.seconds.prefill for step in run.steps) for run in (trace, baseline))
    whole = metrics.speedup(trace, baseline)
    lines.append(say("numbers.prompt", mine=mine, theirs=theirs, whole=whole))
    return lines


def alone(trace: Trace) -> str:
    """What a step costs and yields where there is no plain run to compare it with."""
    count = len(trace.steps)
    names = ("draft", "verify", "learn", "host")
    draft, verify, learn, host = (
        1000 * sum(getattr(step.seconds, name) for step in trace.steps) / count for name in names
    )
    facts = {
        "draft": draft,
        "verify": verify,
        "rest": learn + host,
        "whole": draft + verify + learn + host,
    }
    rows, length = (
        sum(step.width for step in trace.steps) / count,
        metrics.mean_acceptance_length(trace),
    )
    return say("numbers.alone", **facts, rows=rows, length=length)


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
    facts = {
        "size": steps[-1].pool_size,
        "hits": hits,
        "steps": len(steps),
        "share": hits / len(steps),
    }
    lines = [say("numbers.pool", **facts, kept=sum(kept.values()))]
    best = Counter(text for _, _, text in paid).most_common(PAID_SHOWN)
    if best:
        listed = ", ".join(
            f"‘{text}’" + (say("numbers.times", n=times) if times > 1 else "")
            for text, times in best
        )
        lines.append(say("numbers.paid", listed=listed))
    rows = [[LEARNED[learned], count, kept[learned]] for learned, count in offered.most_common()]
    table = {"head": say("numbers.head").split("|"), "rows": rows} if rows else {}
    return {"title": say("numbers.pool.title"), "lines": lines, **table}


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
