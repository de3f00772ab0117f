"""The lessons: twelve chapters on recorded runs. The words are in assets/words; the runs, moments
and figures are here. The last three chapters are in `visualize.learn.field`.

Every number in a chapter is taken from the run that the chapter shows. Each stop puts that run to a
moment, marks elements of the view beside it by a CSS selector, and may open a token's card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ouroboros_core.messages import say, table
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Judged, Step, Trace
from ouroboros_core.tree import Learned, Provenance
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.learn import field
from visualize.learn.facts import (
    CARD_COST,
    CHEAP_COST,
    DEAR_ROW,
    auto_facts,
    bench_facts,
    bench_figure,
    best_speedup,
    biased_facts,
    card_facts,
    cost_facts,
    fragment_facts,
    grid_facts,
    hundred_draws,
    in_discarded_draft,
    layers_read,
    models_figure,
    numbers_figure,
    odds_facts,
    part_facts,
    pass_facts,
    pools_figure,
    position_facts,
    position_figure,
    quoted,
    refusal_facts,
    repeat_facts,
    residual_facts,
    residual_rows,
    rounds,
    rule_facts,
    sizes,
    step_facts,
    weight_facts,
)
from visualize.learn.pictures import (
    YOURS,
    copy_figure,
    draft_figure,
    grid_figure,
    lengths_figure,
    mask_figure,
    offered_runs,
    pass_figure,
    plain_of,
    proposed_pool,
    race_figure,
    shape_figure,
    snake_figure,
    temperature_figure,
    time_figure,
    window_figure,
    window_pool,
)
from visualize.learn.stops import (
    LENGTH,
    SAME,
    SAVED,
    SPEED,
    Chapter,
    Stop,
    at,
    final,
    first_step,
    make_chapter,
    span,
)
from visualize.run.diagnosis import shown_ratio

GUESSES = 4
SURE = 0.8
YOURSELF = ("sleep-autoregressive", "sleep-eagle3")
"""The text that a reader drafts, and another run of its prompt."""
ROW = 0.03
"""The cost of a row that chapter 9 sets its slider to, in target passes."""
QUIZ = ("fibonacci-speculative", "story-speculative-8")
"""Runs whose steps a reader guesses at: the chapter's own, and one for who knows that already.
Chapters 2 and 3 are on the first, a program: its guesses are right often enough that one step
accepts all four and the next rejects one."""
GRID = tuple(f"palindrome-speculative-{gamma}" for gamma in (1, 2, 4, 6, 8))
"""One prompt, recorded with several draft lengths."""
AUTO = "palindrome-speculative-auto"
KEYED = ("length", "speedup", "cost", "drafting", "checking", "rest")
"""Numbers of the run whose noise is fixed by position."""
SISTERS = "java-speculative"
HEAD = "fibonacci-eagle3"
CHAIN, TREE = "fibonacci-speculative", "fibonacci-multi_candidate"
"""A chain and a tree by the same draft model, of the same prompt."""
WIDE = "bank-lookahead"
JACOBI = "bank-jacobi"
BEST = "java-ouroboros"
RACE = "The same model and the same machine, all runs as they were recorded."
DRAFTED = ("speculative", "cape", "cascade", "eagle3", "glide", "medusa", "parallel_spec")
"""Methods whose recorded runs chapter 2 offers."""
COPIED = ("prompt_lookup", "sam", "ngram", "rest", "union")
COMBINED = ("speculative", "lookahead", "ouroboros", "union")
DISCARDED = "fibonacci-ouroboros"
"""Its drafts are long enough for a phrase to come out of one that is thrown away."""
LOST = ". The"
"""A match in the reader's text whose shorter end, but not the whole, the next token continues."""
BENCHED = {"summaries": "summarization", "rag": "rag", "chat": "mt_bench", "questions": "qa"}
"""Groups of prompts of the benchmark, by the names of the facts."""


@cache
def chapters() -> list[Chapter]:
    """All chapters in order: {id, title, run, stops: [{words, at?, spot?, card?, figure?, ...}],
    question, figures?}, plain data."""
    basics = (_plain, _guess, _reject, _unchanged, _copying)
    rest = (_phrases, _suffixes, _warm, _pays, field.sources, field.family, field.batches)
    return [make() for make in (*basics, *rest)]


def questions() -> list[dict[str, Any]]:
    """Questions for the end: {words, answer, chapter, stop}, the stop where it is
    said."""
    found = []
    numbers = {chapter["id"]: number for number, chapter in enumerate(chapters())}
    for number in range(1, 1 + sum(key.endswith(".where") for key in table())):
        chapter, stop = table()[f"questions.{number}.where"].split(".")
        words, answer = say(f"questions.{number}"), say(f"questions.{number}.answer")
        found.append(
            {"words": words, "answer": answer, "chapter": numbers[chapter], "stop": int(stop) - 1}
        )
    return found


def end(labels: Mapping[str, str], more: str = "") -> dict[str, Any]:
    """The end, after the last question: {title, lines, next, places: [{href, label, words}], more}.

    labels  labels of places to go, by their addresses; those without words are left out
    more    a further sentence
    """
    lines = sorted(key for key in table() if re.fullmatch(r"learn\.end\.\d", key))
    words = {
        href: "learn.end." + re.split(r"[#.]", href)[-1 if "#" in href else 0] for href in labels
    }
    return {
        "title": say("learn.end.title"),
        "lines": [say(key) for key in lines],
        "next": "Where to go",
        "places": [
            {"href": href, "label": label, "words": say(words[href])}
            for href, label in labels.items()
            if words[href] in table()
        ],
        "more": more,
    }


def _plain() -> Chapter:
    name, wider = "java-autoregressive", "java-speculative"
    trace, wide = gallery.trace(name), gallery.trace(wider)
    first = first_step(trace, lambda s: _open(trace, s))
    facts: dict[str, Any] = (
        gallery.facts(name) | pass_facts(wide, _baseline(wider)) | odds_facts(first)
    )
    facts |= {"threads": trace.environment.threads}
    facts |= {"best_speedup": gallery.facts(BEST)["speedup"]}
    target = machines.own(trace)[0]
    assert target, "the sheet of this model is known"
    sheet = machines.sheets().models[target]
    facts |= {"weights": sheet.size.weight_bytes / 1e9}
    stops: list[Stop] = [
        {"at": at(first, "commit"), "figure": "race"},
        {"at": at(first, "commit"), "spot": span(first, " .ouro-token")},
        {
            "at": at(first, "commit"),
            "card": {"step": first.index, "node": None},
            "spot": ".ouro-card",
        },
        {"at": final(trace), "spot": LENGTH},
        {"at": final(trace), "figure": "pass"},
    ]
    costs = pass_facts(wide, _baseline(wider))
    figures = {"pass": pass_figure(wide, costs, sheet.layers)}
    figures |= {"race": race_figure([name, BEST], RACE, play=True)}
    return make_chapter("plain", name, stops, facts) | {"figures": figures}


def _open(trace: Trace, step: Step) -> bool:
    """Whether a word could have been another one: the likeliest, and not by far."""
    word = trace.pieces[step.tokens[0]].strip()
    return word.isalpha() and odds_facts(step)["chance"] < SURE


def _guess() -> Chapter:
    name = "fibonacci-speculative"
    trace = gallery.trace(name)
    step = first_step(trace, lambda s: s.kind == "bonus" and len(s.path) == GUESSES)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(step) | weight_facts(trace)
    costs = pass_facts(trace, _baseline(name))
    facts |= {"ratio": shown_ratio(facts["length"], facts["cost"])}
    facts |= costs | cost_facts(trace, _baseline(name)) | grid_facts(GRID)
    facts["target_name"] = trace.target
    drafted, verified = at(step, "draft"), at(step, "verify")
    stops: list[Stop] = [
        {"at": drafted, "spot": span(step)},
        {"at": verified, "spot": ".ouro-tree .ouro-answer"},
        {"at": verified, "spot": ".ouro-tree .ouro-answer"},
        {"at": at(step, "commit"), "spot": span(step, " .ouro-token")},
        {"at": at(step, "commit"), "spot": f"{LENGTH}, {SAVED}"},
        {"at": at(step, "commit"), "figure": "time"},
        {"at": drafted, "figure": "models"},
        {"at": drafted, "figure": "ids"},
        {"at": drafted, "figure": "head"},
        {
            "run": GRID[0],
            "at": final(gallery.trace(GRID[0])),
            "spot": f"{SPEED}, {LENGTH}",
            "aside": "grid",
        },
        {"at": drafted, "figure": "runs"},
        {"at": drafted, "figure": "yourself"},
    ]
    question = {
        "kind": "predict",
        "words": say("learn.guess.question").split("\n"),
        "rounds": [quiz_round for name in QUIZ for quiz_round in rounds(name, GUESSES)],
        "prompts": {name: gallery.trace(name).prompt.text for name in QUIZ},
        "none": say("learn.guess.none"),
    }
    figures = {"time": time_figure(facts, GUESSES, costs)}
    figures |= {"runs": offered_runs(name, DRAFTED), "yourself": draft_figure(*YOURSELF)}
    figures |= {"grid": grid_figure(GRID), "models": models_figure([name, SISTERS])}
    figures |= {"ids": numbers_figure(trace, step), "head": _head()}
    return make_chapter("guess", name, stops, facts, question) | {"figures": figures}


def _head() -> dict[str, Any]:
    """The shape of the first proposal of a head, and the target's layers that it reads."""
    trace = gallery.trace(HEAD)
    layers = int(weight_facts(gallery.trace(CHAIN))["layers"])
    read = {"layers": layers, "read": layers_read(trace.draft or "", layers)}
    return shape_figure(trace, trace.steps[0]) | read


def _reject() -> Chapter:
    name = "fibonacci-speculative"
    trace = gallery.trace(name)
    step = first_step(
        trace, lambda s: s.index > 0 and s.kind == "correction" and 1 <= len(s.path) < GUESSES - 1
    )
    refused = step.tree.children(step.path[-1])[0]
    facts: dict[str, Any] = (
        gallery.facts(name)
        | step_facts(step)
        | refusal_facts(trace, step, refused)
        | position_facts(trace)
    )
    stops: list[Stop] = [
        {
            "at": at(step, "verify"),
            "card": {"step": step.index, "node": refused},
            "spot": ".ouro-card",
        },
        {"at": at(step, "verify"), "spot": '.ouro-tree .ouro-node[data-state="rejected"]'},
        {"at": at(step, "commit"), "spot": span(step, ' [data-kind="correction"]')},
        {"at": final(trace), "spot": ".ouro-numbers", "aside": "positions"},
        {"at": final(trace), "figure": "lengths"},
    ]
    figures = {"lengths": lengths_figure(), "positions": position_figure(trace)}
    return make_chapter("reject", name, stops, facts) | {"figures": figures}


def _unchanged() -> Chapter:
    name, same = "sampled-rejection", "sampled-match"
    trace = gallery.trace(name)
    step = first_step(trace, lambda s: s.kind == "correction" and bool(_lost(s)))
    judged = _lost(step)
    assert judged is not None
    trial = judged.trials[-1]
    assert trial.q is not None and step.target_token is not None
    plain, keyed = gallery.baseline(same), gallery.trace(same)
    assert plain is not None
    facts: dict[str, Any] = gallery.facts(name) | step_facts(step) | residual_facts(judged)
    facts |= {"p": trial.p, "q": trial.q, "u": trial.u, "keep": min(1.0, trial.p / trial.q)}
    facts |= {
        "guess": quoted(trace.pieces[step.tree.tokens[trial.node]]),
        "target": quoted(trace.pieces[step.target_token]),
    }
    facts |= {
        "equal": sum(a == b for a, b in zip(keyed.tokens, plain.tokens, strict=False)),
        "all": len(plain.tokens),
    }
    costs = gallery.facts(same) | cost_facts(keyed, plain)
    facts |= {f"keyed_{name}": costs[name] for name in KEYED}
    facts["keyed_ratio"] = shown_ratio(costs["length"], costs["cost"])
    facts |= {name: trace.sampling[name] for name in ("top_p", "temperature")}
    facts |= rule_facts() | biased_facts()
    seen = {"step": step.index, "node": trial.node}
    stops: list[Stop] = [
        {"run": SISTERS, "at": final(gallery.trace(SISTERS)), "spot": SAME},
        *[{"at": at(step, "draft"), "figure": "hundred"} for _ in range(3)],
        {"at": at(step, "verify"), "card": seen, "spot": ".ouro-card"},
        {"at": at(step, "verify"), "spot": span(step), "figure": "residual"},
        {
            "at": at(step, "commit"),
            "spot": span(step, ' [data-kind="correction"]'),
            "figure": "residual",
        },
        {"run": same, "at": final(keyed), "spot": SAME},
        {"run": same, "at": final(keyed), "spot": f"{SPEED}, {LENGTH}"},
        {"run": same, "at": final(keyed), "figure": "temperature"},
        {"run": same, "at": final(keyed), "spot": SAME},
        {"run": same, "at": final(keyed), "figure": "dice"},
    ]
    chapter = make_chapter("unchanged", name, stops, facts)
    return chapter | {
        "residual": {
            "rows": residual_rows(trace, judged),
            "words": say("learn.unchanged.residual", **facts),
        },
        "figures": {
            "hundred": hundred_draws(),
            "temperature": temperature_figure(gallery.trace(QUIZ[1])),
        },
    }


def _lost(step: Step) -> Judged | None:
    """The position in a step where its one drawn candidate was rejected, and p and q can both be
    seen."""
    judged = step.judged[-1] if step.judged else None
    if judged is None or len(judged.trials) != 1 or not judged.left or not judged.draft:
        return None
    trial = judged.trials[0]
    return judged if trial.q and 0.02 < trial.p < trial.q and not trial.accepted else None


def _copying() -> Chapter:
    name, other = "stack-prompt_lookup", "river-sam"
    trace, repeated = gallery.trace(name), gallery.trace(other)
    whole = first_step(trace, lambda s: s.kind == "bonus" and _matched(s) > 1)
    wrong = first_step(trace, lambda s: s.index > whole.index and s.kind == "correction")
    long = first_step(repeated, lambda s: s.kind == "bonus" and _matched(s) > 2 * GUESSES)
    refused = wrong.tree.children(wrong.path[-1])[0]
    facts: dict[str, Any] = gallery.facts(name) | step_facts(whole) | part_facts(trace)
    facts |= refusal_facts(trace, wrong, refused) | {"match": _matched(whole)}
    facts |= {"sam_match": _matched(long), "sam_checked": len(long.tree) - 1}
    facts |= bench_facts("prompt_lookup", BENCHED)
    card = {"step": whole.index, "node": whole.path[-1]}
    stops: list[Stop] = [
        {"at": at(whole, "draft"), "figure": "copy"},
        {"at": at(whole, "commit"), "card": card, "spot": ".ouro-card"},
        {"at": at(wrong, "commit"), "spot": span(wrong, ' [data-kind="correction"]')},
        {"at": final(trace), "spot": f"{SPEED}, {LENGTH}"},
        {
            "run": other,
            "at": at(long, "commit"),
            "card": {"step": long.index, "node": long.path[-1]},
            "spot": ".ouro-card",
        },
        {"at": final(trace), "figure": "automaton"},
        {"at": final(trace), "figure": "lost"},
        {"at": final(trace), "figure": "benched"},
        {"at": final(trace), "figure": "runs"},
    ]
    own = {"kind": "automaton", "text": YOURS}
    figures: dict[str, Any] = {"automaton": own}
    figures |= {"lost": own | {"read": YOURS[: YOURS.rindex(LOST) + len(LOST)]}}
    figures |= {"benched": bench_figure("prompt_lookup", BENCHED)}
    figures |= {"copy": copy_figure(trace, whole), "runs": offered_runs(name, COPIED)}
    return make_chapter("copying", name, stops, facts) | {"figures": figures}


def _matched(step: Step) -> int:
    """How many tokens before a step's copy had been found there, too; 0 where nothing is copied."""
    first = step.tree.provenance[1] if len(step.tree) > 1 else None
    return (first.match or 0) if first and first.source is Source.COPY else 0


def _phrases() -> Chapter:
    name = "java-lookahead"
    trace = gallery.trace(name)
    paid = first_step(
        trace, lambda s: sum(s.tree.provenance[n].source is Source.PHRASE for n in s.path) >= 2
    )
    facts: dict[str, Any] = gallery.facts(name) | step_facts(paid) | {"passes": len(trace.steps)}
    facts |= {"window": _widest(name), **pass_facts(trace, _baseline(name))}
    facts |= sizes(trace) | {
        f"wide_{key}": size for key, size in sizes(gallery.trace(WIDE)).items()
    }
    facts |= {"wide_window": _widest(WIDE), "kept": trace.hyperparameters["guess_set_size"]}
    wide, pool = window_figure(gallery.trace(WIDE)), window_pool(trace)
    facts["wide_begin"] = len(wide["passes"][0]["levels"][0])
    facts["wide_first"] = 1 + next(
        n for n, drawn_pass in enumerate(wide["passes"]) if drawn_pass["whole"]
    )
    facts |= {"pool": pool["sizes"][-1], "pool_steps": len(pool["sizes"])}
    facts["pool_used"] = len(
        {(entry["key"], entry["text"]) for entry in pool["entries"] if entry["used"]}
    )
    provenance = paid.tree.provenance[paid.path[-1]]
    facts["learned"] = (provenance.step or 0) + 1
    facts["jacobi_length"] = gallery.facts(JACOBI)["length"]
    right = first_step(gallery.trace(JACOBI), lambda step: bool(step.path))
    stops: list[Stop] = [
        {"at": final(trace), "figure": "window", "first": 0},
        {"run": JACOBI, "at": at(right, "commit"), "spot": ".ouro-tree"},
        {"at": final(trace), "figure": "window"},
        {"at": final(trace), "figure": "window"},
        {"at": final(trace), "figure": "window", "first": wide["full"]},
        {"at": final(trace), "spot": ".ouro-numbers"},
        {
            "at": at(paid, "commit"),
            "card": {"step": paid.index, "node": paid.path[-1]},
            "spot": ".ouro-card",
        },
        {"at": final(trace), "figure": "pool"},
        {"at": final(trace), "spot": f"{SPEED}, {LENGTH}"},
    ]
    return make_chapter("phrases", name, stops, facts) | {"figures": {"window": wide, "pool": pool}}


def _widest(name: str) -> int:
    """Rows of the lookahead window of a run when it is full."""
    return max(len(step.window) for step in gallery.trace(name).steps)


def _baseline(name: str) -> Trace:
    plain = gallery.baseline(name)
    assert plain is not None, f"{name} has a plain run of the same prompt"
    return plain


def _suffixes() -> Chapter:
    name = "java-ouroboros"
    trace = gallery.trace(name)
    step = first_step(
        trace, lambda s: sum(s.tree.provenance[n].source is Source.SUFFIX for n in s.path) >= 2
    )
    hung = [n for n in range(1, len(step.tree)) if step.tree.provenance[n].source is Source.SUFFIX]
    learned = metrics.accepted_by_learned(trace)
    drafted = metrics.draft_passes_per_draft_token(trace)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(step) | {"hung": len(hung)}
    facts |= {
        "drafted": len(step.tree) - 1 - len(hung),
        "suffixes": sum(learned.values()),
        "per_token": drafted,
    }
    facts |= {
        "used": sum(step.tree.provenance[n].source is Source.SUFFIX for n in step.path),
        "passes": step.draft_passes,
    }
    facts |= {"window": learned[Learned.LOOKAHEAD]}
    late, fragment = _fragment(gallery.trace(DISCARDED))
    facts |= fragment_facts(gallery.trace(DISCARDED), late, fragment)
    pair = gallery.facts(SISTERS)
    facts |= {"pair_length": pair["length"], "pair_speedup": pair["speedup"]}
    facts |= {
        "gamma": trace.hyperparameters["gamma"],
        "pair_gamma": gallery.trace(SISTERS).hyperparameters["gamma"],
    }
    for key, shown in (("chain", CHAIN), ("tree", TREE)):
        run = gallery.facts(shown)
        facts |= {f"{key}_length": run["length"], f"{key}_speedup": run["speedup"]}
        facts |= {f"{key}_rows": pass_facts(gallery.trace(shown), _baseline(shown))["rows"]}
    last = step.path[-1]
    second = first_step(gallery.trace(TREE), lambda s: bool(s.path) and s.path[0] != 1)
    stops: list[Stop] = [
        {"at": at(step, "draft"), "spot": ".ouro-tree [data-look='draft'][data-node]"},
        {"at": at(step, "draft"), "spot": ".ouro-tree [data-look='suffix'][data-node]"},
        {"run": DISCARDED, "at": final(gallery.trace(DISCARDED)), "figure": "mask"},
        {
            "at": at(step, "commit"),
            "spot": span(step, ' [data-source="suffix"]'),
            "card": {"step": step.index, "node": last},
        },
        {"run": TREE, "at": at(second, "commit"), "spot": ".ouro-tree"},
        {"at": final(trace), "spot": ".ouro-numbers"},
        {
            "run": DISCARDED,
            "at": at(late, "commit"),
            "figure": "snake",
        },
        {"at": final(trace), "figure": "race"},
        {"at": final(trace), "figure": "runs"},
    ]
    figures = {"mask": mask_figure(DISCARDED), "runs": offered_runs(name, COMBINED)}
    figures |= {"snake": snake_figure(gallery.trace(DISCARDED), late, fragment)}
    figures |= {"race": race_figure([plain_of(name), SISTERS, name], RACE)}
    return make_chapter("suffixes", name, stops, facts) | {"figures": figures}


def _fragment(trace: Trace) -> tuple[Step, int]:
    """The first step that accepts tokens of a phrase which verification took out of a draft that
    was thrown away, and the last of them."""
    for step in trace.steps:
        learned = [n for n in step.path if _of(step)[n].learned is Learned.VERIFICATION]
        if learned and in_discarded_draft(trace, step, learned[-1]):
            return step, learned[-1]
    raise LookupError("no phrase out of a discarded draft is accepted")


def _of(step: Step) -> tuple[Provenance, ...]:
    return step.tree.provenance


def _warm() -> Chapter:
    name = "java-ouroboros-warm"
    cool = "java-ouroboros"
    trace, cold = gallery.trace(name), gallery.trace(cool)
    assert trace.hyperparameters == cold.hyperparameters, "what is compared differs in its pool"
    learned = metrics.accepted_by_learned(trace)
    facts: dict[str, Any] = gallery.facts(name) | {
        "history": learned[Learned.HISTORY],
        "cold_steps": len(cold.steps),
        "draft_passes": sum(step.draft_passes for step in trace.steps),
        "cold_draft_passes": sum(step.draft_passes for step in cold.steps),
    }
    facts |= {"pool": trace.steps[0].pool_size, "cold_pool": cold.steps[0].pool_size}
    facts |= {"cold_speedup": metrics.speedup(cold, _baseline(cool))}
    facts |= repeat_facts(name) | {f"cold_{k}": v for k, v in repeat_facts(cool).items()}
    stops: list[Stop] = [
        {"at": at(trace.steps[0], "commit"), "figure": "pools"},
        {"at": final(trace), "spot": '.ouro-token[data-learned="history"]'},
        {"at": final(trace), "figure": "pool"},
        {"at": final(trace), "figure": "race"},
        {"at": final(trace), "spot": SAME},
    ]
    figures = {"pool": proposed_pool(trace), "race": race_figure([cool, name], RACE)}
    figures |= {"pools": pools_figure({"cold": cold, "warm": trace})}
    return make_chapter("warm", name, stops, facts) | {"figures": figures}


def _pays() -> Chapter:
    name = "story-speculative-8"
    trace = gallery.trace(name)
    facts: dict[str, Any] = gallery.facts(name) | {"gamma": trace.hyperparameters["gamma"]}
    even = metrics.break_even(facts["depth"], facts["cost"])
    assert even is not None, "the words say which share of the guesses breaks even"
    shallow, deep = (metrics.expected_tokens(0.5, gamma) for gamma in (2, 8))
    facts |= pass_facts(trace, _baseline(name)) | cost_facts(trace, _baseline(name))
    facts |= {
        "even": even,
        "shallow": shallow,
        "deep": deep,
    }
    window = _widest(WIDE)
    facts |= {"wide_window": window, "row": ROW, "window_pass": 1 + ROW * window}
    facts |= {"wide_columns": sizes(gallery.trace(WIDE))["columns"]}
    facts |= {"shallow_speedup": shallow / (2 * 0.2 + 1), "deep_speedup": deep / (8 * 0.2 + 1)}
    facts |= {"small_best": best_speedup(0.6, 0.1), "large_best": best_speedup(0.8, 0.5)}
    facts |= card_facts() | auto_facts(AUTO, GRID)
    facts |= {"card_cost": CARD_COST, "cheap_cost": CHEAP_COST, "dear_row": DEAR_ROW}
    stops: list[Stop] = [
        {"at": final(trace), "spot": f"{SPEED}, {LENGTH}"},
        {"at": final(trace), "figure": "race"},
        {"at": final(trace), "figure": "theory", "sliders": {"alpha": 0.5, "gamma": 2, "row": 0}},
        {"at": final(trace), "figure": "theory", "curve": "speedup"},
        {
            "at": final(trace),
            "figure": "theory",
            "curve": "speedup",
            "sliders": {"alpha": 0.5, "gamma": 8, "cost": 0.2, "row": 0},
        },
        {
            "at": final(trace),
            "figure": "theory",
            "curve": "speedup",
            "sliders": {"alpha": 0.7, "gamma": 4, "cost": CHEAP_COST, "row": ROW},
        },
        *[
            {
                "at": final(trace),
                "figure": "theory",
                "curve": "speedup",
                "sliders": {"alpha": 0.7, "gamma": 4, "cost": cost, "row": row},
            }
            for cost, row in ((CARD_COST, 0), (CHEAP_COST, DEAR_ROW))
        ],
        {"run": AUTO, "at": final(gallery.trace(AUTO)), "spot": f"{SPEED}, {LENGTH}"},
        {"at": final(trace), "figure": "lengths"},
    ]
    figures = {"lengths": lengths_figure()}
    figures |= {"race": race_figure([plain_of(name), name], RACE)}
    return make_chapter("pays", name, stops, facts) | {"figures": figures}
