"""Record the runs that page, lessons and gallery show: python -m scripts.record [RUN ...]

assets/traces/gallery.json lists the runs. Without names, all runs are recorded that are missing or
differ from the list; an interrupted recording continues. Plain decoding and the method alternate,
see `ouroboros_core.benchmark.protocol`. A run's file has the seconds of the repeat with the median
speedup; its other contents are of an equal run that keeps the models' probabilities.
assets/traces/measured.json has all speedups, the seconds of the plain run beside that repeat, the
seconds of passes timed around it, and the seconds of proposing without the drafter's passes.

A repeat counts if the machine kept its pace (`kept_pace`). Passes that are timed apart from the run
decide that, before anything is priced.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import astuple, replace
from functools import cache
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from ouroboros_core import methods
from ouroboros_core.adaptive.profiler import pass_seconds
from ouroboros_core.benchmark import protocol
from ouroboros_core.benchmark.protocol import Round, Speedup
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.locations import assets
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.trace import Seconds, Step, Trace
from ouroboros_core.what_if.beside import PassClock, Timed, between, costs_beside, proposing

PLAIN = "autoregressive"
WARM_UP_TOKENS = 8
METHOD = 1
"""Its lane in a round; that of plain decoding is 0."""
REPEATS, ROUNDS = protocol.ROUNDS, 8
"""Repeats that count, and rounds at most: one on a busy machine does not count."""
SLOWER = 1.15
"""If passes of plain decoding take this multiple of the least that a pass over one row takes, the
machine was busy; and it did not keep its pace if anything took more than this multiple of what is
equal to it."""
PROBES, PATIENCE, WAIT = 6, 12, 5.0
"""Passes of a look at the machine, looks at most, and seconds between them."""

Facts = dict[str, Any]


def folder() -> Path:
    return assets() / "traces"


def plan() -> Facts:
    found: Facts = json.loads((folder() / "gallery.json").read_text(encoding="utf-8"))
    return found


def settings_of(facts: Facts) -> Any:
    """The settings of a run: fixed ones, so that much is seen, unless `facts` asks for automatic
    ones."""
    kind = methods.get(facts["method"])
    given = facts.get("knobs", {})
    return kind.Hyperparameters.parse(
        given if facts.get("automatic") else kind.Hyperparameters.fixed(**given)
    )


def sampling_of(gallery: Facts, facts: Facts) -> Sampling:
    rule = {"acceptance": facts["acceptance"]} if "acceptance" in facts else {}
    return Sampling.model_validate(gallery["prompts"][facts["prompt"]].get("sampling", {}) | rule)


def _task(gallery: Facts, facts: Facts, count: int | None = None, seen: bool = True) -> Task:
    prompt = gallery["prompts"][facts["prompt"]]
    return Task(
        prompt["text"],
        facts["method"],
        settings_of(facts),
        sampling_of(gallery, facts),
        count or prompt["tokens"],
        prompt.get("chat", True),
        record=seen,
    )


def record(pair: Pair, gallery: Facts, facts: Facts, clock: PassClock | None = None) -> Trace:
    """One run of the gallery, named as the gallery names its models; `after`: with the phrases of
    that prompt's run. Without a clock the models' probabilities are kept. A clock times the run's
    draft passes, and nothing is kept: what is read between two steps would make both slower."""
    pool = None
    if "after" in facts:
        known = settings_of(facts)
        pool = PhrasePool(known.ngram_size, known.guess_set_size, fingerprint=pair.fingerprint)
        Generation(pair, _task(gallery, facts | {"prompt": facts["after"]}), pool).run()
    with clock.running() if clock else nullcontext():
        trace = Generation(pair, _task(gallery, facts, seen=clock is None), pool).run()
    named = gallery["pairs"][gallery["prompts"][facts["prompt"]].get("pair", "embedded")]
    assert pair.draft is not None
    draft = named.get("draft") if trace.draft == pair.draft.name else None
    return replace(trace, target=named.get("target", trace.target), draft=draft or trace.draft)


def plain_pass(one: Round) -> float:
    """Seconds of a pass of plain decoding without the drawing of a token, the median."""
    seconds = (step.seconds for step in one.plain.steps)
    return median(taken.verify - taken.verify_sampling for taken in seconds)


def kept_pace(one: Round, before: Timed, after: Timed) -> bool:
    """Whether the machine had the same pace before a round, in its plain run, and after it: by
    passes over one row, and by all passes of a model together."""
    sides = before, after
    equal = [[plain_pass(one), *(side["target"].of(1) for side in sides)]]
    equal += [[sum(side[model].seconds) for side in sides] for model in before]
    return all(max(taken) <= SLOWER * min(taken) for taken in equal)


def repeats(pair: Pair, gallery: Facts, facts: Facts) -> tuple[list[Round], Trace, Timed, float]:
    """Rounds that count, by speedup; the run of the method in the middle one with what a recorder
    keeps; what passes cost around it, and what proposing took beside them. Raises RuntimeError if
    the machine stays busy, or if a run does not repeat."""
    lanes = {"prompt": facts["prompt"], "method": PLAIN}, facts
    Generation(pair, _task(gallery, lanes[0], WARM_UP_TOKENS)).run()
    known = record(pair, gallery, facts)
    sides: list[tuple[Timed, Timed]] = []
    before: Timed = {}
    beside: list[float] = []

    def run(number: int, lane: int) -> Trace:
        nonlocal before
        order = protocol.order(len(lanes), number)
        if lane == order[0]:
            _calm(pair, min((first["target"].of(1) for first, _ in sides), default=inf))
            before = costs_beside(pair, known)
        clock = PassClock(pair)
        trace = record(pair, gallery, lanes[lane], clock)
        if lane == METHOD:
            drafted = any(step.draft_passes for step in trace.steps)
            assert drafted == (clock.seconds > 0), "every draft pass is timed"
            beside.append(proposing(trace, clock.seconds))
        if lane == order[-1]:
            sides.append((before, costs_beside(pair, known)))
        return trace

    def steady(rounds: Sequence[Round]) -> list[Round]:
        return _steady(rounds, sides)

    measuring = protocol.measure(
        len(lanes), protocol.at_once(run), rounds=REPEATS, again=ROUNDS - REPEATS, steady=steady
    )
    found = protocol.last(measuring)
    if not found.enough:
        told = (f"{1e3 * plain_pass(one):.1f} ms a pass" for one in found.every)
        around = ("/".join(f"{1e3 * side['target'].of(1):.1f}" for side in both) for both in sides)
        raise RuntimeError(
            f"the machine is busy: one row takes {', '.join(around)} ms before and after a round, "
            f"plain decoding {'; '.join(told)}"
        )
    for number, name in enumerate(("plain", "method's")):
        if len({trace.tokens for trace in found.traces(number)}) > 1:
            raise RuntimeError(f"the {name} texts of equal runs differ")
    plain, trace = found.rounds[0].traces
    if "acceptance" not in facts and plain.tokens != trace.tokens:
        where = metrics.first_difference(plain.tokens, trace.tokens)
        raise RuntimeError(f"the text is not that of plain decoding from token {where} on")
    rounds = sorted(found.rounds, key=lambda one: one.speedup(METHOD))
    middle = rounds[len(rounds) // 2]
    number = next(n for n, one in enumerate(found.every) if one is middle)
    return rounds, timed_as(known, middle.traces[METHOD]), between(*sides[number]), beside[number]


def _done(step: Step) -> tuple[Any, ...]:
    """What a step did."""
    return step.tree, step.path, step.target_token, step.draft_passes


def timed_as(seen: Trace, timed: Trace) -> Trace:
    """A run that was recorded, with the seconds of an equal one that was only timed. Raises
    RuntimeError if they are not equal."""
    if [*map(_done, seen.steps)] != [*map(_done, timed.steps)]:
        raise RuntimeError("the steps of equal runs differ")
    steps = zip(seen.steps, timed.steps, strict=True)
    return replace(seen, steps=tuple(replace(one, seconds=two.seconds) for one, two in steps))


def _calm(pair: Pair, least: float) -> None:
    """Returns once a pass over one row takes about the least that was seen; after a minute in any
    case."""
    for _ in range(PATIENCE):
        if pass_seconds([(pair.target, 1)], PROBES)[0] <= SLOWER * least:
            break
        time.sleep(WAIT)


def _steady(rounds: Sequence[Round], sides: Sequence[tuple[Timed, Timed]]) -> list[Round]:
    """Those on an idle machine that kept its pace. sides: what passes took before each and after
    it."""
    singles = (side["target"].of(1) for both in sides for side in both)
    least = min([*singles, *map(plain_pass, rounds)])
    return [
        one
        for one, (before, after) in zip(rounds, sides, strict=True)
        if not one.busy and plain_pass(one) <= SLOWER * least and kept_pace(one, before, after)
    ]


def stale(gallery: Facts, name: str) -> bool:
    """Whether a run is missing, or another one than the gallery says. Of a setting that was not
    there when it was recorded, it has the default."""
    file, facts = folder() / f"{name}.json", gallery["runs"][name]
    if not file.exists() or (facts["method"] != PLAIN and name not in measured()):
        return True
    trace, task = read_trace(file.read_bytes()), _task(gallery, facts)
    settings = {**type(task.hyperparameters)().model_dump(), **trace.hyperparameters}
    return (trace.prompt.text, trace.prompt.chat, trace.max_new_tokens) != (
        task.prompt,
        task.chat,
        task.max_new_tokens,
    ) or (trace.method, settings, trace.sampling) != (
        task.method,
        task.hyperparameters.model_dump(),
        task.sampling.model_dump(),
    )


def measured() -> Facts:
    file = folder() / "measured.json"
    found: Facts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def _keep(name: str, found: Facts | None) -> None:
    """What was measured of one run, a line each; None drops it."""
    kept = {key: value for key, value in measured().items() if key in plan()["runs"]}
    kept.pop(name, None)
    every = kept | ({name: found} if found else {})
    lines = (f"{json.dumps(key)}: {json.dumps(every[key])}" for key in sorted(every))
    (folder() / "measured.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _micro(seconds: Seconds) -> list[float]:
    """To the microsecond, without the zeros at the end."""
    found = [round(one, 6) for one in astuple(seconds)]
    while found and not found[-1]:
        found.pop()
    return found


def _write(name: str, trace: Trace) -> None:
    steps = (replace(step, seconds=Seconds(*_micro(step.seconds))) for step in trace.steps)
    short = replace(trace, steps=tuple(steps))
    (folder() / f"{name}.json").write_text(short.to_json() + "\n", encoding="utf-8")


def make(pair: Pair, gallery: Facts, name: str) -> None:
    """Record one run, and the plain run of its prompt where that is missing."""
    facts = gallery["runs"][name]
    if facts["method"] == PLAIN:
        Generation(pair, _task(gallery, facts, WARM_UP_TOKENS)).run()
        trace = timed_as(
            record(pair, gallery, facts), record(pair, gallery, facts, PassClock(pair))
        )
        _write(name, trace)
        print(
            f"{name}: {len(trace.tokens)} tokens, {metrics.tokens_per_second(trace):.1f} a second"
        )
        return
    rounds, trace, costs, beside = repeats(pair, gallery, facts)
    middle = rounds[len(rounds) // 2]
    plain = next(
        run
        for run, other in gallery["runs"].items()
        if (other["prompt"], other["method"]) == (facts["prompt"], PLAIN)
    )
    if stale(gallery, plain):
        _write(plain, timed_as(record(pair, gallery, gallery["runs"][plain]), middle.plain))
    if read_trace((folder() / f"{plain}.json").read_bytes()).tokens != middle.plain.tokens:
        raise RuntimeError(f"the plain text is not that of {plain}: record that anew")
    seconds = [_micro(step.seconds) for step in middle.plain.steps]
    _write(name, trace)
    speedups = Speedup(tuple(one.speedup(METHOD) for one in rounds))
    _keep(
        name,
        {
            "speedups": [round(one, 4) for one in speedups.each],
            "plain": seconds,
            "costs": {
                model: [cost.rows, cost.seconds, *([cost.behind] if model == "draft" else [])]
                for model, cost in costs.items()
            },
            "proposing": round(beside, 6),
        },
    )
    length = metrics.mean_acceptance_length(trace)
    print(f"{name}: {length:.2f} tokens per pass, speedup {speedups}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="RUN", help="record these anew")
    parser.add_argument(
        "--local",
        action="append",
        default=[],
        metavar="PAIR=TARGET,DRAFT",
        help="where the models of a pair lie; without it they are those of the Hub",
    )
    arguments = parser.parse_args()
    folders = {
        name: models.split(",")
        for name, _, models in (text.partition("=") for text in arguments.local)
    }
    gallery = plan()

    @cache
    def load(name: str) -> Pair:
        named = gallery["pairs"][name]
        target, draft = folders.get(name, (named.get("target"), named.get("draft")))
        return load_pair(target, draft, dtype=named["dtype"])

    names = arguments.names or [name for name in gallery["runs"] if stale(gallery, name)]
    for name in names:
        pair = gallery["prompts"][gallery["runs"][name]["prompt"]].get("pair", "embedded")
        try:
            make(load(pair), gallery, name)
        except RuntimeError as error:
            print(f"{name} is refused: {error}", flush=True)


if __name__ == "__main__":
    main()
