"""Type on the page: one scale of sizes."""

import re

from tests import ROOT

SCALE = ["0.75rem", "0.85rem", "0.9rem", "1rem", "1.1rem", "1.3rem"]
HIDDEN = "0"
"""Of an element of which only a picture is to be seen."""
MARK = "0.6em"
"""Of a mark without letters in a line of text: the height of its bar."""


BROAD = re.compile(r":(?:is|where)\([^()]*,[^()]*\) (?:button|input|select|textarea|a)\b")


def test_what_is_said_of_all_buttons_of_a_place_gives_way_to_what_is_said_of_one() -> None:
    """Gradio puts its classes before every selector, and behind each comma: a list inside `:is()`
    then counts for more than the class of a single button."""
    found = {
        (sheet.name, selector)
        for sheet in (ROOT / "visualize").glob("*/*.css")
        for selector in BROAD.findall(sheet.read_text(encoding="utf-8"))
    }
    assert not found


def test_there_is_one_scale_of_sizes() -> None:
    """But for what a notebook shows, in a page of which nothing is known."""
    sheets = [one for one in (ROOT / "visualize").glob("*/*.css") if one.name != "notebook.css"]
    found = {
        size
        for sheet in sheets
        for size in re.findall(r"font-size:\s*([^;]+);", sheet.read_text(encoding="utf-8"))
    }
    assert len(sheets) > 5
    assert found <= {*SCALE, HIDDEN, MARK}, sorted(found)
