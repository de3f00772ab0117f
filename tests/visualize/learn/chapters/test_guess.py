"""The chapter on guesses, by the files of its runs."""

import json
import re
from typing import Any

from ouroboros_core.locations import assets
from tests.visualize.learn.recorded import (
    GRID,
    chapter_of,
    of_step,
    parts,
    passes,
    raw,
    says,
    shipped,
    shorter_drafts,
    shown,
    weights,
    whole,
)
from visualize.learn.chapters import guess


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("guess")
    name = chapter["run"]
    facts = of_step(shown(chapter, 0)) | passes(name) | parts(name) | weights() | _grid()
    assert raw(name)["target"] == "SmolLM2-135M-Instruct"
    ratio = round(whole(name)["length"], 2) / round(whole(name)["cost"], 2)
    says(chapter, facts | {"target_name": raw(name)["target"], "ratio": ratio})


def _grid() -> dict[str, Any]:
    assert all(raw(name)["hyperparameters"]["gamma"] == gamma for gamma, name in GRID.items())
    found: dict[str, Any] = {"short": 1, "long": 8}
    for key in ("short", "long"):
        steps = raw(GRID[found[key]])["steps"]
        found |= {f"{key}_steps": len(steps)}
        found |= {f"{key}_passes": sum(step["draft_passes"] for step in steps)}
    for key in ("c", "speedup"):
        column = [whole(name)[key] for name in GRID.values()]
        found |= {f"low_{key}": min(column), f"high_{key}": max(column)}
    assert shorter_drafts(GRID[8]), "as the words say"
    return found


def test_a_question_about_guesses_is_one_that_a_reader_can_answer() -> None:
    """Most of them are words, and what was rejected does not look like what stands instead."""
    chapter = chapter_of("guess")
    for one in chapter["question"]["rounds"]:
        words = [text for text in one["tokens"] if re.search(r"[^\W\d_]", text)]
        assert 2 * len(words) >= len(one["tokens"])
        pair = re.search("Instead of ‘(.*)’ the target wanted ‘(.*)’", one["why"])
        if pair is not None:
            assert pair[1].split() != pair[2].split() and all(
                re.search("[^\\W\\d_]", t) for t in pair.groups()
            )


def test_a_question_may_ask_about_every_full_step_and_tells_what_became_of_it() -> None:
    chapter = chapter_of("guess")
    rounds = chapter["question"]["rounds"]
    for name in guess.QUIZ:
        run, asked = raw(name), [r for r in rounds if r["run"] == name]
        assert [r["step"] for r in asked] == sorted(r["step"] for r in asked)
        assert len({r["accepted"] for r in asked}) > 2 and len(asked) > 10
        for one in asked:
            step = run["steps"][one["step"]]
            assert one["tokens"] == [run["pieces"][str(t)] for t in step["tree"]["tokens"][1:]]
            assert one["accepted"] == len(step["path"])
    assert chapter["run"] == guess.QUIZ[0]
    own = [stop for stop in chapter["stops"] if stop.get("run", chapter["run"]) in guess.QUIZ]
    assert max(stop["at"]["step"] for stop in own) < 3, "the rest is still to be guessed"


def test_the_draft_is_as_large_as_the_lesson_says() -> None:
    """The oracle is what ships: its layers, and the rows of the output matrix that it computes, a
    quarter of the target's."""
    file = assets() / "models" / "smollm2-draft" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    weights, outputs = shipped("smollm2-draft")
    assert config["num_hidden_layers"] == 4 and 4 * outputs == config["vocab_size"]
    assert [round(n / 1e6) for n in (weights, outputs * config["hidden_size"])] == [14, 7]
