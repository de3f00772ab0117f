"""The map of the field."""

from __future__ import annotations

import re

from ouroboros_core import methods
from ouroboros_core.methods.parts.base import Guesser, Shape
from visualize.learn import method_map


def test_every_method_that_guesses_stands_on_the_map_once() -> None:
    named = [method.id for found in method_map.placed().values() for method in found]
    guessing = {m.id for m in methods.available().values() if m.proposes and m.id != "draft_only"}
    elsewhere = {methods.DEFAULT, "hf_candidates"}
    assert sorted(named) == sorted(guessing - elsewhere), "what unites them is told below"
    assert "hf_candidates" in guessing, "it needs an object of a program"


def test_the_map_has_a_row_a_shape_a_column_a_guesser_and_links_to_the_papers() -> None:
    page = method_map.field_map()
    assert page.count('scope="row"') == len(Shape)
    assert page.count('scope="col"') == len(Guesser)
    links = re.findall(r'href="([^"]+)"', page)
    papers = {m.paper for found in method_map.placed().values() for m in found}
    assert set(links) == papers and all(link.startswith("https://") for link in links)
