"""The lessons: every number is that of the run shown, every stop points at something, every
question has its answer."""

from __future__ import annotations

import json
import re
from math import prod
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from ouroboros_core import methods
from ouroboros_core.locations import assets
from ouroboros_core.messages import table
from ouroboros_core.rules.parts.candidates import pick
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.summary import Summary
from ouroboros_core.tree import Provenance, TreeBuilder
from tests.visualize.learn import as_shown
from visualize.deploy.static_site import LABELS, LIVE
from visualize.gallery import runs as gallery
from visualize.learn import facts as lesson_facts
from visualize.learn import field
from visualize.learn import lessons as learn
from visualize.learn.components import ONWARD
from visualize.page import PLACES
from visualize.run import diagnosis

FORMULAS = {
    "learn.unchanged.2",
    "learn.unchanged.3",
    "learn.unchanged.4",
    "learn.phrases.3",
    "learn.phrases.5",
    "learn.phrases.6",
    "learn.phrases.7",
    "learn.pays.3",
    "learn.pays.4",
    "learn.pays.5",
}
"""Texts that hold numbers of formulas, which belong to no run."""
UNLINKED = {
    "unchanged.4": "a formula",
    "unchanged.10": "the temperature of the runs, not of the picture",
    "unchanged.11": "rates of an example that an earlier stop shows",
    "pays.4": "a formula",
    "pays.10": "a draft length that the reader chooses",
}
"""Stops whose numbers light no part of the picture, and why."""
MOST_WORDS = 80
"""Of a stop."""
MOST_SIGNS = 8
"""By which a stop with formulas may be longer: their signs count as words."""


def raw(name: str) -> dict[str, Any]:
    """The file of a run as it lies there: none of the project's own reading of it."""
    found: dict[str, Any] = json.loads(
        (assets() / "traces" / f"{name}.json").read_text(encoding="utf-8")
    )
    return found


def beside(name: str) -> dict[str, Any]:
    """The plain run that a run is compared with: the text of its prompt's plain run, the seconds of
    the one that was made just before it."""
    files = assets() / "traces"
    seconds = json.loads((files / "measured.json").read_text(encoding="utf-8"))[name]["plain"]
    plain = raw(f"{name.split('-', maxsplit=1)[0]}-autoregressive")
    for step, taken in zip(plain["steps"], seconds, strict=True):
        step["seconds"] = dict(
            zip(("prefill", "draft", "verify", "learn", "host"), taken, strict=False)
        )
    return plain


def tokens(step: dict[str, Any]) -> list[int]:
    own = [] if step["target_token"] is None else [step["target_token"]]
    return [step["tree"]["tokens"][node] for node in step["path"]] + own


def source(step: dict[str, Any], node: int) -> str:
    return str(step["tree"]["provenance"][node]["source"])


def emitted(run: dict[str, Any]) -> int:
    return sum(len(tokens(step)) for step in run["steps"])


def seconds(run: dict[str, Any], *phases: str) -> float:
    names = phases or ("prefill", "draft", "verify", "learn", "host")
    return sum(float(step["seconds"][name]) for step in run["steps"] for name in names)


def corrected(step: dict[str, Any]) -> bool:
    last = step["path"][-1] if step["path"] else 0
    return step["target_token"] is not None and last in step["tree"]["parents"]


def depth(step: dict[str, Any]) -> int:
    depths = [0]
    for parent in step["tree"]["parents"][1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


def whole(name: str) -> dict[str, Any]:
    """Numbers of a whole run, and of it against its plain one."""
    run = raw(name)
    steps, count = run["steps"], emitted(run)
    accepted = sum(len(s["path"]) for s in steps)
    tested = sum(len(s["path"]) + corrected(s) for s in steps)
    facts: dict[str, Any] = {
        "tokens": count,
        "steps": len(steps),
        "length": count / len(steps),
        "seconds": seconds(run),
    }
    facts |= {"saved": count - len(steps), "depth": sum(map(depth, steps)) / len(steps)}
    if tested:
        facts["rate"] = accepted / tested
    if not name.endswith("-autoregressive"):
        base = beside(name)
        one = seconds(base, "draft", "verify", "learn", "host") / len(base["steps"])
        passes = sum(step["draft_passes"] for step in steps)
        facts["speedup"] = (count / seconds(run)) / (emitted(base) / seconds(base))
        facts["pace"] = "slower" if facts["speedup"] < 1 else "faster"
        facts["cost"] = seconds(run, "draft", "verify", "learn", "host") / len(steps) / one
        if passes:
            facts["c"] = seconds(run, "draft") / passes / one
    return facts


def of_step(step: dict[str, Any]) -> dict[str, Any]:
    checked = len(step["tree"]["tokens"]) - 1
    accepted = len(step["path"])
    facts = {
        "step": step["index"] + 1,
        "width": step["width"],
        "checked": checked,
        "accepted": accepted,
    }
    return facts | {"emitted": len(tokens(step)), "behind": checked - accepted - 1}


def passes(wide: str) -> dict[str, float]:
    run, base = raw(wide), beside(wide)
    one = seconds(base, "verify") / len(base["steps"])
    rows = sum(step["width"] for step in run["steps"]) / len(run["steps"])
    return {"rows": rows, "pass_cost": seconds(run, "verify") / len(run["steps"]) / one}


def quoted(run: dict[str, Any], token: int) -> str:
    return in_signs(str(run["pieces"][str(token)]))


def in_signs(text: str) -> str:
    """A text in quotation marks, with signs for line ends, tabs and blanks at its ends."""
    text = text.replace("\n", "↵").replace("\t", "⇥")
    text = "␣" + text[1:] if text.startswith(" ") else text
    return "‘" + (text[:-1] + "␣" if text.endswith(" ") else text) + "’"


def shown(chapter: dict[str, Any], stop: int) -> dict[str, Any]:
    """The step that a stop of a chapter is put to, as it lies in the file."""
    at = chapter["stops"][stop]
    return dict(raw(at.get("run", chapter["run"]))["steps"][at["at"]["step"]])


def learned(name: str, how: str) -> int:
    steps = raw(name)["steps"]
    origins = [step["tree"]["provenance"][node] for step in steps for node in step["path"]]
    return sum(one["source"] == "suffix" and one["learned"] == how for one in origins)


def oracle(chapter: dict[str, Any]) -> dict[str, Any]:
    """All numbers of a chapter, recomputed from the files by what its stops show."""
    name, run = chapter["run"], raw(chapter["run"])
    facts = whole(name)
    if chapter["id"] == "plain":
        step = shown(chapter, 1)
        judged = step["judged"][0]
        chance = judged["target"][judged["tokens"].index(tokens(step)[0])]
        threads = {"threads": run["environment"]["threads"]}
        best = {"best_speedup": whole("java-ouroboros")["speedup"]}
        assert "1.5B" in run["target"] and run["environment"]["dtype"] == "bfloat16"
        best |= {"weights": 2 * 1.54}  # 1.54 billion, by the model's card, of two bytes each
        return facts | passes("java-speculative") | {"chance": chance} | threads | best
    if chapter["id"] == "guess":
        assert run["target"] == "SmolLM2-135M-Instruct"
        named = {"target_name": run["target"], **_weights(), **_grid()}
        named |= {"ratio": round(facts["length"], 2) / round(facts["cost"], 2)}
        named |= passes(name) | _parts(name)
        return facts | of_step(shown(chapter, 0)) | named
    if chapter["id"] == "copying":
        return facts | _copying(chapter, run)
    if chapter["id"] == "reject":
        return facts | _reject(chapter, run)
    if chapter["id"] == "unchanged":
        return facts | _unchanged(chapter, run)
    if chapter["id"] == "phrases":
        paid = shown(chapter, 6)
        facts |= of_step(paid) | passes(name) | _pool(run)
        facts["kept"] = run["hyperparameters"]["guess_set_size"]
        for prefix, shown_run in (("", name), ("wide_", "bank-lookahead")):
            settings = raw(shown_run)["hyperparameters"]
            columns, gram = settings["window_size"], settings["ngram_size"]
            full = max(len(step["window"]) for step in raw(shown_run)["steps"])
            assert full == columns * (gram - 1) - 1, "as the words derive it"
            facts |= {f"{prefix}{k}": v for k, v in (("columns", columns), ("gram", gram))}
            facts |= {f"{prefix}window": full}
        full_size = raw("bank-lookahead")
        begin = (
            len(full_size["steps"][0]["window"]) + 1
        )  # the text's last token is its first column
        last = full_size["hyperparameters"]["window_size"]
        assert begin == last + full_size["hyperparameters"]["ngram_size"] - 2, (
            "one less in each pass"
        )
        facts |= {"wide_begin": begin}
        facts |= {"wide_first": _first_whole("bank-lookahead"), "pool_used": _used_phrases(run)}
        facts |= {"jacobi_length": whole("bank-jacobi")["length"]}
        return facts | {"learned": paid["tree"]["provenance"][paid["path"][-1]]["step"] + 1}
    if chapter["id"] == "suffixes":
        return facts | _suffixes(chapter, run)
    if chapter["id"] == "warm":
        cold = raw("java-ouroboros")
        sizes = {"pool": run["steps"][0]["pool_size"], "cold_pool": cold["steps"][0]["pool_size"]}
        others = {
            "cold_steps": len(cold["steps"]),
            "draft_passes": sum(s["draft_passes"] for s in run["steps"]),
            "cold_draft_passes": sum(s["draft_passes"] for s in cold["steps"]),
            "cold_speedup": whole("java-ouroboros")["speedup"],
        }
        measured = json.loads((assets() / "traces" / "measured.json").read_text(encoding="utf-8"))
        for prefix, run_name in (("", name), ("cold_", "java-ouroboros")):
            speeds = measured[run_name]["speedups"]
            others |= {f"{prefix}slowest": min(speeds), f"{prefix}fastest": max(speeds)}
            others |= {f"{prefix}repeats": len(speeds)}
        assert others["slowest"] > others["cold_fastest"], "the ranges do not overlap, as is said"
        return facts | sizes | others | {"history": learned(name, "history")}
    if chapter["id"] == "sources":
        return _sources()
    if chapter["id"] == "family":
        return _family(chapter)
    if chapter["id"] == "batches":
        return (
            {"experts": 128, "active": 8}
            | {name: 128 - 128 * (120 / 128) ** rows for name, rows in (("few", 5), ("many", 64))}
            | {"few_rows": 5, "many_rows": 64, "rows_each": 64 * 8 / 126}
            | BATCH
        )
    wide: dict[str, Any] = {
        "wide_window": max(len(s["window"]) for s in raw("bank-lookahead")["steps"])
    }
    wide["row"] = chapter["stops"][5]["sliders"]["row"]
    measured = passes(name)
    one_row = (measured["pass_cost"] - 1) / (measured["rows"] - 1)
    assert wide["row"] == pytest.approx(one_row, abs=0.005), "the r of this run, as the words say"
    wide["wide_columns"] = raw("bank-lookahead")["hyperparameters"]["window_size"]
    wide["window_pass"] = 1 + wide["wide_window"] * wide["row"]
    card, dear = (chapter["stops"][number]["sliders"] for number in (6, 7))
    assert card["row"] == 0, "rows are free, as the words say"
    wide |= {"card_cost": card["cost"], "dear_row": dear["row"], "cheap_cost": dear["cost"]}
    wide["gamma"] = run["hyperparameters"]["gamma"]
    return facts | _pays(facts) | measured | _parts(name) | wide | _card() | _auto()


def _weights() -> dict[str, float]:
    """Weights in millions, from the target's published shape and the draft's files."""
    layer = 2 * 576 * (576 + 192) + 3 * 576 * 1536
    weights, outputs = shipped("smollm2-draft")
    return {
        "layers": 30,
        "body": 30 * layer / 1e6,
        "output": 49152 * 576 / 1e6,
        "draft_layers": 4,
        "draft_body": weights / 1e6,
        "draft_output": outputs * 576 / 1e6,
    }


def shipped(name: str) -> tuple[int, int]:
    """The weights of a shipped draft or head without its output matrix, and the tokens that it can
    write."""
    weights = outputs = 0
    for file in (assets() / "models" / name).glob("*.safetensors"):
        with safe_open(file, "np") as tensors:
            for key in tensors.keys():  # noqa: SIM118
                size = prod(tensors.get_slice(key).get_shape())
                if key == "outputs":
                    outputs = size
                elif not key.endswith(".scale"):
                    weights += size
    return weights, outputs


GRID = {gamma: f"palindrome-speculative-{gamma}" for gamma in (1, 2, 4, 6, 8)}


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
    assert _shorter_drafts(GRID[8]), "as the words say"
    return found


def _shorter_drafts(name: str) -> list[int]:
    """Tokens of the drafts that are shorter than the draft length; they are the last ones."""
    run = raw(name)
    drafts = [len(step["tree"]["tokens"]) - 1 for step in run["steps"]]
    shorter = [size for size in drafts if size < run["hyperparameters"]["gamma"]]
    assert drafts[len(drafts) - len(shorter) :] == shorter, "near the end, as the words say"
    return shorter


def _auto() -> dict[str, Any]:
    speedups = [whole(name)["speedup"] for name in GRID.values()]
    auto = whole("palindrome-speculative-auto")
    assert min(speedups) < auto["speedup"] < max(speedups), "as the words say"
    return {
        "auto_depth": auto["depth"],
        "auto_speedup": auto["speedup"],
        "least": min(GRID),
        "most": max(GRID),
        "worst": min(speedups),
        "best": max(speedups),
    }


def _card() -> dict[str, Any]:
    """An H100's data sheet: 989.5 TFLOPS in half precision, 3.35 TB/s."""
    return {"card": "H100", "card_rows": 989.5 / 3.35}


def _sources() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, (name, *_) in field.SOURCES.items():
        run, base = raw(name), beside(name)
        one = seconds(base, "draft", "verify", "learn", "host") / len(base["steps"])
        found[f"{key}_cost"] = seconds(run, "draft") / len(run["steps"]) / one
        known = ("length", "rate", "speedup")
        found |= {f"{key}_{k}": v for k, v in whole(name).items() if k in known}
    for key in ("draft", "head"):
        name = field.SOURCES[key][0]
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
    return found


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


def _family(chapter: dict[str, Any]) -> dict[str, Any]:
    for name in ("smollm2-eagle3", "smollm2-dspark"):
        head = json.loads((assets() / "models" / name / "head.json").read_text("utf-8"))
        assert head["depths"] == [10, 20], "and the last of 30 layers"
    every = [10, 20, 30]
    reads = {"heads": every, "mtp": [30], "block": every, "suffix": [], "sampled": []}
    found: dict[str, Any] = {"heads_reads": "10, 20 and 30", **RULES}
    found |= {"snow": 20, "beyond": 15 * 2 // 5}  # of 15 second guesses, with p = .2 and q = .5
    assert raw("river-sam")["hyperparameters"]["copy_from"] == "newest", "the latest place"
    stops = [stop for stop in chapter["stops"] if "aside" in stop]
    for key, stop in zip(field.FAMILY, stops, strict=True):
        step = raw(stop["run"])["steps"][stop["at"]["step"]]
        facts = of_step(step) | {"passes": step["draft_passes"], "depth": depth(step)}
        found |= {
            f"{key}_{name}": facts[name] for name in ("passes", "checked", "depth", "accepted")
        }
        found[f"{key}_speedup"] = whole(stop["run"])["speedup"]
        settings = raw(stop["run"])["hyperparameters"]
        if key == "mtp":
            assert settings["tree_depth"] > depth(step), "some heads are not used"
            found["mtp_heads"] = settings["tree_depth"]
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
    return found


def _reject(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    step = shown(chapter, 0)
    refused = chapter["stops"][0]["card"]["node"]
    assert refused not in step["path"], "the card is that of a rejected token"
    judged = step["judged"][-1]
    chances = dict(zip(judged["tokens"], judged["target"], strict=True))
    guess, own = step["tree"]["tokens"][refused], step["target_token"]
    reached = [[s for s in run["steps"] if len(s["path"]) + corrected(s) >= d] for d in (1, 4)]
    assert len(_shorter_drafts(chapter["run"])) == 1, "only the last draft, as the words say"
    return of_step(step) | {
        "guess": quoted(run, guess),
        "target": quoted(run, own),
        "guess_chance": chances[guess],
        "target_chance": chances[own],
        "reached": len(reached[1]) / len(reached[0]),
        "fourth": len(reached[1]),
    }


def _windows(run: dict[str, Any]) -> list[tuple[int, list[list[int]]]]:
    """The columns of each full window, read downwards by its nodes' parents, answers last."""
    gram = run["hyperparameters"]["ngram_size"]
    found: list[tuple[int, list[list[int]]]] = []
    for step, after in zip(run["steps"], run["steps"][1:], strict=False):
        nodes = [[step["tree"]["tokens"][0], -1], *step["window"]]
        width = run["hyperparameters"]["window_size"]
        if len(nodes) < width * (gram - 1):
            continue
        base = len(step["tree"]["tokens"]) - 1
        columns = []
        for n, answer in zip(
            range(len(nodes) - width, len(nodes)), after["window"][-width:], strict=True
        ):
            column, at = [answer[0]], n
            for _ in range(gram - 1):
                column.insert(0, nodes[at][0])
                at = max(0, nodes[at][1] - base)
            columns.append(column)
        found.append((step["index"], columns))
    return found


def _first_whole(name: str) -> int:
    run = raw(name)
    text = [token for step in run["steps"] for token in tokens(step)]
    for index, columns in _windows(run):
        for column in columns:
            if any(text[n : n + len(column)] == column for n in range(len(text))):
                return index + 1
    raise AssertionError("some phrase of the window stands in the text")


def _pool(run: dict[str, Any]) -> dict[str, int]:
    """The pool that the picture ends with: the answers to the last window are in no file."""
    sizes = [step["pool_size"] for step in run["steps"][:-1]]
    return {"pool": sizes[-1], "pool_steps": len(sizes), "passes": len(run["steps"])}


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


def _copying(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """Copied positions are found again by reading prompt and text."""
    whole, wrong, long = (shown(chapter, stop) for stop in (1, 2, 4))
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
    facts: dict[str, Any] = of_step(whole) | {
        "match": _matched(run, whole),
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
    return facts


def _matched(run: dict[str, Any], step: dict[str, Any]) -> int:
    """How many tokens before a copy agree with those before its source; in prompt lookup, three at
    most."""
    text = run["prompt"]["tokens"] + [t for s in run["steps"][: step["index"]] for t in tokens(s)]
    at = step["tree"]["provenance"][1]["position"]
    agree = 0
    while agree < at and text[at - 1 - agree] == text[-1 - agree]:
        agree += 1
    return min(agree, int(run["hyperparameters"].get("max_ngram", agree)))


def _unchanged(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    step = shown(chapter, 4)
    judged = step["judged"][-1]
    trial = judged["trials"][-1]
    kept = sum(min(p, q) for p, q in zip(judged["target"], judged["draft"], strict=True))
    keyed, plain = raw("sampled-match"), raw("sampled-autoregressive")
    pace = whole("sampled-match")
    pairs = zip(
        *([t for s in one["steps"] for t in tokens(s)] for one in (keyed, plain)), strict=True
    )
    assert trial["u"] >= trial["p"] / trial["q"], "it was rejected"
    return of_step(step) | {
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
        **{f"keyed_{k}": v for k, v in (pace | _parts("sampled-match")).items()},
        "keyed_ratio": round(pace["length"], 2) / round(pace["cost"], 2),
        "top_p": run["sampling"]["top_p"],
        "temperature": run["sampling"]["temperature"],
        **RULES,
        **{"redrawn": 30, "again": 0.3, "biased": 30 + 9, "wanted": 30},
    }


RULES = {
    "one_guess": 0.3 + 0.2 + 0.2,
    "shared_guess": 3 / 10 + 1 / 5 + 2 / 13,
    "two_guesses": 0.3 + 0.2 + 0.2 + 0.3 * 0.5,
}
"""By hand, for p = .3, .5, .2 and q = .6, .2, .2: the sum of min(p, q); 1 / (1 + 5/3 + 2/3),
1 / (1 + 3 + 1) and 1 / (1 + 3 + 5/2); only sun is rejected, then the residual is all rain, which
is half of the two tokens that are left to guess."""
BATCH = {
    "free": 295,
    "gamma": 4,
    "answers": 256,
    "batch_rows": 256 * 5,
    "batch_pass": 1280 / 295,
    "batch_speedup": (1 + 0.7 + 0.49 + 0.343 + 0.2401) / (4 * 0.3 + 1280 / 295),
    "one_speedup": (1 + 0.7 + 0.49 + 0.343 + 0.2401) / (4 * 0.3 + 1),
}
"""By hand, with the sliders as they stand: a draft pass costs 0.3 and 70% of the guesses are right;
256 rows of plain decoding and 5 rows of one answer are free, 1280 rows are not."""


def test_the_rates_of_the_worked_example_are_those_of_random_draws() -> None:
    """Draft and target choose with the same Gumbel numbers, the likeliest sum wins."""
    p, q = np.array([0.3, 0.5, 0.2]), np.array([0.6, 0.2, 0.2])
    noise = np.random.default_rng(1).gumbel(size=(200_000, 3))
    same = (np.log(p) + noise).argmax(1) == (np.log(q) + noise).argmax(1)
    facts = lesson_facts.rule_facts()
    assert facts == pytest.approx(RULES)
    assert facts["shared_guess"] == pytest.approx(same.mean(), abs=0.005)


def _suffixes(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    step, tree = shown(chapter, 0), shown(chapter, 4)
    assert tree["path"][0] != 1 and tree["tree"]["parents"][:3] == [-1, 0, 0], "a second guess"
    fewer = sum(
        s["draft_passes"] < sum(source(s, n) == "draft" for n in range(1, len(s["tree"]["tokens"])))
        for s in run["steps"]
    )
    assert 2 * fewer > len(run["steps"]), "most steps need fewer draft passes than draft tokens"
    nodes = range(1, len(step["tree"]["tokens"]))
    drafted = sum(
        source(s, n) == "draft" for s in run["steps"] for n in range(1, len(s["tree"]["tokens"]))
    )
    return (
        of_step(step)
        | {
            "hung": sum(source(step, n) == "suffix" for n in nodes),
            "drafted": sum(source(step, n) == "draft" for n in nodes),
            "used": sum(source(step, n) == "suffix" for n in step["path"]),
            "passes": step["draft_passes"],
            "suffixes": sum(source(s, n) == "suffix" for s in run["steps"] for n in s["path"]),
            "per_token": sum(s["draft_passes"] for s in run["steps"]) / drafted,
            "window": learned(chapter["run"], "lookahead"),
            "pair_length": whole("java-speculative")["length"],
            "pair_speedup": whole("java-speculative")["speedup"],
            "gamma": run["hyperparameters"]["gamma"],
            "pair_gamma": raw("java-speculative")["hyperparameters"]["gamma"],
        }
        | _chain_and_tree()
        | _fragment(raw(chapter["stops"][6]["run"]), shown(chapter, 6))
    )


def _chain_and_tree() -> dict[str, float]:
    """Two runs of one request with one draft model: in one of them no token has a sibling."""
    found = {}
    chain, tree = raw("fibonacci-speculative"), raw("fibonacci-multi_candidate")
    assert chain["draft"] == tree["draft"] and chain["prompt"] == tree["prompt"]
    for key, run in (("chain", chain), ("tree", tree)):
        parents = [step["tree"]["parents"] for step in run["steps"]]
        assert (key == "tree") == any(len(set(one)) < len(one) for one in parents)
        found[f"{key}_length"] = emitted(run) / len(parents)
        found[f"{key}_rows"] = sum(step["width"] for step in run["steps"]) / len(parents)
        name = {"chain": "fibonacci-speculative", "tree": "fibonacci-multi_candidate"}[key]
        found[f"{key}_speedup"] = whole(name)["speedup"]
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


def _pays(facts: dict[str, Any]) -> dict[str, Any]:
    """The share at which 1 + a + ... + a^gamma reaches the cost of a step, found by trying; and a
    friend's arithmetic."""
    tried = [n / 100_000 for n in range(100_001)]
    gamma = facts["depth"]
    even = next(a for a in tried if a < 1 and (1 - a ** (gamma + 1)) / (1 - a) >= facts["cost"])
    shallow = sum(0.5**n for n in range(3))
    deep = sum(0.5**n for n in range(9))
    return {
        "even": even,
        "shallow": shallow,
        "deep": deep,
        "shallow_speedup": shallow / 1.4,
        "deep_speedup": deep / 2.6,
        "small_best": _best(0.6, 0.1),
        "large_best": _best(0.8, 0.5),
    }


def _best(alpha: float, cost: float) -> float:
    """The largest of the first twenty speedups, each summed guess by guess."""
    return max(sum(alpha**n for n in range(g + 1)) / (1 + g * cost) for g in range(20))


def _parts(name: str) -> dict[str, float]:
    """What a step costs, in plain steps, from the file: rounded down, and what is missing to the
    rounded sum goes to those of which most was cut off."""
    run, base = raw(name), beside(name)
    phases = ("draft", "verify", "learn", "host")
    unit = seconds(base, *phases) / len(base["steps"]) * len(run["steps"]) / 100
    exact = [seconds(run, *one) / unit for one in (phases[:1], phases[1:2], phases[2:])]
    found = [int(one) for one in exact]
    cut = sorted(range(3), key=lambda n: found[n] - exact[n])
    for n in cut[: round(sum(exact)) - sum(found)]:
        found[n] += 1
    drafting, checking, rest = (one / 100 for one in found)
    count = sum(step["draft_passes"] for step in run["steps"]) / len(run["steps"])
    return {"drafting": drafting, "checking": checking, "rest": rest, "passes": count}


def test_what_a_step_costs_adds_up_as_it_is_shown() -> None:
    """In a lesson, and below every run."""
    pays = next(c for c in learn.chapters() if c["id"] == "pays")
    lesson = re.findall(r"(\d+\.\d\d)(?:×| for)", as_shown(pays["stops"][1]["words"][0]))
    told = [lesson[:4]]
    for chapter, stop in (("guess", 5), ("unchanged", 8)):
        stops = next(c["stops"] for c in learn.chapters() if c["id"] == chapter)
        numbers = re.findall(r"\d+\.\d\d", as_shown(stops[stop]["words"][0]).partition("costs")[2])
        told.append([numbers[3], *numbers[:3]])
    for name in gallery.runs():
        plain = gallery.baseline(name)
        if plain is not None:
            line = diagnosis.diagnosis(Summary(gallery.trace(name), plain))[0]
            told.append(re.findall(r"\d+\.\d\d(?= plain steps| for)", line))
    assert len(told) > 20
    for whole, *parts in told:
        assert sum(round(100 * float(part)) for part in parts) == round(100 * float(whole)), parts


def test_what_a_lesson_says_adds_up() -> None:
    """Shares that complete each other make a whole, and a count in the words is the count in the
    picture beside them."""
    chapters = {chapter["id"]: chapter for chapter in learn.chapters()}
    unchanged, warm, phrases = (chapters[name] for name in ("unchanged", "warm", "phrases"))
    words = as_shown(" ".join(unchanged["stops"][5]["words"]))
    shares = re.search(r"accepted here: (\d+)%\. In the other (\d+)%", words)
    assert shares is not None and sum(map(int, shares.groups())) == 100
    rows, card = unchanged["residual"]["rows"], shown(unchanged, 4)["judged"][-1]
    assert len(rows) == len(card["tokens"]), "the picture omits no token of the card before it"
    assert round(100 * sum(row["kept"] for row in rows)) == int(shares[1])
    assert any(row["draft"] == 0 for row in rows), "as the words explain"

    ringed = int(re.match(r"\d+", as_shown(warm["stops"][1]["words"][0]))[0])  # type: ignore[index]
    run = raw(warm["run"])
    nodes = [s["tree"]["provenance"][n] for s in run["steps"] for n in s["path"]]
    assert ringed == sum(one["learned"] == "history" for one in nodes)
    assert warm["stops"][1]["spot"].startswith(".ouro-token["), "no rejected guess is ringed"

    told = re.search(
        r"After step (\d+), .* there are (\d+) .* of (\d+) phrases were",
        as_shown(phrases["stops"][7]["words"][0]),
    )
    pool = phrases["figures"]["pool"]
    used = {(one["key"], one["text"]) for one in pool["entries"] if one["used"]}
    assert told is not None
    assert list(map(int, told.groups())) == [len(pool["sizes"]), pool["sizes"][-1], len(used)]


def test_the_tables_beside_the_words_hold_what_was_recorded() -> None:
    """By the files: a step's guesses and the target's probabilities of them, the fate of guesses by
    position, sizes of pools, and of models."""
    chapters = {chapter["id"]: chapter for chapter in learn.chapters()}
    run, step = raw(chapters["guess"]["run"]), shown(chapters["guess"], 0)
    chances = [dict(zip(one["tokens"], one["target"], strict=True)) for one in step["judged"]]
    assert chapters["guess"]["figures"]["ids"]["rows"] == [
        [quoted(run, token), token, f"{100 * chances[n][token]:.0f}%"]
        for n, token in enumerate(step["tree"]["tokens"][1:])
    ]
    accepted = [len(step["path"]) for step in raw(chapters["reject"]["run"])["steps"]]
    rejected = [corrected(step) for step in raw(chapters["reject"]["run"])["steps"]]
    tested = [count + more for count, more in zip(accepted, rejected, strict=True)]
    assert chapters["reject"]["figures"]["positions"]["rows"] == [
        [name, *(sum(count >= n for count in counts) for n in (1, 2, 3, 4))]
        for name, counts in (("tested", tested), ("accepted", accepted))
    ]
    pools = {"cold": raw("java-ouroboros"), "warm": raw("java-ouroboros-warm")}
    assert chapters["warm"]["figures"]["pools"]["rows"] == [
        [name, *(one["steps"][n]["pool_size"] for n in (0, -1))] for name, one in pools.items()
    ]
    target, draft, *larger = chapters["guess"]["figures"]["models"]["rows"]
    sizes = [round(size) for size in _weights().values()]
    assert [*target[1:], *draft[1:]] == sizes
    assert [row[0] for row in larger] == ["Qwen2.5-Coder-1.5B", "Qwen2.5-Coder-0.5B"]


def test_a_word_has_one_sense() -> None:
    """The draft model writes a draft, of tokens; states are hidden ones, cards are of tokens."""
    acts = r"draws?|guess\w*|says?|writes?|wants|likes|prefers|needs|checks|contributes|learns"
    draft = rf"[Tt]he draft (?:{acts})\b|(?:be|are) the draft(?! model)"
    wrong = rf"(?<!hidden )\bstates?\b|graphics card|{draft}"
    for key, text in table().items():
        if key.startswith(("learn.", "questions.", "play.")):
            assert not re.search(wrong, text), key


def test_a_question_about_guesses_is_one_that_a_reader_can_answer() -> None:
    """Most of them are words, and what was rejected does not look like what stands instead."""
    chapter = next(c for c in learn.chapters() if c["question"]["kind"] == "predict")
    for one in chapter["question"]["rounds"]:
        words = [text for text in one["tokens"] if re.search(r"[^\W\d_]", text)]
        assert 2 * len(words) >= len(one["tokens"])
        pair = re.search("Instead of ‘(.*)’ the target wanted ‘(.*)’", one["why"])
        if pair is not None:
            assert pair[1].split() != pair[2].split() and all(
                re.search("[^\\W\\d_]", t) for t in pair.groups()
            )


@pytest.mark.parametrize("chapter", learn.chapters(), ids=lambda c: c["id"])
def test_every_number_is_that_of_the_run_which_is_shown(chapter: dict[str, Any]) -> None:
    facts = oracle(chapter)
    for number, stop in enumerate(chapter["stops"], 1):
        assert "\n".join(stop["words"]) == table()[f"learn.{chapter['id']}.{number}"].format(
            **facts
        )
    if chapter["question"]["kind"] == "choice":
        assert chapter["question"]["why"] == table()[f"learn.{chapter['id']}.question.why"].format(
            **facts
        )


def test_no_number_is_written_into_the_texts() -> None:
    """But for those of formulas, whose results the test above computes."""
    for key, text in table().items():
        if (
            key.startswith(("learn.", "gallery."))
            and not key.endswith((".answer", ".where"))
            and key not in FORMULAS
        ):
            assert not re.search(r"\d", re.sub(r"\{[^}]*\}", "", text)) or re.search(
                r"EAGLE-[23]|min\(1, p/q\)|γc \+ 1", text
            ), key


def test_a_question_may_ask_about_every_full_step_and_tells_what_became_of_it() -> None:
    chapter = next(c for c in learn.chapters() if c["question"]["kind"] == "predict")
    rounds = chapter["question"]["rounds"]
    for name in learn.QUIZ:
        run, asked = raw(name), [r for r in rounds if r["run"] == name]
        assert [r["step"] for r in asked] == sorted(r["step"] for r in asked)
        assert len({r["accepted"] for r in asked}) > 2 and len(asked) > 10
        for one in asked:
            step = run["steps"][one["step"]]
            assert one["tokens"] == [run["pieces"][str(t)] for t in step["tree"]["tokens"][1:]]
            assert one["accepted"] == len(step["path"])
    assert chapter["run"] == learn.QUIZ[0]
    own = [stop for stop in chapter["stops"] if stop.get("run", chapter["run"]) in learn.QUIZ]
    assert max(stop["at"]["step"] for stop in own) < 3, "the rest is still to be guessed"


def test_the_worked_example_comes_out_as_the_target_wants_it() -> None:
    """100 draws, counted by hand: p = .3, .5, .2 and q = .6, .2, .2."""
    found = lesson_facts.hundred_draws()
    assert found["rows"] == [
        ["sun", 30, 60, 30, 30, 0, 30],
        ["rain", 50, 20, 20, 0, 30, 50],
        ["snow", 20, 20, 20, 0, 0, 20],
    ]
    words = table()["learn.unchanged.2"] + table()["learn.unchanged.3"]
    assert all(f"{count}" in words for count in (100, 60, 30, 20, 70, 50))


def test_two_guesses_of_the_worked_example_come_out_as_the_target_wants_it() -> None:
    """By hand: the 30 rejected suns are followed by 15 rain and 15 snow; the residual is all rain,
    so the snow is rejected and becomes rain. And by the rule itself, with random draws."""
    found = lesson_facts.sibling_draws()
    assert found["rows"] == [
        ["sun", 30, 30, 0, 0, 0, 30],
        ["rain", 50, 20, 15, 15, 15, 50],
        ["snow", 20, 20, 15, 0, 0, 20],
    ]
    p, q, counts, accepted = np.array([0.3, 0.5, 0.2]), np.array([0.6, 0.2, 0.2]), [0, 0, 0], 0
    rng, draws = np.random.default_rng(2), 4000
    for _ in range(draws):
        first = rng.choice(3, p=q)
        others = np.where(np.arange(3) == first, 0, q) / (1 - q[first])
        second = rng.choice(3, p=others)
        builder = TreeBuilder(0)
        for token, drawn_from in ((first, q), (second, others)):
            builder.add(int(token), 0, Provenance(Source.DRAFT), drawn_from)
        child, left = pick(builder.build(), 0, [1, 2], p, rng, None)
        accepted += child is not None
        counts[rng.choice(3, p=left) if child is None else (first, second)[child - 1]] += 1
    assert np.array(counts) / draws == pytest.approx(p, abs=0.03)
    assert accepted / draws == pytest.approx(RULES["two_guesses"], abs=0.03)


def test_the_draft_is_as_large_as_the_lesson_says() -> None:
    """The oracle is what ships: its layers, and the rows of the output matrix that it computes, a
    quarter of the target's."""
    file = assets() / "models" / "smollm2-draft" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    weights, outputs = shipped("smollm2-draft")
    assert config["num_hidden_layers"] == 4 and 4 * outputs == config["vocab_size"]
    assert [round(n / 1e6) for n in (weights, outputs * config["hidden_size"])] == [14, 7]


def test_what_is_said_of_whole_texts_is_true() -> None:
    """Sentences without numbers: greedy and keyed runs are plain decoding's text, those by
    rejection and by blocks are their own."""
    for name in gallery.runs():
        plain = gallery.baseline(name)
        if plain is not None:
            assert (gallery.trace(name).tokens == plain.tokens) == (
                Sampling.model_validate(gallery.trace(name).sampling).repeats_plain_text
            ), name
    assert gallery.facts("story-speculative-8")["speedup"] < 1, "the lesson on what does not pay"
    warm, cold = (gallery.trace(f"java-ouroboros{name}") for name in ("-warm", ""))
    assert warm.hyperparameters == cold.hyperparameters
    fewer, more = (sum(step.draft_passes for step in trace.steps) for trace in (warm, cold))
    assert fewer < more, "the draft makes fewer passes"


def test_the_settings_of_every_recorded_run_can_be_asked_for_again() -> None:
    for facts in gallery.runs().values():
        settings = methods.get(facts["method"]).Hyperparameters
        settings.parse(settings.fixed(**facts.get("knobs", {})))


def test_numbers_are_linked_to_the_picture_wherever_it_has_them() -> None:
    bare = set()
    for chapter in learn.chapters():
        for number, stop in enumerate(chapter["stops"], 1):
            words = re.sub(r"EAGLE-\d", "", " ".join(stop["words"]))
            if re.search(r"\d", words) and "](" not in words:
                bare.add(f"{chapter['id']}.{number}")
    assert bare == set(UNLINKED)


@pytest.mark.parametrize("chapter", learn.chapters(), ids=lambda c: c["id"])
def test_no_stop_is_long(chapter: dict[str, Any]) -> None:
    """Everything between blanks counts, also numbers and signs of a formula."""
    for number, stop in enumerate(chapter["stops"], 1):
        count = sum(len(as_shown(line).split()) for line in stop["words"])
        signs = MOST_SIGNS if f"learn.{chapter['id']}.{number}" in FORMULAS else 0
        assert count <= MOST_WORDS + signs, (number, count)


def test_the_course_ends_with_five_lines_to_remember() -> None:
    """And leads to the places of the page, or of the static site, that it names."""
    end = learn.end(ONWARD)
    assert len(end["lines"]) == 5 and all(len(line.split()) <= 25 for line in end["lines"])
    assert {f"#{name}": label for name, label in PLACES.items() if name != "learn"} == ONWARD
    assert [place["href"] for place in end["places"]] == list(ONWARD)
    site = learn.end(LIVE | LABELS)["places"]
    assert {place["href"]: place["label"] for place in site} == {
        href: label for href, label in (LIVE | LABELS).items() if label != "Learn"
    }


def test_the_questions_lead_to_stops_that_are_there() -> None:
    chapters, questions = learn.chapters(), learn.questions()
    assert len(chapters) == 12 and len(questions) == 12
    for question in questions:
        assert 0 <= question["stop"] < len(chapters[question["chapter"]]["stops"])
    assert all(
        0 <= c["question"]["answer"] < len(c["question"]["options"])
        for c in chapters
        if c["question"]["kind"] == "choice"
    )


def test_the_gallery_has_ten_runs_and_a_sentence_for_each() -> None:
    entries = gallery.entries()
    assert len(entries) >= 10
    assert all(
        entry["title"] and len(entry["words"]) > 40 and "{" not in entry["words"]
        for entry in entries
    )
