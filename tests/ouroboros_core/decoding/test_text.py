"""Pieces of text: together the tokenizer's decoding of all tokens, and none of them late."""

import copy
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from tokenizers import pre_tokenizers

from ouroboros_core import methods
from ouroboros_core.cli import display
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.decoding.text import BYTE_OF, BYTE_TOKEN, TextStream, decode_all, split_text
from tests.folders import small_pair, tokenizer
from visualize.watch.job import Live

KINDS = ("bytes", "metaspace")
TIBETAN = "བོད་ཡིག་ནི་བོད་མིའི་ཡི་གེ"
FAMILY = "👩‍👩‍👧‍👦🏽"
"""Five emoji joined to one picture."""
RUN_OF_BYTES = st.binary(max_size=12) | st.text(max_size=6).map(str.encode)
SPELLING = {byte: letter for letter, byte in BYTE_OF.items()}


def byte_ids(kind: str, data: bytes) -> list[int]:
    """One token for each byte."""
    spell = SPELLING.get if kind == "bytes" else "<0x{:02X}>".format
    ids: list[int] = tokenizer(kind).convert_tokens_to_ids([spell(byte) for byte in data])
    return ids


def whole_characters(data: bytes) -> Iterator[str]:
    """The oracle for a run of byte tokens, by brute force: a character where one begins, otherwise
    U+FFFD for the byte."""
    while data:
        heads = [(n, data[:n].decode(errors="replace")) for n in range(1, min(5, len(data) + 1))]
        whole = [(n, text) for n, text in heads if text.encode() == data[:n]]
        length, letter = whole[0] if whole else (1, "\ufffd")
        yield letter
        data = data[length:]


def expected(kind: str, tokens: Sequence[int]) -> str:
    """Return the pieces joined: `decode_all`, but for byte tokens their whole characters."""
    words = tokenizer(kind)
    if kind == "bytes":
        return decode_all(words, tokens)
    names = [(words.convert_ids_to_tokens(token), token) for token in tokens]
    # Bytes that are text are decoded as the tokens of a word would be: so the space at the
    # beginning goes where the tokenizer takes it away.
    replaced: list[int] = []
    for is_byte, group in groupby(names, lambda pair: bool(BYTE_TOKEN.fullmatch(pair[0]))):
        run = list(group)
        if is_byte:
            text = "".join(whole_characters(bytes(int(name[3:5], 16) for name, _ in run)))
            replaced += byte_ids(kind, text.encode())  # U+FFFD as the bytes of a legal U+FFFD
        else:
            replaced += [token for _, token in run]
    return decode_all(words, replaced)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_the_pieces_are_the_decoding_of_all_tokens(kind: str, data: st.DataObject) -> None:
    """Any tokens at all, so most sequences are no valid UTF-8."""
    tokens = data.draw(st.lists(st.integers(0, len(tokenizer(kind)) - 1), max_size=60))
    pieces = split_text(tokenizer(kind), tokens)
    assert len(pieces) == len(tokens)
    assert "".join(pieces) == expected(kind, tokens)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(RUN_OF_BYTES | st.sampled_from([" the cat", "Grüße", "\n"]), max_size=6))
def test_bytes_between_words_show_every_whole_character(
    kind: str, parts: list[bytes | str]
) -> None:
    """Random bytes, one token each, between tokens of words."""
    words, tokens = tokenizer(kind), list[int]()
    for part in parts:
        if isinstance(part, bytes):
            tokens += byte_ids(kind, part)
        else:
            tokens += words.encode(part, add_special_tokens=False)
    assert "".join(split_text(words, tokens)) == expected(kind, tokens)


@example("  two spaces, of which the tokenizer leaves out the first")
@given(st.lists(st.integers(0x80, 0xFF), max_size=9).map(bytes) | st.text(max_size=9))
def test_a_run_of_bytes_without_a_character_or_without_a_wrong_byte_is_what_the_tokenizer_says(
    run: bytes | str,
) -> None:
    """The exception to `decode_all` is as narrow as TextStream's docstring says."""
    if isinstance(run, bytes) and set(whole_characters(run)) - {"\ufffd"}:
        return
    words, data = tokenizer("metaspace"), run if isinstance(run, bytes) else run.encode()
    tokens = byte_ids("metaspace", data)
    assert "".join(split_text(words, tokens)) == decode_all(words, tokens)


@pytest.mark.parametrize("kind", KINDS)
@given(st.text(max_size=40))
def test_a_text_streams_back_whole(kind: str, text: str) -> None:
    tokens = tokenizer(kind)(text, add_special_tokens=False).input_ids
    assert "".join(split_text(tokenizer(kind), tokens)) == decode_all(tokenizer(kind), tokens)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_at_most_one_character_waits(kind: str, data: st.DataObject) -> None:
    """The oracle is the decoding of the tokens so far: what is not shown of it is the U+FFFD of an
    unfinished character, which byte fallback has once for each of its bytes."""
    tokens = data.draw(st.lists(st.integers(0, len(tokenizer(kind)) - 1), max_size=30))
    tokens += byte_ids(kind, data.draw(RUN_OF_BYTES))
    stream, shown = TextStream(tokenizer(kind)), ""
    for count, token in enumerate(tokens, 1):
        shown += stream.push(token)
        rest = expected(kind, tokens[:count]).removeprefix(shown)
        assert rest in ["\ufffd" * n for n in range(2 if kind == "bytes" else 4)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [TIBETAN, FAMILY, "\n\n\n", "Grüße", "\ufffd" * 20])
def test_a_character_comes_with_its_last_byte(kind: str, text: str) -> None:
    """U+FFFD is legal text, and a newline is a whole character of one byte token."""
    wanted: list[str] = []
    for letter in text:
        wanted += [*[""] * (len(letter.encode()) - 1), letter]
    assert split_text(tokenizer(kind), byte_ids(kind, text.encode())) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_no_character_stay_with_their_token(kind: str) -> None:
    """A continuation byte alone and a byte that UTF-8 does not have wait for nothing; a first byte
    waits for one token."""
    words = tokenizer(kind)
    word = words.convert_tokens_to_ids("Ġthe" if kind == "bytes" else "▁the")
    for lone in (b"\x80", b"\xff", b"\xc0"):
        tokens = [*byte_ids(kind, b"a" + lone + lone), word]
        assert split_text(words, tokens) == ["a", "\ufffd", "\ufffd", " the"]
    assert split_text(words, byte_ids(kind, b"\xf0\xf0\xf0")) == ["", "\ufffd", "\ufffd\ufffd"]


class Counting:
    """A tokenizer that counts the tokens that it decodes."""

    def __init__(self, words: Any) -> None:
        self.words, self.decoded = words, 0
        self.convert_ids_to_tokens = words.convert_ids_to_tokens

    def decode(self, token_ids: list[int], **options: bool) -> str:
        self.decoded += len(token_ids)
        text: str = self.words.decode(token_ids, **options)
        return text


BYTES = [b"\x80", b"\xf0", b"\n", b"\xe2\x82", "\ufffd".encode(), TIBETAN.encode(), b"the cat sat "]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", BYTES)
def test_the_work_grows_with_the_number_of_tokens(kind: str, data: bytes) -> None:
    """Counted in tokens that are decoded, at most six for each one that comes."""
    counting = Counting(tokenizer(kind))
    tokens = byte_ids(kind, data * (3000 // len(data)))
    split_text(counting, tokens)
    assert counting.decoded <= 6 * len(tokens)


def test_tokens_that_each_end_inside_a_character_are_no_growing_window() -> None:
    """Each token has the end of one character and the beginning of the next, so that no token
    ends where a character does."""
    words = copy.deepcopy(tokenizer("bytes"))
    # 0xE2 0x82 0xAC is "€".
    words.add_tokens(["".join(SPELLING[byte] for byte in b"\x82\xacb\xe2")])
    tokens = [words.convert_tokens_to_ids(SPELLING[0xE2]), *[len(words) - 1] * 500]
    counting = Counting(words)
    assert split_text(counting, tokens) == ["", *["€b"] * 499, "€b\ufffd"]
    assert counting.decoded <= 6 * len(tokens)


class Nameless:
    """A tokenizer of whose tokens nobody knows the bytes (a slow one, in Python)."""

    def decode(self, token_ids: list[int], **options: bool) -> str:
        return bytes(token_ids).decode(errors="replace")

    def convert_ids_to_tokens(self, ids: int) -> str | None:
        return None


@given(st.text(max_size=20) | st.binary(max_size=20))
def test_where_nobody_names_the_bytes_characters_are_whole_and_nothing_waits_long(
    text: str | bytes,
) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    whole = data.decode(errors="replace")
    assert "".join(split_text(Nameless(), list(data))) == whole
    stream = TextStream(Nameless())
    assert len(whole) - len("".join(stream.push(byte) for byte in data)) <= 3


def test_the_spelling_of_bytes_is_that_of_byte_level_vocabularies() -> None:
    assert sorted(BYTE_OF) == sorted(pre_tokenizers.ByteLevel.alphabet())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("".join(map(chr, range(0x900))), TIBETAN, FAMILY):
        ((spelled, _),) = level.pre_tokenize_str(text)
        assert bytes(BYTE_OF[letter] for letter in spelled).decode() == text


def test_every_front_end_shows_what_the_end_of_a_run_leaves() -> None:
    """A run that ends inside a character: pipe, terminal, live terminal and page have the text of
    the trace, which is the decoding of its tokens."""
    torch.manual_seed(0)
    pair, kind = small_pair(), methods.get("autoregressive")
    longer = Task("the", kind.id, kind.Hyperparameters(), max_new_tokens=40, chat=False)
    ends_inside = Generation(pair, longer).run().texts.index("") + 1
    task = replace(longer, max_new_tokens=ends_inside)
    for show, terminal in ((display.stream, False), (display.stream, True), (display.live, True)):
        generation, file = Generation(pair, task), io.StringIO()
        screen = Console(file=file, force_terminal=terminal, width=400, color_system="standard")
        show(generation, screen)
        trace = generation.trace()
        assert trace.text == decode_all(pair.tokenizer, trace.tokens)
        assert trace.text.endswith("\ufffd")
        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\s", "", file.getvalue())
        said = display.safe(trace.text) if terminal else trace.text
        assert shown.endswith(re.sub(r"\s", "", said))
    generation = Generation(pair, task)
    lines = [display.step_line(generation, step, coloured=False) for step in generation]
    written = "".join(line.plain.split("emitted  ")[1] for line in lines)
    assert written == display.safe(trace.text).replace("\n", "⏎").replace("\t", " ")
    page = Live(Generation(pair, task), "a run", charts=False)
    steps = [step for update in page.progress() for step in update.view["steps"]]
    steps += page.written(None).view["steps"]
    assert "".join(token["text"] for step in steps for token in step["tokens"]) == trace.text
