"""Record the runs that page, lessons and gallery show: python -m scripts.record [RUN ...]

assets/traces/gallery.json lists the runs. The name of a prompt stands for all its runs; `grid` in
the list names prompts for Compare, which begins with the first one that is recorded. Without names,
all runs are recorded that are missing or differ from the list; an interrupted recording continues.
Plain decoding and the method alternate, see `ouroboros_core.benchmark.protocol`. A run's file has
the seconds of the repeat with the median speedup; its other contents are of an equal run that keeps
the models' probabilities.
assets/traces/measured.json has all speedups, and the seconds of the plain run beside that repeat. A
repeat counts if the machine was idle and kept its pace.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache
from statistics import median
from typing import Any

from ouroboros_core import methods
from ouroboros_core.benchmark import protocol
from ouroboros_core.benchmark.protocol import Round
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair, Placement, load_pair
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.models.grammar import Grammar
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Seconds, Step, Trace
from visualize.gallery import runs as gallery

WARM_UP_TOKENS = 8
METHOD = 1
"""The lane of the method in a round; lane 0 is plain decoding."""
REPEATS, ROUNDS = protocol.ROUNDS, 8
"""Repeats that count, and the limit of rounds: a round on a busy machine does not count."""
SLOWER = 1.15
"""Largest ratio of the seconds of plain passes on a machine that keeps its pace."""

Facts = dict[str, Any]


def prompt_of(facts: Facts) -> Facts:
    prompt: Facts = gallery.plan()["prompts"][facts["prompt"]]
    return prompt


def pair_of(facts: Facts) -> str:
    return str(prompt_of(facts).get("pair", gallery.EMBEDDED))


def settings_of(facts: Facts) -> Any:
    """Return the settings of a run: fixed ones, which show more, unless `facts` has `automatic`."""
    kind, values = methods.get(facts["method"]).Hyperparameters, facts.get("knobs", {})
    return kind.parse(values if facts.get("automatic") else kind.fixed(**values))


def task_of(facts: Facts, count: int | None = None, observed: bool = True) -> Task:
    prompt = prompt_of(facts)
    rule = {"acceptance": facts["acceptance"]} if "acceptance" in facts else {}
    grammars = (Grammar(kind, json.dumps(text)) for kind, text in prompt.get("grammar", {}).items())
    return Task(
        prompt["text"],
        facts["method"],
        settings_of(facts),
        Sampling.model_validate(prompt.get("sampling", {}) | rule),
        count or prompt["tokens"],
        prompt.get("chat", True),
        record=observed,
        grammar=next(grammars, None),
    )


def record(pair: Pair, facts: Facts, *, observed: bool = True) -> Trace:
    """Run one entry of the gallery; with `after`, the run has the phrases of that prompt's run.

    observed: the trace keeps the models' probabilities; reading them between two steps makes both
    slower.
    """
    pool = None
    if "after" in facts:
        values = settings_of(facts)
        pool = PhrasePool(values.ngram_size, values.guess_set_size, fingerprint=pair.fingerprint)
        Generation(pair, task_of(facts | {"prompt": facts["after"]}), pool).run()
    trace = Generation(pair, task_of(facts, observed=observed), pool).run()
    names = gallery.plan()["pairs"][pair_of(facts)]
    assert pair.draft is not None
    draft = names.get("draft") if trace.draft == pair.draft.name else None
    return replace(trace, target=names.get("target", trace.target), draft=draft or trace.draft)


def plain_pass(round_: Round) -> float:
    """Return the median seconds of a pass of plain decoding without drawing a token."""
    steps = (step.seconds for step in round_.plain.steps)
    return median(seconds.verify - seconds.verify_sampling for seconds in steps)


@dataclass(frozen=True)
class Repeats:
    """The repeats of an entry of the gallery.

    rounds  the valid ones, by speedup
    trace   the method's run in the middle round, with the models' probabilities
    """

    rounds: list[Round]
    trace: Trace

    @property
    def middle(self) -> Round:
        return self.rounds[len(self.rounds) // 2]


def repeats(pair: Pair, facts: Facts) -> Repeats:
    """Measure an entry of the gallery; raises RuntimeError if the machine stays busy or a run does
    not repeat."""
    lanes = {"prompt": facts["prompt"], "method": methods.PLAIN}, facts
    Generation(pair, task_of(lanes[0], WARM_UP_TOKENS)).run()
    observed = record(pair, facts)

    def run(_: int, lane: int) -> Trace:
        return record(pair, lanes[lane], observed=False)

    measuring = protocol.measure(
        len(lanes), protocol.at_once(run), rounds=REPEATS, again=ROUNDS - REPEATS, steady=steady
    )
    measurement = protocol.last(measuring)
    if not measurement.enough:
        passes = ", ".join(f"{1e3 * plain_pass(round_):.1f}" for round_ in measurement.every)
        raise RuntimeError(f"the machine is busy: passes of plain decoding took {passes} ms")
    for number, name in enumerate(("plain", "method's")):
        if len({trace.tokens for trace in measurement.traces(number)}) > 1:
            raise RuntimeError(f"the {name} texts of equal runs differ")
    plain, trace = measurement.rounds[0].traces
    if "acceptance" not in facts and plain.tokens != trace.tokens:
        where = metrics.first_difference(plain.tokens, trace.tokens)
        raise RuntimeError(f"the text is not that of plain decoding from token {where} on")
    rounds = sorted(measurement.rounds, key=lambda round_: round_.speedup(METHOD))
    middle = rounds[len(rounds) // 2]
    return Repeats(rounds, timed_as(observed, middle.traces[METHOD]))


def _done(step: Step) -> tuple[Any, ...]:
    """Return everything of a step that does not depend on time."""
    return step.tree, step.path, step.target_token, step.draft_passes


def timed_as(observed: Trace, timed: Trace) -> Trace:
    """Return a run with the seconds of an equal one; raises RuntimeError if their steps differ."""
    if [*map(_done, observed.steps)] != [*map(_done, timed.steps)]:
        raise RuntimeError("the steps of equal runs differ")
    steps = zip(observed.steps, timed.steps, strict=True)
    return replace(observed, steps=tuple(replace(a, seconds=b.seconds) for a, b in steps))


def steady(rounds: Sequence[Round]) -> list[Round]:
    """Return the rounds on an idle machine whose plain passes were as fast as the fastest ones."""
    least = min(map(plain_pass, rounds))
    return [r for r in rounds if not r.busy and plain_pass(r) <= SLOWER * least]


def stale(name: str) -> bool:
    """Return whether a run is missing or differs; a newer setting has its default."""
    file, facts = gallery.FOLDER / f"{name}.json", gallery.plan()["runs"][name]
    if not file.exists() or (facts["method"] != methods.PLAIN and name not in gallery.measured()):
        return True
    trace, task = read_trace(file.read_bytes()), task_of(facts)
    settings = {**type(task.hyperparameters)().model_dump(), **trace.hyperparameters}
    grammar = {task.grammar.kind: task.grammar.text} if task.grammar else {}
    return (trace.prompt.text, trace.prompt.chat, trace.max_new_tokens) != (
        task.prompt,
        task.chat,
        task.max_new_tokens,
    ) or (trace.method, settings, trace.sampling, trace.grammar) != (
        task.method,
        task.hyperparameters.model_dump(),
        task.sampling.model_dump(),
        grammar,
    )


def _keep(name: str, measurement: Facts) -> None:
    """Add a measurement to the file, which has a line for each run of the gallery."""
    runs = {key: of for key, of in gallery.measured().items() if key in gallery.plan()["runs"]}
    runs[name] = measurement
    lines = (f"{json.dumps(key)}: {json.dumps(runs[key])}" for key in sorted(runs))
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (gallery.FOLDER / "measured.json").write_text(text, encoding="utf-8")
    gallery.measured.cache_clear()


def _micro(seconds: Seconds) -> list[float]:
    """Round to microseconds and leave out the zeros at the end."""
    rounded = [round(value, 6) for value in astuple(seconds)]
    while rounded and not rounded[-1]:
        rounded.pop()
    return rounded


def _write(name: str, trace: Trace) -> None:
    steps = (replace(step, seconds=Seconds(*_micro(step.seconds))) for step in trace.steps)
    short = replace(trace, steps=tuple(steps))
    (gallery.FOLDER / f"{name}.json").write_text(short.to_json() + "\n", encoding="utf-8")


def make(pair: Pair, name: str) -> None:
    """Record one run, and the plain run of its prompt if it is missing."""
    runs = gallery.plan()["runs"]
    facts = runs[name]
    if facts["method"] == methods.PLAIN:
        Generation(pair, task_of(facts, WARM_UP_TOKENS)).run()
        trace = timed_as(record(pair, facts), record(pair, facts, observed=False))
        _write(name, trace)
        print(
            f"{name}: {len(trace.tokens)} tokens, {metrics.tokens_per_second(trace):.1f} a second"
        )
        return
    repeated = repeats(pair, facts)
    trace, plain_run = repeated.trace, repeated.middle.plain
    plain = next(
        run
        for run, entry in runs.items()
        if (entry["prompt"], entry["method"]) == (facts["prompt"], methods.PLAIN)
    )
    if stale(plain):
        _write(plain, timed_as(record(pair, runs[plain]), plain_run))
    if read_trace((gallery.FOLDER / f"{plain}.json").read_bytes()).tokens != plain_run.tokens:
        raise RuntimeError(f"the plain text is not that of {plain}: record that anew")
    _write(name, trace)
    speedups = Speedup(tuple(round_.speedup(METHOD) for round_ in repeated.rounds))
    seconds = [_micro(step.seconds) for step in plain_run.steps]
    _keep(name, {"speedups": [round(value, 4) for value in speedups.each], "plain": seconds})
    length = metrics.mean_acceptance_length(trace)
    print(f"{name}: {length:.2f} tokens per pass, speedup {speedups}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    help_of_names = "record these anew, or all of a prompt"
    parser.add_argument("names", nargs="*", metavar="RUN", help=help_of_names)
    parser.add_argument(
        "--local",
        action="append",
        default=[],
        metavar="PAIR=TARGET,DRAFT",
        help="folders of the models of a pair (default: from the Hub)",
    )
    parser.add_argument("--head", help="folder of a head that is not shipped, for the runs named")
    arguments = parser.parse_args()
    pairs = (text.partition("=") for text in arguments.local)
    folders = {name: models.split(",") for name, _, models in pairs}
    runs, chosen = gallery.plan()["runs"], {*arguments.names}
    names = runs.keys() | gallery.plan()["prompts"].keys()
    if unknown := sorted(chosen - names):
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(sorted(names))}")

    @cache
    def load(name: str) -> Pair:
        entry = gallery.plan()["pairs"][name]
        target, draft = folders.get(name, (entry.get("target"), entry.get("draft")))
        placement = Placement(dtype=entry["dtype"])
        return load_pair(target, draft, arguments.head, placement=placement)

    for name, facts in runs.items():
        if {name, facts["prompt"]} & chosen if chosen else stale(name):
            try:
                make(load(pair_of(facts)), name)
            except RuntimeError as error:
                print(f"{name} is refused: {error}", flush=True)


if __name__ == "__main__":
    main()
