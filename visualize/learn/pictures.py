"""The data of the pictures of the lessons: windows, trees and pools of recorded runs, as
plain data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned

PASSES = 16
"""Passes of a lookahead window that are shown."""

YOURS = (
    "The river rose all night, and in the morning the old bridge was gone. The boats lay in the "
    "meadow. The river rose all day, and in the evening the old bridge was gone for good."
)
"""A text to begin with, in which pieces come again."""

FREE = 256
"""Rows that a graphics card checks in the time of one, as an assumption."""
KEY = "Blue: draft passes. Red: the target pass. Orange: plain passes for as many tokens."
AROUND = 90
"""Characters of a text that are shown around the subject of a picture."""

Gram = tuple[int, ...]


def window_levels(step: Step, gram: int) -> list[list[int]]:
    """The tokens of a recorded lookahead window by level, the root left out.

    Level 0 has one token less than the others, for its first column is the root. While the window
    fills, it has as many levels as passes were made.
    """
    tokens = [token for token, _ in step.window]
    count = min(step.index, gram - 2) + 1
    short = (len(tokens) - (count - 1)) // count
    levels, at = [tokens[:short]], short
    for _ in range(count - 1):
        levels.append(tokens[at : at + short + 1])
        at += short + 1
    assert at == len(tokens), "a window of equal levels"
    return levels


def grams(trace: Trace) -> list[list[Gram]]:
    """The n-grams that each pass of lookahead decoding found, but for the last one's, whose answers
    no later window holds; none while the window fills."""
    gram = int(trace.hyperparameters["ngram_size"])
    found: list[list[Gram]] = []
    for step, after in pairwise(trace.steps):
        levels = window_levels(step, gram)
        if len(levels) < gram - 1:
            found.append([])
            continue
        said = window_levels(after, gram)[-1]
        keys = [step.tree.tokens[0], *levels[0]]
        below = [*levels[1:], said]
        found.append([(key, *(level[n] for level in below)) for n, key in enumerate(keys)])
    return found


def window_figure(trace: Trace) -> dict[str, Any]:
    """The first passes of a window: {columns, gram, passes: [{levels, said, whole}], first}.

    levels  texts by level, the root first of all; said  what the target answers below the last
    one, with whether it stands behind the token above it in the text that was written; whole
    columns whose n-gram stands there as it is; first  the first pass that has one
    """
    columns, gram = (int(trace.hyperparameters[key]) for key in ("window_size", "ngram_size"))
    pairs = set(pairwise(trace.tokens))
    written = {trace.tokens[n : n + gram] for n in range(len(trace.tokens) - gram + 1)}
    passes = []
    for step, after, phrases in zip(trace.steps, trace.steps[1:], grams(trace), strict=False):
        levels = window_levels(step, gram)
        full = [[step.tree.tokens[0], *levels[0]], *levels[1:]]
        said = window_levels(after, gram)[-1]
        above = full[-1][len(full[-1]) - len(said) :]
        fits = [pair in pairs for pair in zip(above, said, strict=True)]
        passes.append(
            {
                "levels": [[trace.pieces[token] for token in level] for level in full],
                "said": [[trace.pieces[token], fit] for token, fit in zip(said, fits, strict=True)],
                "whole": [n for n, phrase in enumerate(phrases) if phrase in written],
            }
        )
    shown = passes[:PASSES]
    first = next(n for n, one in enumerate(shown) if one["whole"])
    return {"columns": columns, "gram": gram, "passes": shown, "first": first}


def pass_figure(trace: Trace, costs: Mapping[str, float], layers: int) -> dict[str, Any]:
    """One pass over the last token and its guesses: {tokens, rows, cost, layers}; cost, what a pass
    over so many rows takes, in passes over one."""
    step = next(one for one in trace.steps if one.width == len(one.tree) > 4)
    tokens = [trace.pieces[token] for token in step.tree.tokens]
    return {"tokens": tokens, "rows": costs["rows"], "cost": costs["pass_cost"], "layers": layers}


def time_figure(rate: float, gamma: int, cost: float, costs: Mapping[str, float]) -> dict[str, Any]:
    """A step to scale, with sliders that begin at what a run has: {values, sliders, note}; r is the
    slope between passes over one row and over the run's mean rows."""
    row = (costs["pass_cost"] - 1) / (costs["rows"] - 1)
    values = {"alpha": rate, "gamma": gamma, "cost": cost, "row": row}
    note = f"To scale, by theory; it begins with the values of this run. {KEY}"
    rounded = {name: round(value, 2) for name, value in values.items()}
    return {"values": rounded, "sliders": list(values), "note": note}


def batch_figure(cost: float) -> dict[str, Any]:
    """A step for many answers at once, in the shape of `time_figure`, with `free` rows."""
    note = (
        f"A model, not a measurement: {FREE} rows of a pass cost nothing, beyond them its time "
        f"grows with the rows. {KEY}"
    )
    values = {"alpha": 0.7, "gamma": 4, "cost": round(cost, 2), "row": 0.0, "batch": 1}
    return {"values": values, "sliders": ["alpha", "gamma", "batch"], "free": FREE, "note": note}


def copy_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """A copy out of the prompt and its source: {source: [before, match, copy, after], answer:
    [before, match], copy, match, place}, as texts."""
    first = step.tree.provenance[1]
    assert first.position is not None and first.match is not None, "its first guess is a copy"
    written = [token for one in trace.steps[: step.index] for token in one.tokens]
    match = "".join(trace.pieces[token] for token in written[-first.match :])
    leaf = max(range(len(step.tree)), key=lambda node: len(step.tree.path_to(node)))
    copy = "".join(trace.pieces[step.tree.tokens[node]] for node in step.tree.path_to(leaf))
    text, both = trace.prompt.text, match + copy
    places = [n for n in range(len(text)) if text.startswith(both, n)]
    share = first.position / len(trace.prompt.tokens)
    at = min(places, key=lambda place: abs(place / len(text) - share))
    end = at + len(both)
    before = "".join(trace.pieces[token] for token in written[: -first.match])
    return {
        "source": [text[max(0, at - AROUND) : at], match, copy, text[end : end + AROUND // 2]],
        "answer": [before[-AROUND:], match],
        "copy": copy,
        "match": first.match,
        "place": "The question",
    }


def mask_figure(trace: Trace) -> dict[str, Any]:
    """The proposal with the most branches: {step, tokens, parents, looks}, the root first."""
    step = max(trace.steps, key=lambda s: len(set(range(len(s.tree))) - set(s.tree.parents)))
    return {
        "step": step.index,
        "tokens": [trace.pieces[token] for token in step.tree.tokens],
        "parents": list(step.tree.parents),
        "looks": [one.source.value for one in step.tree.provenance],
    }


def window_pool(trace: Trace) -> dict[str, Any]:
    """The phrase pool of a run of lookahead decoding, rebuilt from its recorded windows.

    {sizes, entries: [{key, text, learned, from, to, used}], whole}: size of the pool after each
    step; of a phrase its first token, where it was learned, the first step after which it is in the
    pool and the first after which it is not, and at which steps tokens of it were accepted; whole,
    whether all phrases are told
    """
    gram, most = (int(trace.hyperparameters[key]) for key in ("ngram_size", "guess_set_size"))
    pool, since, entries = PhrasePool(gram, most), dict[Gram, dict[str, Any]](), []
    for step, phrases in zip(trace.steps, grams(trace), strict=False):
        for phrase in phrases:
            pool.insert(phrase[0], phrase[1:], Learned.LOOKAHEAD, step.index)
        held = {(key, *one.tokens) for key in pool.keys for one in pool.newest(key, most)}
        for phrase in [one for one in since if one not in held]:
            since.pop(phrase)["to"] = step.index
        for phrase in sorted(held - since.keys()):
            since[phrase] = _entry(trace, phrase, Learned.LOOKAHEAD, step.index)
            entries.append(since[phrase])
        assert step.pool_size == len(pool), "the pool that the run had"
    _note_use(trace, entries)
    sizes = [step.pool_size or 0 for step in trace.steps[:-1]]
    return {"sizes": sizes, "entries": entries, "whole": True}


def _entry(trace: Trace, phrase: Gram, learned: Learned, step: int | None) -> dict[str, Any]:
    return {
        "key": trace.pieces.get(phrase[0], "?"),
        "text": "".join(trace.pieces[token] for token in phrase[1:]),
        "learned": learned.value,
        "from": -1 if step is None else step,
        "to": None,
        "used": [],
    }


def _proposed(step: Step) -> list[tuple[Gram, list[int]]]:
    """The phrases that a step proposes, each with its key, and its nodes."""
    tree, found = step.tree, []
    inner = set(tree.parents)
    for leaf in range(1, len(tree)):
        if leaf in inner or tree.provenance[leaf].source not in (Source.SUFFIX, Source.PHRASE):
            continue
        nodes = [n for n in tree.path_to(leaf) if tree.provenance[n].learned]
        key = tree.tokens[tree.parents[nodes[0]]]
        found.append(((key, *(tree.tokens[n] for n in nodes)), nodes))
    return found


def _note_use(trace: Trace, entries: list[dict[str, Any]]) -> None:
    for step in trace.steps:
        for phrase, nodes in _proposed(step):
            told = _entry(trace, phrase, Learned.LOOKAHEAD, None)
            for entry in entries:
                same = (entry["key"], entry["text"]) == (told["key"], told["text"])
                gone = entry["to"] is not None and entry["to"] < step.index
                held = entry["from"] < step.index and not gone
                if same and held and set(nodes) & set(step.path):
                    entry["used"].append(step.index)


def proposed_pool(trace: Trace) -> dict[str, Any]:
    """Of a pool whose phrases were not recorded: the proposed ones, in the shape of
    `window_pool`. A phrase of history is there from the start."""
    entries: dict[tuple[Gram, Learned, int | None], dict[str, Any]] = {}
    for step in trace.steps:
        for phrase, nodes in _proposed(step):
            origin = step.tree.provenance[nodes[-1]]
            assert origin.learned is not None
            known = (phrase, origin.learned, origin.step)
            entry = entries.setdefault(known, _entry(trace, phrase, origin.learned, origin.step))
            if set(nodes) & set(step.path):
                entry["used"].append(step.index)
    order = sorted(entries.values(), key=lambda one: one["from"])
    return {"sizes": [s.pool_size or 0 for s in trace.steps], "entries": order, "whole": False}
