"""The whole course: its words add up and are true, every number is linked, every question has its
answer."""

import re
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.messages import table
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.summary import Summary
from tests.visualize.learn import as_shown
from tests.visualize.learn.recorded import corrected, quoted, raw, shown, weights
from visualize.deploy.static_site import LABELS, LIVE
from visualize.gallery import runs as gallery
from visualize.learn import lessons
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


def test_what_a_step_costs_adds_up_as_it_is_shown() -> None:
    """In a lesson, and below every run."""
    pays = next(c for c in lessons.chapters() if c["id"] == "pays")
    lesson = re.findall(r"(\d+\.\d\d)(?:×| for)", as_shown(pays["stops"][1]["words"][0]))
    told = [lesson[:4]]
    for chapter, stop in (("guess", 5), ("unchanged", 8)):
        stops = next(c["stops"] for c in lessons.chapters() if c["id"] == chapter)
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
    chapters = {chapter["id"]: chapter for chapter in lessons.chapters()}
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
    chapters = {chapter["id"]: chapter for chapter in lessons.chapters()}
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
    sizes = [round(size) for size in weights().values()]
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
    for chapter in lessons.chapters():
        for number, stop in enumerate(chapter["stops"], 1):
            words = re.sub(r"EAGLE-\d", "", " ".join(stop["words"]))
            if re.search(r"\d", words) and "](" not in words:
                bare.add(f"{chapter['id']}.{number}")
    assert bare == set(UNLINKED)


@pytest.mark.parametrize("chapter", lessons.chapters(), ids=lambda c: c["id"])
def test_no_stop_is_long(chapter: dict[str, Any]) -> None:
    """Everything between blanks counts, also numbers and signs of a formula."""
    for number, stop in enumerate(chapter["stops"], 1):
        count = sum(len(as_shown(line).split()) for line in stop["words"])
        signs = MOST_SIGNS if f"learn.{chapter['id']}.{number}" in FORMULAS else 0
        assert count <= MOST_WORDS + signs, (number, count)


def test_the_course_ends_with_five_lines_to_remember() -> None:
    """And leads to the places of the page, or of the static site, that it names."""
    end = lessons.end(ONWARD)
    assert len(end["lines"]) == 5 and all(len(line.split()) <= 25 for line in end["lines"])
    assert {f"#{name}": label for name, label in PLACES.items() if name != "learn"} == ONWARD
    assert [place["href"] for place in end["places"]] == list(ONWARD)
    site = lessons.end(LIVE | LABELS)["places"]
    assert {place["href"]: place["label"] for place in site} == {
        href: label for href, label in (LIVE | LABELS).items() if label != "Learn"
    }


def test_the_questions_lead_to_stops_that_are_there() -> None:
    chapters, questions = lessons.chapters(), lessons.questions()
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
