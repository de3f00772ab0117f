"""Runs of the live page in plain Python: the models are those of tests/plain_python.py."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from ouroboros_core.interfaces import LanguageModel
from tests.plain_python import PlainModel
from visualize.live.session import LONGEST_TEXT, BrowserPair, Session, Words

RUN = {"max_new_tokens": 24, "chat": True, "temperature": 0.0}


class Letters:
    """A tokenizer of the ten letters a to j, with the interface of worker.js."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + token) for token in ids)

    def name(self, token: int) -> str:
        return chr(ord("a") + token)


@pytest.fixture(name="session")
def plain_session() -> Session:
    return session_of()


def session_of() -> Session:
    """Return a session with models of plain Python."""
    words = Words(Letters(), ["dad"], [1, 2], [3])
    target, draft, head = (cast(LanguageModel, PlainModel(salt)) for salt in (0, 3, 5))
    heads = {"eagle3": head}
    return Session(BrowserPair(target, draft, words, frozenset(), "a browser", heads))


def updates(session: Session, **asked: Any) -> list[Any]:
    whole = {"prompt": "abcabc", "method": "union", "settings": {}, "run": RUN} | asked
    return [json.loads(update) for update in session.run(json.dumps(whole))]


def text(sent: list[Any]) -> str:
    """Return the text that the steps of the last complete view add up to."""
    view = next(one["view"] for one in reversed(sent) if one.get("view", {}).get("from") == 0)
    return "".join(token["text"] for step in view["steps"] for token in step["tokens"])


def test_each_method_shows_the_text_of_plain_decoding_and_measures_it(session: Session) -> None:
    plain = text(updates(session, method="autoregressive"))
    assert len(plain) == RUN["max_new_tokens"]
    for method in ("speculative", "suffix", "eagle3", "union"):
        sent = updates(session, method=method)
        last = sent[-1]
        assert text(sent) == plain
        tiles = {tile["label"]: tile["value"] for tile in last["view"]["tiles"]}
        assert tiles["Identical text"] == "yes"
        assert last["has"] and last["charts"], "the other charts come with the end"


def test_sampled_text_is_that_of_plain_sampling(session: Session) -> None:
    run = RUN | {"temperature": 0.9, "seed": 5}
    plain = text(updates(session, method="autoregressive", run=run))
    assert text(updates(session, method="speculative", run=run)) == plain
    assert text(updates(session, method="autoregressive")) != plain


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"prompt": ""}, "the prompt is empty"),
        ({"method": "nothing"}, "method must be one of"),
        ({"settings": {"nonsense": 1}}, "nonsense"),
        ({"run": RUN | {"max_new_tokens": LONGEST_TEXT}}, "shorten the prompt"),
        ({"run": RUN | {"temperature": 1.0, "acceptance": "x"}}, "acceptance"),
    ],
)
def test_what_cannot_run_is_said_in_words(session: Session, asked: Any, words: str) -> None:
    (answer,) = updates(session, **asked)
    assert words in answer["error"]


def test_a_control_token_that_a_visitor_writes_in_a_chat_is_text(session: Session) -> None:
    words = session.pair.tokenizer

    class Whole(Letters):
        def encode(self, text: str) -> list[int]:
            return [9] if text == "dad" else super().encode(text)

    words._tokens = Whole()
    assert words.raw("dad") == [9]
    assert words.plain("dad") == [3, 0, 3]
    assert words.chat("dad") == [1, 2, 3, 0, 3, 3]


PLAN = {
    "prompts": ["abcabc"],
    "method": "speculative",
    "axes": [["gamma", ["1", "4"]]],
    "others": ["union"],
    "tokens": 12,
}


def test_a_comparison_has_the_rows_of_its_plan_and_opens_their_runs(session: Session) -> None:
    plain = text(updates(session, method="autoregressive", run=RUN | {"max_new_tokens": 12}))
    views = [view for sent in session.run(json.dumps({"plan": PLAN})) if (view := json.loads(sent))]
    rows: dict[int, Any] = {}
    for view in (sent["compare"] for sent in views if "compare" in sent):
        rows |= {row["lane"]: row for row in view.get("rows", [])}
    assert views[-1]["compare"]["done"]
    assert {lane: len(row["each"]) for lane, row in rows.items() if lane} == {1: 3, 2: 3, 3: 3}
    assert {"".join(row["runs"][0]) for row in rows.values()} == {plain}
    opened = [json.loads(sent) for sent in session.run('{"lane": 2, "prompt": 0}')]
    assert text(opened) == plain and opened[0]["has"] and opened[0]["charts"]
    (table,) = (json.loads(sent)["compare"]["file"] for sent in session.run("{}"))
    head, *lines = csv.reader(table["text"].splitlines())
    assert head[:2] == ["row", "gamma"]
    assert [line[1] for line in lines] == ["", "1", "4", ""], "plain decoding, grid, and union"


def test_a_comparison_of_two_prompts_is_refused(session: Session) -> None:
    (answer,) = session.run(json.dumps({"plan": PLAN | {"prompts": ["abc", "cba"]}}))
    assert "needs one prompt, got 2" in json.loads(answer)["error"]
