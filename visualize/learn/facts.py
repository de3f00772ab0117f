"""Numbers and texts that the lessons take from runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any

from ouroboros_core.locations import assets
from ouroboros_core.messages import isolated, say
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Judged, Step, Trace
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.run import diagnosis

SIZES = {"M": "million", "B": "billion"}
EXAMPLE = {"sun": ("0.3", "0.6"), "rain": ("0.5", "0.2"), "snow": ("0.2", "0.2")}
"""The target's p and the draft's q of the worked example, with which the game of dice begins."""
CARD_COST, CHEAP_COST, DEAR_ROW = 0.3, 0.15, 0.1
"""Costs that chapters 9 and 12 assume: of a draft pass on a card and on a processor, and of
a row on a processor with little arithmetic."""
DRAWS = 100
FENCE = "```"
CARD = "h100"
GROUPS = {
    "summaries": "summaries",
    "rag": "questions on a passage",
    "chat": "conversation",
    "questions": "questions without a source",
}
"""Names of the benchmark's groups of prompts in a picture."""


def pass_facts(wide: Trace, plain: Trace) -> dict[str, float]:
    """Mean rows of a target pass of a run, and what such a pass costs in passes of plain
    decoding."""
    rows = sum(step.width for step in wide.steps) / len(wide.steps)
    alone = sum(step.seconds.verify for step in plain.steps) / len(plain.steps)
    return {
        "rows": rows,
        "pass_cost": sum(step.seconds.verify for step in wide.steps) / len(wide.steps) / alone,
    }


def cost_facts(trace: Trace, plain: Trace) -> dict[str, float]:
    """Return the cost of a step in plain steps, phase by phase, and its draft passes."""
    draft, verify, rest = diagnosis.parts(trace, plain)
    passes = sum(step.draft_passes for step in trace.steps) / len(trace.steps)
    return {"drafting": draft, "checking": verify, "rest": rest, "passes": passes}


def weight_facts(trace: Trace) -> dict[str, float]:
    """Layers of a run's two models, and the weights of their layers and output matrices, in
    millions."""
    target, draft = (
        machines.sheets().models[model_id] for model_id in machines.own(trace) if model_id
    )
    return {
        "layers": target.layers,
        "body": target.body / 1e6,
        "output": target.size.output_parameters / 1e6,
        "draft_layers": draft.layers,
        "draft_body": draft.body / 1e6,
        "draft_output": draft.size.output_parameters / 1e6,
    }


def layers_read(head: str, layers: int) -> list[int]:
    """Return the layers of a target with `layers` layers whose states a shipped head reads; none
    if it is no head."""
    file = assets() / "models" / head / "head.json"
    if not file.exists():
        return []
    return [*json.loads(file.read_text(encoding="utf-8")).get("depths", []), layers]


def head_size(head: str, trace: Trace) -> float:
    """Return the weights of a shipped EAGLE head and its output matrix, in millions: one layer of
    the target's size, and matrices that join its inputs. The run is one with the draft model."""
    weights = weight_facts(trace)
    width = machines.sheets().models[machines.own(trace)[0] or ""].hidden
    inputs = 1 + len(layers_read(head, int(weights["layers"])))
    joined = inputs * width**2 / 1e6
    return weights["body"] / weights["layers"] + joined + weights["draft_output"]


def grid_facts(names: Sequence[str]) -> dict[str, Any]:
    """Draft length and passes of both models of the first and the last of some runs; the extremes
    over all of them of a draft pass's cost and of the speedup."""
    facts: dict[str, Any] = {}
    for key, name in (("short", names[0]), ("long", names[-1])):
        trace = gallery.trace(name)
        facts |= {key: trace.hyperparameters["gamma"], f"{key}_steps": len(trace.steps)}
        facts |= {f"{key}_passes": sum(step.draft_passes for step in trace.steps)}
    runs = [gallery.facts(name) for name in names]
    columns = {key: [run[key] for run in runs] for key in ("c", "speedup")}
    return (
        facts
        | {f"low_{key}": min(column) for key, column in columns.items()}
        | {f"high_{key}": max(column) for key, column in columns.items()}
    )


def auto_facts(name: str, fixed: Sequence[str]) -> dict[str, Any]:
    """Of a run that chooses its draft lengths: their mean and the speedup; of runs with fixed
    ones: the shortest and the longest, the least and the largest speedup."""
    gammas = [gallery.trace(run_name).hyperparameters["gamma"] for run_name in fixed]
    speedups = [gallery.facts(run_name)["speedup"] for run_name in fixed]
    auto = gallery.facts(name)
    return {
        "auto_depth": auto["depth"],
        "auto_speedup": auto["speedup"],
        "least": min(gammas),
        "most": max(gammas),
        "worst": min(speedups),
        "best": max(speedups),
    }


def card_facts() -> dict[str, Any]:
    """A graphics card and the rows with which it computes as long as it reads a weight of two
    bytes: two operations for each row."""
    card = machines.sheets().machines[CARD].machine
    return {"card": card.name, "card_rows": card.flops / card.bandwidth}


def likeliest_rate(trace: Trace) -> float:
    """Return the share of the reached positions at which the draft's likeliest guess was accepted;
    other guesses of a tree for the position do not count."""
    hits = []
    for step in trace.steps:
        for judged in step.judged:
            children = step.tree.children(judged.node)
            if children:
                chances = [_of(judged, judged.draft, step.tree.tokens[child]) for child in children]
                hits.append(children[chances.index(max(chances))] in step.path)
    return sum(hits) / len(hits)


def best_speedup(alpha: float, cost: float) -> float:
    """Return the largest speedup by theory, over all draft lengths, if rows cost nothing."""
    return max(metrics.expected_tokens(alpha, gamma) / (gamma * cost + 1) for gamma in range(33))


def odds_facts(step: Step) -> dict[str, Any]:
    """The probability that the target gave the first token of a step."""
    judged = step.judged[0]
    return {"chance": judged.target[judged.tokens.index(step.tokens[0])]}


def step_facts(step: Step) -> dict[str, Any]:
    """Of one step: its number as it is shown, rows in the pass, tokens proposed, accepted and
    emitted."""
    checked = len(step.tree) - 1
    accepted = len(step.path)
    return {
        "step": step.index + 1,
        "width": step.width,
        "checked": checked,
        "accepted": accepted,
        "emitted": len(step.tokens),
        "behind": checked - accepted - 1,
    }


def quoted(text: str) -> str:
    """Return a token's text with visible line ends, tabs and blanks at its ends, as a tree shows
    it."""
    signs = text.replace("\n", "↵").replace("\t", "⇥")
    return "‘" + isolated(re.sub(r"^ | $", "␣", signs)) + "’"


def refusal_facts(trace: Trace, step: Step, refused: int) -> dict[str, Any]:
    """Return the rejected guess at a node and the target's token, with the target's
    probabilities."""
    judged = next(
        judgement for judgement in step.judged if judgement.node == step.tree.parents[refused]
    )
    token, own = step.tree.tokens[refused], step.target_token
    assert own is not None
    return {
        "guess": quoted(trace.pieces[token]),
        "target": quoted(trace.pieces[own]),
        "guess_chance": _of(judged, judged.target, token),
        "target_chance": _of(judged, judged.target, own),
    }


def _of(judged: Judged, column: tuple[float, ...], token: int) -> float:
    return column[judged.tokens.index(token)]


def position_facts(trace: Trace) -> dict[str, float]:
    """Return the accepted shares of the first and of the last guess, among judged guesses."""
    counts = metrics.acceptance_by_position(trace)
    reached = [accepted / tested for tested, accepted in counts if tested]
    facts = {"first": reached[0], "last": reached[-1], "reached": counts[-1][0] / counts[0][0]}
    return facts | {"fourth": counts[-1][0]}


def position_figure(trace: Trace) -> dict[str, Any]:
    """A table of the steps that tested each guess, and of those that accepted it."""
    counts = metrics.acceptance_by_position(trace)
    rows = [
        [name, *(pair[row] for pair in counts)] for row, name in enumerate(("tested", "accepted"))
    ]
    title = f"Of {len(trace.steps)} steps, those that tested or accepted a guess."
    columns = ["guess", *range(1, len(counts) + 1)]
    links = {
        "row_parts": ["rate", "rate"],
        "column_parts": [*[""] * (len(columns) - 1), "fourth"],
    }
    return {"kind": "table", "columns": columns, "rows": rows, "title": title} | links


def models_figure(names: Sequence[str]) -> dict[str, Any]:
    """A table of the two models of some runs: layers, their weights, those of the output matrix."""
    rows: list[list[Any]] = []
    for name in names:
        trace = gallery.trace(name)
        weights = weight_facts(trace)
        for model, prefix in ((trace.target, ""), (trace.draft, "draft_")):
            millions = [round(weights[f"{prefix}{part}"]) for part in ("body", "output")]
            rows.append(
                [
                    str(model).split("/")[-1].removesuffix("-Instruct"),
                    weights[f"{prefix}layers"],
                    *millions,
                ]
            )
    columns = ["model", "layers", "weights", "output"]
    row_parts = ["target", "draft", *["larger"] * (len(rows) - 2)]
    title = (
        "Each target with its draft model below it: this chapter's, and the Java program's. In "
        "millions: the weights of the layers, and those of the output matrix."
    )
    facts = {"columns": columns, "rows": rows, "row_parts": row_parts, "title": title}
    return {"kind": "table", "quoted": True} | facts


def numbers_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """A table of a step's guesses: their numbers, and what the target says of each number."""
    rows = []
    for judged, node in zip(step.judged, range(1, len(step.tree)), strict=False):
        token = step.tree.tokens[node]
        share = f"{_of(judged, judged.target, token):.0%}"
        rows.append([quoted(trace.pieces[token]), token, share])
    columns = ["guess", "number", "target"]
    title = (
        f"The guesses of step {step.index + 1}. Only the numbers are passed on; on the right, the "
        "target's probability of each number."
    )
    return {"kind": "table", "quoted": True, "columns": columns, "rows": rows, "title": title}


def pools_figure(runs: Mapping[str, Trace]) -> dict[str, Any]:
    """A table of the phrases in the pools of some runs after their first and last step."""
    rows = [
        [label, trace.steps[0].pool_size, trace.steps[-1].pool_size]
        for label, trace in runs.items()
    ]
    columns = ["run", "phrases after the first step", "after the last"]
    facts = {"columns": columns, "rows": rows, "row_parts": list(runs)}
    return {"kind": "table", "title": "Sizes of the phrase pool."} | facts


def residual_facts(judged: Judged) -> dict[str, float]:
    """Return the chance that a guess is accepted at a position, the sum of min(p, q) over the
    recorded tokens, and the chance that the residual decides."""
    kept = sum(min(p, q) for p, q in zip(judged.target, judged.draft, strict=True))
    return {"kept": kept, "lacking": 1 - kept}


def residual_rows(trace: Trace, judged: Judged) -> list[dict[str, Any]]:
    """For the likeliest tokens: p, q, min(p, q), and the share of the residual scaled up to a
    whole."""
    columns = zip(judged.tokens, judged.target, judged.draft, judged.left, strict=True)
    rows: list[dict[str, Any]] = [
        {"text": trace.pieces[token], "target": p, "draft": q, "kept": min(p, q), "left": left}
        for token, p, q, left in columns
    ]
    return sorted(rows, key=lambda row: -max(row["target"], row["draft"]))


def size_in_words(model: str) -> str:
    """Return the parameters in a model's name: '135 million'. Raises ValueError for a name without
    them."""
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)([MB])\b", model)
    if found is None:
        raise ValueError(f"the name of a model here tells its size, as in -135M or -1.5B: {model}")
    return f"{found[1]} {SIZES[found[2]]}"


def sizes(trace: Trace) -> dict[str, int]:
    """W and N of a run of lookahead decoding."""
    columns, gram = (trace.hyperparameters[key] for key in ("window_size", "ngram_size"))
    return {"columns": int(columns), "gram": int(gram)}


def part_facts(trace: Trace) -> dict[str, int]:
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


@cache
def _bench() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        (assets() / "benchmark.json").read_text(encoding="utf-8")
    )["rows"]
    return rows


def bench_facts(method: str, groups: Mapping[str, str]) -> dict[str, float]:
    """Mean acceptance length of a method in groups of the benchmark's prompts, by fact."""
    rows = {row["group"]: row for row in _bench() if row["method"] == method and not row["setting"]}
    return {fact: rows[group]["tokens_per_pass"] for fact, group in groups.items()}


def bench_figure(method: str, groups: Mapping[str, str]) -> dict[str, Any]:
    """Bars of a method's mean acceptance length in groups of the benchmark's prompts, the longest
    first: {title, rows: [[label, value, fact]]}."""
    lengths = bench_facts(method, groups)
    rows = [[GROUPS[fact], round(value, 2), fact] for fact, value in lengths.items()]
    return {
        "kind": "bars",
        "title": "Tokens per pass in this project's benchmark; plain decoding has 1",
        "rows": sorted(rows, key=lambda row: -row[1]),
    }


def repeat_facts(name: str) -> dict[str, float]:
    """How often a run was repeated, and its least and largest speedup."""
    found = gallery.speedups(name)
    return {"repeats": len(found), "slowest": found[0], "fastest": found[-1]}


def fragment_facts(trace: Trace, step: Step, node: int) -> dict[str, Any]:
    """Facts of a phrase that ends in a node: its text, its last token, its key, the key with all
    but the last token, where it was learned and is proposed, and how many tokens are accepted."""
    key, *phrase = _phrase(step, node)
    pieces = [trace.pieces[token] for token in (key, *phrase)]
    learned = step.tree.provenance[node].step
    assert learned is not None, "it was learned in this run"
    return {
        "fragment_begin": quoted("".join(pieces[:-1])),
        "fragment_phrase": quoted("".join(pieces[1:])),
        "fragment_last": quoted(pieces[-1]),
        "fragment_key": quoted(pieces[0]),
        "fragment_learned": learned + 1,
        "fragment_step": step.index + 1,
        "fragment_accepted": len(set(step.path).intersection(_suffix(step, node))),
    }


def in_discarded_draft(trace: Trace, step: Step, node: int) -> bool:
    """Whether the phrase that ends in a node, but for its last token, stood behind its first token
    in the part that was thrown away of the draft of the step that taught it."""
    learned = step.tree.provenance[node].step
    taught = trace.steps[learned or 0]
    tree = taught.tree
    lost = [n for n, origin in enumerate(tree.provenance) if origin.source is Source.DRAFT]
    tokens = [tree.tokens[n] for n in lost if n not in taught.path]
    *wanted, _ = _phrase(step, node)
    size = len(wanted)
    return any(tokens[i : i + size] == wanted for i in range(len(tokens) - size + 1))


def _suffix(step: Step, node: int) -> list[int]:
    """The nodes of the phrase that ends in a node."""
    tree = step.tree
    return [n for n in tree.path_to(node) if tree.provenance[n].source is Source.SUFFIX]


def _phrase(step: Step, node: int) -> list[int]:
    """The token behind which a phrase hangs that ends in a node, and its own."""
    tree, nodes = step.tree, _suffix(step, node)
    return [tree.tokens[n] for n in (tree.parents[nodes[0]], *nodes)]


def hundred_draws() -> dict[str, Any]:
    """The worked example: of a number of draws by q, the kept ones, and what the rejected ones
    become: {columns, rows: [[token, *counts]], column_parts, title}. Counts, not bars of p and q: a
    reader adds them up."""
    chances = {token: (Fraction(p), Fraction(q)) for token, (p, q) in EXAMPLE.items()}
    lacking = {token: max(Fraction(0), p - q) for token, (p, q) in chances.items()}
    rows: list[list[Any]] = []
    for token, (p, q) in chances.items():
        kept = min(p, q)
        counts = (p, q, kept, q - kept, lacking[token], kept + lacking[token])
        rows.append([token, *(int(DRAWS * count) for count in counts)])
    columns = ["token", "target wants", "guessed", "kept", "rejected", "drawn anew", "in all"]
    parts = [column.replace(" ", "_") for column in columns]
    title = f"{DRAWS} draws of the draft model"
    facts = {"columns": columns, "rows": rows, "column_parts": parts, "title": title}
    return {"kind": "table"} | facts


def sibling_draws() -> dict[str, Any]:
    """The worked example with a second guess, which is drawn without the first and tested against
    the residual: {columns, rows: [[token, *counts]], title}"""
    chances = {token: (Fraction(p), Fraction(q)) for token, (p, q) in EXAMPLE.items()}
    first = {token: min(p, q) for token, (p, q) in chances.items()}
    lost = 1 - sum(first.values())
    residual = {token: (p - first[token]) / lost for token, (p, _) in chances.items()}
    second, kept, drawn = ({token: Fraction(0) for token in chances} for _ in range(3))
    for rejected, (_, q) in chances.items():
        reached = q - first[rejected]
        for token, (_, of_all) in chances.items():
            guess = Fraction(0) if token == rejected else of_all / (1 - q)
            second[token] += reached * guess
            kept[token] += reached * min(residual[token], guess)
            drawn[token] += reached * max(Fraction(0), residual[token] - guess)
    rows: list[list[Any]] = []
    for token, (p, _) in chances.items():
        in_all = first[token] + kept[token] + drawn[token]
        counts = (p, first[token], second[token], kept[token], drawn[token], in_all)
        rows.append([token, *(int(DRAWS * count) for count in counts)])
    columns = ["token", "target wants", "first kept"]
    columns += ["second guess", "second kept", "drawn anew", "in all"]
    title = f"{DRAWS} draws, with a second guess wherever the first is rejected"
    links = {"column_parts": ["", "", "one two", "", "two", "", ""]}
    return {"kind": "table", "columns": columns, "rows": rows, "title": title} | links


def biased_facts() -> dict[str, Any]:
    """The worked example, if rejected guesses were replaced by draws from p itself: the draws anew,
    the share of them that would be sun, the suns in all, and those that the target wants."""
    draws = hundred_draws()
    sun = dict(zip(draws["columns"], draws["rows"][0], strict=True))
    wanted, kept = sun["target wants"], sun["kept"]
    redrawn = sum(row[draws["columns"].index("rejected")] for row in draws["rows"])
    again = wanted / DRAWS
    return {
        "redrawn": redrawn,
        "again": again,
        "biased": round(kept + redrawn * again),
        "wanted": wanted,
    }


def sibling_facts() -> dict[str, int]:
    """The worked example with a second guess: the snows that the target wants and the first guesses
    give, and those that would be kept beyond them if the second guess were tested against p."""
    draws = sibling_draws()
    snow = dict(zip(draws["columns"], draws["rows"][-1], strict=True))
    p, q = map(Fraction, EXAMPLE["snow"])
    drawn_without_sun = q / (1 - Fraction(EXAMPLE["sun"][1]))
    assert snow["target wants"] == snow["first kept"]
    beyond = snow["second guess"] * min(Fraction(1), p / drawn_without_sun)
    return {"snow": snow["target wants"], "beyond": int(beyond)}


def rule_facts() -> dict[str, float]:
    """The worked example: the chance that a guess is accepted by min(1, p/q) and by shared random
    numbers; and that one of two guesses is, if the second is drawn without the first."""
    p, q = ([float(pair[n]) for pair in EXAMPLE.values()] for n in (0, 1))
    tokens = range(len(p))
    one = sum(map(min, p, q))

    # The same token wins twice if it comes first in a race of exponential clocks, in which each
    # token runs at the larger of its two rates (Daliri et al., arXiv 2408.07978).
    both = sum(1 / sum(max(p[j] / p[i], q[j] / q[i]) for j in tokens) for i in tokens)

    draws = sibling_draws()
    first, second = (draws["columns"].index(column) for column in ("first kept", "second kept"))
    two = sum(row[first] + row[second] for row in draws["rows"]) / DRAWS
    return {"one_guess": one, "shared_guess": both, "two_guesses": two}


def rounds(name: str, guesses: int) -> list[dict[str, Any]]:
    """The steps of a run to guess at, in order: {run, step, tokens_before, tokens, accepted, why}.
    The page keeps track of the ones that a reader has seen."""
    trace, found = gallery.trace(name), []
    written = accumulate((len(step.tokens) for step in trace.steps), initial=0)
    for step, before in zip(trace.steps, written, strict=False):
        count = len(step.tree) - 1
        if count < guesses or step.target_token is None:
            continue
        tokens = [trace.pieces[token] for token in step.tree.tokens[1:]]
        if not _of_words(tokens, trace.pieces[step.target_token], len(step.path)):
            continue
        why = "learn.guess.all" if len(step.path) == count else "learn.guess.some"
        values = {
            "guess": quoted(tokens[len(step.path)]) if len(step.path) < count else "",
            "target": quoted(trace.pieces[step.target_token]),
            "emitted": len(step.tokens),
        }
        found.append(
            {
                "run": name,
                "step": step.index,
                "tokens_before": before,
                "tokens": tokens,
                "accepted": len(step.path),
                "why": say(why, **values),
            }
        )
    return found


def _of_words(tokens: list[str], own: str, accepted: int) -> bool:
    """Whether a reader can judge a proposal: at least half of it are words, and the guess that was
    rejected and the target's own token are, too."""
    decisive = [] if accepted == len(tokens) else [tokens[accepted], own]
    words = [any(map(str.isalpha, text)) for text in tokens]
    return 2 * sum(words) >= len(words) and all(any(map(str.isalpha, text)) for text in decisive)
