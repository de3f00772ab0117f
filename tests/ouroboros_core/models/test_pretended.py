"""All passes of all methods on a GPU that is pretended (`tests/pretended.py`): nothing lies on the
processor, no dtypes are mixed, and a step waits for the device as often as it has to and no more.

Oracle: the text that the same models write on the processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from ouroboros_core import methods
from tests import ROOT

pytestmark = pytest.mark.slow

SET_UP = 3
"""Waits while a head is laid out, once."""
CANDIDATES_OF_PASSES = {"ngram", "token_recycling", "sam", "union"}
"""What asks of a target's pass for its choices and then for its likeliest tokens."""
OTHER_TOKENS = {"cascade", "multi_candidate"}
"""What asks how sure a draft is of tokens that it does not find the likeliest, which costs one more
list; how sure it is of those comes with them."""


@cache
def pretended(*arguments: str) -> Any:
    """In a process of its own, because a backend of torch is renamed for good."""
    command = [sys.executable, "-m", "tests.pretended", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[:3000]
    return json.loads(done.stdout)


def test_the_pretended_device_finds_what_a_gpu_would() -> None:
    found = pretended("faults")
    assert "lie on the processor" in found["left behind"]
    assert "lie on the processor" in found["index left behind"]
    assert "mixes" in found["dtypes"]
    waiting = {name for name, what in found.items() if what == "waits"}
    assert waiting == {"item", "int", "if", "list", "copy", "nonzero", "mask"}
    assert found["nothing"] == "runs on"


def check(method: str, ran: Any) -> None:
    """Its greedy runs, in single and in half precision."""
    for way in ("single", "half"):
        one = ran[way][method]
        steps, drafts, waits = one["steps"], one["drafts"], dict(one["waits"])
        twice = method in CANDIDATES_OF_PASSES  # and once of the prompt
        lists = steps + (steps + 1) * twice
        lists += drafts * (1 + (method in OTHER_TOKENS))
        assert waits.pop("tolist") <= lists, one
        assert waits.pop("item", 0) <= (method == "eagle2"), one
        assert sum(waits.values()) <= SET_UP, one


@pytest.mark.parametrize("method", sorted(methods.available()))
def test_a_method_writes_the_same_there_and_waits_no_more_than_it_asks(method: str) -> None:
    """Greedy and sampled by both rules. How often transformers' own candidate generators wait is
    theirs."""
    ran = pretended("compact")
    for way, found in ran.items():
        assert found[method]["there"] == found[method]["here"], way
        if way != "half":
            sure = found[method]["sure here"]
            assert found[method]["sure there"] == pytest.approx(sure, abs=0.011), way
    assert len(ran) == 4
    if not method.startswith("hf_"):
        check(method, ran)


@pytest.mark.parametrize("method", ["autoregressive", "speculative", "union"])
def test_transformers_own_passes_wait_no_more(method: str) -> None:
    check(method, pretended("transformers", "autoregressive", "speculative", "union"))


@pytest.mark.parametrize("method", ["speculative", "union", "eagle2"])
def test_passes_in_fixed_shapes_wait_no_more(method: str) -> None:
    check(method, pretended("static", "speculative", "union", "eagle2"))
