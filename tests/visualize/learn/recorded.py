"""Recorded runs as their files have them, and numbers of the chapters recomputed from these."""

from __future__ import annotations

import json
from math import prod
from typing import Any

from safetensors import safe_open

from ouroboros_core.locations import assets
from ouroboros_core.messages import table
from visualize.learn import lessons


def chapter_of(name: str) -> dict[str, Any]:
    return next(chapter for chapter in lessons.chapters() if chapter["id"] == name)


def says(chapter: dict[str, Any], facts: dict[str, Any]) -> None:
    """The stops of a chapter and the answer to its question say these numbers and its run's."""
    texts = {str(n): "\n".join(stop["words"]) for n, stop in enumerate(chapter["stops"], 1)}
    if chapter["question"]["kind"] == "choice":
        texts["question.why"] = chapter["question"]["why"]
    for key, text in texts.items():
        words = table()[f"learn.{chapter['id']}.{key}"]
        recomputed = words.format(**(whole(chapter["run"]) | facts))
        assert text == recomputed, f"{key}: {text!r} is not {recomputed!r}"


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
    facts: dict[str, Any] = {"tokens": count, "steps": len(steps), "seconds": seconds(run)}
    facts |= {"length": count / len(steps), "saved": count - len(steps)}
    facts |= {"depth": sum(map(depth, steps)) / len(steps)}
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
    checked, accepted = len(step["tree"]["tokens"]) - 1, len(step["path"])
    facts = {"step": step["index"] + 1, "width": step["width"], "emitted": len(tokens(step))}
    return facts | {"checked": checked, "accepted": accepted, "behind": checked - accepted - 1}


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


def weights() -> dict[str, float]:
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


def shorter_drafts(name: str) -> list[int]:
    """Tokens of the drafts that are shorter than the draft length; they are the last ones."""
    run = raw(name)
    drafts = [len(step["tree"]["tokens"]) - 1 for step in run["steps"]]
    shorter = [size for size in drafts if size < run["hyperparameters"]["gamma"]]
    assert drafts[len(drafts) - len(shorter) :] == shorter, "near the end, as the words say"
    return shorter


def parts(name: str) -> dict[str, float]:
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


RULES = {
    "one_guess": 0.3 + 0.2 + 0.2,
    "shared_guess": 3 / 10 + 1 / 5 + 2 / 13,
    "two_guesses": 0.3 + 0.2 + 0.2 + 0.3 * 0.5,
}
"""By hand, for p = .3, .5, .2 and q = .6, .2, .2: the sum of min(p, q); 1 / (1 + 5/3 + 2/3),
1 / (1 + 3 + 1) and 1 / (1 + 3 + 5/2); only sun is rejected, then the residual is all rain, which
is half of the two tokens that are left to guess."""
GRID = {gamma: f"palindrome-speculative-{gamma}" for gamma in (1, 2, 4, 6, 8)}
