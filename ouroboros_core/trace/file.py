"""Traces in files: JSON of one run, and perhaps of its plain run, from any writer.

A file is read in three stages. Each refuses with a sentence: JSON of a bounded size and depth; the
types of `Trace` with their bounds (`ouroboros_core.bounds`); and a walk over everything that types
cannot say. So everything computed from a trace works, in bounded time and memory. Fields that
`Trace` does not have are left out: nothing of them reaches a page, and a file of a later program
that only added some can still be read. Text is text: it may hold markup or code, and stays as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from ouroboros_core.bounds import MAX_NODES, MAX_TOKENS
from ouroboros_core.errors import InvalidInput
from ouroboros_core.rules.parts.base import ALONE
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import VERSION, Judged, Step, Trace, adapter
from ouroboros_core.tree import Provenance, TokenTree

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, SchemaValidator

MAX_BYTES = 16 * 2**20
"""Of a file."""
BASELINE = "baseline"
"""The member of a file that holds the plain run."""


def read_trace(text: str | bytes) -> Trace:
    """Return the trace in a JSON text within the bounds below; raises InvalidInput."""
    return _read(_parse(text))


def read_run(text: str | bytes) -> tuple[Trace, Trace | None]:
    """The trace in a JSON text and the plain run it was compared with, None if there is none;
    raises InvalidInput as `read_trace` does, for either of them, and for a plain run of another
    prompt."""
    data = _parse(text)
    trace, plain = _read(data), data.get(BASELINE)
    if plain is None:
        return trace, None
    try:
        baseline = _read(_object(plain))
    except InvalidInput as error:
        raise InvalidInput(f"{BASELINE}: {error}") from None
    if baseline.prompt.tokens != trace.prompt.tokens:
        raise refusal(
            BASELINE,
            "must be a run of the same prompt: speeds on different prompts cannot be compared",
        )
    if baseline.generation_config != trace.generation_config:
        raise refusal(
            BASELINE,
            "must be a run with the same generation_config: other settings of the checkpoint make "
            "another text",
        )
    if baseline.grammar != trace.grammar:
        raise refusal(BASELINE, "must be a run under the same grammar: another one, another text")
    return trace, baseline


def _read(data: dict[str, Any]) -> Trace:
    trace = _validate(data)
    check(trace)
    return trace


def _parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object of a file of our schema version, not yet looked into."""
    from pydantic_core import from_json

    try:
        content = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise refusal(
            "the file", "holds half of a surrogate pair, which is no character: save it as UTF-8"
        ) from None
    if len(content) > MAX_BYTES:
        raise InvalidInput(
            f"the trace has {len(content) / 2**20:.1f} MB; at most {MAX_BYTES // 2**20} MB are "
            "read: record a shorter run, or one without the models' probabilities"
        )
    try:
        data = from_json(content)
    except ValueError as error:
        raise refusal("the file", f"must be JSON: {error}") from None
    if not isinstance(data, dict):
        raise refusal("the file", f"must hold a JSON object, got {shown(data)}")
    return _object(data)


def _object(data: Any) -> dict[str, Any]:
    """Return parsed data if it is an object of our schema version with bounded dictionaries."""
    if not isinstance(data, dict):
        raise refusal("it", f"must be a JSON object, got {shown(data)}")
    version = data.get("version", VERSION)
    if version != VERSION:
        raise InvalidInput(
            f"the trace has schema version {shown(version)}; this program reads version {VERSION}: "
            "open it with the program "
            "that wrote it"
        )
    for name in ("pieces", "hyperparameters", "sampling", "generation_config", "grammar"):
        if isinstance(data.get(name), dict):
            at_most(len(data[name]), name, MAX_TOKENS if name == "pieces" else MAX_SETTINGS)
    return data


def _validate(data: dict[str, Any]) -> Trace:
    """Return the parsed file as a trace of the right types, within the bounds of `bounds`."""
    from pydantic import ValidationError

    try:
        trace: Trace = _validator().validate_python(data)
    except ValidationError as error:
        raise _refused(error.errors(include_url=False)[0]) from None
    return trace


def _refused(error: ErrorDetails) -> InvalidInput:
    kind, loc, value = error["type"], error["loc"], error["input"]
    where = ".".join(str(key)[:40] for key in loc) or "the file"
    if kind == OUT_OF_BOUNDS and loc[-1] == "[key]":
        return refusal(f"{loc[0]}: a token id", f"{error['msg']}, got {shown(value)}")
    if kind == OUT_OF_BOUNDS:
        return refusal(where, f"{error['msg']}, got {shown(value)}")
    if kind in COUNTED:
        return too_many(len(value), where, error["ctx"]["max_length"], COUNTED[kind])
    got = "" if kind == "missing" else f", got {shown(value)}"
    return refusal(f"{where}:", f"{error['msg']}{got}")


OUT_OF_BOUNDS = "out_of_bounds"
COUNTED = {"string_too_long": "characters", "too_long": "entries"}
"""pydantic's errors about lengths -> the unit of the length."""


@cache
def _validator() -> SchemaValidator:
    """Return the validator of `Trace` with two changes, see `_sentences`."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_sentences(adapter().core_schema))


def _sentences(schema: Any) -> Any:
    """Return a schema of pydantic whose errors suit our sentences.

    It stops at the first bad item of a list: a list may have millions, and each would be an error.
    The message about a number out of bounds names both bounds.
    """
    if isinstance(schema, list):
        return [_sentences(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    walked = {key: _sentences(inner) for key, inner in schema.items()}
    if walked.get("type") in ("tuple", "frozenset"):
        return walked | {"fail_fast": True}
    if walked.get("type") not in ("int", "float") or "ge" not in walked:
        return walked
    bounded = {
        "type": "custom-error",
        "schema": walked,
        "custom_error_type": OUT_OF_BOUNDS,
        "custom_error_message": f"must be between {walked['ge']:,} and {walked['le']:,}",
    }
    unbounded = {key: inner for key, inner in walked.items() if key not in ("ge", "le")}
    return {"type": "chain", "steps": [unbounded, bounded]}


MAX_ALL_NODES = 131_072
"""Nodes of all trees: more than the largest file of `Trace.to_json` holds."""
MAX_DEPTH = 256
"""Of a tree; the deepest that the settings of our methods allow have some 70."""
MAX_SHOWN = 2**25
"""Characters of all nodes and listed tokens: a file may name a long piece often."""
MAX_SETTINGS = 64
MAX_SETTING = 1_000
"""Characters of the name of a setting, and of its text."""
LARGEST_SETTING = 2**53
MIN_SECONDS = 1e-9
"""Of a step without prefill: no clock measures less, and speeds are divided by it."""

MAX_ID = 2**31 - 1

PROPOSERS = frozenset(Source) - {Source.CONTEXT, Source.WINDOW, Source.TARGET}
"""Who may have proposed a node of a trace's tree."""


def check(trace: Trace) -> None:
    """Raise InvalidInput unless everything that is computed from the trace works."""
    _check_settings("hyperparameters", trace.hyperparameters)
    _check_settings("sampling", trace.sampling)
    _check_settings("generation_config", trace.generation_config)
    try:
        Sampling.parse(trace.sampling)
    except InvalidInput as error:
        raise refusal("sampling", f"cannot be used: {_plain(str(error), 200)}") from None
    at_most(
        sum(len(step.tree) for step in trace.steps), "all trees together", MAX_ALL_NODES, "nodes"
    )
    for number, step in enumerate(trace.steps):
        _check_step(step, number)
    count = len(trace.tokens)
    at_most(count, "the answer", MAX_TOKENS, "tokens")
    if len(trace.texts) != count:
        raise refusal(
            "texts",
            f"must be one for each emitted token: {count} tokens have {len(trace.texts)} texts",
        )
    _check_shown(trace)


def _check_settings(where: str, settings: dict[str, bool | int | float | str]) -> None:
    for name, value in settings.items():
        at_most(len(name), f"{where}: a name", MAX_SETTING, "characters")
        if isinstance(value, str):
            at_most(len(value), f"{where}.{name}", MAX_SETTING, "characters")
        else:
            _within(value, f"{where}.{name}", -LARGEST_SETTING, LARGEST_SETTING)


def _check_step(step: Step, number: int) -> None:
    where = f"steps.{number}"
    if step.index != number:
        raise refusal(f"{where}.index", f"must be its position, {number}, got {shown(step.index)}")
    _check_tree(step.tree, where)
    _check_walk(step, where)
    if step.seconds.decode < MIN_SECONDS:
        raise refusal(
            f"{where}.seconds",
            f"must be at least {MIN_SECONDS:g} together, prefill apart; no step takes no time",
        )
    _within(step.width, f"{where}.width", len(step.tree) + len(step.window), MAX_ID)
    if step.writer not in (Source.TARGET, Source.DRAFT):
        raise refusal(f"{where}.writer", f"must be target or draft, got {step.writer.value}")
    _check_window(step, where)
    _check_judged(step, where)


def _check_tree(tree: TokenTree, where: str) -> None:
    """Parents are checked by TokenTree itself."""
    _all_within(tree.tokens, f"{where}.tree.tokens", 0, MAX_ID, MAX_NODES)
    at_most(max(tree.depths), f"{where}.tree", MAX_DEPTH, "levels")
    _all_within(sorted(tree.silent), f"{where}.tree.silent", 0, len(tree) - 1, len(tree))
    if tree.provenance[0].source is not Source.CONTEXT:
        raise refusal(
            f"{where}.tree.provenance.0.source",
            f"must be context, got {tree.provenance[0].source.value}",
        )
    for node, provenance in enumerate(tree.provenance):
        _check_provenance(provenance, f"{where}.tree.provenance.{node}", node == 0)


def _check_provenance(provenance: Provenance, where: str, root: bool) -> None:
    for name, source in (("source", provenance.source), ("also", provenance.also)):
        if source not in PROPOSERS and source is not None and not (root and name == "source"):
            allowed = ", ".join(sorted(PROPOSERS))
            raise refusal(f"{where}.{name}", f"must be one of {allowed}, got {source.value}")


def _check_walk(step: Step, where: str) -> None:
    """The path leads from the root from child to child, and a token is emitted."""
    parent = 0
    for node in step.path:
        if not 0 < node < len(step.tree) or step.tree.parents[node] != parent:
            raise refusal(
                f"{where}.path",
                f"is no walk from the root: {shown(node)} is no child of node {parent}",
            )
        parent = node
    if not step.tokens:
        raise refusal(where, "emits no token: a path or a target token is needed")


def _check_window(step: Step, where: str) -> None:
    for number, (token, parent) in enumerate(step.window):
        _within(token, f"{where}.window.{number}: the token", 0, MAX_ID)
        _within(parent, f"{where}.window.{number}: the parent", 0, len(step.tree) + number - 1)


def _check_judged(step: Step, where: str) -> None:
    """All nodes of the walk were judged, or none was recorded."""
    walk = (0, *step.path)[: len(step.tokens)]
    if step.judged and tuple(judged.node for judged in step.judged) != walk:
        raise refusal(
            f"{where}.judged",
            "must be the nodes of the walk in their order, the root first, or empty",
        )
    for number, judged in enumerate(step.judged):
        _check_numbers(judged, f"{where}.judged.{number}")
        _check_trials(judged, step, f"{where}.judged.{number}")


def _check_numbers(judged: Judged, where: str) -> None:
    count = len(judged.tokens)
    for name in ("target", "draft", "noise", "left"):
        column = getattr(judged, name)
        if len(column) != count and (column or name == "target"):
            raise refusal(
                f"{where}.{name}",
                f"must have one number for each of its {count} tokens, got {len(column)}",
            )


def _check_trials(judged: Judged, step: Step, where: str) -> None:
    """Candidates are children of the node: first the ones of a block or of several independent
    draws, then the others in the order of the tree. The one that is on the path was accepted, and
    no other."""
    children = step.tree.children(judged.node) if judged.trials else []
    joint = [trial.node for trial in judged.trials if trial.rule != ALONE]
    single = [trial.node for trial in judged.trials if trial.rule == ALONE]
    nodes = [trial.node for trial in judged.trials]
    expected = [node for node in children if node not in joint][: len(single)]
    if nodes != [*joint, *expected] or not set(joint).issubset(children):
        raise refusal(
            f"{where}.trials",
            f"must be the first of the nodes below node {judged.node}, in their order",
        )
    # Equal draws are one node, which may be rejected before it is accepted.
    last_trials = {trial.node: number for number, trial in enumerate(judged.trials)}
    for number, trial in enumerate(judged.trials):
        final = last_trials[trial.node] == number
        if trial.accepted != (final and trial.node in step.path):
            raise refusal(
                f"{where}.trials.{number}.accepted",
                f"must say whether node {trial.node} is on the path",
            )
    if nodes and set(children).intersection(step.path).difference(nodes):
        raise refusal(f"{where}.trials", "must include the node that is on the path")


def _check_shown(trace: Trace) -> None:
    """Bounds the characters that a picture shows, which repeats a token's text for every node."""
    length = {token: len(piece) for token, piece in trace.pieces.items()}
    count = 0
    for step in trace.steps:
        listed = (
            step.tree.tokens,
            *(judged.tokens for judged in step.judged),
            [token for token, _ in step.window],
        )
        count += sum(length.get(token, 1) for tokens in listed for token in tokens)
    at_most(count, "nodes and listed tokens together", MAX_SHOWN, "characters")


def refusal(where: str, problem: str) -> InvalidInput:
    return InvalidInput(f"this is not a trace: {_plain(where, 120)} {problem}")


def at_most(count: int, where: str, limit: int, unit: str = "entries") -> None:
    if count > limit:
        raise too_many(count, where, limit, unit)


def too_many(count: int, where: str, limit: int, unit: str) -> InvalidInput:
    return refusal(where, f"must have at most {limit:,} {unit}, got {count:,}")


def _within(value: float | None, where: str, low: float, high: float) -> None:
    """None passes; NaN does not."""
    if value is not None and not low <= value <= high:
        raise refusal(where, f"must be between {low:,} and {high:,}, got {shown(value)}")


def _all_within(values: Iterable[float], where: str, low: float, high: float, limit: int) -> None:
    values = tuple(values)
    at_most(len(values), where, limit)
    if values and not all(low <= value <= high for value in values):
        first = next(n for n, value in enumerate(values) if not low <= value <= high)
        _within(values[first], f"{where}.{first}", low, high)


def shown(value: Any) -> str:
    """Return a value for a message: short; a long value is named by its kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"'{_plain(value, 40)}'"
    huge = isinstance(value, int) and abs(value) >= 10**40
    text = "a number of more than 40 digits" if huge else str(value)
    return {"None": "null", "True": "true", "False": "false"}.get(text, text)


def _plain(text: str, limit: int) -> str:
    """Return text of a file for a message, which a page may render: short, and without markup."""
    return re.sub(
        r"[^\w .,:;+=/()'-]", "·", text if len(text) <= limit else text[: limit - 1] + "…"
    ).replace("://", "·")
