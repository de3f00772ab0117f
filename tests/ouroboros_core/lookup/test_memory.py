"""What is kept from text to text: the texts themselves against a search by brute force, the matrix,
and what a file may hold."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import lookup
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import (
    LARGEST_FILE,
    Memories,
    Memory,
    kinds,
    load_memory,
    read_memory,
)
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.lookup.session_text import SessionText
from ouroboros_core.lookup.successors import Successors
from ouroboros_core.lookup.suffix_automaton import SuffixAutomaton


def longest_match(texts: list[list[int]]) -> int:
    """Of all ends of the last text the longest that stands in an earlier text, or earlier in it."""
    *earlier, present = texts
    for length in range(len(present), 0, -1):
        end = present[-length:]
        places = [(text, len(text)) for text in earlier] + [(present, len(present) - 1)]
        for text, stop in places:
            if any(text[n : n + length] == end for n in range(stop - length + 1)):
                return length
    return 0


def written(seed: int) -> list[list[int]]:
    dice = random.Random(seed)
    return [[dice.randrange(3) for _ in range(dice.randrange(2, 14))] for _ in range(4)]


@pytest.mark.parametrize("seed", range(30))
def test_the_longest_match_is_within_one_text_and_so_is_its_copy(seed: int) -> None:
    texts, session = written(seed), SessionText()
    for number, text in enumerate(texts):
        session.begin_run(text[:1])
        found = session.index("automaton", SuffixAutomaton)
        for end in range(2, len(text) + 1):
            session.follow(text[:end])
            found.extend(session.tokens[len(found.tokens) :])
            there = [*texts[:number], text[:end]]
            match = found.recent
            assert (match.length if match else 0) == longest_match(there)
            if match is None:
                continue
            copy = session.copied(match.end, 5)
            behind = [token for _, token in copy]
            if copy and copy[0][0] is not None:
                position = copy[0][0]
                assert text[position - match.length : position] == text[end - match.length : end]
                assert all(p is not None and text[p] == token for p, token in copy)
            else:
                wanted = [*text[end - match.length : end], *behind]
                assert any(
                    other[n : n + len(wanted)] == wanted
                    for other in texts[:number]
                    for n in range(len(other))
                )
    assert session.texts == texts
    again = SessionText.from_json(session.to_json())
    assert again.texts == texts and len(again.tokens) == len(session.tokens)


def test_without_an_earlier_text_places_are_those_of_the_text() -> None:
    session = SessionText()
    session.begin_run([1, 2, 1])
    index = session.index("occurrences", lambda: Occurrences(2))
    assert index.tokens == session.tokens == [1, 2, 1]
    assert session.copied(1, 3) == [(1, 2), (2, 1), (1, 2)]


def test_of_too_many_texts_the_oldest_are_forgotten_whole() -> None:
    session = SessionText(most_tokens=20)
    texts = [[n, n, n, n, n] for n in range(9)]
    for text in texts:
        session.begin_run(text[:2])
        session.index("automaton", SuffixAutomaton)
        session.follow(text)
        assert len(session.tokens) <= 20 + 6
        assert session.texts == texts[: text[0] + 1][-len(session.texts) :]
        assert session.index("automaton", SuffixAutomaton).tokens == session.tokens
        negative = [token for token in session.tokens if token < 0]
        assert len({*negative}) == len(negative) == len(session.texts) - 1
    assert 1 < len(session.texts) < 9 and session.runs == 9


def test_a_narrower_run_keeps_the_likeliest_and_says_what_is_recalled() -> None:
    known = Successors(3)
    known.begin_run(3)
    known.learn(5, [1, 2, 3])
    known.learn(6, [4])
    assert not known.recalls(5)
    known.begin_run(2)
    assert known.recalls(5) and known.recalls(6) and not known.recalls(7)
    assert list(known.after(5)) == [1, 2]
    known.learn(5, [9, 8, 7])
    assert list(known.after(5)) == [9, 8] and not known.recalls(5)
    again = Successors.from_json(known.to_json())
    assert [list(again.after(token)) for token in (5, 6)] == [[9, 8], [4]]
    assert (again.largest_token, again.runs, again.width) == (9, 2, 2)


def filled() -> Memories:
    """One of every kind, a member each."""
    memory = Memories("print")
    parts = {"pool": PhrasePool(3, 2), "rows": Successors(2), "text": SessionText()}
    for role, part in parts.items():
        part.fingerprint = "print"
        memory.parts[role] = part
    return memory


def test_a_file_says_by_itself_what_it_holds(tmp_path: Path) -> None:
    for memory in (filled(), *filled().parts.values()):
        memory.save(tmp_path / "memory.json")
        for load in (load_memory, type(memory).load):
            again = load(tmp_path / "memory.json", "print")
            assert type(again) is type(memory) and again.to_json() == memory.to_json()
        with pytest.raises(InvalidInput, match=r"tokenizer .fingerprint print, expected other.: "):
            load_memory(tmp_path / "memory.json", "other")


ONE_FILE = """
from ouroboros_core.lookup.memory import Memory

class Nothing(Memory):
    FORMAT, holds = "ouroboros-nothing", "memory of nothing"
    token_ids = content = lambda self: {}
    of_content = classmethod(lambda cls, data: cls())
"""


def test_a_new_kind_of_memory_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {kind.__name__ for kind in kinds().values()}
    assert names == {"Answers", "Memories", "PhrasePool", "SessionText", "Successors"}
    (tmp_path / "nothing.py").write_text(ONE_FILE, encoding="utf-8")
    monkeypatch.setattr(lookup, "__path__", [*lookup.__path__, str(tmp_path)])
    kinds.cache_clear()
    try:
        memory = kinds()["ouroboros-nothing"]("mine")
        assert type(read_memory(memory.to_json(), "mine")) is type(memory)
    finally:
        kinds.cache_clear()
        sys.modules.pop("ouroboros_core.lookup.nothing", None)


def changed(memory: Memory, **values: Any) -> str:
    return json.dumps({**memory.to_data(), **values})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a memory of a method written by to_json"),
        ("[" * 100_000, "not a memory of a method written by to_json"),
        ("[]", "not a memory of a method"),
        ('{"format": "tar"}', "its format must be one of .*ouroboros-memories, .*, got tar"),
        (changed(Successors(2), version=2), "not a matrix of candidates of version 1"),
        (changed(Successors(2), width=65), "width must be between 1 and 64, got 65"),
        (changed(Successors(2), rows=[[1, [-2]]]), "its token ids are out of range"),
        (changed(Successors(2), rows=[[2**31, [2]]]), "its token ids are out of range"),
        (changed(Successors(2), rows=7), "not a memory of a method"),
        (changed(Successors(2), runs=2**31), "2147483648 runs are too many"),
        (changed(SessionText(), texts=[[1, -1]]), "its token ids are out of range"),
        (changed(SessionText(), most_tokens=10**9), "most_tokens must be between 1 and 16384"),
        (changed(PhrasePool(3, 2), max_keys=10**9), "max_keys must be between 1 and 1000000"),
        (changed(filled(), parts={str(n): {} for n in range(17)}), "has 17 parts, at most 16"),
        (changed(filled(), fingerprint="p"), "its part pool was made with another tokenizer"),
        (" " * (LARGEST_FILE + 1), "134,217,729 characters, allowed are 134,217,728"),
    ],
    ids=lambda value: value[:24],
)
def test_a_file_that_is_no_memory_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_memory(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", changed(PhrasePool(3, 2), version=2), "null"])
def test_a_file_of_another_kind_is_refused_with_the_kind_that_is_read(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a phrase pool"):
        PhrasePool.from_json(text)
