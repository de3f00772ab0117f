"""A warm start, by the files of its runs."""

import json
from typing import Any

from ouroboros_core.locations import assets
from tests.visualize.learn.recorded import chapter_of, learned, raw, says, whole
from visualize.gallery import runs as gallery
from visualize.learn.chapters.warm import proposed_pool


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter, cool = chapter_of("warm"), "java-ouroboros"
    name = chapter["run"]
    facts: dict[str, Any] = {"history": learned(name, "history")}
    facts |= {"cold_steps": len(raw(cool)["steps"]), "cold_speedup": whole(cool)["speedup"]}
    measured = json.loads((assets() / "traces" / "measured.json").read_text(encoding="utf-8"))
    for prefix, run in (("", name), ("cold_", cool)):
        steps, speeds = raw(run)["steps"], measured[run]["speedups"]
        facts |= {f"{prefix}pool": steps[0]["pool_size"], f"{prefix}repeats": len(speeds)}
        facts |= {f"{prefix}draft_passes": sum(step["draft_passes"] for step in steps)}
        facts |= {f"{prefix}slowest": min(speeds), f"{prefix}fastest": max(speeds)}
    assert facts["slowest"] > facts["cold_fastest"], "the ranges do not overlap, as is said"
    says(chapter, facts)


def test_the_warm_runs_pool_shows_all_three_ways_of_learning() -> None:
    entries = proposed_pool(gallery.trace("java-ouroboros-warm"))["entries"]
    assert {one["learned"] for one in entries} == {"lookahead", "verification", "history"}
    assert all((one["from"] == -1) == (one["learned"] == "history") for one in entries)
