"""Two runs of one prompt: segments as drawn by hand, totals that add up, and the table of tokens
for other programs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Step, Trace
from ouroboros_core.tree import Learned, Provenance, chain
from tests import tiny
from tests.traces import make_trace, typed_trace
from visualize.run import diff_figures
from visualize.run.diff import HEAD, Diff, diff, sentences, view
from visualize.run.export import COLUMNS, to_csv

DRAFT = Provenance(Source.DRAFT)


def run(
    lengths: list[int], tokens: str, seconds: float = 0.5, sampling: Sampling | None = None
) -> Trace:
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
    return replace(make_trace(steps, sampling=sampling), texts=tuple(tokens[:done]))


def drawn(difference: Diff) -> str:
    """Segments as `text:steps of A-steps of B`."""
    return " ".join(f"{s.text}:{s.a}-{s.b}" for s in difference.segments)


@pytest.mark.parametrize(
    ("a", "b", "segments"),
    [
        #  A |abc|d|e|fg|hi|   B |abc|de|fg|hi|
        ([3, 1, 1, 2, 2], [3, 2, 2, 2], "abc:1-1 de:2-1 fghi:2-2"),
        #  A |a|b|c|d|e|f|   B |abcdef|
        ([1] * 6, [6], "abcdef:6-1"),
        #  A |ab|cd|ef|   B |abc|de|f|: no position in common but the ends
        ([2, 2, 2], [3, 2, 1], "abcdef:3-3"),
        #  A |ab|c|d|   B |a|b|cd|: lost, then saved
        ([2, 1, 1], [1, 1, 2], "ab:1-2 cd:2-1"),
        #  A |a|b|c|d|   B |ab|cd|: segments that saved as many are kept apart
        ([1, 1, 1, 1], [2, 2], "ab:2-1 cd:2-1"),
        #  A |a|b|c|   B |a|b|c|: one segment
        ([1, 1, 1], [1, 1, 1], "abc:3-3"),
        #  A |ab|cd|ef|gh|   B |ab|cde: A goes on, and B's last step needed one of A's that emitted
        # more
        ([2, 2, 2, 2], [2, 3], "ab:1-1 cde:2-1"),
        ([], [2], ""),
    ],
)
def test_segments_are_as_drawn(a: list[int], b: list[int], segments: str) -> None:
    text = "abcdefghi"
    assert drawn(diff(run(a, text), run(b, text))) == segments


def test_texts_that_part_are_compared_up_to_there() -> None:
    """A |abc|d|ef|g|   B |abc|dxyz|: the step in which they part was needed for d."""
    found = diff(run([3, 1, 2, 1], "abcdefg"), run([3, 4], "abcdxyz"))
    assert drawn(found) == "abcd:2-2"
    assert (found.tokens, found.parted, found.text) == (4, True, "abcd")
    told = sentences(found)
    assert told[0] == "A and B needed as many steps, 2, for the same 4 tokens."
    assert told[-1].startswith(
        "The texts part at token 5: as two nearly equal choices can, since passes over more or "
        "fewer"
    )
    sampled = Sampling(temperature=0.5)
    rejection = Sampling(temperature=0.5, acceptance="rejection")
    for one, other, why in (
        (None, sampled, "the two were sampled in different ways"),
        (rejection, rejection, "under rejection sampling every setting draws a text of its own"),
    ):
        found = diff(run([3], "abc", sampling=one), run([3], "xyz", sampling=other))
        assert sentences(found) == [
            f"A and B have no token in common. The texts part at token 1: {why}. What follows is "
            "not compared."
        ]
        assert found.segments == () and found.steps == (0, 0) and found.seconds == (0.0, 0.0)
    last = run([3], "xyz")
    elsewhere = replace(last, environment=replace(last.environment, dtype="bfloat16"))
    assert (
        "the two were computed in different ways" in sentences(diff(run([3], "abc"), elsewhere))[0]
    )


def test_the_summary_names_the_whole_and_the_best_segment() -> None:
    text = "one\ntwo six ten"
    found = diff(run([1] * 15, text), run([1, 1, 1, 8, 1, 1, 1, 1], text, seconds=0.25))
    assert drawn(found) == "one:3-3 \ntwo six:8-1  ten:4-4"
    assert sentences(found) == [
        "B needed 7 fewer steps than A for the same 15 tokens (8 instead of 15); the largest "
        "saving, 7 steps, is in ‘↵two six’.",
        "The whole text was there after 7.50 s in A and after 2.00 s in B, the time to read the "
        "prompt included.",
    ]
    slower = run([1, 1, 1, 8, 1, 1, 1, 1], text, seconds=1.0)
    for one, other, name in ((found.a, slower, "B"), (slower, found.a, "A")):
        told = sentences(diff(one, other))[1]
        assert told.endswith(f"{name} takes fewer steps, but each of them takes longer.")
    assert sentences(diff(found.b, found.a))[0] == (
        "B needed 7 more steps than A for the same 15 tokens (15 instead of 8); the largest loss, "
        "7 steps, is in ‘↵two six’."
    )
    mixed = diff(run([1, 1, 1, 2, 1, 1, 1], "abcdefgh"), run([3, 1, 1, 3], "abcdefgh"))
    assert sentences(mixed)[:2] == [
        "B needed 3 fewer steps than A for the same 8 tokens (4 instead of 7); the largest saving, "
        "2 steps, is in ‘abc’.",
        "B saved 4 steps in 2 segments and lost 1 step in 1 segment.",
    ]
    longer = diff(run([2], "ab"), run([2, 1], "abc"))
    assert (
        sentences(longer)[-1] == "B goes on for 1 more token, which are not compared."
        and not longer.parted
    )
    elsewhere = replace(longer.b, environment=replace(longer.b.environment, processor="another"))
    assert "the seconds tell nothing of the settings" in sentences(diff(longer.a, elsewhere))[1]


def test_the_view_is_plain_data_with_the_places_that_saved_and_lost_most() -> None:
    a = run([1, 1, 1, 2, 1, 1, 1], "abcdefgh")
    b = run([3, 1, 1, 3], "abcdefgh", sampling=Sampling(temperature=0.5, seed=3))
    shown = json.loads(json.dumps(view(diff(a, b)), allow_nan=False))
    assert (
        shown["status"] == sentences(diff(a, b))[0] and shown["lines"] == sentences(diff(a, b))[1:]
    )
    assert shown["head"] == list(HEAD)
    assert shown["rows"] == [
        ["1–3", "‘abc’", 3, 1, "2"],
        ["6–8", "‘fgh’", 3, 1, "2"],
        ["4–5", "‘de’", 1, 2, "−1"],
    ]
    assert shown["segments"][1] == {"text": "de", "tokens": 2, "a": 1, "b": 2, "saved": -1}
    assert [lane["name"] for lane in shown["lanes"]] == ["A", "B"]
    assert [lane["steps"] for lane in shown["lanes"]] == [7, 4]
    assert shown["lanes"][0]["settings"] == "Ouroboros, draft length 4, on T with D, greedy"
    assert shown["lanes"][1]["settings"].endswith("on T with D, temperature 0.5, seed 3")


def test_runs_of_other_prompts_or_models_are_refused() -> None:
    trace = typed_trace()
    for other, message in (
        (replace(trace, target="U"), "two models, T and U: compare runs of one target model"),
        (
            replace(trace, prompt=replace(trace.prompt, chat=True)),
            "one trace has a chat template around its prompt",
        ),
        (
            replace(trace, prompt=replace(trace.prompt, tokens=trace.prompt.tokens[:4])),
            "differ from token 5 on: compare runs of",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            diff(trace, other)
    assert (
        diff(trace, replace(trace, prompt=replace(trace.prompt, text="spelled otherwise"))).saved
        == 0
    )


Lengths = st.lists(st.integers(1, 4), max_size=12)


@given(Lengths, Lengths, st.integers(0, 40))
def test_segments_add_up(a: list[int], b: list[int], parting: int) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz" * 2
    other = letters[:parting] + letters[parting:].upper()
    one, two = run(a, letters), run(b, other)
    found, back = diff(one, two), diff(two, one)
    common = min(sum(a), sum(b), parting)
    assert found.tokens == common and found.text == letters[:common] == back.text
    assert [s.start for s in found.segments] == [
        *accumulate((s.tokens for s in found.segments), initial=0)
    ][:-1]
    assert found.steps == tuple(
        sum(end - length < common for length, end in zip(n, accumulate(n), strict=True))
        for n in (a, b)
    )
    assert [(s.text, s.a, s.b, s.saved) for s in found.segments] == [
        (s.text, s.b, s.a, -s.saved) for s in back.segments
    ]
    assert (
        found.saved
        == -back.saved
        == found.steps[0] - found.steps[1]
        == sum(s.saved for s in found.gains + found.losses)
    )
    assert all(s.tokens > 0 and s.a > 0 and s.b > 0 for s in found.segments)
    assert not any(
        x.saved == y.saved == 0 for x, y in zip(found.segments, found.segments[1:], strict=False)
    )
    same = diff(one, one)
    assert (
        same.saved == 0
        and len(same.segments) <= 1
        and same.steps == (len(a), len(a))
        and not same.parted
    )
    json.dumps(view(found), allow_nan=False)


def test_two_real_runs_of_one_text_differ_in_their_steps_alone() -> None:
    models = tiny.pair("llama", "sdpa")
    plain, fast = (
        make_trace(tiny.run(models, name, tiny.prompt(), 40), name)
        for name in ("autoregressive", "speculative")
    )
    found = diff(plain, fast)
    assert found.steps == (40, len(fast.steps)) and found.saved == Summary(fast).passes_saved > 5
    assert found.text == plain.text == fast.text
    assert found.seconds == pytest.approx(
        (metrics.total_seconds(plain), metrics.total_seconds(fast))
    )
    assert len(found.segments) > 3 and not found.losses


def test_the_staircases_rise_a_step_at_a_time() -> None:
    one, two = run([2, 1, 2], "abcde"), run([1, 4], "abcxy")
    a, b = diff_figures.steps_against_tokens(one, two)["data"]
    assert (list(a["x"]), list(a["y"])) == ([0, 2, 3, 5], [0, 1, 2, 3])
    assert (list(b["x"]), list(b["y"])) == ([0, 1, 5], [0, 1, 2])
    assert a["name"] == "A: ouroboros" and a["line"]["shape"] == "vh"
    assert diff_figures.steps_against_tokens(one, two)["layout"]["shapes"][0]["x0"] == 3
    assert "shapes" not in diff_figures.steps_against_tokens(one, one)["layout"]


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
    assert [row["source"] for row in rows] == [
        "draft",
        "target",
        "draft",
        "suffix",
        "target",
        "draft",
        "draft",
    ]
    assert [row["kind"] for row in rows] == ["", "correction", "", "", "bonus", "", ""]
    assert [row["learned"] for row in rows] == ["", "", "", Learned.HISTORY.value, "", "", ""]
    assert [row["choice"] for row in rows] == [
        "accepted",
        "own",
        "accepted",
        "accepted",
        "own",
        "accepted",
        "accepted",
    ]
    assert [float(row["seconds"]) for row in rows] == pytest.approx(metrics.seconds_to_token(trace))
    assert {(row["width"], row["draft_passes"]) for row in rows} == {("3", "2"), ("3", "1")}
    cells: list[Any] = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]


def test_a_table_with_a_baseline_has_its_seconds_as_far_as_the_texts_agree() -> None:
    rows = read(to_csv(run([3, 4], "abcdxyz"), run([1] * 9, "abcdefghi")))
    assert [row["baseline_seconds"] for row in rows] == [f"{n / 2:.6f}" for n in range(1, 5)] + [
        ""
    ] * 3
    assert all(row["baseline_seconds"] for row in read(to_csv(typed_trace(), typed_trace())))
    assert read(to_csv(make_trace([]), typed_trace())) == []
