"""Copied guesses, by the files of their runs and of the benchmark."""

import json
import re
from typing import Any

from ouroboros_core.locations import assets
from ouroboros_core.lookup.suffix_automaton import SuffixAutomaton
from tests.visualize.learn import longest_earlier
from tests.visualize.learn.recorded import (
    chapter_of,
    of_step,
    quoted,
    raw,
    says,
    shown,
    tokens,
)
from visualize.gallery import runs as gallery
from visualize.learn.chapters.copying import YOURS


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    """Copied positions are found again by reading prompt and text."""
    chapter = chapter_of("copying")
    run = raw(chapter["run"])
    full_copy, wrong, long = (shown(chapter, stop) for stop in (1, 2, 4))
    refused = wrong["tree"]["tokens"][len(wrong["path"]) + 1]
    written = [
        (s["index"], "".join(run["pieces"][str(t)] for t in tokens(s))) for s in run["steps"]
    ]
    opened = next(index for index, text in written if "```" in text)
    closed = next(index for index, text in written if index > opened and "```" in text[3:] + "```")
    full = [s["index"] for s in run["steps"] if len(s["path"]) == 5]
    assert opened < full[0] < full[-1] and closed > opened
    parts = {"talk": run["steps"][:opened], "code": run["steps"][opened : full[-1] + 1]}
    parts["rest"] = run["steps"][full[-1] + 1 :]
    rows = json.loads((assets() / "benchmark.json").read_text(encoding="utf-8"))["runs"]
    groups = {"summaries": "summarization", "rag": "rag", "chat": "mt_bench", "questions": "qa"}
    facts: dict[str, Any] = of_step(full_copy) | {
        "match": _matched(run, full_copy),
        "guess": quoted(run, refused),
        "target": quoted(run, wrong["target_token"]),
        "sam_match": _matched(raw("river-sam"), long),
        "sam_checked": len(long["tree"]["tokens"]) - 1,
    }
    assert facts["sam_checked"] == facts["sam_match"] + 1, "one more, as the words say"
    assert facts["sam_checked"] == len(long["path"]), "all were accepted"
    for name, steps in parts.items():
        facts |= {f"{name}_steps": len(steps), f"{name}_tokens": sum(len(tokens(s)) for s in steps)}
    for fact, group in groups.items():
        found = [r for r in rows if r["group"] == group and r["method"] == "prompt_lookup"]
        facts[fact] = sum(r["tokens"] for r in found) / sum(r["passes"] for r in found)
    says(chapter, facts)


def _matched(run: dict[str, Any], step: dict[str, Any]) -> int:
    """How many tokens before a copy agree with those before its source; in prompt lookup, three at
    most."""
    text = run["prompt"]["tokens"] + [t for s in run["steps"][: step["index"]] for t in tokens(s)]
    at = step["tree"]["provenance"][1]["position"]
    agree = 0
    while agree < at and text[at - 1 - agree] == text[-1 - agree]:
        agree += 1
    return min(agree, int(run["hyperparameters"].get("max_ngram", agree)))


def test_a_suffix_link_leads_where_the_lesson_says() -> None:
    """In the text that the picture begins with: before the second ‘river’ stood ‘. The’, which only
    ‘boats’ had followed; the match that is left begins with ‘The’."""
    chapter = chapter_of("copying")
    words, read = chapter["stops"][6]["words"][0], chapter["figures"]["lost"]["read"]
    tokens = re.findall(r" ?\w+| ?[^\w\s]", " " + YOURS)
    places = [n for n in range(len(tokens) - 1) if tokens[n : n + 2] == [".", " The"]]
    assert [tokens[n + 2] for n in places] == [" boats", " river"]
    assert all(f"‘{word}’" in words for word in (". The", "boats", "river", "The"))
    assert tokens[:2] == [" The", " river"], "at the beginning"
    ids = [tokens.index(token) for token in tokens]
    later = ids.index(ids[1], 2)
    assert " " + read == "".join(tokens[:later])
    automaton = SuffixAutomaton().extend(ids[:later])
    assert automaton.recent is not None
    assert [automaton.recent.length, automaton.recent.end] == longest_earlier(ids[:later])
    assert automaton.recent.length == 2, "‘. The’"
    automaton.append(ids[later])
    assert [automaton.recent.length, automaton.recent.end] == [2, 2], "‘The river’, as at the start"


def test_a_copy_and_its_source_are_pieces_of_the_prompt_and_of_the_run() -> None:
    """The source is one piece of the prompt, and the copy is what the step proposed."""
    chapter = chapter_of("copying")
    trace, told = gallery.trace(chapter["run"]), chapter["figures"]["copy"]
    stop = next(one for one in chapter["stops"] if one.get("figure") == "copy")
    step = trace.steps[stop["at"]["step"]]
    before, match, copy, after = told["source"]
    assert before + match + copy + after in trace.prompt.text
    assert copy == told["copy"] == "".join(trace.pieces[t] for t in step.tree.tokens[1:])
    written = "".join(trace.pieces[t] for one in trace.steps[: step.index] for t in one.tokens)
    assert written.endswith("".join(told["answer"])) and told["answer"][1] == match
