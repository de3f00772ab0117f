"""Record the runs that page, lessons and gallery show: python -m scripts.record [RUN ...]

What is run is said in assets/traces/gallery.json. Without names all are recorded that are missing
or are not what that file says; what is done is kept, so that an interrupted recording goes on.
Plain decoding and the method run in turn, see `ouroboros_core.benchmark.protocol`. A run's file has
the seconds of its repeat with the median speedup; what else it holds is of an equal run, in which
the models' probabilities are kept. And assets/traces/measured.json keeps all speedups, what the
plain run beside that repeat took, what passes took when they were timed around it, and what
proposing took in it beside the drafter's passes.

A repeat counts if the machine kept one pace in it, see `kept_pace`; that is decided by passes that
are timed apart from the run, and before anything is priced.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, replace
from functools import cache, partial
from math import ceil, inf
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import PassCosts
from ouroboros_core.adaptive.profiler import in_turn, level_of, pass_of, pass_seconds
from ouroboros_core.benchmark import protocol
from ouroboros_core.benchmark.protocol import Round
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.locations import assets
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.summary import Speedup
from ouroboros_core.trace.trace import Seconds, Step, Trace
from ouroboros_core.what_if import estimate as what_if

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

TIMED, DRAFT_TIMED, TURNS = 8, 24, 24
"""Passes over each number of rows that are timed on either side of a round; the median counts. The
draft's are short, so that a few say little. And steps of both models in turn."""


@dataclass(frozen=True)
class PassesBeside(PassCosts):
    """What passes take in the minute of a run.

    behind: of a draft's, seconds more that a pass of the target takes behind them
    """

    behind: float = 0.0


Timed = dict[str, PassesBeside]
"""What passes take, by `target` and `draft`."""

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


class PassClock:
    """Adds up the seconds inside the passes of a pair's drafters. A trace holds those of all
    proposing, and the number of passes."""

    PASSES = "evaluate", "extend", "superpose"

    def __init__(self, pair: Pair) -> None:
        drafters = pair.draft, pair.self_draft, *pair.heads.values()
        self._drafters = [one for one in drafters if one is not None]
        self._inside = False
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Meanwhile every pass is timed."""
        timed = [
            (one, name) for one in self._drafters for name in self.PASSES if hasattr(one, name)
        ]
        for one, name in timed:
            setattr(one, name, self._timed(getattr(one, name)))
        try:
            yield
        finally:
            for one, name in timed:
                delattr(one, name)

    def _timed(self, passing: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            if self._inside:  # one kind of pass makes use of another
                return passing(*given)
            self._inside, begun = True, time.perf_counter()
            try:
                found = passing(*given)
                if torch.cuda.is_available():  # there, a pass returns before it is computed
                    torch.cuda.synchronize()
                return found
            finally:
                self.seconds += time.perf_counter() - begun
                self._inside = False

        return run


def proposing(trace: Trace, passes: float) -> float:
    """What proposing takes in the steps with draft passes beside these, of which all together took
    `passes` seconds, and beside drawing at random."""
    steps = (step.seconds for step in trace.steps if step.draft_passes)
    return sum(taken.draft - taken.draft_sampling for taken in steps) - passes


def costs_beside(pair: Pair, trace: Trace) -> Timed:
    """What passes take now: median seconds over as many rows as a run had, behind a context as long
    as in its middle. They are timed apart from it."""
    work = what_if.work_of(trace)
    length = round(median(one.context for one in work))
    rows = {1, *(round(one.rows) for one in work if one.rows)}
    found = {"target": _timed(rows, lambda count: pass_of(pair.target, count, length), TIMED)}
    drafting = [one.draft_rows for one in work if one.draft_passes]
    if drafting and not what_if.skipping(trace):
        most, level = ceil(max(drafting)), _level_of(pair, trace)
        counts = {most, *(count for count in (1, 2, 4, 8, 16) if count < most)}
        pass_of(pair.target, 1, length)()  # a head reads what the target made of the context
        passes = round(median(one.draft_passes for one in work if one.draft_passes))
        check = pass_of(pair.target, round(median(one.rows for one in work)), length)
        alone = _timed(counts, lambda count: level(count, length), DRAFT_TIMED)
        slower, behind = _in_turns(check, level(1, length), passes)
        seconds = tuple(round(slower * one, 6) for one in alone.seconds)
        found["draft"] = replace(alone, seconds=seconds, behind=behind)
    return found


def _in_turns(
    check: Callable[[], float], draft: Callable[[], float], passes: int
) -> tuple[float, float]:
    """How many times longer a drafter's pass takes where `passes` of them follow one of the target
    than where nothing comes between them, and seconds more that a pass of the target takes behind
    them. Each model drives the other's weights out of the processor's caches."""

    def step() -> tuple[float, float]:
        check()
        return sum(draft() for _ in range(passes)), check()

    steps = [step() for _ in range(TURNS)]
    checks = [check() for _ in range(TURNS + 1)][1:]
    drafts = [draft() for _ in range(DRAFT_TIMED + 1)][1:]
    drafted, checked = (median(one[place] for one in steps) for place in (0, 1))
    slower = max(1.0, drafted / (passes * median(drafts)))
    return slower, round(max(0.0, checked - median(checks)), 6)


def _timed(
    rows: Collection[int], timed: Callable[[int], Callable[[], float]], passes: int
) -> PassesBeside:
    counts = sorted(rows)
    taken = in_turn([timed(count) for count in counts], passes, inf)
    return PassesBeside(tuple(counts), tuple(round(median(one), 6) for one in taken))


def _level_of(pair: Pair, trace: Trace) -> Callable[[int, int], Callable[[], float]]:
    """Times a pass of what wrote a run's drafts, by its rows and the tokens before them."""
    if not what_if.by_head(trace):
        assert pair.draft is not None
        return partial(pass_of, pair.draft)
    needs = methods.get(trace.method).needs
    kind = next((HEAD_KINDS[need] for need in needs if need in HEAD_KINDS), "eagle")
    return partial(level_of, pair.heads[kind])


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


def between(before: Timed, after: Timed) -> Timed:
    """What passes took in between: the mean."""
    return {
        model: PassesBeside(
            costs.rows,
            tuple(
                round(mean(pair), 6)
                for pair in zip(costs.seconds, after[model].seconds, strict=True)
            ),
            behind=round(mean((costs.behind, after[model].behind)), 6),
        )
        for model, costs in before.items()
    }


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
    parser.add_argument("--pair", help="only runs of this pair")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no run later than this"
    )
    given = parser.parse_args()
    places = {
        name: where.split(",") for name, _, where in (one.partition("=") for one in given.local)
    }
    begun, gallery = time.monotonic(), plan()

    @cache
    def load(name: str) -> Pair:
        named = gallery["pairs"][name]
        target, draft = places.get(name, (named.get("target"), named.get("draft")))
        return load_pair(target, draft, dtype=named["dtype"])

    for name in given.names or [name for name in gallery["runs"] if stale(gallery, name)]:
        pair = gallery["prompts"][gallery["runs"][name]["prompt"]].get("pair", "embedded")
        if given.pair in (None, pair):
            if time.monotonic() - begun > given.seconds:
                print("time is up; the same command goes on")
                return
            try:
                make(load(pair), gallery, name)
            except RuntimeError as error:
                print(f"{name} is refused: {error}", flush=True)


if __name__ == "__main__":
    main()
