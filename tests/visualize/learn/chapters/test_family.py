"""The family today, by the files of its runs and heads."""

import json
from typing import Any

from ouroboros_core.locations import assets
from tests.visualize.learn.recorded import RULES, chapter_of, depth, of_step, raw, says, whole
from visualize.learn.chapters.family import FAMILY


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("family")
    for name in ("smollm2-eagle3", "smollm2-dspark"):
        head = json.loads((assets() / "models" / name / "head.json").read_text("utf-8"))
        assert head["depths"] == [10, 20], "and the last of 30 layers"
    every = [10, 20, 30]
    reads = {"heads": every, "mtp": [30], "block": every, "suffix": [], "sampled": []}
    found: dict[str, Any] = {"heads_reads": "10, 20 and 30", **RULES}
    found |= {"snow": 20, "beyond": 15 * 2 // 5}  # of 15 second guesses, with p = .2 and q = .5
    assert raw("river-sam")["hyperparameters"]["copy_from"] == "newest", "the latest place"
    stops = [stop for stop in chapter["stops"] if "aside" in stop]
    for key, stop in zip(FAMILY, stops, strict=True):
        step = raw(stop["run"])["steps"][stop["at"]["step"]]
        facts = of_step(step) | {"passes": step["draft_passes"], "depth": depth(step)}
        found |= {
            f"{key}_{name}": facts[name] for name in ("passes", "checked", "depth", "accepted")
        }
        found[f"{key}_speedup"] = whole(stop["run"])["speedup"]
        settings = raw(stop["run"])["hyperparameters"]
        if key == "mtp":
            assert step["draft_passes"] == len(step["tree"]["tokens"]) - 1, "a pass for each guess"
        if key == "sampled":
            found |= {"sampled_chains": settings["chains"], "sampled_gamma": settings["gamma"]}
            assert facts["checked"] < settings["chains"] * settings["gamma"], "chains share nodes"
            rules = {trial["rule"] for trial in step["judged"][0]["trials"]}
            assert rules == {"k-seq"}, "the rule that the words explain"
            first = [trial["node"] for trial in step["judged"][0]["trials"] if trial["accepted"]]
            assert step["judged"][0]["trials"][0]["node"] != first[0] == step["path"][0], (
                "a sibling"
            )
        picture = chapter["figures"][stop["aside"]]
        assert len(picture["levels"]) == depth(step), "each position has a column"
        assert picture["passes"] == step["draft_passes"]
        assert picture["layers"] == 30 and picture["read"] == reads[key]
    says(chapter, found)
