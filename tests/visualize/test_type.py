"""Type on the page: one scale of sizes."""

from __future__ import annotations

import re

from ouroboros_core.locations import assets

SCALE = ["0.75rem", "0.85rem", "0.9rem", "1rem", "1.1rem", "1.3rem"]
HIDDEN = "0"
"""Of an element of which only a picture is to be seen."""


def test_there_is_one_scale_of_sizes() -> None:
    """But for what a notebook shows, in a page of which nothing is known."""
    sheets = [one for one in (assets() / "css").glob("*.css") if one.name != "notebook.css"]
    found = {
        size for sheet in sheets for size in re.findall(r"font-size:\s*([^;]+);", sheet.read_text())
    }
    assert len(sheets) > 5
    assert found <= {*SCALE, HIDDEN}, sorted(found)
