"""A rule is declared once: the rule of CONTRIBUTING.md, added as one file, is found everywhere."""

import json
import os
import re
import sys
from typing import Any

import pytest

from ouroboros_core import rules
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampler, Sampling
from tests import ROOT
from tests.commands import finished

SENTENCE = (
    "lenient, which is not lossless, keeps a token that is among the target's likeliest three"
)


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer of a process that has one file more in `ouroboros_core/rules`."""
    folder = tmp_path_factory.mktemp("rules")
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (source,) = re.findall(
        r"`ouroboros_core/rules/lenient\.py`:\n\n```python\n(.*?)^```$", guide, re.M | re.S
    )
    (folder / "lenient.py").write_text(source, encoding="utf-8")
    process = finished(
        [sys.executable, "-m", "tests.ouroboros_core.rules.added", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GRADIO_ANALYTICS_ENABLED": "False"},
    )
    assert process.returncode == 0, process.stderr[-3000:]
    printed: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return printed


def test_an_added_rule_is_an_option_with_help(answer: dict[str, Any]) -> None:
    assert answer["flag"] == "lenient"
    assert "--acceptance match|rejection|block|typical|ensemble|lenient" in answer["help"]
    assert SENTENCE in " ".join(answer["help"].split())


def test_an_added_rule_is_a_choice_of_the_page(answer: dict[str, Any]) -> None:
    assert "lenient" in answer["watch"]
    assert ["lenient acceptance (not lossless)", "lenient"] in answer["proof"]
    assert SENTENCE in answer["map"].replace("&#x27;", "'")


def test_an_added_rule_is_in_the_table_of_the_documents(answer: dict[str, Any]) -> None:
    row = "| `lenient`: lenient acceptance | keeps a token that is among"
    assert row in answer["table"] and "nothing: it is not lossless" in answer["table"]


def test_an_added_rule_judges_a_run_and_the_reasons_name_it(answer: dict[str, Any]) -> None:
    """The oracle is the recorded probabilities: accepted tokens are among the likeliest three, and
    not all of them are the likeliest."""
    assert {0} < set(answer["ranks"]) <= {0, 1, 2}
    assert answer["differs"] and answer["status"].endswith("(not lossless)")
    described = "lenient acceptance, which is not lossless"
    told = [reason for reason in answer["reasons"] if described in reason]
    beginnings = {reason.split(",")[0].split(":")[0] for reason in told}
    assert beginnings == {"Accepted by lenient acceptance", "Corrected", "Not kept"}


def test_the_rules_stand_in_the_order_of_menus_and_the_default_is_exact() -> None:
    assert list(rules.available()) == ["match", "rejection", "block", "typical", "ensemble"]
    assert rules.get(rules.DEFAULT).repeats_plain_text
    assert all(rule.lossless for rule in rules.available().values() if rule.repeats_plain_text)
    allowed = "acceptance must be one of match, rejection, block, typical, ensemble"
    with pytest.raises(InvalidInput, match=allowed):
        rules.get("never")


@pytest.mark.parametrize("rule", rules.available())
def test_greedy_every_rule_is_the_default(rule: str) -> None:
    sampling = Sampling(acceptance=rule)
    assert sampling.rule is Sampler(sampling, 4).rule is rules.get(rules.DEFAULT)
    assert Sampling(temperature=1.0, acceptance=rule).rule is rules.get(rule)
    assert Sampling(temperature=1.0, acceptance=rule).plain() == Sampling(temperature=1.0)
