"""A rejected guess, by the file of its run."""

from tests.visualize.learn.recorded import (
    chapter_of,
    corrected,
    of_step,
    quoted,
    raw,
    says,
    shorter_drafts,
    shown,
)


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("reject")
    run, step = raw(chapter["run"]), shown(chapter, 0)
    refused = chapter["stops"][0]["card"]["node"]
    assert refused not in step["path"], "the card is that of a rejected token"
    judged = step["judged"][-1]
    chances = dict(zip(judged["tokens"], judged["target"], strict=True))
    guess, own = step["tree"]["tokens"][refused], step["target_token"]
    reached = [[s for s in run["steps"] if len(s["path"]) + corrected(s) >= d] for d in (1, 4)]
    assert len(shorter_drafts(chapter["run"])) == 1, "only the last draft, as the words say"
    facts = of_step(step)
    facts |= {
        "guess": quoted(run, guess),
        "target": quoted(run, own),
        "guess_chance": chances[guess],
        "target_chance": chances[own],
        "reached": len(reached[1]) / len(reached[0]),
        "fourth": len(reached[1]),
    }
    says(chapter, facts)
