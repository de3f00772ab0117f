"""Suffixes, by the files of their runs."""

import re
from typing import Any

from tests.visualize.learn.recorded import (
    chapter_of,
    in_signs,
    learned,
    of_step,
    quoted,
    raw,
    says,
    shown,
    source,
    whole,
)
from visualize.gallery import runs as gallery
from visualize.learn.chapters.suffixes import DISCARDED


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("suffixes")
    run, step, tree = raw(chapter["run"]), shown(chapter, 0), shown(chapter, 4)
    assert tree["path"][0] != 1 and tree["tree"]["parents"][:3] == [-1, 0, 0], "a second guess"
    nodes = range(1, len(step["tree"]["tokens"]))
    drafting = [s["draft_passes"] for s in run["steps"]]
    origins = [s["tree"]["provenance"] for s in run["steps"]]
    drafted = [sum(one["source"] == "draft" for one in nodes) for nodes in origins]
    fewer = sum(passes < count for passes, count in zip(drafting, drafted, strict=True))
    assert 2 * fewer > len(drafted), "most steps need fewer draft passes than draft tokens"
    facts = of_step(step) | _pairs()
    facts |= _fragment(raw(chapter["stops"][6]["run"]), shown(chapter, 6))
    facts |= {
        "hung": sum(source(step, n) == "suffix" for n in nodes),
        "drafted": sum(source(step, n) == "draft" for n in nodes),
        "used": sum(source(step, n) == "suffix" for n in step["path"]),
        "passes": step["draft_passes"],
        "suffixes": sum(source(s, n) == "suffix" for s in run["steps"] for n in s["path"]),
        "per_token": sum(drafting) / sum(drafted),
        "window": learned(chapter["run"], "lookahead"),
        "gamma": run["hyperparameters"]["gamma"],
        "pair_gamma": raw("java-speculative")["hyperparameters"]["gamma"],
    }
    says(chapter, facts)


def _pairs() -> dict[str, float]:
    """Runs without suffixes; of chain and tree, by one draft model, the chain has no siblings."""
    found = {}
    chain, tree = raw("fibonacci-speculative"), raw("fibonacci-multi_candidate")
    assert chain["draft"] == tree["draft"] and chain["prompt"] == tree["prompt"]
    for key, run in (("chain", chain), ("tree", tree)):
        parents = [step["tree"]["parents"] for step in run["steps"]]
        assert (key == "tree") == any(len(set(one)) < len(one) for one in parents)
        found[f"{key}_rows"] = sum(step["width"] for step in run["steps"]) / len(parents)
    names = ("java-speculative", "fibonacci-speculative", "fibonacci-multi_candidate")
    for key, name in zip(("pair", "chain", "tree"), names, strict=True):
        found |= {f"{key}_{fact}": whole(name)[fact] for fact in ("length", "speedup")}
    assert found["tree_speedup"] < found["chain_speedup"], "as the words say"
    return found


def _fragment(run: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    """The phrase of the accepted nodes that were learned by verification; what the words say of the
    draft that it comes from is looked up there."""
    tree = step["tree"]
    nodes = [n for n in step["path"] if tree["provenance"][n]["learned"] == "verification"]
    learned = tree["provenance"][nodes[0]]["step"]
    key, *phrase = [tree["tokens"][n] for n in (tree["parents"][nodes[0]], *nodes)]
    taught = run["steps"][learned]
    draft = [n for n in range(1, len(taught["tree"]["tokens"])) if source(taught, n) == "draft"]
    lost = [taught["tree"]["tokens"][n] for n in draft[len(set(draft) & set(taught["path"])) :]]
    assert [key, *phrase[:-1]] == lost[-len(phrase) :], "the draft ends with it, as the words say"
    assert len(phrase) == run["hyperparameters"]["ngram_size"] - 1, "whole"
    said = [run["pieces"][str(token)] for token in (key, *phrase)]
    return {
        "fragment_begin": in_signs("".join(said[:-1])),
        "fragment_phrase": in_signs("".join(said[1:])),
        "fragment_last": in_signs(said[-1]),
        "fragment_key": quoted(run, key),
        "fragment_learned": learned + 1,
        "fragment_step": step["index"] + 1,
        "fragment_accepted": len(phrase),
    }


def test_the_mask_is_of_words_that_a_draft_and_suffixes_wrote() -> None:
    figure = chapter_of("suffixes")["figures"]["mask"]
    step = gallery.trace(DISCARDED).steps[figure["step"]]
    assert figure["looks"] == [one.source.value for one in step.tree.provenance]
    assert {"draft", "suffix"} < set(figure["looks"])
    words = [text for text in figure["tokens"] if re.search(r"[^\W\d_]", text)]
    assert 2 * len(words) > len(figure["tokens"])
    leaves = len(figure["tokens"]) - len(set(figure["parents"]) - {-1})
    assert leaves >= 3, "several branches"


def test_the_snake_shows_a_phrase_that_was_thrown_away_and_accepted_later() -> None:
    figure = chapter_of("suffixes")["figures"]["snake"]
    looks = [
        [(token["text"], token["look"]) for token in place["tokens"]] for place in figure["places"]
    ]
    trace = gallery.trace(DISCARDED)
    taught, used = (
        trace.steps[int(re.search(r"\d+", place["title"])[0]) - 1]  # type: ignore[index]
        for place in (figure["places"][0], figure["places"][3])
    )
    for step, chips in ((taught, looks[0]), (used, looks[3])):
        told = [(trace.pieces[token], n in step.path) for n, token in enumerate(step.tree.tokens)]
        for chip, node in zip(chips, told[1:], strict=False):
            assert (chip[0], "discarded" not in chip[1]) == node
    phrase = [text for text, look in looks[3] if look == "phrase"]
    assert phrase == [text for text, look in looks[2] if look == "phrase"]
    assert looks[1] == looks[2] and [t for t, look in looks[0] if "phrase" in look] == phrase[:-1]
