"""The table of a run's tokens, for other programs."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Seconds, Step, Trace
from ouroboros_core.tree import Learned, Provenance, chain
from tests.commands import words
from tests.traces import make_trace, typed_trace
from visualize.run.saving import COLUMNS, to_csv

DRAFT = Provenance(Source.DRAFT)


def run(lengths: list[int], tokens: str, seconds: float = 0.5) -> Trace:
    """Steps that emit so many tokens each, one a letter of a text."""
    ids = [ord(letter) for letter in tokens]
    steps, done = [], 0
    for number, length in enumerate(lengths):
        new = ids[done : done + length]
        tree = chain(ids[done - 1] if done else 1, new[:-1], DRAFT)
        steps.append(
            Step(number, tree, tuple(range(1, length)), new[-1], length, Seconds(verify=seconds), 1)
        )
        done += length
    return replace(make_trace(steps), texts=tuple(tokens[:done]))


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_table_of_tokens_gives_back_tokens_and_texts() -> None:
    texts = ("=1+1", "+2", "-3", "@x", "\t4", 'a "quoted", text\n', "’é🙂\u2028\x00")
    trace = replace(typed_trace(), texts=texts)
    text = to_csv(trace)
    rows = read(text)
    assert tuple(rows[0]) == COLUMNS and len(text.split("\n")) == len(rows) + 2
    assert tuple(int(row["id"]) for row in rows) == trace.tokens
    assert tuple(json.loads(row["text"]) for row in rows) == texts
    assert [int(row["token"]) for row in rows] == list(range(1, 8))
    assert [int(row["step"]) for row in rows] == [1, 1, 2, 2, 2, 3, 3]
    sources = words("draft target draft suffix target draft draft")
    assert [row["source"] for row in rows] == sources
    assert [row["kind"] for row in rows] == ["", "correction", "", "", "bonus", "", ""]
    assert [row["learned"] for row in rows] == ["", "", "", Learned.HISTORY.value, "", "", ""]
    choices = ["own" if source == "target" else "accepted" for source in sources]
    assert [row["choice"] for row in rows] == choices
    assert [float(row["seconds"]) for row in rows] == pytest.approx(metrics.seconds_to_token(trace))
    assert {(row["width"], row["draft_passes"]) for row in rows} == {("3", "2"), ("3", "1")}
    cells: list[Any] = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]


def test_a_table_with_a_baseline_has_its_seconds_as_far_as_the_texts_agree() -> None:
    rows = read(to_csv(run([3, 4], "abcdxyz"), run([1] * 9, "abcdefghi")))
    agreeing = [f"{n / 2:.6f}" for n in range(1, 5)]
    assert [row["baseline_seconds"] for row in rows] == [*agreeing, "", "", ""]
    assert all(row["baseline_seconds"] for row in read(to_csv(typed_trace(), typed_trace())))
    assert read(to_csv(make_trace([]), typed_trace())) == []
