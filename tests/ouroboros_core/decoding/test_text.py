"""Pieces of text: together exactly the tokenizer's decoding of all tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.decoding.text import TextStream, decode_all, split_text
from tests.folders import tokenizer


@pytest.mark.parametrize("kind", ["bytes", "metaspace"])
@given(st.data())
def test_the_pieces_are_the_decoding_of_all_tokens(kind: str, data: st.DataObject) -> None:
    """Any tokens at all, so most sequences are no valid UTF-8."""
    tokens = data.draw(st.lists(st.integers(0, len(tokenizer(kind)) - 1), max_size=60))
    pieces = split_text(tokenizer(kind), tokens)
    assert len(pieces) == len(tokens)
    assert "".join(pieces) == decode_all(tokenizer(kind), tokens)


@pytest.mark.parametrize("kind", ["bytes", "metaspace"])
@given(st.text(max_size=40))
def test_a_text_streams_back_whole(kind: str, text: str) -> None:
    tokens = tokenizer(kind)(text, add_special_tokens=False).input_ids
    assert "".join(split_text(tokenizer(kind), tokens)) == decode_all(tokenizer(kind), tokens)


def test_half_a_character_adds_nothing_until_it_is_whole() -> None:
    stream = TextStream(tokenizer("bytes"))
    smile = tokenizer("bytes").backend_tokenizer.model
    ids = [
        smile.token_to_id(c) for c in ("ð", "Ł", "ĺ", "Ģ")
    ]  # the four bytes of an emoji, as byte-level BPE writes them
    assert None not in ids
    pieces = [stream.push(token) for token in ids]
    assert pieces[:3] == ["", "", ""]
    assert len(pieces[3]) == 1
    assert stream.finish() == ""
