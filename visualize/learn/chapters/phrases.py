"""Phrases without a draft model: lookahead decoding, its window and its pool."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned
from visualize.gallery import runs as gallery
from visualize.learn.numbers import WIDE, pass_facts, step_facts, widest_window
from visualize.learn.pictures import Gram, pool_entry, proposed_phrases
from visualize.learn.stops import PACE, Chapter, Stop, at, card, final, first_step, make_chapter

JACOBI = "bank-jacobi"
PASSES = 16
"""Passes of the lookahead window that are shown."""


def chapter() -> Chapter:
    name = "java-lookahead"
    trace = gallery.trace(name)
    paid = first_step(
        trace, lambda s: sum(s.tree.provenance[n].source is Source.PHRASE for n in s.path) >= 2
    )
    right = first_step(gallery.trace(JACOBI), lambda step: bool(step.path))
    wide, pool = window_figure(gallery.trace(WIDE)), window_pool(trace)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(paid) | pass_facts(name)
    facts |= _window_facts(name) | {f"wide_{key}": n for key, n in _window_facts(WIDE).items()}
    facts |= {
        "wide_begin": len(wide["passes"][0]["levels"][0]),
        "wide_first": 1 + wide["first"],
        "kept": trace.hyperparameters["guess_set_size"],
        "pool": pool["sizes"][-1],
        "pool_steps": len(pool["sizes"]),
        "pool_used": len({(one["key"], one["text"]) for one in pool["entries"] if one["used"]}),
        "learned": (paid.tree.provenance[paid.path[-1]].step or 0) + 1,
        "jacobi_length": gallery.facts(JACOBI)["length"],
    }
    stops: list[Stop] = [
        {"at": final(trace), "figure": "window", "first": 0},
        {"run": JACOBI, "at": at(right, "commit"), "spot": ".ouro-tree"},
        {"at": final(trace), "figure": "window"},
        {"at": final(trace), "figure": "window"},
        {"at": final(trace), "figure": "window", "first": wide["full"]},
        {"at": final(trace), "spot": ".ouro-numbers"},
        card(paid, paid.path[-1]),
        {"at": final(trace), "figure": "pool"},
        {"at": final(trace), "spot": PACE},
    ]
    return make_chapter(__name__, name, stops, facts, figures={"window": wide, "pool": pool})


def _window_facts(name: str) -> dict[str, int]:
    """W and N of a run of lookahead decoding, and the rows of its full window."""
    settings = gallery.trace(name).hyperparameters
    columns, gram = int(settings["window_size"]), int(settings["ngram_size"])
    return {"columns": columns, "gram": gram, "window": widest_window(name)}


def window_figure(trace: Trace) -> dict[str, Any]:
    """The first passes of a window: {columns, gram, passes: [{levels, said, whole}], full, first}.

    levels  texts by level, the root first of all; said  what the target answers below the last
    one, with whether it stands behind the token above it in the text that was written; whole
    columns whose n-gram stands there as it is; full  the first pass whose window is full;
    first  the first pass that has such a column
    """
    columns, gram = (int(trace.hyperparameters[key]) for key in ("window_size", "ngram_size"))
    pairs = set(pairwise(trace.tokens))
    written = {trace.tokens[n : n + gram] for n in range(len(trace.tokens) - gram + 1)}
    passes: list[dict[str, Any]] = []
    for (levels, said), phrases in zip(_windows(trace), _grams(trace), strict=True):
        above = levels[-1][len(levels[-1]) - len(said) :]
        fits = [pair in pairs for pair in zip(above, said, strict=True)]
        passes.append(
            {
                "levels": [[trace.pieces[token] for token in level] for level in levels],
                "said": [[trace.pieces[token], fit] for token, fit in zip(said, fits, strict=True)],
                "whole": [n for n, phrase in enumerate(phrases) if phrase in written],
            }
        )
    shown = passes[:PASSES]
    first = next(n for n, drawn_pass in enumerate(shown) if drawn_pass["whole"])
    filled = next(n for n, one in enumerate(shown) if len(one["levels"]) == gram - 1)
    facts = {"columns": columns, "gram": gram, "passes": shown, "full": filled, "first": first}
    return {"kind": "window"} | facts


def _windows(trace: Trace) -> Iterator[tuple[list[list[int]], list[int]]]:
    """The levels of each window, the root first, and the target's answers below the last level.
    No window holds the answers of the last pass."""
    gram = int(trace.hyperparameters["ngram_size"])
    for step, after in pairwise(trace.steps):
        first, *others = _window_levels(step, gram)
        yield [[step.tree.tokens[0], *first], *others], _window_levels(after, gram)[-1]


def _window_levels(step: Step, gram: int) -> list[list[int]]:
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


def _grams(trace: Trace) -> list[list[Gram]]:
    """The n-grams that each pass of lookahead decoding found; none while the window fills."""
    full = int(trace.hyperparameters["ngram_size"]) - 1
    return [
        [*zip(*levels, said, strict=True)] if len(levels) == full else []
        for levels, said in _windows(trace)
    ]


def window_pool(trace: Trace) -> dict[str, Any]:
    """The phrase pool of a run of lookahead decoding, rebuilt from its recorded windows.

    {sizes, entries: [{key, text, learned, from, to, used}], whole}: size of the pool after each
    step; of a phrase its first token, where it was learned, the first step after which it is in the
    pool and the first after which it is not, and at which steps tokens of it were accepted; whole,
    whether all phrases are told
    """
    gram, most = (int(trace.hyperparameters[key]) for key in ("ngram_size", "guess_set_size"))
    pool, since, entries = PhrasePool(gram, most), dict[Gram, dict[str, Any]](), []
    for step, phrases in zip(trace.steps, _grams(trace), strict=False):
        for phrase in phrases:
            pool.insert(phrase[0], phrase[1:], Learned.LOOKAHEAD, step.index)
        held = {(key, *memory.tokens) for key in pool.keys for memory in pool.newest(key, most)}
        for phrase in [gram for gram in since if gram not in held]:
            since.pop(phrase)["to"] = step.index
        for phrase in sorted(held - since.keys()):
            since[phrase] = pool_entry(trace, phrase, Learned.LOOKAHEAD, step.index)
            entries.append(since[phrase])
        assert step.pool_size == len(pool), "the pool that the run had"
    _note_use(trace, entries)
    sizes = [step.pool_size or 0 for step in trace.steps[:-1]]
    return {"kind": "pool", "sizes": sizes, "entries": entries, "whole": True}


def _note_use(trace: Trace, entries: list[dict[str, Any]]) -> None:
    for step in trace.steps:
        for phrase, nodes in proposed_phrases(step):
            told = pool_entry(trace, phrase, Learned.LOOKAHEAD, None)
            for entry in entries:
                same = (entry["key"], entry["text"]) == (told["key"], told["text"])
                gone = entry["to"] is not None and entry["to"] < step.index
                held = entry["from"] < step.index and not gone
                if same and held and set(nodes) & set(step.path):
                    entry["used"].append(step.index)
