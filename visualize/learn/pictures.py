"""The data of the pictures of the lessons: windows, trees and pools of recorded runs, as
plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

from ouroboros_core import methods
from ouroboros_core.locations import assets
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.messages import say
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned
from visualize.gallery import runs as gallery
from visualize.kit import labels

PASSES = 16
"""Passes of a lookahead window that are shown."""

YOURS = (
    "The river rose all night, and in the morning the old bridge was gone. The boats lay in the "
    "meadow. The river rose all day, and in the evening the old bridge was gone for good."
)
"""A text to begin with, in which pieces come again."""

KEY = "Blue: draft passes. Orange: the target pass. Grey: plain passes for as many tokens."
AROUND = 90
"""Characters of a text that are shown around the subject of a picture."""

BENCHES = {
    "benchmark": "four layers of SmolLM2-135M",
    "benchmark-qwen": "Qwen2.5-Coder-0.5B for the 1.5B model",
}
"""Benchmarks in which several draft lengths were measured: file and name of the draft."""
KINDS = {
    "code": "code",
    "edit": "edits",
    "summarization": "summaries",
    "rag": "questions on a passage",
    "mt_bench": "conversation",
    "overall": "all kinds",
}
"""Kinds of prompts of the benchmark, by group."""
LENGTHS = ("1", "2", "4", "8")
ENOUGH = 4
"""Prompts of a kind from which draft lengths are offered."""

UNSURE = (0.3, 0.6)
"""Probability of the target's likeliest token where temperature is shown."""

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
    first = next(n for n, drawn_pass in enumerate(shown) if drawn_pass["whole"])
    filled = next(n for n, one in enumerate(shown) if len(one["levels"]) == gram - 1)
    facts = {"columns": columns, "gram": gram, "passes": shown, "full": filled, "first": first}
    return {"kind": "window"} | facts


def pass_figure(trace: Trace, costs: Mapping[str, float], layers: int) -> dict[str, Any]:
    """One pass over the last token and its guesses: {tokens, rows, cost, layers}; cost, what a pass
    over so many rows takes, in passes over one."""
    step = next(
        candidate for candidate in trace.steps if candidate.width == len(candidate.tree) > 4
    )
    tokens = [trace.pieces[token] for token in step.tree.tokens]
    price = {"rows": costs["rows"], "cost": costs["pass_cost"]}
    return {"kind": "pass", "tokens": tokens, "layers": layers} | price


def time_figure(facts: Mapping[str, Any], gamma: int, costs: Mapping[str, float]) -> dict[str, Any]:
    """A step to scale, with sliders that begin at what a run has: {values, sliders, note}; r is the
    slope between passes over one row and over the run's mean rows."""
    row = (costs["pass_cost"] - 1) / (costs["rows"] - 1)
    values = {"alpha": facts["rate"], "gamma": gamma, "cost": facts["c"], "row": row}
    note = (
        "To scale, by theory, which assumes the same α at every position. It begins with the "
        f"values of this run, which itself yields {facts['length']:.2f} tokens a step. {KEY}"
    )
    rounded = {name: round(value, 2) for name, value in values.items()}
    return {"kind": "time", "values": rounded, "sliders": list(values), "note": note}


def batch_facts(figure: Mapping[str, Any], answers: int) -> dict[str, float]:
    """What `batch_figure` says of a number of answers: rows of the target's pass, its cost in
    passes of plain decoding, and the speedup."""
    values, free = figure["values"], figure["free"]
    rows = answers * (values["gamma"] + 1)
    plain, target = (max(1, count / free) for count in (answers, rows))
    tokens = metrics.expected_tokens(values["alpha"], values["gamma"])
    longer = target / plain
    speedup = tokens / (values["gamma"] * values["cost"] + longer)
    return {"rows": rows, "pass": longer, "speedup": speedup}


def batch_figure(cost: float, card: str, rows: float) -> dict[str, Any]:
    """A step for many answers at once, in the shape of `time_figure`, on a card whose pass costs
    the same up to a number of rows."""
    free = round(rows)
    note = (
        f"A calculation, not a measurement: the {free} rows of an {card} cost nothing, beyond them "
        f"the time of a pass grows with its rows. {KEY}"
    )
    values = {"alpha": 0.7, "gamma": 4, "cost": round(cost, 2), "row": 0.0, "batch": 1}
    sliders = ["alpha", "gamma", "batch"]
    return {"kind": "time", "values": values, "sliders": sliders, "free": free, "note": note}


def copy_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """A copy out of the prompt and its source: {source: [before, match, copy, after], answer:
    [before, match], copy, match, place}, as texts."""
    first = step.tree.provenance[1]
    assert first.position is not None and first.match is not None, "its first guess is a copy"
    written = [token for earlier in trace.steps[: step.index] for token in earlier.tokens]
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
        "kind": "copy",
        "source": [text[max(0, at - AROUND) : at], match, copy, text[end : end + AROUND // 2]],
        "answer": [before[-AROUND:], match],
        "copy": copy,
        "match": first.match,
        "place": "The prompt",
    }


def grid_figure(names: Sequence[str]) -> dict[str, Any]:
    """Runs of one prompt, to change their draft length: {runs: [{gamma, run, last}]}; last, the
    number of the last step."""
    traces = {name: gallery.trace(name) for name in names}
    return {
        "kind": "grid",
        "runs": [
            {"gamma": one.hyperparameters["gamma"], "run": name, "last": one.steps[-1].index}
            for name, one in traces.items()
        ],
    }


def temperature_figure(trace: Trace) -> dict[str, Any]:
    """The first position of a greedy run where both models prefer the same token and the target
    is unsure: {rows: [[text, p, q]]}, both at temperature 1."""
    judged = next(
        one
        for step in trace.steps
        for one in step.judged
        if one.draft
        and UNSURE[0] < max(one.target) < UNSURE[1]
        and one.target.index(max(one.target)) == one.draft.index(max(one.draft))
    )
    columns = zip(judged.tokens, judged.target, judged.draft, strict=True)
    rows = [[trace.pieces[token], p, q] for token, p, q in columns]
    return {"kind": "temperature", "rows": sorted(rows, key=lambda row: -max(row[1:]))}


def mask_figure(name: str) -> dict[str, Any]:
    """The proposal with the most branches, and of those the one with the most words: {run, step,
    tokens, parents, looks}, the root first."""
    trace = gallery.trace(name)

    def branches_and_words(step: Step) -> tuple[int, float]:
        tokens = [trace.pieces[token] for token in step.tree.tokens]
        leaves = set(range(len(tokens))) - set(step.tree.parents)
        return len(leaves), sum(any(map(str.isalpha, text)) for text in tokens) / len(tokens)

    step = max(trace.steps, key=branches_and_words)
    return {
        "kind": "mask",
        "run": say(f"gallery.{name}.title"),
        "step": step.index,
        "tokens": [trace.pieces[token] for token in step.tree.tokens],
        "parents": list(step.tree.parents),
        "looks": [origin.source.value for origin in step.tree.provenance],
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
        held = {(key, *memory.tokens) for key in pool.keys for memory in pool.newest(key, most)}
        for phrase in [gram for gram in since if gram not in held]:
            since.pop(phrase)["to"] = step.index
        for phrase in sorted(held - since.keys()):
            since[phrase] = _entry(trace, phrase, Learned.LOOKAHEAD, step.index)
            entries.append(since[phrase])
        assert step.pool_size == len(pool), "the pool that the run had"
    _note_use(trace, entries)
    sizes = [step.pool_size or 0 for step in trace.steps[:-1]]
    return {"kind": "pool", "sizes": sizes, "entries": entries, "whole": True}


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
    sizes = [step.pool_size or 0 for step in trace.steps]
    return {"kind": "pool", "sizes": sizes, "entries": order, "whole": False}


def plain_of(name: str) -> str:
    """The name of the plain run of a run's prompt."""
    prompt = gallery.runs()[name]["prompt"]
    return f"{prompt}-{gallery.PLAIN}"


def _seconds(trace: Trace) -> list[float]:
    """Return what a run took: reading the prompt, draft passes, target passes, everything else."""
    steps = [step.seconds for step in trace.steps]
    phases = ("prefill", "draft", "verify")
    named = [sum(getattr(spent, phase) for spent in steps) for phase in phases]
    return [
        round(number, 5) for number in (*named, sum(spent.learn + spent.host for spent in steps))
    ]


def race_figure(
    names: Sequence[str], title: str, axes: Sequence[str] = (), play: bool = False
) -> dict[str, Any]:
    """Recorded runs on one clock, in the seconds of the plain run of their prompt.

    {title, axes, lanes, texts, play}; with axes each run stands beside its plain run, and is chosen
    by prompt, method and draft length.
    """
    every = [*dict.fromkeys(plain_of(name) for name in names), *names] if axes else [*names]
    texts: list[list[str]] = []
    lanes: list[dict[str, Any]] = []
    for name in every:
        trace, facts = gallery.paced(name), gallery.facts(name)
        pieces = [trace.pieces[token] for token in trace.tokens]
        if pieces not in texts:
            texts.append(pieces)
        took = [step.seconds.prefill + step.seconds.decode for step in trace.steps]
        gamma = gallery.runs()[name].get("knobs", {}).get("gamma")
        warm = ", warm" if "after" in gallery.runs()[name] else ""
        label = labels.method(trace.method) + warm
        lane: dict[str, Any] = {
            "label": label,
            "at": [_prompt(name), label, "–" if gamma is None else str(gamma)],
            "seconds": _seconds(trace),
            "text": texts.index(pieces),
            "counts": [len(step.tokens) for step in trace.steps],
            "ends": [round(end, 4) for end in accumulate(took)],
            "passes": facts["steps"],
            "length": facts["length"],
        }
        if "speedup" in facts:
            lane |= {"speedup": facts["speedup"], "between": gallery.spread(name)}
            if axes:
                about = methods.get(trace.method).summary
                lane |= {"plain": every.index(plain_of(name)), "about": about}
        lanes.append(lane)
    facts = {"title": title, "axes": list(axes), "lanes": lanes, "texts": texts, "play": play}
    return {"kind": "race"} | facts


def offered_runs(shown: str, methods: Sequence[str]) -> dict[str, Any]:
    """The greedy recorded runs of some methods to choose from, the chapter's own first."""
    plan = gallery.plan()["prompts"]
    names = [
        name
        for name, facts in gallery.runs().items()
        if facts["method"] in methods and "sampling" not in plan[facts["prompt"]]
    ]
    axes = ("Prompt", "Method", "Draft length γ")
    ordered = sorted(names, key=lambda name: name != shown)
    return race_figure(ordered, "Recorded runs beside plain decoding of the prompt.", axes)


def _prompt(name: str) -> str:
    """The prompt of a run in a few words, as the gallery has it."""
    prompt = gallery.runs()[name]["prompt"]
    title = next(
        entry["title"] for entry in gallery.entries() if entry["name"].split("-")[0] == prompt
    )
    return str(title).split(",")[0]


@cache
def lengths_figure() -> dict[str, Any]:
    """Measured draft lengths, by draft and kind of prompt, in the shape of `race_figure` without
    texts: a benchmark keeps none, so bars, passes and speedup change, and no run is shown. The
    seconds are sums over all prompts of a kind; kinds with few prompts are left out."""
    lanes: list[dict[str, Any]] = []
    for file, draft in BENCHES.items():
        bench = json.loads((assets() / f"{file}.json").read_text(encoding="utf-8"))["rows"]
        rows = {(row["method"], row["group"]): row for row in bench if not row["setting"]}
        for group, kind in KINDS.items():
            plain, alone = len(lanes), rows[gallery.PLAIN, group]
            if alone["questions"] < ENOUGH:
                continue
            lanes.append(_bench_lane(alone, "Plain decoding", []))
            for gamma in LENGTHS:
                key = f"speculative[gamma={gamma}]"
                if gamma == "4" and (key, group) not in rows:
                    key = "speculative[published]"  # the embedded pair's has this length
                row = rows[key, group]
                low, high = row["ci95"]
                lane = _bench_lane(row, f"γ = {gamma}", [draft, kind, gamma])
                lane |= {"plain": plain, "speedup": row["speedup"], "prompts": row["questions"]}
                lanes.append(lane | {"between": f"(95% interval {low:.2f}–{high:.2f})"})
    title = "Measured in this project's benchmark."
    axes = ["Draft model", "Prompts", "Draft length γ"]
    facts = {"title": title, "axes": axes, "lanes": lanes, "texts": [], "play": False}
    return {"kind": "race"} | facts


def _bench_lane(row: Mapping[str, Any], label: str, at: list[str]) -> dict[str, Any]:
    took = row["seconds"]
    seconds = [took["prefill"], took["draft"], took["verify"], took["learn"] + took["host"]]
    return {
        "label": label,
        "at": at,
        "seconds": [round(number, 5) for number in seconds],
        "passes": round(row["tokens"] / row["tokens_per_pass"]),
        "length": row["tokens_per_pass"],
    }


def snake_figure(trace: Trace, step: Step, node: int) -> dict[str, Any]:
    """How a phrase that ends in a node was thrown away, kept and accepted: {places: [{title,
    tokens: [{text, look}]}]}, four of them."""
    learned = step.tree.provenance[node].step
    assert learned is not None, "it was learned in this run"
    taught = trace.steps[learned]
    nodes = [n for n in step.tree.path_to(node) if step.tree.provenance[n].learned]
    tree = step.tree
    key, *phrase = [tree.tokens[n] for n in (tree.parents[nodes[0]], *nodes)]
    drafted = [
        n for n, origin in enumerate(taught.tree.provenance) if origin.source is Source.DRAFT
    ]
    head = [key, *phrase[:-1]]
    tokens = [taught.tree.tokens[n] for n in drafted]
    begun = next(n for n in range(len(tokens)) if tokens[n : n + len(head)] == head)
    looks = ["accepted" if n in taught.path else "discarded" for n in drafted]
    looks[begun + 1 : begun + len(head)] = ["discarded phrase"] * (len(head) - 1)
    written = [n for n in step.path if n not in nodes]

    def chips(ids: Sequence[int], kinds: Sequence[str]) -> list[dict[str, str]]:
        pairs = zip(ids, kinds, strict=True)
        return [{"text": trace.pieces[token], "look": look} for token, look in pairs]

    kept = ["key", *["phrase"] * len(phrase)]
    later = chips([tree.tokens[n] for n in written], ["accepted"] * len(written))
    places = [
        (f"Step {learned + 1}: a discarded draft", chips(tokens, looks)),
        ("The target's answers in it", chips([key, *phrase], kept)),
        ("The phrase pool", chips([key, *phrase], kept)),
        (
            f"Step {step.index + 1}: the phrase is accepted",
            later + chips(phrase, ["phrase"] * len(phrase)),
        ),
    ]
    shown = [{"title": title, "tokens": tokens} for title, tokens in places]
    return {"kind": "snake", "places": shown}


def draft_figure(plain: str, rival: str) -> dict[str, Any]:
    """A recorded text to guess at: {prompt, pieces, begun, rival, length}; its first sentence is
    shown, and the mean acceptance length is that of another run of the prompt."""
    trace, other = gallery.trace(plain), gallery.trace(rival)
    pieces = [trace.pieces[token] for token in trace.tokens]
    begun = next(n for n, piece in enumerate(pieces) if ":" in piece) + 1
    return {
        "kind": "draft",
        "prompt": trace.prompt.text,
        "pieces": pieces,
        "begun": begun,
        "rival": labels.method(other.method),
        "length": gallery.facts(rival)["length"],
    }


def depths(step: Step) -> list[int]:
    """The depth of each node of a proposal; the root has 0."""
    found = [0]
    for parent in step.tree.parents[1:]:
        found.append(found[parent] + 1)
    return found


def drafting_cost(name: str) -> float:
    """Return what the guesses of a step of a run cost on average, in steps of plain decoding."""
    trace, plain = gallery.trace(name), gallery.baseline(name)
    assert plain is not None, f"{name} has a plain run of the same prompt"
    alone = sum(step.seconds.decode for step in plain.steps) / len(plain.steps)
    return sum(step.seconds.draft for step in trace.steps) / len(trace.steps) / alone


def sources_figure(head: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> dict[str, Any]:
    """A table of sources: {columns, rows, row_parts, title}; the last cell of a given row is the
    name that texts link to."""
    title = (
        "Recorded runs, on different prompts. A cost is that of all guesses of one step with its "
        f"draft passes, in steps of plain decoding. {note}"
    )
    cells, parts = [list(row[:-1]) for row in rows], [row[-1] for row in rows]
    return {"kind": "table", "columns": head, "rows": cells, "row_parts": parts, "title": title}


def shape_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """The shape of a proposal: {passes, levels, more}; of each position at most three tokens."""
    levels: dict[int, list[str]] = {}
    for node, depth in enumerate(depths(step)):
        if depth:
            levels.setdefault(depth, []).append(trace.pieces[step.tree.tokens[node]])
    shown = [level[:3] for level in levels.values()]
    more = any(len(level) > 3 for level in levels.values())
    return {"kind": "shape", "passes": step.draft_passes, "levels": shown, "more": more}
