"""The sheet of all methods."""

from ouroboros_core import methods
from ouroboros_core.methods.parts.base import Guesser
from ouroboros_core.methods.parts.needs import Need
from visualize.watch.families import FAMILIES, families


def test_every_method_that_the_page_can_run_is_in_one_of_six_families() -> None:
    """The oracle is the list of methods; one needs an object that only a program can give."""
    sheet = families()
    listed = [method["id"] for family in sheet for method in family["methods"]]
    runnable = {
        name for name, kind in methods.available().items() if Need.CANDIDATES not in kind.needs
    }
    assert len(listed) == len(set(listed)) and set(listed) == runnable
    assert "hf_candidates" not in listed
    more = {m["id"] for family in sheet for m in family["methods"] if m["superseded"]}
    assert more == {"hf_prompt_lookup", "hf_early_exit"}, "none of the papers' that began this"
    assert len(sheet) == 6 and all(family["methods"] for family in sheet)
    assert set(Guesser) <= set(FAMILIES), "the map's columns"
