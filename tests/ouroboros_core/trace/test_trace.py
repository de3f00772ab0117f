"""Traces: JSON and back."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.trace import Trace
from tests.traces import real_trace, typed_trace


@pytest.mark.parametrize("make", [typed_trace, real_trace], ids=["typed", "real"])
def test_a_trace_survives_json_with_its_types(make: Callable[[], Trace]) -> None:
    trace = make()
    again = read_trace(trace.to_json())
    assert again == trace
    assert [type(v) for v in again.hyperparameters.values()] == [int, bool]
    assert json.loads(trace.to_json())["steps"][0]["tree"]["provenance"][1]["source"] == "draft"


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"steps": 3}', '{"version": 1}'])
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="this is not a trace"):
        read_trace(text)


def test_a_trace_of_another_version_is_refused() -> None:
    data = json.loads(typed_trace().to_json()) | {"version": 99}
    with pytest.raises(InvalidInput, match="schema version 99; this program reads version 1"):
        read_trace(json.dumps(data))


def test_a_broken_tree_is_refused() -> None:
    data = json.loads(typed_trace().to_json())
    data["steps"][0]["tree"]["parents"] = [-1, 5, 0]
    with pytest.raises(InvalidInput, match=r"this is not a trace: steps.0.tree"):
        read_trace(json.dumps(data))


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("path", [99], "steps.0.path is no walk"),
        ("path", [2], "steps.0.path is no walk"),
        ("target_token", None, "7 tokens|6 tokens"),
    ],
)
def test_a_trace_whose_parts_do_not_fit_is_refused(where: str, value: object, message: str) -> None:
    data = json.loads(typed_trace().to_json())
    data["steps"][0][where] = value
    with pytest.raises(InvalidInput, match=message):
        read_trace(json.dumps(data))
