"""Many visitors at once, in small: `make soak` sends three hundred runs."""

import json
import sys
from pathlib import Path

import pytest

from tests import browser
from tests.commands import finished

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

server = browser.server
"""Marks this file as one that starts the page."""


def test_visitors_who_come_at_once_stop_and_leave_get_their_own_texts_and_clear_refusals(
    tmp_path: Path,
) -> None:
    """The tool compares each text with plain decoding; here its counts are checked."""
    out = tmp_path / "load.json"
    small = ["--clients", "3", "--runs", "10", "--seed", "1", "--counts", "4,8"]
    command = [sys.executable, "-m", "tests.journeys.load", *small, "--json", str(out)]
    answer = finished(command)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    ends = figures["ends"]
    assert not figures["failures"] and ends["finished"] >= 6 and sum(ends.values()) == 10
    assert sum(count for end, count in ends.items() if end.startswith("refused")) == 1
    assert all(target["times"] for target in figures["page milliseconds"].values())
    assert set(figures["page milliseconds"]) == {"/", "/healthz"}
