"""A trace as a file: JSON of one run, and of the plain run that may lie beside it, read from
whoever wrote it.

A file is read in three stages, each of which refuses with a sentence: JSON of a bounded size and
depth; the types of `Trace`; and part by part what types cannot say, so that everything computed
from a trace works, in bounded time and memory. Fields that `Trace` does not have are left out, so
that nothing of them reaches a page, and a file of a later program that only added some can still be
read. Text is text: it may hold markup or code, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.rules.parts.base import ALONE
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import VERSION, Judged, Step, Trace, adapter
from ouroboros_core.tree import Provenance, TokenTree

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

MAX_BYTES = 16 * 2**20
"""Of a file."""
BASELINE = "baseline"
"""The member of a file that holds the plain run."""


def read_trace(text: str | bytes) -> Trace:
    """The trace in a JSON text; raises InvalidInput for anything that is none, or is beyond the
    bounds below."""
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
    return trace, baseline


def _read(data: dict[str, Any]) -> Trace:
    trace = _validate(data)
    check(trace)
    return trace


def _parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object of a file of our schema version, not yet looked into."""
    from pydantic_core import from_json

    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise refusal(
            "the file", "holds half of a surrogate pair, which is no character: save it as UTF-8"
        ) from None
    if len(data) > MAX_BYTES:
        raise InvalidInput(
            f"the trace has {len(data) / 2**20:.1f} MB; at most {MAX_BYTES // 2**20} MB are read: "
            "record a shorter run, or one "
            "without the models' probabilities"
        )
    try:
        found = from_json(data)
    except ValueError as error:
        raise refusal("the file", f"must be JSON: {error}") from None
    if not isinstance(found, dict):
        raise refusal("the file", f"must hold a JSON object, got {shown(found)}")
    return _object(found)


def _object(found: Any) -> dict[str, Any]:
    """What was parsed, where it is an object of our schema version; its dictionaries are
    bounded."""
    if not isinstance(found, dict):
        raise refusal("it", f"must be a JSON object, got {shown(found)}")
    version = found.get("version", VERSION)
    if version != VERSION:
        raise InvalidInput(
            f"the trace has schema version {shown(version)}; this program reads version {VERSION}: "
            "open it with the program "
            "that wrote it"
        )
    for name, most in (
        ("pieces", MAX_TOKENS),
        ("hyperparameters", MAX_SETTINGS),
        ("sampling", MAX_SETTINGS),
        ("generation_config", MAX_SETTINGS),
    ):
        if isinstance(found.get(name), dict):
            at_most(len(found[name]), name, most)
    return found


def _validate(data: dict[str, Any]) -> Trace:
    """The parsed file as a trace of the right types."""
    from pydantic import ValidationError

    try:
        trace: Trace = _validator().validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the file"
        got = "" if first["type"] == "missing" else f", got {shown(first['input'])}"
        raise refusal(f"{where}:", f"{first['msg']}{got}") from None
    return trace


@cache
def _validator() -> SchemaValidator:
    """That of `Trace`, but it stops at the first bad item of a list: a list may have millions, and
    each would be an error."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_failing_fast(adapter().core_schema))


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_failing_fast(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    walked = {key: _failing_fast(part) for key, part in schema.items()}
    return walked | {"fail_fast": True} if walked.get("type") in ("tuple", "frozenset") else walked


MAX_STEPS = 32_768
MAX_TOKENS = 131_072
"""Of a prompt, of an answer, and with a text in `pieces`."""
MAX_NODES = 1_024
"""Of a tree or a lookahead window; the largest that the settings of our methods allow have some
550."""
MAX_ALL_NODES = 131_072
"""Of all trees together: more than a file of the greatest size that `Trace.to_json` wrote can
hold."""
MAX_DEPTH = 256
"""Of a tree; the deepest that the settings of our methods allow have some 70."""
MAX_ROWS = 512
"""Tokens listed at one judged node: ten of each model, what was proposed, what was chosen."""
MAX_NAME = 1_000
"""Characters of a name: a method, a model, a setting, a processor."""
MAX_PIECE = 1_000
"""Characters of one token id's own text."""
MAX_ADDED = 100_000
"""Characters that one emitted token added: a run of byte tokens adds all of its text at its end."""
MAX_TEXT = 1_000_000
"""Characters of the prompt and of the predicted output."""
MAX_SHOWN = 2**25
"""Characters of all nodes and listed tokens together, each with its piece: a file may name one long
piece a million times."""
MAX_SETTINGS = 64
MAX_ID = 2**31 - 1
MAX_COUNT = 2**31 - 1
LARGEST_SETTING = 2**53
MAX_SECONDS = 1e6
"""Of one phase of a step."""
MIN_SECONDS = 1e-9
"""Of a step, prefill apart: no clock tells less, and speeds are divided by it."""
MAX_NOISE = 1_000.0
MAX_EXPECTED = 1e12

PROPOSERS = frozenset(Source) - {Source.CONTEXT, Source.WINDOW, Source.TARGET}
"""Who may have proposed a node of a trace's tree."""


def check(trace: Trace) -> None:
    """Raise InvalidInput unless everything that is computed from the trace works."""
    _check_strings(trace)
    _check_settings("hyperparameters", trace.hyperparameters)
    _check_settings("sampling", trace.sampling)
    _check_settings("generation_config", trace.generation_config)
    try:
        Sampling.parse(trace.sampling)
    except InvalidInput as error:
        raise refusal("sampling", f"cannot be used: {_plain(str(error), 200)}") from None
    _within(trace.max_new_tokens, "max_new_tokens", 0, MAX_COUNT)
    _within(trace.environment.threads, "environment.threads", 0, MAX_COUNT)
    _all_within(trace.prompt.tokens, "prompt.tokens", 0, MAX_ID, MAX_TOKENS)
    at_most(len(trace.steps), "steps", MAX_STEPS)
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


def _check_strings(trace: Trace) -> None:
    """Checks the lengths of all strings."""
    names = {
        name: getattr(trace, name) for name in ("method", "target", "draft", "corpus", "created")
    }
    names |= {
        f"environment.{part.name}": getattr(trace.environment, part.name)
        for part in fields(trace.environment)
    }
    for where, name in names.items():
        if isinstance(name, str):
            at_most(len(name), where, MAX_NAME, "characters")
    at_most(len(trace.prompt.text), "prompt.text", MAX_TEXT, "characters")
    at_most(len(trace.prediction), "prediction", MAX_TEXT, "characters")
    for number, text in enumerate(trace.texts):
        at_most(len(text), f"texts.{number}", MAX_ADDED, "characters")
    for token, piece in trace.pieces.items():
        _within(token, "pieces: a token id", 0, MAX_ID)
        at_most(len(piece), f"pieces.{token}", MAX_PIECE, "characters")


def _check_settings(where: str, settings: dict[str, bool | int | float | str]) -> None:
    for name, value in settings.items():
        at_most(len(name), f"{where}: a name", MAX_NAME, "characters")
        if isinstance(value, str):
            at_most(len(value), f"{where}.{name}", MAX_NAME, "characters")
        else:
            _within(value, f"{where}.{name}", -LARGEST_SETTING, LARGEST_SETTING)


def _check_step(step: Step, number: int) -> None:
    where = f"steps.{number}"
    if step.index != number:
        raise refusal(f"{where}.index", f"must be its position, {number}, got {shown(step.index)}")
    _check_tree(step.tree, where)
    _check_walk(step, where)
    for name in ("prefill", "draft", "verify", "learn", "host"):
        _within(getattr(step.seconds, name), f"{where}.seconds.{name}", 0, MAX_SECONDS)
    if step.seconds.decode < MIN_SECONDS:
        raise refusal(
            f"{where}.seconds",
            f"must be at least {MIN_SECONDS:g} together, prefill apart; no step takes no time",
        )
    _within(step.width, f"{where}.width", len(step.tree) + len(step.window), MAX_COUNT)
    _within(step.draft_passes, f"{where}.draft_passes", 0, MAX_COUNT)
    _within(step.pool_size, f"{where}.pool_size", 0, MAX_COUNT)
    _within(step.draft_rows_saved, f"{where}.draft_rows_saved", 0, MAX_COUNT)
    if step.writer not in (Source.TARGET, Source.DRAFT):
        raise refusal(f"{where}.writer", f"must be target or draft, got {step.writer.value}")
    if step.choice is not None:
        for name in ("offered", "size", "window"):
            _within(getattr(step.choice, name), f"{where}.choice.{name}", 0, MAX_COUNT)
        for name in ("expected", "rate"):
            _within(getattr(step.choice, name), f"{where}.choice.{name}", 0, MAX_EXPECTED)
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
    for name in ("step", "position", "match", "rank"):
        _within(getattr(provenance, name), f"{where}.{name}", 0, MAX_COUNT)
    _within(provenance.confidence, f"{where}.confidence", 0, 1)


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
    _within(step.target_token, f"{where}.target_token", 0, MAX_ID)
    if not step.tokens:
        raise refusal(where, "emits no token: a path or a target token is needed")


def _check_window(step: Step, where: str) -> None:
    at_most(len(step.window), f"{where}.window", MAX_NODES)
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
    _all_within(judged.tokens, f"{where}.tokens", 0, MAX_ID, MAX_ROWS)
    for name, low, high in (
        ("target", 0, 1),
        ("draft", 0, 1),
        ("noise", -MAX_NOISE, MAX_NOISE),
        ("left", 0, 1),
    ):
        column = getattr(judged, name)
        if len(column) != count and (column or name == "target"):
            raise refusal(
                f"{where}.{name}",
                f"must have one number for each of its {count} tokens, got {len(column)}",
            )
        _all_within(column, f"{where}.{name}", low, high, count)


def _check_trials(judged: Judged, step: Step, where: str) -> None:
    """Candidates are children of the node: first those of a block or of several independent draws,
    then the others in the order of the tree. The one that is on the path was accepted, and no
    other."""
    children = step.tree.children(judged.node) if judged.trials else []
    together = [trial.node for trial in judged.trials if trial.rule != ALONE]
    alone = [trial.node for trial in judged.trials if trial.rule == ALONE]
    nodes = [trial.node for trial in judged.trials]
    expected = [node for node in children if node not in together][: len(alone)]
    if nodes != [*together, *expected] or not set(together).issubset(children):
        raise refusal(
            f"{where}.trials",
            f"must be the first of the nodes below node {judged.node}, in their order",
        )
    # Equal draws are one node, which may be rejected before it is accepted.
    last_trials = {trial.node: number for number, trial in enumerate(judged.trials)}
    for number, trial in enumerate(judged.trials):
        for name in ("u", "p", "q"):
            _within(getattr(trial, name), f"{where}.trials.{number}.{name}", 0, 1)
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


def at_most(count: int, where: str, most: int, what: str = "entries") -> None:
    if count > most:
        raise refusal(where, f"must have at most {most:,} {what}, got {count:,}")


def _within(value: float | None, where: str, low: float, high: float) -> None:
    """None passes; NaN does not."""
    if value is not None and not low <= value <= high:
        raise refusal(where, f"must be between {low:,} and {high:,}, got {shown(value)}")


def _all_within(values: Iterable[float], where: str, low: float, high: float, most: int) -> None:
    values = tuple(values)
    at_most(len(values), where, most)
    if values and not all(low <= value <= high for value in values):
        first = next(n for n, value in enumerate(values) if not low <= value <= high)
        _within(values[first], f"{where}.{first}", low, high)


def shown(value: Any) -> str:
    """A value as it may stand in a message: short, and what is long only by its kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"'{_plain(value, 40)}'"
    text = (
        str(value)
        if not isinstance(value, int) or abs(value) < 10**40
        else "a number of more than 40 digits"
    )
    return {"None": "null", "True": "true", "False": "false"}.get(text, text)


def _plain(text: str, most: int) -> str:
    """Text of a file as it may stand in a message, which a page may render: short, and without
    anything that marks up."""
    return re.sub(
        r"[^\w .,:;+=/()'-]", "·", text if len(text) <= most else text[: most - 1] + "…"
    ).replace("://", "·")
