"""The animated picture of the README, as it ships."""

from typing import Any

import pytest
from PIL import Image

from ouroboros_core.locations import assets
from scripts.documents.pages import HERO
from scripts.screenshots import FRAME_WIDTH, LAST_MS, MOST_BYTES, REST_MS, played
from visualize.gallery import runs as gallery

PICTURE = assets() / "screenshots" / "watch.gif"


def test_the_animated_picture_is_small_and_plays_at_the_speed_of_the_run() -> None:
    """The oracle is the trace: the steps after its first accepting one take as long, and the pause
    on the last accepting one comes on top."""
    assert PICTURE.stat().st_size <= MOST_BYTES
    picture: Any
    with Image.open(PICTURE) as picture:
        assert picture.width == FRAME_WIDTH
        assert 15 <= picture.n_frames <= 40
        shown = []
        for frame in range(picture.n_frames - 1):
            picture.seek(frame)
            shown.append(picture.info["duration"] / 1000)
    steps = gallery.trace(HERO).steps
    first = next(step.index for step in steps if step.path)
    seconds = sum(sum(step.seconds.phases) for step in steps[first + 1 :])
    assert sum(shown) == pytest.approx(seconds + REST_MS / 1000, rel=0.05)


def test_it_plays_every_step_from_the_first_that_accepts_a_guess_and_rests_on_the_last() -> None:
    """The oracle: the seconds that the trace's steps take, up to each of them."""
    steps = gallery.trace(HERO).steps
    seconds = [sum(step.seconds.phases) for step in steps]
    accepting = [bool(step.path) for step in steps]
    first, last = accepting.index(True), len(steps) - 1 - accepting[::-1].index(True)
    moments, shown = played(gallery.trace(HERO))
    assert len(moments) == len(shown) == len(steps) - first
    for moment, end in zip(moments, range(first + 1, len(steps) + 1), strict=True):
        assert abs(moment - sum(seconds[:end])) < 0.25 * seconds[-1]
    assert shown[-1] == LAST_MS
    longest = max(range(len(shown) - 1), key=shown.__getitem__)
    assert longest == last - first and accepting[first + longest]


def test_its_first_frame_is_of_the_page_with_text() -> None:
    """A page that was not drawn yet is of one colour where the text and the sentence stand."""
    with Image.open(PICTURE) as picture:
        first: Any = picture.convert("L")
    for box in ((4, 2, 700, 26), (4, 30, 600, 200)):
        darkest, lightest = first.crop(box).getextrema()
        assert darkest < 100, box
        assert lightest > 240, box
