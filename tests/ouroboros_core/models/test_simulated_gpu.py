"""All passes of all methods on a simulated GPU (`tests/simulated_gpu.py`): nothing is on the
processor, no dtypes are mixed, and a step waits for the device only as often as it must.

Oracle: the text that the same models write on the processor.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import pytest

from ouroboros_core import methods
from tests.commands import finished

pytestmark = pytest.mark.slow

SET_UP = 3
"""Waits while a head is set up, once."""
CANDIDATES_OF_PASSES = {"ngram", "token_recycling", "sam", "union"}
"""Methods that read a target pass twice: its choices, then its likeliest tokens."""
OTHER_TOKENS = {"cascade", "multi_candidate"}
"""Methods that read the draft's probabilities of other tokens than its likeliest, which costs one
list more."""
BLOCK = 6
"""Tokens that `dspark` drafts in one pass; it reads them one by one."""


@cache
def simulated(*arguments: str) -> Any:
    """Run tests.simulated_gpu in a separate process, because it renames a backend of torch."""
    command = [sys.executable, "-m", "tests.simulated_gpu", *arguments]
    done = finished(command)
    assert done.returncode == 0, done.stderr[:3000]
    return json.loads(done.stdout)


def test_the_simulated_device_finds_what_a_gpu_would() -> None:
    found = simulated("faults")
    assert "are on the processor" in found["left behind"]
    assert "are on the processor" in found["index left behind"]
    assert "mixes" in found["dtypes"]
    waiting = {name for name, result in found.items() if result == "waits"}
    assert waiting == {"item", "int", "if", "list", "copy", "nonzero", "mask"}
    assert found["nothing"] == "runs on"


def check(method: str, runs: Any) -> None:
    """Check the waits of a method's greedy runs, in single and in half precision."""
    for setup in ("single", "half"):
        run = runs[setup][method]
        steps, drafts, waits = run["steps"], run["drafts"], dict(run["waits"])
        twice = method in CANDIDATES_OF_PASSES  # and once of the prompt
        lists = steps + (steps + 1) * twice
        lists += drafts * (BLOCK if method == "dspark" else 1 + (method in OTHER_TOKENS))
        assert waits.pop("tolist") <= lists, run
        assert waits.pop("item", 0) <= (method in ("eagle2", "eagle3", "mtp")), run
        assert sum(waits.values()) <= SET_UP, run


@pytest.mark.parametrize("method", sorted(methods.available()))
def test_a_method_writes_the_same_there_and_waits_no_more_than_it_asks(method: str) -> None:
    """Greedy and sampled by both rules. The waits of transformers' candidate generators are not
    checked."""
    runs = simulated("compact")
    for setup, by_method in runs.items():
        run = by_method[method]
        assert run["device text"] == run["text"], setup
        if setup != "half":
            confidences = pytest.approx(run["confidences"], abs=0.011)
            assert run["device confidences"] == confidences, setup
    assert len(runs) == 4
    if not method.startswith("hf_"):
        check(method, runs)


@pytest.mark.parametrize("method", ["autoregressive", "speculative", "union"])
def test_transformers_own_passes_wait_no_more(method: str) -> None:
    check(method, simulated("transformers", "autoregressive", "speculative", "union"))


@pytest.mark.parametrize("method", ["speculative", "union", "eagle2"])
def test_passes_in_fixed_shapes_wait_no_more(method: str) -> None:
    check(method, simulated("static", "speculative", "union", "eagle2"))
