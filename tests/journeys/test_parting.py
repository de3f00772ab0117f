"""Where the text of a run parts from that of plain decoding: a mark on the first token that
differs, and why in its card."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from tests.visitor import faultless, has
from visualize.deploy.static_site import replay_html
from visualize.gallery import runs as gallery
from visualize.run import view as views

RUN = "fibonacci-speculative"


def parted() -> tuple[Trace, Trace, Divergence]:
    """A recorded run beside a plain run that says something else from its thirteenth token on, and
    the judgement that the two tie."""
    run, plain = gallery.trace(RUN), gallery.baseline(RUN)
    assert plain is not None
    step = plain.steps[12]
    other = replace(step, target_token=next(t for t in run.pieces if t != step.target_token))
    plain = replace(plain, steps=(*plain.steps[:12], other, *plain.steps[13:]))
    position = metrics.first_difference(run.tokens, plain.tokens)
    assert position == 12
    token, theirs = run.tokens[position], plain.tokens[position]
    return run, plain, Divergence(position, token, theirs, 0.01, 0.5, "bfloat16")


def view(difference: Divergence | None) -> views.View:
    run, plain, _ = parted()
    return views.run_view(Summary(run, plain, difference=difference), run="r", seq=1, badge_text="")


def test_a_view_names_the_token_where_two_texts_part_and_whether_it_is_a_tie() -> None:
    run, plain, tie = parted()
    for judgement, mark, words in (
        (tie, "tie", tie.sentence(run.pieces | plain.pieces)),
        (replace(tie, ulps=50.0), "other", "more than rounding explains. Please report this."),
        (None, "other", "Not judged yet."),
    ):
        parts = view(judgement)["parts"]
        assert (parts["index"], parts["mark"]) == (12, mark) and parts["words"].endswith(words)


def test_where_two_texts_are_equal_or_need_not_be_nothing_is_marked() -> None:
    run, plain, tie = parted()
    assert views.parting_view(Summary(run, None)) is None
    assert views.parting_view(Summary(run, gallery.baseline(RUN))) is None
    rejection = {**run.sampling, "temperature": 1.0, "acceptance": "rejection"}
    rejected = replace(run, sampling=rejection)
    assert views.parting_view(Summary(rejected, plain)) is None
    short = replace(run, steps=run.steps[:2])
    assert views.parting_view(Summary(short, replace(plain, steps=plain.steps[:30]), tie)) is None


@pytest.mark.browser
def test_a_saved_replay_marks_the_tie_in_its_text_and_the_card_says_why(
    browser: Any, tmp_path: Path
) -> None:
    run, plain, tie = parted()
    file = tmp_path / "replay.html"
    file.write_text(replay_html(run, plain, tie), encoding="utf-8")
    with faultless(browser, reduced_motion="reduce") as page:
        page.goto(file.as_uri())
        marked = page.locator("#run .ouro-token[data-parts]")
        has(marked, 1)
        assert marked.evaluate_all("nodes => nodes.map(n => n.dataset)")[0]["index"] == "12"
        glyph = "n => getComputedStyle(n, '::before').content"
        assert marked.evaluate(glyph) == '"≈"'
        assert marked.inner_text().strip() == run.texts[12].strip(), "the text itself is as it was"
        marked.click()
        card = page.locator("#run .ouro-card")
        assert tie.sentence(run.pieces | plain.pieces) in card.inner_text()
        page.keyboard.press("Escape")
        page.locator("#run .ouro-token[data-index='13']").click()
        assert "plain decoding" not in card.inner_text(), "of that token alone"
