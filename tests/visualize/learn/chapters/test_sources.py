"""Who guesses, by the files of the runs."""

from typing import Any

from tests.visualize.learn.recorded import (
    beside,
    chapter_of,
    raw,
    says,
    seconds,
    shipped,
    tokens,
    whole,
)
from visualize.learn.chapters.sources import SOURCES


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    found: dict[str, Any] = {}
    for key, (name, *_) in SOURCES.items():
        run, base = raw(name), beside(name)
        one = seconds(base, "draft", "verify", "learn", "host") / len(base["steps"])
        found[f"{key}_cost"] = seconds(run, "draft") / len(run["steps"]) / one
        known = ("length", "rate", "speedup")
        found |= {f"{key}_{k}": v for k, v in whole(name).items() if k in known}
    for key in ("draft", "head"):
        name = SOURCES[key][0]
        run = raw(name)
        found[f"{key}_likeliest"] = _likeliest(run)
        found[f"{key}_c"] = whole(name)["c"]
        rows, drafting = (sum(s[k] for s in run["steps"]) for k in ("draft_rows", "draft_passes"))
        found[f"{key}_rows"] = rows / drafting
        found[f"{key}_drafting"] = drafting / len(run["steps"])
        assert run["draft"] == {"draft": "smollm2-draft", "head": "smollm2-eagle3"}[key]
        weights, outputs = shipped(run["draft"])
        found |= {f"{key}_size": weights / 1e6 + outputs * 576 / 1e6, "output": outputs * 576 / 1e6}
    assert found["head_drafting"] > found["draft_drafting"], "more passes, as the words say"
    assert round(found["head_c"], 2) == round(found["draft_c"], 2), "either pass costs the same"
    says(chapter_of("sources"), found)


def _likeliest(run: dict[str, Any]) -> float:
    """How often the target's token was the first choice among the guesses for a position."""
    hits = reached = 0
    for step in run["steps"]:
        written = tokens(step)
        for depth, judged in enumerate(step["judged"]):
            parents, ids = step["tree"]["parents"], step["tree"]["tokens"]
            guesses = {
                t for t, parent in zip(ids, parents, strict=True) if parent == judged["node"]
            }
            if guesses:
                draft = dict(zip(judged["tokens"], judged["draft"], strict=True))
                reached += 1
                hits += max(guesses, key=draft.__getitem__) == written[depth]
    return hits / reached
