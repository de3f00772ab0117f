"""Sampled text, by the files of its runs."""

from ouroboros_core.messages import table
from tests.visualize.learn.recorded import (
    RULES,
    chapter_of,
    emitted,
    of_step,
    parts,
    quoted,
    raw,
    says,
    shown,
    tokens,
    whole,
)
from visualize.learn.chapters.unchanged import hundred_draws


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("unchanged")
    run, step = raw(chapter["run"]), shown(chapter, 4)
    judged = step["judged"][-1]
    trial = judged["trials"][-1]
    kept = sum(min(p, q) for p, q in zip(judged["target"], judged["draft"], strict=True))
    keyed, plain = raw("sampled-match"), raw("sampled-autoregressive")
    pace = whole("sampled-match")
    pairs = zip(
        *([t for s in one["steps"] for t in tokens(s)] for one in (keyed, plain)), strict=True
    )
    assert trial["u"] >= trial["p"] / trial["q"], "it was rejected"
    facts = of_step(step)
    facts |= {
        "p": trial["p"],
        "q": trial["q"],
        "u": trial["u"],
        "keep": trial["p"] / trial["q"],
        "kept": kept,
        "lacking": 1 - kept,
        "guess": quoted(run, step["tree"]["tokens"][trial["node"]]),
        "target": quoted(run, step["target_token"]),
        "equal": sum(a == b for a, b in pairs),
        "all": emitted(plain),
        **{f"keyed_{k}": v for k, v in (pace | parts("sampled-match")).items()},
        "keyed_ratio": round(pace["length"], 2) / round(pace["cost"], 2),
        "top_p": run["sampling"]["top_p"],
        "temperature": run["sampling"]["temperature"],
    }
    says(chapter, facts | RULES | {"redrawn": 30, "again": 0.3, "biased": 39, "wanted": 30})


def test_the_worked_example_comes_out_as_the_target_wants_it() -> None:
    """100 draws, counted by hand: p = .3, .5, .2 and q = .6, .2, .2."""
    found = hundred_draws()
    assert found["rows"] == [
        ["sun", 30, 60, 30, 30, 0, 30],
        ["rain", 50, 20, 20, 0, 30, 50],
        ["snow", 20, 20, 20, 0, 0, 20],
    ]
    words = table()["learn.unchanged.2"] + table()["learn.unchanged.3"]
    assert all(f"{count}" in words for count in (100, 60, 30, 20, 70, 50))
