"""A run in a notebook: the oracle is the trace, read back out of the HTML as a browser reads it."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.notebook import runs
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.trace import Step, Trace
from tests.traces import make_trace, real_trace, typed_trace

TRAP = "<script>alert(1)</script>${1+1}\"' onmouseover=x $a$ </span>\x00\x1b[31m&amp;"
VOID = {"input", "rect", "path", "meta"}


class Read(HTMLParser):
    """The elements of a page: the open ones, and (tag, attributes) of each finished one."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.told: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.told.append(data)

    @property
    def tokens(self) -> list[dict[str, str | None]]:
        return [at for tag, at in self.found if tag == "span" and "data-look" in at]


def hostile() -> Trace:
    trace = typed_trace()
    pieces = dict.fromkeys(range(40), TRAP)
    return replace(trace, texts=tuple(TRAP for _ in trace.texts), pieces=pieces, target=TRAP)


@pytest.mark.parametrize("make", [typed_trace, real_trace], ids=["by hand", "of models"])
def test_the_text_is_that_of_the_run_and_every_token_has_its_look_and_its_card(
    make: Callable[[], Trace],
) -> None:
    trace = make()
    read = Read(runs.trace_html(trace))
    assert trace.text in "".join(read.told)
    looks = [at["data-look"] or "" for at in read.tokens]
    assert tuple(looks) == trace.looks
    for at, look in zip(read.tokens, looks, strict=True):
        assert (at["data-card"] or "").startswith(f"{LOOKS[look].glyph} {LOOKS[look].label} · ")


def test_a_card_says_the_step_the_reason_and_the_probabilities() -> None:
    """By hand: the draft's second guess, 11, was refused, and 12 stands for it."""
    read = Read(runs.trace_html(typed_trace()))
    first, correction, *_ = (at["data-card"] or "" for at in read.tokens)
    assert "step 1" in first and "Accepted: the draft proposed it" in first
    assert "Corrected: the target's likeliest token is ‘#12’" in correction
    marks = [at["data-card"] or "" for tag, at in read.found if tag == "b"]
    assert len(marks) == 1
    assert "Rejected: the target wanted ‘#12’; the draft proposed ‘#11’" in marks[0]


def test_what_models_wrote_is_never_markup_nor_a_formula_and_nothing_is_fetched() -> None:
    page = runs.trace_html(hostile()) + runs.tree_html(hostile().tree(1))
    read = Read(page)
    assert {tag for tag, _ in read.found}.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert not [at for _, at in read.found for name in at if name.startswith("on")]
    assert all(at["data-card"] for at in read.tokens)
    assert "".join(read.told).count("<script>alert(1)</script>${1+1}") > len(hostile().texts)
    assert not re.search("[\x00-\x08\x0b-\x1f]", page)
    assert set(re.findall(r"\w+://[^\s\"')]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in page and "@import" not in page
    assert 'class="ouro-nb tex2jax_ignore mathjax_ignore"' in page


def test_a_long_run_has_its_whole_text_and_says_what_was_left_out() -> None:
    steps: list[Step] = [replace(typed_trace().steps[1], index=n) for n in range(200)]
    trace = make_trace(steps)
    page = runs.trace_html(trace)
    read = Read(page)
    assert trace.text in "".join(read.told)
    cards = sum("data-card" in at for at in read.tokens)
    assert runs.CARDS <= cards <= runs.CARDS + 3 and len(read.tokens) == 600
    assert f"cards are those of the first {runs.CARDS} of 600 tokens" in page
    assert f"the first {runs.TREES} of 200" in page
    assert len(page) < 600_000


def test_the_tree_of_a_step_has_every_proposed_token_and_the_targets_own() -> None:
    """By hand: the root, an accepted guess, a rejected one, and the correction."""
    picture = runs.tree_picture(typed_trace().tree(1))
    assert picture.title == "Step 1: 2 proposed, 1 accepted, then a correction"
    assert picture.svg.count("<rect") == 4 and len(re.findall("<rect.*dasharray", picture.svg)) == 1
    lines = [line.strip() for line in picture.text.splitlines()[1:]]
    assert lines == ["#2", "● #10 ✓", "● #11 ✗", "▲ #12 ✓"]
    assert len(picture.reasons) == 2


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_step_that_there_is_not_is_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match=f"between 1 and 3, got {number}"):
        typed_trace().tree(number)


def test_a_run_without_steps_can_be_shown() -> None:
    Read(runs.trace_html(make_trace([])))
    with pytest.raises(InvalidInput, match="there is no step"):
        make_trace([]).tree(1)


def test_in_letters_the_sign_of_who_wrote_it_stands_before_each_stretch() -> None:
    lines = runs.trace_text(typed_trace()).splitlines()
    head = "ouroboros: 7 tokens in 1.30 s, 5.4 tokens/s, 3 forward passes, 2.33 tokens per pass; "
    assert lines[0].startswith(head)
    assert lines[1] == "●t10 ▲t12 ●t20 ◆t21 ★t22 ●t30 t31 "
    assert "● draft model" in lines[2]
