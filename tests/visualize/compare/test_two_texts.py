"""Two runs of one prompt in the browser: segments as drawn by hand, and totals that add up."""

import json
import random
from itertools import accumulate, pairwise
from typing import Any

import pytest

from tests import ROOT
from tests.commands import finished
from tests.web_pass import node

SCRIPT = """
import { common, segments } from "MODULE";
let text = "";
for await (const part of process.stdin) text += part;
const pairs = JSON.parse(text);
console.log(JSON.stringify(pairs.map(([a, b]) => [common(a, b), segments(a, b)])));
"""

Run = dict[str, Any]


def compared(*pairs: tuple[Run, Run]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return for each pair the common tokens and the segments that the page's module finds."""
    module = (ROOT / "visualize" / "compare" / "two_texts.js").as_uri()
    command = [node(), "--input-type=module", "-e", SCRIPT.replace("MODULE", module)]
    done = finished(command, input=json.dumps(pairs), check=True)
    found: list[tuple[int, list[dict[str, Any]]]] = json.loads(done.stdout)
    return found


def run(lengths: list[int], tokens: str) -> Run:
    """Steps that emit so many tokens each, one a letter of a text."""
    return {"lengths": lengths, "texts": list(tokens[: sum(lengths)])}


def drawn(segments: list[dict[str, Any]]) -> str:
    """Segments as `text:steps of A-steps of B`."""
    return " ".join(f"{s['text']}:{s['a']}-{s['b']}" for s in segments)


@pytest.mark.parametrize(
    ("a", "b", "texts", "segments"),
    [
        #  A |abc|d|e|fg|hi|   B |abc|de|fg|hi|
        ([3, 1, 1, 2, 2], [3, 2, 2, 2], ("abcdefghi",) * 2, "abc:1-1 de:2-1 fghi:2-2"),
        #  A |a|b|c|d|e|f|   B |abcdef|
        ([1] * 6, [6], ("abcdef",) * 2, "abcdef:6-1"),
        #  the texts part inside a step of B
        ([2, 2], [1, 3], ("abcd", "abxy"), "ab:1-2"),
        #  A goes on
        ([2, 2], [2], ("abcd", "ab"), "ab:1-1"),
        ([1], [1], ("a", "b"), ""),
    ],
)
def test_the_text_is_cut_where_both_end_a_step(
    a: list[int], b: list[int], texts: tuple[str, str], segments: str
) -> None:
    ((_, found),) = compared((run(a, texts[0]), run(b, texts[1])))
    assert drawn(found) == segments


def test_steps_and_tokens_of_the_segments_add_up_whatever_the_steps() -> None:
    """The oracle: the steps of each run that begin before the end of the common text."""
    dice = random.Random(3)
    text = "".join(dice.choice("abcd") for _ in range(60))
    runs = [run([dice.randint(1, 6) for _ in range(10)], text) for _ in range(40)]
    pairs = list(pairwise(runs))
    for (a, b), (common, segments) in zip(pairs, compared(*pairs), strict=True):
        assert common == min(len(a["texts"]), len(b["texts"]))
        assert "".join(s["text"] for s in segments) == text[:common]
        assert sum(s["tokens"] for s in segments) == common
        for name, one in (("a", a), ("b", b)):
            starts = accumulate(one["lengths"][:-1], initial=0)
            assert sum(s[name] for s in segments) == sum(start < common for start in starts)
