"""Token ids to text, one at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

UNFINISHED = "\ufffd"
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")


class Decoder(Protocol):
    """The interface of a tokenizer that is needed here."""

    def decode(self, token_ids: list[int], **options: bool) -> str: ...

    def convert_ids_to_tokens(self, ids: int) -> str | None: ...


def decode_all(tokenizer: Decoder, tokens: Sequence[int]) -> str:
    """The text of all tokens, special ones included, no spaces cleaned up."""
    return tokenizer.decode(
        list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )


class TextStream:
    """Turns a growing list of tokens into text; the pieces together are exactly `decode_all` of the
    list.

    A token that ends inside a character adds nothing until the character is complete; nor does a
    byte token (`<0x0A>`, as in Llama 2), because the bytes after it decide whether the whole run of
    bytes is text or not. Only a short tail is decoded again each time: the tokens since the last
    piece, and those of the piece before as their context.
    """

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._start = self._done = 0
        self._known = ""

    def push(self, token: int) -> str:
        """The text that this token completes, possibly none."""
        self._tokens.append(token)
        text = decode_all(self._tokenizer, self._tokens[self._start :])
        may_change = text.endswith(UNFINISHED) or BYTE_TOKEN.fullmatch(
            self._tokenizer.convert_ids_to_tokens(token) or ""
        )
        if may_change or not text.startswith(self._known):
            return ""
        piece = text[len(self._known) :]
        self._start, self._done = self._done, len(self._tokens)
        self._known = decode_all(self._tokenizer, self._tokens[self._start :])
        return piece

    def finish(self) -> str:
        """The rest: the text of tokens that never formed a complete character."""
        if self._done == len(self._tokens):
            return ""
        text = decode_all(self._tokenizer, self._tokens[self._start :])
        self._done = len(self._tokens)
        return text[len(self._known) :]


def split_text(tokenizer: Decoder, tokens: Sequence[int]) -> list[str]:
    """The text each token adds, one string per token; what `finish` leaves goes to the last."""
    stream = TextStream(tokenizer)
    pieces = [stream.push(token) for token in tokens]
    if pieces:
        pieces[-1] += stream.finish()
    return pieces
