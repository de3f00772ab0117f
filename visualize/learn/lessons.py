"""The lessons: twelve chapters on recorded runs, questions on them, and the end. The words are in
assets/words; the runs, moments and figures are in `visualize.learn.chapters`.

Every number in a chapter is taken from the run that the chapter shows. Each stop puts that run to a
moment, marks elements of the view beside it by a CSS selector, and may open a token's card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ouroboros_core.messages import say, table
from visualize.learn.chapters import (
    batches,
    copying,
    family,
    guess,
    pays,
    phrases,
    plain,
    reject,
    sources,
    suffixes,
    unchanged,
    warm,
)
from visualize.learn.stops import Chapter


@cache
def chapters() -> list[Chapter]:
    """All chapters in order: {id, title, run, stops: [{words, at?, spot?, card?, figure?, ...}],
    question, figures?}, plain data."""
    basics = (plain, guess, reject, unchanged, copying)
    rest = (phrases, suffixes, warm, pays, sources, family, batches)
    return [module.chapter() for module in (*basics, *rest)]


def questions() -> list[dict[str, Any]]:
    """Questions for the end: {words, answer, chapter, stop}, the stop where it is
    said."""
    found = []
    numbers = {chapter["id"]: number for number, chapter in enumerate(chapters())}
    for number in range(1, 1 + sum(key.endswith(".where") for key in table())):
        chapter, stop = table()[f"questions.{number}.where"].split(".")
        words, answer = say(f"questions.{number}"), say(f"questions.{number}.answer")
        found.append(
            {"words": words, "answer": answer, "chapter": numbers[chapter], "stop": int(stop) - 1}
        )
    return found


def end(labels: Mapping[str, str], more: str = "") -> dict[str, Any]:
    """The end, after the last question: {title, lines, next, places: [{href, label, words}], more}.

    labels  labels of places to go, by their addresses; those without words are left out
    more    a further sentence
    """
    lines = sorted(key for key in table() if re.fullmatch(r"learn\.end\.\d", key))
    words = {
        href: "learn.end." + re.split(r"[#.]", href)[-1 if "#" in href else 0] for href in labels
    }
    return {
        "title": say("learn.end.title"),
        "lines": [say(key) for key in lines],
        "next": "Where to go",
        "places": [
            {"href": href, "label": label, "words": say(words[href])}
            for href, label in labels.items()
            if words[href] in table()
        ],
        "more": more,
    }
