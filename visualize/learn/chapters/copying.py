"""Copied guesses: a text that repeats itself needs no draft model."""

from __future__ import annotations

from typing import Any

from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step, Trace
from visualize.gallery import runs as gallery
from visualize.learn.numbers import GUESSES, bench_rows, refusal_facts, step_facts
from visualize.learn.pictures import offered_runs
from visualize.learn.stops import (
    PACE,
    Chapter,
    Stop,
    at,
    card,
    final,
    first_step,
    make_chapter,
    span,
)

COPIED = ("prompt_lookup", "sam", "ngram", "rest", "union")
"""Methods whose recorded runs are offered."""
FENCE = "```"
YOURS = (
    "The river rose all night, and in the morning the old bridge was gone. The boats lay in the "
    "meadow. The river rose all day, and in the evening the old bridge was gone for good."
)
"""A text to begin with, in which pieces come again."""
LOST = ". The"
"""A match in the reader's text whose shorter end, but not the whole, the next token continues."""
BENCHED = {
    "summaries": ("summarization", "summaries"),
    "rag": ("rag", "questions on a passage"),
    "chat": ("mt_bench", "conversation"),
    "questions": ("qa", "questions without a source"),
}
"""Groups of prompts of the benchmark and their names in a picture, by the names of the facts."""
AROUND = 90
"""Characters of a text that are shown around a copy."""


def chapter() -> Chapter:
    name, other = "stack-prompt_lookup", "river-sam"
    trace, repeated = gallery.trace(name), gallery.trace(other)
    whole = first_step(trace, lambda s: s.kind == "bonus" and _matched(s) > 1)
    wrong = first_step(trace, lambda s: s.index > whole.index and s.kind == "correction")
    long = first_step(repeated, lambda s: s.kind == "bonus" and _matched(s) > 2 * GUESSES)
    refused = wrong.tree.children(wrong.path[-1])[0]
    benched = _bench_facts()
    facts: dict[str, Any] = gallery.facts(name) | step_facts(whole) | _part_facts(trace)
    facts |= refusal_facts(trace, wrong, refused) | {"match": _matched(whole)}
    facts |= {"sam_match": _matched(long), "sam_checked": len(long.tree) - 1} | benched
    stops: list[Stop] = [
        {"at": at(whole, "draft"), "figure": "copy"},
        card(whole, whole.path[-1]),
        {"at": at(wrong, "commit"), "spot": span(wrong, ' [data-kind="correction"]')},
        {"at": final(trace), "spot": PACE},
        {"run": other} | card(long, long.path[-1]),
        {"at": final(trace), "figure": "automaton"},
        {"at": final(trace), "figure": "lost"},
        {"at": final(trace), "figure": "benched"},
        {"at": final(trace), "figure": "runs"},
    ]
    own = {"kind": "automaton", "text": YOURS}
    figures: dict[str, Any] = {"automaton": own}
    figures |= {"lost": own | {"read": YOURS[: YOURS.rindex(LOST) + len(LOST)]}}
    figures |= {"benched": _bench_figure(benched), "copy": _copy_figure(trace, whole)}
    figures |= {"runs": offered_runs(name, COPIED)}
    return make_chapter(__name__, name, stops, facts, figures=figures)


def _matched(step: Step) -> int:
    """How many tokens before a step's copy had been found there, too; 0 where nothing is copied."""
    first = step.tree.provenance[1] if len(step.tree) > 1 else None
    return (first.match or 0) if first and first.source is Source.COPY else 0


def _part_facts(trace: Trace) -> dict[str, int]:
    """Of an answer that begins with a sentence and goes on with code: passes and tokens of each,
    and of the rest.

    The code is from the step that opens it to the last one whose copies were all accepted."""
    code = next(s.index for s in trace.steps if FENCE in [trace.pieces[t] for t in s.tokens])
    end = 1 + max(s.index for s in trace.steps if s.kind == "bonus")
    steps_of = {"talk": trace.steps[:code], "code": trace.steps[code:end]}
    steps_of["rest"] = trace.steps[end:]
    return {f"{name}_steps": len(steps) for name, steps in steps_of.items()} | {
        f"{name}_tokens": sum(len(s.tokens) for s in steps) for name, steps in steps_of.items()
    }


def _copy_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """A copy out of the prompt and its source: {source: [before, match, copy, after], answer:
    [before, match], copy, match, place}, as texts."""
    first = step.tree.provenance[1]
    assert first.position is not None and first.match is not None, "its first guess is a copy"
    written = [token for earlier in trace.steps[: step.index] for token in earlier.tokens]
    match = "".join(trace.pieces[token] for token in written[-first.match :])
    leaf = max(range(len(step.tree)), key=step.tree.depths.__getitem__)
    copy = "".join(trace.pieces[token] for token in step.tree.tokens_to(leaf))
    text, both = trace.prompt.text, match + copy
    places = [n for n in range(len(text)) if text.startswith(both, n)]
    share = first.position / len(trace.prompt.tokens)
    at = min(places, key=lambda place: abs(place / len(text) - share))
    end = at + len(both)
    before = "".join(trace.pieces[token] for token in written[: -first.match])
    return {
        "kind": "copy",
        "source": [text[max(0, at - AROUND) : at], match, copy, text[end : end + AROUND // 2]],
        "answer": [before[-AROUND:], match],
        "copy": copy,
        "match": first.match,
        "place": "The prompt",
    }


def _bench_facts() -> dict[str, float]:
    """Mean acceptance length of prompt lookup in groups of the benchmark's prompts, by fact."""
    rows = bench_rows("benchmark")
    groups = {fact: group for fact, (group, _) in BENCHED.items()}
    return {fact: rows["prompt_lookup", group]["tokens_per_pass"] for fact, group in groups.items()}


def _bench_figure(lengths: dict[str, float]) -> dict[str, Any]:
    """Bars of these lengths, the longest first: {title, rows: [[label, value, fact]]}."""
    rows = [[BENCHED[fact][1], round(value, 2), fact] for fact, value in lengths.items()]
    return {
        "kind": "bars",
        "title": "Tokens per pass in this project's benchmark; plain decoding has 1",
        "rows": sorted(rows, key=lambda row: -row[1]),
    }
