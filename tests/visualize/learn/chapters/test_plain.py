"""Plain decoding, by the files of its runs."""

from tests.visualize.learn.recorded import chapter_of, passes, raw, says, shown, tokens, whole


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("plain")
    run, step = raw(chapter["run"]), shown(chapter, 1)
    judged = step["judged"][0]
    assert "1.5B" in run["target"] and run["environment"]["dtype"] == "bfloat16"
    facts = {
        "chance": judged["target"][judged["tokens"].index(tokens(step)[0])],
        "threads": run["environment"]["threads"],
        "best_speedup": whole("java-ouroboros")["speedup"],
        "weights": 2 * 1.54,  # 1.54 billion, by the model's card, of two bytes each
    }
    says(chapter, passes("java-speculative") | facts)
