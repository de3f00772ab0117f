"""A trace from a file, whoever wrote it, and the plain run that may lie beside it.

It is read in three stages, each of which refuses with a sentence: JSON of a bounded size and depth; the types of `Trace`; and in
`checks`, part by part, what types cannot say. Fields that `Trace` does not have are left out, so that nothing of them reaches a
page, and a file of a later program that only added some can still be read.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ouroboros_core.decoding.checks import MAX_KNOBS, MAX_TOKENS, at_most, check, refusal, shown
from ouroboros_core.decoding.trace import VERSION, Trace, adapter
from ouroboros_core.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

MAX_BYTES = 16 * 2**20
"""Of a file."""
BASELINE = "baseline"
"""The member of a file that holds the plain run."""


def read(text: str | bytes) -> Trace:
    """The trace in a JSON text; raises InvalidInput for anything that is none, or is beyond the bounds of `checks`."""
    return _read(_parse(text))


def read_run(text: str | bytes) -> tuple[Trace, Trace | None]:
    """The trace in a JSON text and the plain run it was compared with, None where there is none; raises InvalidInput as `read`
    does, for either of them, and for a plain run of another prompt."""
    data = _parse(text)
    trace, plain = _read(data), data.get(BASELINE)
    if plain is None:
        return trace, None
    try:
        baseline = _read(_object(plain))
    except InvalidInput as error:
        raise InvalidInput(f"{BASELINE}: {error}") from None
    if baseline.prompt.tokens != trace.prompt.tokens:
        raise refusal(BASELINE, "must be a run of the same prompt: speeds on different prompts cannot be compared")
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
        raise refusal("the file", "holds half of a surrogate pair, which is no character: save it as UTF-8") from None
    if len(data) > MAX_BYTES:
        raise InvalidInput(
            f"the trace has {len(data) / 2**20:.1f} MB; at most {MAX_BYTES // 2**20} MB are read: record a shorter run, or one "
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
    """What was parsed, where it is an object of our schema version; its dictionaries are bounded."""
    if not isinstance(found, dict):
        raise refusal("it", f"must be a JSON object, got {shown(found)}")
    version = found.get("version", VERSION)
    if version != VERSION:
        raise InvalidInput(
            f"the trace has schema version {shown(version)}; this program reads version {VERSION}: open it with the program "
            "that wrote it"
        )
    for name, most in (("pieces", MAX_TOKENS), ("hyperparameters", MAX_KNOBS), ("sampling", MAX_KNOBS)):
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
    """That of `Trace`, but it stops at the first bad item of a list: a list may have millions, and each would be an error."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_failing_fast(adapter().core_schema))


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_failing_fast(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    walked = {key: _failing_fast(part) for key, part in schema.items()}
    return walked | {"fail_fast": True} if walked.get("type") in ("tuple", "frozenset") else walked
