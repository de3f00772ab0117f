"""The core without numpy and torch."""

import json
import sys
from typing import Any

import pytest

from ouroboros_core.methods.parts.stopping import RULES
from tests.commands import finished
from tests.plain_python import PROMPT, TEMPERATURE, drafted, plain_text

PYDANTIC = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions"}
PYDANTIC |= {"typing_inspection", "__future__"}
"""pydantic and what it consists of."""
NEEDS_PROBABILITIES = {"graph"}
"""Methods that compare probabilities, so that sampled text needs numpy."""


@pytest.fixture(scope="module")
def bare() -> Any:
    """What an interpreter prints in which numpy, torch and others are missing."""
    command = [sys.executable, "-m", "tests.plain_python"]
    return json.loads(finished(command, check=True).stdout)


@pytest.mark.parametrize(("sampled", "temperature"), [(0, 0.0), (1, TEMPERATURE)])
def test_every_method_writes_the_text_of_plain_decoding_without_numpy(
    bare: Any, sampled: int, temperature: float
) -> None:
    """The oracle is a loop in pure Python."""
    expected = plain_text(temperature)
    outcomes = {name: both[sampled] for name, both in bare["texts"].items()}
    if sampled:
        for name in NEEDS_PROBABILITIES:
            assert "numpy is not installed" in outcomes.pop(name)
    assert {name: text for name, (text, _) in outcomes.items()} == dict.fromkeys(outcomes, expected)
    assert {"autoregressive", "speculative", "suffix", "eagle2", "union"} <= outcomes.keys()
    fewer = [name for name, (_, passes) in outcomes.items() if passes < len(expected)]
    assert len(fewer) > len(outcomes) / 2, "most of them guess right sometimes"


def test_a_rule_that_compares_probabilities_names_the_missing_package(bare: Any) -> None:
    for words in bare["rules"].values():
        assert words.startswith("MissingPackage: numpy is not installed")


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_ends_the_drafts_without_numpy_where_it_ends_them_with_it(
    bare: Any, rule: str
) -> None:
    assert bare["stops"][rule] == drafted(rule)
    assert (min(drafted(rule)[:-1]) < 6) == (rule != "fixed"), "it does end some"


def test_no_package_but_pydantic_is_imported(bare: Any) -> None:
    foreign = {name for name in bare["packages"] if not name.startswith("_")}
    assert foreign <= {"ouroboros_core", "tests", *PYDANTIC}


def test_the_hash_of_a_prompt_is_that_of_its_numbers_in_eight_bytes_each() -> None:
    from hashlib import blake2b

    import numpy as np

    from ouroboros_core.sampling import question_of

    number = np.array(PROMPT, dtype="<i8").tobytes()
    digest = blake2b(number, digest_size=8).digest()
    assert question_of(PROMPT) == int.from_bytes(digest, "little") >> 1
