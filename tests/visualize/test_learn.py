"""The lessons: every number is that of the run shown, every stop points at something, every
question has its answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.locations import assets
from ouroboros_core.words import table
from visualize import gallery, learn, numbers

FORMULAS = {
    "learn.unchanged.2",
    "learn.unchanged.3",
    "learn.unchanged.4",
    "learn.pays.3",
    "learn.pays.4",
}
"""Texts that hold numbers of formulas, which belong to no run."""


def raw(name: str) -> dict[str, Any]:
    """The file of a run as it lies there: none of the project's own reading of it."""
    found: dict[str, Any] = json.loads((assets() / "traces" / f"{name}.json").read_text())
    return found


def beside(name: str) -> dict[str, Any]:
    """The plain run that a run is compared with: the text of its prompt's plain run, the seconds of
    the one that was made just before it."""
    files = assets() / "traces"
    seconds = json.loads((files / "measured.json").read_text())[name]["plain"]
    plain = raw(f"{name.split('-', maxsplit=1)[0]}-autoregressive")
    for step, taken in zip(plain["steps"], seconds, strict=True):
        step["seconds"] = dict(
            zip(("prefill", "draft", "verify", "learn", "host"), taken, strict=True)
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
    text = str(run["pieces"][str(token)]).replace("\n", "↵").replace("\t", "⇥")
    return f"‘{text}’"


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
        step = shown(chapter, 0)
        judged = step["judged"][0]
        chance = judged["target"][judged["tokens"].index(tokens(step)[0])]
        return facts | passes("java-speculative") | {"chance": chance}
    if chapter["id"] == "guess":
        return facts | of_step(shown(chapter, 0))
    if chapter["id"] == "reject":
        return facts | _reject(chapter, run)
    if chapter["id"] == "unchanged":
        return facts | _unchanged(chapter, run)
    if chapter["id"] == "phrases":
        early, paid = shown(chapter, 0), shown(chapter, 2)
        facts |= of_step(paid) | passes(name) | {"pool": run["steps"][-1]["pool_size"]}
        facts |= {
            "window": len(early["window"]),
            "early": early["index"] + 1,
            "early_width": early["width"],
        }
        return facts | {"learned": paid["tree"]["provenance"][paid["path"][-1]]["step"] + 1}
    if chapter["id"] == "suffixes":
        return facts | _suffixes(chapter, run)
    if chapter["id"] == "warm":
        cold = raw("java-ouroboros")
        sizes = {"pool": run["steps"][0]["pool_size"], "cold_pool": cold["steps"][0]["pool_size"]}
        others = {
            "cold_steps": len(cold["steps"]),
            "cold_speedup": whole("java-ouroboros")["speedup"],
        }
        return facts | sizes | others | {"history": learned(name, "history")}
    return facts | _pays(facts) | passes(name) | _parts(name)


def _reject(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    step = shown(chapter, 0)
    refused = chapter["stops"][1]["card"]["node"]
    assert refused not in step["path"], "the card is that of a rejected token"
    judged = step["judged"][-1]
    chances = dict(zip(judged["tokens"], judged["target"], strict=True))
    guess, own = step["tree"]["tokens"][refused], step["target_token"]
    reached = [[s for s in run["steps"] if len(s["path"]) + corrected(s) >= d] for d in (1, 4)]
    return of_step(step) | {
        "guess": quoted(run, guess),
        "target": quoted(run, own),
        "guess_chance": chances[guess],
        "target_chance": chances[own],
        "reached": len(reached[1]) / len(reached[0]),
    }


def _unchanged(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    step = shown(chapter, 1)
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
        "lacking": sum(judged["target"]) - kept,
        "guess": quoted(run, step["tree"]["tokens"][trial["node"]]),
        "target": quoted(run, step["target_token"]),
        "equal": sum(a == b for a, b in pairs),
        "all": emitted(plain),
        "keyed_length": emitted(keyed) / len(keyed["steps"]),
        "keyed_speedup": pace["speedup"],
        "keyed_pace": pace["pace"],
    }


def _suffixes(chapter: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    step = shown(chapter, 0)
    nodes = range(1, len(step["tree"]["tokens"]))
    drafted = sum(
        source(s, n) == "draft" for s in run["steps"] for n in range(1, len(s["tree"]["tokens"]))
    )
    return of_step(step) | {
        "hung": sum(source(step, n) == "suffix" for n in nodes),
        "drafted": sum(source(step, n) == "draft" for n in nodes),
        "used": sum(source(step, n) == "suffix" for n in step["path"]),
        "passes": step["draft_passes"],
        "suffixes": sum(source(s, n) == "suffix" for s in run["steps"] for n in s["path"]),
        "per_token": sum(s["draft_passes"] for s in run["steps"]) / drafted,
        "window": learned(chapter["run"], "lookahead"),
        "verified": learned(chapter["run"], "verification"),
    }


def _pays(facts: dict[str, Any]) -> dict[str, Any]:
    """The share at which 1 + a + ... + a^gamma reaches the cost of a step, found by trying; and a
    friend's arithmetic."""
    tried = [n / 100_000 for n in range(100_001)]
    gamma = facts["depth"]
    even = next(
        (a for a in tried if a < 1 and (1 - a ** (gamma + 1)) / (1 - a) >= facts["cost"]), 1.0
    )
    shallow = sum(0.5**n for n in range(3))
    deep = sum(0.5**n for n in range(9))
    return {
        "even": even,
        "shallow": shallow,
        "deep": deep,
        "shallow_speedup": shallow / 1.4,
        "deep_speedup": deep / 2.6,
    }


def _parts(name: str) -> dict[str, float]:
    """What a step costs, in plain steps, from the file; rounded, and the rest is what is left."""
    run, base = raw(name), beside(name)
    phases = ("draft", "verify", "learn", "host")
    unit = seconds(base, *phases) / len(base["steps"]) * len(run["steps"])
    drafting, checking = (round(seconds(run, one) / unit, 2) for one in ("draft", "verify"))
    count = sum(step["draft_passes"] for step in run["steps"]) / len(run["steps"])
    rest = round(seconds(run, *phases) / unit, 2) - drafting - checking
    return {"drafting": drafting, "checking": checking, "rest": abs(rest), "passes": count}


def test_what_a_step_costs_adds_up_as_it_is_shown() -> None:
    """In a lesson, and below every run."""
    pays = next(c for c in learn.chapters() if c["id"] == "pays")
    lesson = re.findall(r"(\d+\.\d\d)(?:×| for)", pays["stops"][1]["words"][0])
    told = [lesson[:4]]
    for name in gallery.runs():
        plain = gallery.baseline(name)
        if plain is not None:
            line = numbers.diagnosis(gallery.trace(name), plain)[0]
            told.append(re.findall(r"\d+\.\d\d(?= plain steps| for)", line))
    assert len(told) > 20
    for whole, *parts in told:
        assert sum(round(100 * float(part)) for part in parts) == round(100 * float(whole)), parts


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
                r"EAGLE-2|min\(1, p/q\)", text
            ), key


def test_the_guesses_of_a_question_end_differently_and_are_those_of_the_run() -> None:
    chapter = next(c for c in learn.chapters() if c["question"]["kind"] == "predict")
    run, rounds = raw(chapter["run"]), chapter["question"]["rounds"]
    assert len({r["accepted"] for r in rounds}) == len(rounds) == learn.ROUNDS
    for one in rounds:
        step = run["steps"][one["step"]]
        assert one["tokens"] == [run["pieces"][str(t)] for t in step["tree"]["tokens"][1:]]
        assert one["accepted"] == len(step["path"])


def test_what_is_said_of_whole_texts_is_true() -> None:
    """Sentences without numbers: greedy and keyed runs are plain decoding's text, the one by
    rejection is its own."""
    for name, facts in gallery.runs().items():
        plain = gallery.baseline(name)
        if plain is not None:
            assert (gallery.trace(name).tokens == plain.tokens) == (
                facts.get("acceptance") != "rejection"
            ), name
    assert gallery.facts("story-speculative-8")["speedup"] < 1, "the lesson on what does not pay"
    warm, cold = (gallery.trace(f"java-ouroboros{name}") for name in ("-warm", ""))
    assert warm.hyperparameters == cold.hyperparameters
    assert gallery.facts("java-ouroboros-warm")["steps"] < gallery.facts("java-ouroboros")["steps"]


def test_the_settings_of_every_recorded_run_can_be_asked_for_again() -> None:
    for facts in gallery.runs().values():
        settings = methods.get(facts["method"]).Hyperparameters
        settings.parse(settings.fixed(**facts.get("knobs", {})))


def test_ten_questions_lead_to_stops_that_are_there() -> None:
    chapters, questions = learn.chapters(), learn.questions()
    assert len(chapters) == 8 and len(questions) == 10
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
