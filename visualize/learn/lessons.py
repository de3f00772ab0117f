"""The lessons: nine chapters on recorded runs. What is said lies in assets/words; here is what it
is said of.

Every number in a chapter is taken from the run that the chapter shows. Each stop puts that run to a
moment, marks elements of the view beside it by a CSS selector, and may open a token's card.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import Any

from ouroboros_core.messages import say, table
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Judged, Step, Trace
from ouroboros_core.tree import Learned, Provenance
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.learn.facts import (
    bench_facts,
    bench_figure,
    cost_facts,
    fragment_facts,
    hundred_draws,
    in_discarded_draft,
    odds_facts,
    part_facts,
    pass_facts,
    position_facts,
    quoted,
    refusal_facts,
    repeat_facts,
    residual_facts,
    residual_rows,
    size_in_words,
    sizes,
    step_facts,
)
from visualize.learn.pictures import (
    YOURS,
    batch_figure,
    copy_figure,
    mask_figure,
    pass_figure,
    proposed_pool,
    time_figure,
    window_figure,
    window_pool,
)

Stop = dict[str, Any]
Chapter = dict[str, Any]

GUESSES = 4
SURE = 0.8
ROW = 0.03
"""The cost of a row that the last chapter sets its slider to, in target passes."""
QUIZ = ("fibonacci-speculative", "story-speculative-8")
"""Runs whose steps a reader guesses at: the chapter's own, and one for who knows that already."""
SISTERS = "java-speculative"
WIDE = "bank-lookahead"
DISCARDED = "fibonacci-ouroboros"
"""Its drafts are long enough for a phrase to come out of one that is thrown away."""
BENCHED = {"summaries": "summarization", "rag": "rag", "chat": "mt_bench", "questions": "qa"}
"""Groups of prompts of the benchmark, by the names of the facts."""


@cache
def chapters() -> list[Chapter]:
    """All chapters in order: {id, title, run, stops: [{words, at?, spot?, card?, figure?, ...}],
    question, figures?}, plain data."""
    first = (_plain, _guess, _reject, _unchanged, _copying)
    return [make() for make in (*first, _phrases, _suffixes, _warm, _pays)]


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


def end() -> dict[str, Any]:
    """The end, after the last question: {title, lines, next}."""
    lines = sorted(key for key in table() if re.fullmatch(r"learn\.end\.\d", key))
    return {
        "title": say("learn.end.title"),
        "lines": [say(key) for key in lines],
        "next": say("learn.end.next"),
    }


def _first(trace: Trace, wanted: Callable[[Step], bool]) -> Step:
    """The first step that shows the subject of a chapter."""
    return next(step for step in trace.steps if wanted(step))


def _chapter(
    name: str,
    run: str,
    stops: list[Stop],
    facts: dict[str, Any],
    question: dict[str, Any] | None = None,
) -> Chapter:
    """Words of all stops filled in; the question has its options in the words file, the first key
    being the right one."""
    for number, stop in enumerate(stops, 1):
        stop["words"] = say(f"learn.{name}.{number}", **facts).split("\n")
    title = say(f"learn.{name}.title")
    return {
        "id": name,
        "title": title,
        "run": run,
        "stops": stops,
        "question": question or _choice(name, facts),
    }


def _choice(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    prefix = f"learn.{name}.question"
    options = [say(key, **facts) for key in sorted(table()) if key.startswith(f"{prefix}.option")]
    answer = int(table()[f"{prefix}.answer"]) - 1
    words = say(prefix, **facts).split("\n")
    return {
        "kind": "choice",
        "words": words,
        "options": options,
        "answer": answer,
        "why": say(f"{prefix}.why", **facts),
    }


def _span(step: Step, more: str = "") -> str:
    return f'.ouro-step[data-step="{step.index}"]{more}'


def _at(step: Step, stage: str) -> dict[str, Any]:
    return {"step": step.index, "stage": stage}


def _end(trace: Trace) -> dict[str, Any]:
    return _at(trace.steps[-1], "commit")


TILE = ".ouro-tile:nth-child({})"
SPEED, LENGTH, SAVED, SAME = (TILE.format(n) for n in (2, 3, 4, 5))


def _plain() -> Chapter:
    name, wider = "java-autoregressive", "java-speculative"
    trace, wide = gallery.trace(name), gallery.trace(wider)
    first = _first(trace, lambda s: _open(trace, s))
    facts: dict[str, Any] = (
        gallery.facts(name) | pass_facts(wide, _baseline(wider)) | odds_facts(first)
    )
    facts |= {"threads": trace.environment.threads}
    stops: list[Stop] = [
        {"at": _at(first, "commit"), "spot": _span(first, " .ouro-token")},
        {
            "at": _at(first, "commit"),
            "card": {"step": first.index, "node": None},
            "spot": ".ouro-card",
        },
        {"at": _end(trace), "spot": LENGTH},
        {"at": _end(trace), "figure": "pass"},
    ]
    target = machines.own(trace)[0]
    assert target, "the sheet of this model is known"
    costs = pass_facts(wide, _baseline(wider))
    figures = {"pass": pass_figure(wide, costs, machines.sheets().models[target].layers)}
    return _chapter("plain", name, stops, facts) | {"figures": figures}


def _open(trace: Trace, step: Step) -> bool:
    """Whether a word could have been another one: the likeliest, and not by far."""
    word = trace.pieces[step.tokens[0]].strip()
    return word.isalpha() and odds_facts(step)["chance"] < SURE


def _guess() -> Chapter:
    name = "fibonacci-speculative"
    trace, sisters = gallery.trace(name), gallery.trace(SISTERS)
    step = _first(trace, lambda s: s.kind == "bonus" and len(s.path) == GUESSES)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(step)
    own = [machines.sheets().models[one] for one in machines.own(trace) if one]
    facts |= {"target_name": trace.target, "target_size": size_in_words(trace.target)}
    facts |= {"layers": own[0].layers, "draft_layers": own[1].layers}
    facts |= {"draft_size": f"{own[1].size.parameters / 1e6:.0f} million"}
    facts |= {
        "sister_size": size_in_words(sisters.target),
        "little_size": size_in_words(sisters.draft or ""),
    }
    drafted, verified = _at(step, "draft"), _at(step, "verify")
    stops: list[Stop] = [
        {"at": drafted, "spot": _span(step)},
        {"at": verified, "spot": ".ouro-tree .ouro-answer"},
        {"at": verified, "spot": ".ouro-tree .ouro-answer"},
        {"at": _at(step, "commit"), "spot": _span(step, " .ouro-token")},
        {"at": _at(step, "commit"), "spot": f"{LENGTH}, {SAVED}"},
        {"at": _at(step, "commit"), "figure": "time"},
        {"at": drafted, "spot": _span(step)},
        {"at": drafted, "spot": _span(step)},
        {"at": drafted, "spot": _span(step)},
    ]
    question = {
        "kind": "predict",
        "words": say("learn.guess.question").split("\n"),
        "rounds": [one for name in QUIZ for one in _rounds(name)],
        "prompts": {name: gallery.trace(name).prompt.text for name in QUIZ},
        "none": say("learn.guess.none"),
    }
    costs = pass_facts(trace, _baseline(name))
    figures = {"time": time_figure(facts["rate"], GUESSES, facts["c"], costs)}
    return _chapter("guess", name, stops, facts, question) | {"figures": figures}


def _rounds(name: str) -> list[dict[str, Any]]:
    """The steps of a run to guess at, in order: {run, step, tokens_before, tokens, accepted, why}.
    Which of them a reader has not seen yet, only the reader's page knows."""
    trace, found = gallery.trace(name), []
    written = accumulate((len(step.tokens) for step in trace.steps), initial=0)
    for step, before in zip(trace.steps, written, strict=False):
        count = len(step.tree) - 1
        if count < GUESSES or step.target_token is None:
            continue
        tokens = [trace.pieces[token] for token in step.tree.tokens[1:]]
        if not _of_words(tokens, trace.pieces[step.target_token], len(step.path)):
            continue
        why = "learn.guess.all" if len(step.path) == count else "learn.guess.some"
        told = {
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
                "why": say(why, **told),
            }
        )
    return found


def _of_words(tokens: list[str], own: str, accepted: int) -> bool:
    """Whether a reader can judge a proposal: at least half of it are words, and the guess that was
    rejected and the target's own token are, too."""
    decisive = [] if accepted == len(tokens) else [tokens[accepted], own]
    words = [any(map(str.isalpha, text)) for text in tokens]
    return 2 * sum(words) >= len(words) and all(any(map(str.isalpha, text)) for text in decisive)


def _reject() -> Chapter:
    name = "fibonacci-speculative"
    trace = gallery.trace(name)
    step = _first(
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
            "at": _at(step, "verify"),
            "card": {"step": step.index, "node": refused},
            "spot": ".ouro-card",
        },
        {"at": _at(step, "verify"), "spot": '.ouro-tree .ouro-node[data-state="rejected"]'},
        {"at": _at(step, "commit"), "spot": _span(step, ' [data-kind="correction"]')},
        {"at": _end(trace), "spot": ".ouro-numbers"},
    ]
    return _chapter("reject", name, stops, facts)


def _unchanged() -> Chapter:
    name, same = "sampled-rejection", "sampled-match"
    trace = gallery.trace(name)
    step = _first(trace, lambda s: s.kind == "correction" and bool(_lost(s)))
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
    facts["keyed_length"] = metrics.mean_acceptance_length(keyed)
    facts["keyed_speedup"] = metrics.speedup(keyed, plain) or 0.0
    facts["keyed_pace"] = gallery.pace(facts["keyed_speedup"])
    facts["top_p"] = trace.sampling["top_p"]
    seen = {"step": step.index, "node": trial.node}
    stops: list[Stop] = [
        {"run": SISTERS, "at": _end(gallery.trace(SISTERS)), "spot": SAME},
        *[{"at": _at(step, "draft"), "figure": "hundred"} for _ in range(3)],
        {"at": _at(step, "verify"), "card": seen, "spot": ".ouro-card"},
        {"at": _at(step, "verify"), "spot": _span(step), "figure": "residual"},
        {
            "at": _at(step, "commit"),
            "spot": _span(step, ' [data-kind="correction"]'),
            "figure": "residual",
        },
        {"run": same, "at": _end(keyed), "spot": SAME},
        {"run": same, "at": _end(keyed), "spot": SAME},
        {"run": same, "at": _end(keyed), "figure": "dice"},
    ]
    chapter = _chapter("unchanged", name, stops, facts)
    return chapter | {
        "residual": {
            "rows": residual_rows(trace, judged),
            "words": say("learn.unchanged.residual", **facts),
        },
        "figures": {"hundred": hundred_draws()},
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
    whole = _first(trace, lambda s: s.kind == "bonus" and _matched(s) > 1)
    wrong = _first(trace, lambda s: s.index > whole.index and s.kind == "correction")
    long = _first(repeated, lambda s: s.kind == "bonus" and _matched(s) > 2 * GUESSES)
    refused = wrong.tree.children(wrong.path[-1])[0]
    facts: dict[str, Any] = gallery.facts(name) | step_facts(whole) | part_facts(trace)
    facts |= refusal_facts(trace, wrong, refused) | {"match": _matched(whole)}
    facts |= {"sam_match": _matched(long), "sam_checked": len(long.tree) - 1}
    facts |= {"sam_accepted": len(long.path)} | bench_facts("prompt_lookup", BENCHED)
    card = {"step": whole.index, "node": whole.path[-1]}
    stops: list[Stop] = [
        {"at": _at(whole, "draft"), "figure": "copy"},
        {"at": _at(whole, "commit"), "card": card, "spot": ".ouro-card"},
        {"at": _at(wrong, "commit"), "spot": _span(wrong, ' [data-kind="correction"]')},
        {"at": _end(trace), "spot": f"{SPEED}, {LENGTH}"},
        {
            "run": other,
            "at": _at(long, "commit"),
            "card": {"step": long.index, "node": long.path[-1]},
            "spot": ".ouro-card",
        },
        {"at": _end(trace), "figure": "automaton"},
        {"at": _end(trace), "figure": "benched"},
    ]
    figures = {"automaton": {"text": YOURS}, "benched": bench_figure("prompt_lookup", BENCHED)}
    figures |= {"copy": copy_figure(trace, whole)}
    return _chapter("copying", name, stops, facts) | {"figures": figures}


def _matched(step: Step) -> int:
    """How many tokens before a step's copy had been found there, too; 0 where nothing is copied."""
    first = step.tree.provenance[1] if len(step.tree) > 1 else None
    return (first.match or 0) if first and first.source is Source.COPY else 0


def _phrases() -> Chapter:
    name = "java-lookahead"
    trace = gallery.trace(name)
    paid = _first(
        trace, lambda s: sum(s.tree.provenance[n].source is Source.PHRASE for n in s.path) >= 2
    )
    widest = _widest(name)
    early = _first(trace, lambda s: len(s.window) == widest)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(paid) | {"passes": len(trace.steps)}
    facts |= {
        "window": len(early.window),
        "early": early.index + 1,
        "early_width": early.width,
        **pass_facts(trace, _baseline(name)),
    }
    facts |= sizes(trace) | {
        f"wide_{key}": size for key, size in sizes(gallery.trace(WIDE)).items()
    }
    facts["wide_window"] = _widest(WIDE)
    wide, pool = window_figure(gallery.trace(WIDE)), window_pool(trace)
    facts["wide_first"] = 1 + next(n for n, one in enumerate(wide["passes"]) if one["whole"])
    facts |= {"pool": pool["sizes"][-1], "pool_steps": len(pool["sizes"])}
    facts["pool_used"] = len({(one["key"], one["text"]) for one in pool["entries"] if one["used"]})
    provenance = paid.tree.provenance[paid.path[-1]]
    facts["learned"] = (provenance.step or 0) + 1
    stops: list[Stop] = [
        {"at": _at(early, "commit"), "windowed": True, "spot": ".ouro-tree"},
        {"at": _at(early, "commit"), "figure": "window"},
        {"at": _at(early, "commit"), "figure": "window"},
        {"at": _at(early, "commit"), "windowed": True, "spot": ".ouro-tree"},
        {"at": _at(early, "commit"), "windowed": True, "spot": ".ouro-tree-note"},
        {
            "at": _at(paid, "commit"),
            "card": {"step": paid.index, "node": paid.path[-1]},
            "spot": ".ouro-card",
        },
        {"at": _end(trace), "figure": "pool"},
        {"at": _end(trace), "spot": f"{SPEED}, {LENGTH}"},
    ]
    return _chapter("phrases", name, stops, facts) | {"figures": {"window": wide, "pool": pool}}


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
    step = _first(
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
    last = step.path[-1]
    stops: list[Stop] = [
        {"at": _at(step, "draft"), "spot": ".ouro-tree [data-look='draft'][data-node]"},
        {"at": _at(step, "draft"), "spot": ".ouro-tree [data-look='suffix'][data-node]"},
        {"at": _at(step, "draft"), "figure": "mask"},
        {
            "at": _at(step, "commit"),
            "spot": _span(step, ' [data-source="suffix"]'),
            "card": {"step": step.index, "node": last},
        },
        {"at": _end(trace), "spot": ".ouro-numbers"},
        {
            "run": DISCARDED,
            "at": _at(late, "commit"),
            "card": {"step": late.index, "node": fragment},
            "spot": ".ouro-card",
        },
        {"at": _end(trace), "spot": ".ouro-legend"},
    ]
    return _chapter("suffixes", name, stops, facts) | {"figures": {"mask": mask_figure(trace)}}


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
        {"at": _at(trace.steps[0], "commit"), "spot": ".ouro-tree"},
        {"at": _end(trace), "spot": '.ouro-token[data-learned="history"]'},
        {"at": _end(trace), "figure": "pool"},
        {"at": _end(trace), "spot": f"{SPEED}, {SAVED}"},
        {"at": _end(trace), "spot": SAME},
    ]
    return _chapter("warm", name, stops, facts) | {"figures": {"pool": proposed_pool(trace)}}


def _pays() -> Chapter:
    name = "story-speculative-8"
    trace = gallery.trace(name)
    facts: dict[str, Any] = gallery.facts(name)
    even = metrics.break_even(facts["depth"], facts["cost"])
    assert even is not None, "the words say which share of the guesses breaks even"
    shallow, deep = (metrics.expected_tokens(0.5, gamma) for gamma in (2, 8))
    facts |= pass_facts(trace, _baseline(name)) | cost_facts(trace, _baseline(name))
    facts |= {
        "even": even,
        "shallow": shallow,
        "deep": deep,
    }
    facts |= {"wide_window": _widest(WIDE), "row": ROW}
    facts |= {"shallow_speedup": shallow / (2 * 0.2 + 1), "deep_speedup": deep / (8 * 0.2 + 1)}
    stops: list[Stop] = [
        {"at": _end(trace), "spot": f"{SPEED}, {LENGTH}"},
        {"at": _end(trace), "spot": ".ouro-numbers"},
        {"at": _end(trace), "figure": "theory", "sliders": {"alpha": 0.5, "gamma": 2, "row": 0}},
        {"at": _end(trace), "figure": "theory", "curve": "speedup"},
        {
            "at": _end(trace),
            "figure": "theory",
            "curve": "speedup",
            "sliders": {"alpha": 0.5, "gamma": 8, "cost": 0.2, "row": 0},
        },
        {
            "at": _end(trace),
            "figure": "theory",
            "curve": "speedup",
            "sliders": {"alpha": 0.7, "gamma": 4, "cost": 0.15, "row": ROW},
        },
        {"at": _end(trace)},
        {"at": _end(trace)},
        {"at": _end(trace), "figure": "batch"},
    ]
    figures = {"batch": batch_figure(facts["c"])}
    return _chapter("pays", name, stops, facts) | {"figures": figures}
