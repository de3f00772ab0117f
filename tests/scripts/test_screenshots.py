"""The animated picture of the README, as it ships."""

from typing import Any

from PIL import Image

from ouroboros_core.locations import assets
from scripts.documents.pages import HERO
from scripts.screenshots import FRAME, MOST_BYTES, begin, rest
from visualize.gallery import runs as gallery

PICTURE = assets() / "screenshots" / "watch.gif"


def test_the_animated_picture_is_small_and_plays_at_the_speed_of_the_run() -> None:
    """The oracle is the trace: from its first accepting step to its last it takes as long."""
    assert PICTURE.stat().st_size <= MOST_BYTES
    picture: Any
    with Image.open(PICTURE) as picture:
        assert picture.size == FRAME
        assert 15 <= picture.n_frames <= 40
        shown = []
        for frame in range(picture.n_frames - 1):
            picture.seek(frame)
            shown.append(picture.info["duration"] / 1000)
    steps = gallery.trace(HERO).steps
    first, *_, last = (step.index for step in steps if step.path)
    played = sum(sum(step.seconds.phases) for step in steps[first + 1 : last + 1])
    assert abs(sum(shown) - played) < 0.25 * played


def test_it_begins_with_the_first_step_that_accepts_a_guess_and_rests_on_the_last() -> None:
    """The oracle: the seconds that the trace's steps take, up to each of them."""
    steps = gallery.trace(HERO).steps
    accepting = [bool(step.path) for step in steps]
    assert True in accepting and not accepting[-1], "the run ends on a plain step"
    ends = accepting.index(True) + 1, len(steps) - accepting[::-1].index(True)
    for moment, end in zip((begin, rest), ends, strict=True):
        played = sum(sum(step.seconds.phases) for step in steps[:end])
        assert abs(moment(gallery.trace(HERO)) - played) < 0.25 * sum(steps[-1].seconds.phases)


def test_its_first_frame_is_of_the_page_with_text() -> None:
    """A page that was not drawn yet is of one colour where the text and the sentence stand."""
    with Image.open(PICTURE) as picture:
        first: Any = picture.convert("L")
    for box in ((4, 2, 700, 26), (4, 30, 600, 200)):
        darkest, lightest = first.crop(box).getextrema()
        assert darkest < 100, box
        assert lightest > 240, box
