"""Traces from strangers: whatever the file, it is refused with a sentence or everything the page
computes from it works."""

import copy
import csv
import io
import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.trace import file as trace_io
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Trace
from tests import tiny
from tests.commands import words
from tests.ouroboros_core.decoding.test_recorder import RULES
from tests.traces import make_trace, typed_trace
from visualize.run import diagnosis, figures, saving
from visualize.run import view as views
from visualize.run.figures import acceptance_length, tokens_against_time

HOSTILE = "<img src=x onerror=alert(1)>${alert(1)}{{7*7}}</script><script>`=1+1`\u2028\u202e\x00'\"&amp;\r\n"
BASES = (
    *(("ouroboros", "greedy"), ("speculative", "rejection"), ("lookahead", "match")),
    *(("token_recycling", "rejection"), ("draft_only", "match"), ("ngram", "greedy")),
)


@cache
def recorded(method: str, rule: str) -> Trace:
    """A run of 24 tokens with everything recorded, but for its seconds, which are others every
    time."""
    steps = tiny.run(
        tiny.pair("llama", "sdpa"), method, tiny.prompt(), 24, RULES[rule], record=True
    )
    steps = [
        replace(step, seconds=Seconds(0.5 * (not step.index), 0.25, 0.125, 0.01, 0.002))
        for step in steps
    ]
    pieces = {token: f" t{token}" for token in range(tiny.VOCABULARY)}
    data = json.loads(make_trace(steps, method, RULES[rule]).to_json()) | {"pieces": pieces}
    return read_trace(json.dumps(data))


def java(name: str, steps: int) -> dict[str, Any]:
    """The first steps of a run that the page shows."""
    file = assets() / "traces" / f"java-{name}.json"
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    whole = read_trace(json.dumps(data))
    data["steps"] = data["steps"][:steps]
    data["texts"] = data["texts"][: sum(len(step.tokens) for step in whole.steps[:steps])]
    return data


def compute(trace: Trace, baseline: Trace | None, drawn: bool) -> None:
    """Compute everything that the page computes of a trace; with `drawn` also the charts."""
    summary = Summary(trace, baseline)
    results: list[Any] = [
        views.run_view(summary, run="r", seq=1, badge_text=views.badge(trace)),
        diagnosis.sections(summary),
        metrics.acceptance_by_position(trace),
        metrics.draft_passes_per_draft_token(trace),
        metrics.accepted_by_learned(trace),
    ]
    results.append(summary.draft_cost)
    rows = list(csv.reader(io.StringIO(saving.to_csv(trace, baseline))))[1:]
    assert [json.loads(row[2]) for row in rows] == list(trace.texts)
    if drawn:
        results += [draw(trace.steps) for draw in (acceptance_length, figures.choices)]
        results += [figures.pool_growth(trace.steps), figures.acceptance_by_position(trace)]
        results += [tokens_against_time(trace, baseline), figures.break_even(summary)]
        results += [figures.time_breakdown(trace, baseline)]
        if baseline is not None:
            results.append(figures.speedup_by_token(trace, baseline))
    json.dumps(results, allow_nan=False).encode()
    assert read_trace(trace.to_json()) == trace


NUMBERS = (
    *(-1, 0, 1, 2, 3, 7, 2**31, 10**30, -(2**63), 0.5, 1.5, -0.25, 1e-320, 1e308),
    *map(float, ("nan", "inf", "-inf")),
)
WORDS: tuple[str, ...] = ("", "3", HOSTILE, "x" * 1_500)
WORDS = (*WORDS, *words("7 draft target window context history rejection trial"))
STRANGE: tuple[Any, ...] = (None, True, *NUMBERS, *WORDS, [], [0, 1], [[0]], {}, {"a": 1})


def entries(
    value: Any, path: str, by_path: dict[str, list[tuple[Any, Any]]]
) -> dict[str, list[tuple[Any, Any]]]:
    """(container, key) of every value inside, by the path to it, numbers left out."""
    for key in value if isinstance(value, dict) else range(len(value)):
        name = path if isinstance(value, list) or path.endswith(".pieces") else f"{path}.{key}"
        by_path.setdefault(name, []).append((value, key))
        if isinstance(value[key], dict | list):
            entries(value[key], name + "[]" * isinstance(value[key], list), by_path)
    return by_path


def random_entry(data: Any, chance: random.Random) -> tuple[Any, Any]:
    """An entry: each kind as often as any other, however many there are of it."""
    return chance.choice(chance.choice(list(entries(data, "", {}).values())))


def change_value(data: Any, chance: random.Random) -> None:
    container, key = random_entry(data, chance)
    number, text = (isinstance(container[key], kind) for kind in (int | float, str))
    alike = NUMBERS if number else WORDS if text else STRANGE
    container[key] = copy.deepcopy(chance.choice(chance.choice([alike, alike, STRANGE])))


def nudge(data: Any, chance: random.Random) -> None:
    container, key = random_entry(data, chance)
    value = container[key]
    if isinstance(value, int | float):
        container[key] = chance.choice([value + 1, value - 1, -value, value * 1000])
    elif isinstance(value, str):
        container[key] += chance.choice([HOSTILE, "é", "\n", "🙂"])


def delete(data: Any, chance: random.Random) -> None:
    container, key = random_entry(data, chance)
    del container[key]


def add(data: Any, chance: random.Random) -> None:
    container, _ = random_entry(data, chance)
    if isinstance(container, dict):
        name = chance.choice([HOSTILE, "extra", "__class__", "7", "also"])
        container[name] = chance.choice(STRANGE)
    else:
        value = copy.deepcopy(chance.choice([*container, 5, None]))
        container.insert(chance.randrange(len(container) + 1), value)


def swap(data: Any, chance: random.Random) -> None:
    container, key = random_entry(data, chance)
    other = chance.choice(list(container) if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]


def double_step(data: Any, chance: random.Random) -> None:
    steps = data["steps"]
    steps.insert(chance.randrange(len(steps)), copy.deepcopy(chance.choice(steps)))


def mend(data: Any) -> None:
    """Steps numbered and a text for every token, so that other faults come to light."""
    count = 0
    for number, step in enumerate(data["steps"]):
        step["index"] = number
        count += len(step["path"]) + (step["target_token"] is not None)
        step["width"] = max(step["width"], len(step["tree"]["tokens"]) + len(step["window"]))
    data["texts"] = [*data["texts"], *["?"] * count][:count]


def change_tree(data: Any, chance: random.Random) -> None:
    step = chance.choice(data["steps"])
    part = chance.choice(["parents", "tokens", "provenance", "silent", "path", "judged", "window"])
    holder = step["tree"] if part in step["tree"] else step
    chance.shuffle(holder[part])
    holder[part] += chance.choice([[], [0], holder[part][:1]])


def nest(data: Any, chance: random.Random) -> None:
    container, key = random_entry(data, chance)
    for _ in range(chance.choice([1, 5, 250])):
        container[key] = chance.choice([[container[key]], {"a": container[key]}])


Change = Callable[[Any, random.Random], None]
CHANGES: tuple[Change, ...] = (change_value, change_value, nudge, nudge)
CHANGES = (*CHANGES, delete, add, swap, double_step, change_tree, nest)


def change_bytes(text: bytes, chance: random.Random) -> bytes:
    """A bit flipped, a stretch left out or written twice."""
    start, length = chance.randrange(len(text)), chance.choice([1, 3, 20])
    kind = chance.randrange(3)
    before, part, rest = text[:start], text[start : start + length], text[start + length :]
    if kind == 0:
        return before + bytes([part[0] ^ 1 << chance.randrange(8)]) + part[1:] + rest
    return before + (part * 2 if kind == 1 else b"") + rest


def mutant(base: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.2:
        return change_bytes(base, chance)
    data = json.loads(base)
    changes: list[Callable[[], None]] = [
        partial(chance.choice(CHANGES), data, chance) for _ in range(chance.choice([1, 1, 2]))
    ]
    if chance.random() < 0.7:
        changes.append(partial(mend, data))
    for change in changes:
        # Another change may have taken away what this one needs.
        with suppress(KeyError, TypeError, IndexError, AttributeError):
            change()
    return json.dumps(data, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("mutants", [400, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_changed_file_is_refused_or_everything_computed_from_it_works(mutants: int) -> None:
    chance = random.Random(8)
    bases = [recorded(method, rule).to_json().encode() for method, rule in BASES]
    bases += [json.dumps(java("ouroboros", 12)).encode()]
    plain = read_trace(json.dumps(java("autoregressive", 12)))
    baselines: list[Trace | None] = [None, plain]
    messages: list[str] = []
    worked = 0
    for _ in range(mutants):
        text = mutant(chance.choice(bases), chance)
        try:
            trace = read_trace(text)
        except InvalidInput as error:
            messages.append(str(error))
            continue
        worked += 1
        compute(trace, chance.choice(baselines), drawn=worked % 12 == 0)
        baselines = [None, plain, trace]
    assert min(worked, len(messages)) > mutants / 4, worked
    assert all(len(message) < 400 and not {*"<>$&\x00\n"} & {*message} for message in messages)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", list(methods.available()))
def test_what_our_own_runs_write_is_read(method: str, rule: str) -> None:
    trace = recorded(method, rule)
    assert trace.steps and trace.steps[0].judged
    compute(trace, recorded("autoregressive", rule), drawn=rule == "greedy")


def test_the_recorded_runs_of_the_page_are_read() -> None:
    texts = [file.read_bytes() for file in sorted((assets() / "traces").glob("*.json"))]
    traces = [read_trace(text) for text in texts if b'"steps"' in text]
    assert len(traces) > 1
    for trace in traces:
        compute(trace, None, drawn=False)


def test_values_keep_their_types_and_a_source_is_written_as_its_name() -> None:
    again = read_trace(typed_trace().to_json())
    assert [type(v) for v in again.hyperparameters.values()] == [int, bool]
    assert json.loads(again.to_json())["steps"][0]["tree"]["provenance"][1]["source"] == "draft"


def test_an_empty_run_is_a_trace() -> None:
    """As one that was stopped before its first step."""
    empty = make_trace([])
    again = read_trace(empty.to_json())
    assert again == empty
    for baseline in (None, empty, typed_trace()):
        compute(again, baseline, drawn=True)
    compute(typed_trace(), again, drawn=True)


def test_hostile_text_is_text() -> None:
    data = json.loads(typed_trace().to_json())
    texts = [f"{HOSTILE}{number}" for number in range(7)]
    data |= dict.fromkeys(("method", "target", "prediction"), HOSTILE)
    data |= {"texts": texts, "pieces": {"11": HOSTILE}, "hyperparameters": {HOSTILE: HOSTILE}}
    data["prompt"]["text"] = data["environment"]["processor"] = HOSTILE
    trace = read_trace(json.dumps(data))
    shown = views.run_view(Summary(trace), run="r", seq=1, badge_text=views.badge(trace))
    run_view = json.loads(json.dumps(shown))
    assert [token["text"] for step in run_view["steps"] for token in step["tokens"]] == texts
    assert run_view["steps"][0]["nodes"][1]["text"] == run_view["prompt"] == HOSTILE
    assert HOSTILE in run_view["title"] and HOSTILE in run_view["badge"]
    compute(trace, typed_trace(), drawn=True)


PER_TOKEN = ("target", "draft", "noise", "left")
"""The record of each judged token."""


def changed(*where: Any, value: Any, base: Trace | None = None) -> str:
    """A trace's JSON with one value replaced, or added, at the place of these keys."""
    data = json.loads((base or typed_trace()).to_json())
    inner = data
    for key in where[:-1]:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(where[-1]) if isinstance(inner, list) else where[-1]] = value
    return json.dumps(data)


ONE_NODE = [{"node": 1, "tokens": [], "target": []}]
"""The judged nodes without the root."""


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("method", "m" * 1_001, "PLACE must have at most 1,000 characters, got 1,001"),
        ("target", None, "PLACE: Input should be a valid string, got null"),
        ("prompt.text", "p" * 1_000_001, "PLACE must have at most 1,000,000 characters, got 1,000"),
        ("prediction", "p" * 1_000_001, "PLACE must have at most 1,000,000 characters"),
        ("prompt.tokens", [0, 2**31], "PLACE.1 must be between 0 and 2,147,483,647, got 21474836"),
        ("prompt.tokens", [1] * 131_073, "PLACE must have at most 131,072 entries, got 131,073"),
        ("environment.threads", -2, "PLACE must be between 0"),
        ("environment.device", "d" * 1_001, "PLACE must have at most 1,000 characters"),
        ("texts.0", "t" * 100_001, "PLACE must have at most 100,000 characters"),
        ("pieces.5", "p" * 1_001, "PLACE must have at most 1,000 characters"),
        ("pieces.-5", "p", "pieces: a token id must be between 0 and 2,147,483,647, got -5"),
        ("pieces", dict.fromkeys(range(131_073), ""), "PLACE must have at most 131,072 entries"),
        ("hyperparameters", {str(n): n for n in range(65)}, "PLACE must have at most 64 entries"),
        ("hyperparameters.gamma", float("nan"), "PLACE must be between .* got nan"),
        ("hyperparameters.gamma", 10**300, "PLACE must be .* a number of more than 40 digits"),
        ("hyperparameters.gamma", "x" * 1_001, "PLACE must have at most 1,000 characters"),
        ("sampling.temperature", 3, "sampling cannot be used: temperature must be between 0 and 2"),
        ("sampling.temperature", float("inf"), "PLACE must be between .* got inf"),
        ("sampling.heat", 3, "sampling cannot be used: heat is not a setting here"),
        ("max_new_tokens", -1, "PLACE must be between 0"),
        ("ending", "never", "PLACE: Input should be 'budget', 'stop token' or 'cancelled', got"),
        ("steps.1.index", 0, "PLACE must be its position, 1, got 0"),
        ("steps.0.path", [2], "PLACE is no walk from the root: 2 is no child of node 0"),
        ("steps.0.path", [99], "PLACE is no walk"),
        ("steps.0.target_token", -3, "PLACE must be between 0"),
        ("steps.0.target_token", None, "each emitted token: 6 tokens have 7"),
        ("steps.2.path", [], "steps.2 emits no token: a path or a target token is needed"),
        ("steps.0.width", 2, "PLACE must be between 3 and"),
        ("steps.0.draft_passes", -1, "PLACE must be between 0"),
        ("steps.0.pool_size", 2**31, "PLACE must be between 0"),
        ("steps.0.writer", "phrase", "PLACE must be target or draft, got phrase"),
        ("steps.0.seconds.draft", float("nan"), "PLACE must be between 0 and .* got nan"),
        ("steps.0.seconds.prefill", -0.5, "PLACE must be between 0 and .* got -0.5"),
        ("steps.0.seconds.verify", 1e7, "PLACE must be between 0 and 1,000,000"),
        ("steps.2.seconds", {"prefill": 1.0}, "PLACE must be at least 1e-09 together, prefill ap"),
        ("steps.0.tree.tokens.1", -1, "PLACE must be between 0"),
        ("steps.0.tree.parents", [-1, 2, 0], "steps.0.tree: .* other parent stands before its ch"),
        ("steps.0.tree.parents", [-1, 5, 0], "steps.0.tree"),
        ("steps.0.tree.silent", [3], "PLACE.0 must be between 0 and 2, got 3"),
        ("steps.0.tree.provenance.0.source", "draft", "PLACE must be context, got draft"),
        ("steps.0.tree.provenance.1.source", "window", "PLACE must be one of copy, .* got window"),
        ("steps.0.tree.provenance.1.source", "me", "PLACE: Input should be 'context', .* got 'me'"),
        ("steps.0.tree.provenance.1.also", "context", "PLACE must be one of copy"),
        ("steps.0.tree.provenance.1.position", -1, "PLACE must be between 0"),
        ("steps.0.tree.provenance.1.confidence", 1.2, "PLACE must be between 0 and 1, got 1.2"),
        ("steps.0.judged", ONE_NODE, "PLACE must be the nodes of the walk in their order"),
    ],
)
def test_what_lies_out_of_bounds_is_refused_with_place_value_and_bound(
    place: str, value: Any, message: str
) -> None:
    expected = message.replace("PLACE", place)
    with pytest.raises(InvalidInput, match=f"^this is not a trace: .*{expected}"):
        read_trace(changed(*place.split("."), value=value))


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ([[1, 0], [1, 3]], ""),
        ([[1, 0], [1, 4]], "steps.0.window.1: the parent must be between 0 and 3, got 4"),
        ([[1, -1]], "steps.0.window.0: the parent must be between 0 and 2, got -1"),
        ([[-1, 0]], "steps.0.window.0: the token must be between 0"),
        ([[1, 0]] * 1_025, "steps.0.window must have at most 1,024 entries, got 1,025"),
    ],
)
def test_a_lookahead_window_hangs_off_what_stands_before_it(
    window: list[list[int]], message: str
) -> None:
    wide = read_trace(changed("steps", 0, "width", value=2_000))
    text = changed("steps", 0, "window", value=window, base=wide)
    if not message:
        assert read_trace(text).steps[0].window == ((1, 0), (1, 3))
        return
    with pytest.raises(InvalidInput, match=message):
        read_trace(text)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("node", 2, "must be the nodes of the walk"),
        *((name, [0.5], f"{name} must have one number for each") for name in PER_TOKEN),
        ("target", [], r"target must have one number for each of its \d+ tokens, got 0"),
        ("target.0", float("nan"), "target.0 must be between 0 and 1, got nan"),
        ("target.0", 1.01, "target.0 must be between 0 and 1, got 1.01"),
        ("tokens.0", -1, "tokens.0 must be between 0"),
        ("tokens", [1] * 513, "tokens must have at most 512 entries"),
        ("trials.0.node", 900, "trials must be the first of the nodes below node 0"),
        ("trials.0.u", 1.5, "trials.0.u must be between 0 and 1, got 1.5"),
        ("trials.0.q", -0.5, "trials.0.q must be between 0 and 1, got -0.5"),
        ("trials.0.accepted", None, "accepted: Input should be a valid boolean, got null"),
    ],
)
def test_what_was_judged_fits_the_step(place: str, value: Any, message: str) -> None:
    trace = recorded("speculative", "rejection")
    number = next(n for n, step in enumerate(trace.steps) if step.judged[0].trials)
    where = ("steps", number, "judged", 0, *place.split("."))
    with pytest.raises(InvalidInput, match=message):
        read_trace(changed(*where, value=value, base=trace))


def test_the_trials_agree_with_the_path() -> None:
    trace = recorded("token_recycling", "rejection")
    tried = (n for n, s in enumerate(trace.steps) if s.path and len(s.judged[0].trials) > 1)
    where = ("steps", next(tried), "judged", 0, "trials")
    trials = json.loads(trace.to_json())["steps"][where[1]]["judged"][0]["trials"]
    flipped = [trial | {"accepted": not trial["accepted"]} for trial in trials]
    for value, message in (
        (flipped, "must say whether node 1 is on the path"),
        (trials[:1], "must include the node that is on"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_trace(changed(*where, value=value, base=trace))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe", "the file must be JSON"),
        (b"[" * 100_000, "the file must be JSON: recursion limit exceeded"),
        (b'{"a":' * 100_000, "the file must be JSON: recursion limit exceeded"),
        (b'{"version": ' + b"1" * 5_000 + b"}", "the file must be JSON: number out of range"),
        (b'{"method": "\\ud800"}', "the file must be JSON"),
        ('{"method": "\ud800"}', "the file holds half of a surrogate pair"),
        ("[1, 2]", "the file must hold a JSON object, got a list"),
        ('{"method": "<b>[x](javascript:1)"}', "hyperparameters: Field required"),
        ('{"version": 1, "steps": []}', "method: Field required"),
        ("", "the file must be JSON"),
        ("null", "the file must hold a JSON object"),
    ],
)
def test_what_is_no_json_object_of_a_trace_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^this is not a trace: {message}"):
        read_trace(text)


def test_a_message_holds_no_markup_of_the_file() -> None:
    for where, value in (
        (("ending",), HOSTILE),
        (("sampling", HOSTILE), HOSTILE),
        (("hyperparameters", HOSTILE), []),
    ):
        with pytest.raises(InvalidInput) as caught:
            read_trace(changed(*where, value=value))
        said = str(caught.value)
        assert not {*"<>$`{}&[]\x00\n\u202e"} & {*said} and len(said) < 400
    version = r"schema version '·img src=x.*; this program reads version 1: open it with"
    newer = "version 99; this program reads version 1"
    for number, message in ((HOSTILE, version), (99, newer)):
        with pytest.raises(InvalidInput, match=message):
            read_trace(changed("version", value=number))


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    began = time.process_time()
    message = r"the trace has 20\.0 MB; at most 16 MB are read: record a shorter run"
    with pytest.raises(InvalidInput, match=message):
        read_trace(b"[" * (20 * 2**20))
    assert time.process_time() - began < 1
    assert len((assets() / "traces" / "java-ouroboros.json").read_bytes()) < trace_io.MAX_BYTES / 50


def test_a_list_of_a_million_errors_is_refused_at_its_first() -> None:
    """Each would be a separate object: gigabytes."""
    began = time.process_time()
    many = '"steps": [' + "7," * 1_000_000 + "7]"
    dictionary = r"steps\.0: Input should be a dictionary or an instance of Step, got 7"
    with pytest.raises(InvalidInput, match=dictionary):
        read_trace(changed("steps", value=0).replace('"steps": 0', many))
    integer = r"steps\.0\.tree\.tokens\.0: Input should be a valid integer.* got 'a'"
    with pytest.raises(InvalidInput, match=integer):
        read_trace(changed("steps", 0, "tree", "tokens", value=["a"] * 1_000_000))
    assert time.process_time() - began < 3


def repeated(count: int, **more: Any) -> str:
    """The first step of the typed trace so often, with other fields."""
    data = json.loads(typed_trace().to_json())
    step = data["steps"][0] | {"seconds": {"verify": 0.1}} | more
    data |= {"steps": [step | {"index": n} for n in range(count)], "texts": ["x"] * 2 * count}
    return json.dumps(data)


def comb(nodes: int, deep: bool) -> dict[str, Any]:
    """A chain, or a root with children, of short JSON."""
    parents = [-1, *(n if deep else 0 for n in range(nodes - 1))]
    origins = [{"source": "context"}, *({"source": "copy"} for _ in range(nodes - 1))]
    tree = {"tokens": [7] * nodes, "parents": parents, "provenance": origins}
    return {"tree": tree, "width": nodes}


@pytest.mark.parametrize(
    ("steps", "nodes", "deep", "message"),
    [
        (1, 1_025, False, "steps.0.tree.tokens must have at most 1,024 entries, got 1,025"),
        (1, 258, True, "steps.0.tree must have at most 256 levels, got 257"),
        (129, 1_024, False, "all trees together must have at most 131,072 nodes, got 132,096"),
        (32_769, 2, False, "steps must have at most 32,768 entries, got 32,769"),
    ],
)
def test_a_tree_or_a_run_that_is_too_large_is_refused(
    steps: int, nodes: int, deep: bool, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_trace(repeated(steps, **comb(nodes, deep)))


def test_a_long_piece_cannot_be_named_a_million_times() -> None:
    data = json.loads(repeated(40, **comb(1_000, False)))
    message = "nodes and listed tokens together must have at most 33,554,432 characters"
    with pytest.raises(InvalidInput, match=message):
        read_trace(json.dumps(data | {"pieces": {"7": "p" * 1_000}}))


def test_the_largest_bounds_leave_a_page_that_can_be_computed() -> None:
    """The deepest tree, nowhere accepted: the reasons of its nodes go up to the root."""
    assert trace_io.MAX_DEPTH < 300, "a reason is found by recursion"
    trace = read_trace(repeated(4, **comb(257, True)))
    compute(trace, trace, drawn=False)


def test_fields_of_another_program_are_left_out() -> None:
    data = json.loads(typed_trace().to_json())
    data["steps"][0] |= {HOSTILE: 1, "tree": data["steps"][0]["tree"] | {"mask": [1]}}
    assert read_trace(json.dumps(data | {"secret": HOSTILE})) == typed_trace()


def test_a_file_may_hold_the_plain_run_too_under_the_same_bounds() -> None:
    """Older programs read the run as before; a message about the plain run names it."""
    trace = typed_trace()
    plain = replace(trace, method="autoregressive")
    text = trace.to_json(plain)
    assert read_trace(text) == trace
    assert trace_io.read_run(text) == (trace, plain)
    assert trace_io.read_run(trace.to_json()) == (trace, None)
    both = json.loads(text)
    other, no_trace = both["baseline"], "baseline: this is not a trace:"
    for wrong, message in (
        (3, f"{no_trace} it must be a JSON object, got 3"),
        ({}, f"{no_trace} method: Field required"),
        (other | {"version": 2}, "baseline: the trace has schema version 2"),
        (other | {"texts": []}, f"{no_trace} texts must be one for each emitted token"),
        (other | {"prompt": other["prompt"] | {"tokens": [1]}}, "must be a run of the same prompt"),
    ):
        broken = json.dumps(both | {"baseline": wrong})
        assert read_trace(broken) == trace
        with pytest.raises(InvalidInput) as caught:
            trace_io.read_run(broken)
        assert message in str(caught.value)
    padded = text[:-1] + " " * trace_io.MAX_BYTES + "}"
    with pytest.raises(InvalidInput, match="at most 16 MB are read"):
        trace_io.read_run(padded)
