"""Phrases without a draft model, by the files of their runs."""

from itertools import pairwise
from typing import Any

from tests.visualize.learn.recorded import (
    chapter_of,
    of_step,
    passes,
    raw,
    says,
    shown,
    tokens,
    whole,
)
from visualize.gallery import runs as gallery
from visualize.learn.chapters.phrases import window_figure, window_pool
from visualize.learn.numbers import WIDE


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("phrases")
    name, run, paid = chapter["run"], raw(chapter["run"]), shown(chapter, 6)
    facts = of_step(paid) | passes(name)
    sizes = [step["pool_size"] for step in run["steps"][:-1]]  # no file has the last answers
    facts |= {"kept": run["hyperparameters"]["guess_set_size"]}
    facts |= {"pool": sizes[-1], "pool_steps": len(sizes)}
    wide = raw("bank-lookahead")
    for prefix, one in (("", run), ("wide_", wide)):
        columns, gram = (one["hyperparameters"][key] for key in ("window_size", "ngram_size"))
        full = max(len(step["window"]) for step in one["steps"])
        assert full == columns * (gram - 1) - 1, "as the words derive it"
        facts |= {f"{prefix}columns": columns, f"{prefix}gram": gram, f"{prefix}window": full}
    begin = len(wide["steps"][0]["window"]) + 1  # the text's last token is its first column
    assert begin == facts["wide_columns"] + facts["wide_gram"] - 2, "one less in each pass"
    facts |= {"wide_begin": begin, "wide_first": _first_whole(wide)}
    facts |= {"pool_used": _used_phrases(run), "jacobi_length": whole("bank-jacobi")["length"]}
    facts |= {"learned": paid["tree"]["provenance"][paid["path"][-1]]["step"] + 1}
    says(chapter, facts)


def _first_whole(run: dict[str, Any]) -> int:
    """The first full window one of whose columns stands in the text: read downwards by its nodes'
    parents, answers last."""
    text = [token for step in run["steps"] for token in tokens(step)]
    gram, width = (run["hyperparameters"][key] for key in ("ngram_size", "window_size"))
    for step, after in pairwise(run["steps"]):
        nodes = [[step["tree"]["tokens"][0], -1], *step["window"]]
        if len(nodes) < width * (gram - 1):
            continue
        base = len(step["tree"]["tokens"]) - 1
        lowest = range(len(nodes) - width, len(nodes))
        for at, answer in zip(lowest, after["window"][-width:], strict=True):
            column, node = [answer[0]], at
            for _ in range(gram - 1):
                column.insert(0, nodes[node][0])
                node = max(0, nodes[node][1] - base)
            if any(text[n : n + gram] == column for n in range(len(text))):
                return int(step["index"]) + 1
    raise AssertionError("some phrase of the window stands in the text")


def _used_phrases(run: dict[str, Any]) -> int:
    """Phrases of the windows, by their texts, of which an accepted token came: of those that a
    step proposes by its tree."""
    used = set()
    for step in run["steps"]:
        tree = step["tree"]
        for leaf in range(1, len(tree["tokens"])):
            path = [leaf]
            while tree["parents"][path[0]] > 0:
                path.insert(0, tree["parents"][path[0]])
            if leaf not in tree["parents"] and path[0] in step["path"]:
                said = "".join(run["pieces"][str(tree["tokens"][n])] for n in path)
                used.add((run["pieces"][str(tree["tokens"][0])], said, len(path)))
    full = run["hyperparameters"]["ngram_size"] - 1
    return len([one for one in used if one[2] == full])


def test_a_window_is_drawn_as_it_was_recorded_and_as_wide_as_the_pass() -> None:
    trace = gallery.trace(WIDE)
    told = window_figure(trace)
    rows = [sum(map(len, one["levels"])) for one in told["passes"]]
    assert rows == [step.width - len(step.tree) + 1 for step in trace.steps[: len(rows)]]
    assert rows[:5] == [10, 18, 24, 28, 28], "with the root; W = 7 and N = 5 make 27 without it"
    for step, one in zip(trace.steps, told["passes"], strict=False):
        drawn = [text for level in one["levels"] for text in level][1:]
        assert drawn == [trace.pieces[token] for token, _ in step.window]


def test_a_pool_rebuilt_from_windows_proposes_what_the_run_proposed() -> None:
    """Every phrase that a step proposed is one that the pool holds then."""
    trace = gallery.trace("java-lookahead")
    pool = window_pool(trace)
    assert pool["sizes"] == [step.pool_size for step in trace.steps[:-1]]
    seen = 0
    for step in trace.steps:
        held = {
            (one["key"], one["text"])
            for one in pool["entries"]
            if one["from"] < step.index and (one["to"] is None or one["to"] >= step.index)
        }
        leaves = set(range(1, len(step.tree))) - set(step.tree.parents)
        for leaf in leaves:
            path = step.tree.path_to(leaf)
            text = "".join(trace.pieces[step.tree.tokens[n]] for n in path)
            if len(path) == 2:
                assert (trace.pieces[step.tree.tokens[0]], text) in held
                seen += 1
    assert seen > 50
