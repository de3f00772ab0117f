"""Token ids to text, one at a time."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import Protocol

UNFINISHED = "\ufffd"
BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
INVALID_BYTE = re.compile("[\udc80-\udcff]")
"""A byte that belongs to no character, as Python's `surrogateescape` decodes it."""
LONGEST = 4
"""Bytes of the longest UTF-8 character, and the largest number of tokens for a character."""
PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""Bytes that a byte-level vocabulary (GPT-2, Llama 3, Qwen) spells as the character of that code;
it spells all other bytes as the characters from U+0100 on."""
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {
    chr(0x100 + rank): byte for rank, byte in enumerate(sorted({*range(256)} - {*PRINTABLE}))
}


class Decoder(Protocol):
    """The part of a tokenizer's interface that decoding uses."""

    def decode(self, token_ids: list[int], **options: bool) -> str: ...

    def convert_ids_to_tokens(self, ids: int) -> str | None: ...


def decode_all(tokenizer: Decoder, tokens: Sequence[int]) -> str:
    """Return the text of all tokens, with special ones, without cleaning up spaces."""
    return tokenizer.decode(
        list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )


class TextStream:
    """Turns a growing list of tokens into text, in linear time; at most one character waits.

    A token that ends inside a character adds the text before that character. The token with its
    last byte adds the character. Bytes that form no character become U+FFFD, in the piece of the
    token that shows it. (A first byte waits for the next token, a single continuation byte does not
    wait.)

    The pieces together are `decode_all` of the tokens, with one exception. A vocabulary with byte
    fallback (`<0x0A>`, as in Llama 2 and Mistral) has a token for each byte, and its decoder turns
    a whole run of such tokens into U+FFFD if one byte of the run is wrong. The pieces keep the
    characters of the run, and have U+FFFD only for each wrong byte.
    """

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        # The tokens to decode again with the next one: the tokens of an unfinished character, and
        # one before them, because a tokenizer leaves out the space before the first word.
        self._window: list[int] = []
        self._returned = ""  # the text of the window that was returned
        self._waiting = 0  # tokens since the unfinished character began
        self._in_bytes = False  # the last token was a byte token
        self._begun = False  # some token is complete
        self._token_texts: dict[int, str] = {}

    def push(self, token: int) -> str:
        """Return the text that this token completes, possibly ''."""
        name = self._tokenizer.convert_ids_to_tokens(token)
        byte = BYTE_TOKEN.fullmatch(name) if isinstance(name, str) else None
        if byte and self._text_of(token) != name:
            return self._push_byte(token, int(byte[1], 16))
        settled = self.finish() if self._in_bytes else ""
        self._begun = True
        self._window.append(token)
        text = decode_all(self._tokenizer, self._window)
        open_end = self._ends_inside_character(token, name, text)
        piece = self._added(text.removesuffix(UNFINISHED) if open_end else text)
        self._waiting = 0 if not open_end else 1 if piece else self._waiting + 1
        if piece:
            self._restart([token], open_end)
        elif len(self._window) > LONGEST:
            self._restart(self._window[-LONGEST:], open_end)
        return settled + piece

    def finish(self) -> str:
        """Return the rest: U+FFFD for an incomplete character, otherwise ''."""
        if self._in_bytes:
            self._in_bytes = False
            rest = self._utf8.decode(b"", final=True)
            self._restart(self._window[-1:])
            return INVALID_BYTE.sub(UNFINISHED, rest)
        waiting, self._waiting = self._waiting, 0
        return self._added(decode_all(self._tokenizer, self._window)) if waiting else ""

    def _push_byte(self, token: int, byte: int) -> str:
        """Return the characters that a byte token completes.

        The tokenizer decodes only the beginning of a text, where it leaves out a space: elsewhere
        one wrong byte would spoil the whole run.
        """
        settled = ""
        if not self._in_bytes:
            settled, self._in_bytes = self.finish(), True
            self._utf8.reset()
        self._window.append(token)
        text = self._utf8.decode(bytes([byte]))
        if text:
            if not self._begun and not INVALID_BYTE.search(text):
                text = decode_all(self._tokenizer, self._window)
            self._begun = True
            self._restart([token])
        return settled + INVALID_BYTE.sub(UNFINISHED, text)

    def _added(self, text: str) -> str:
        """Return the end of the window's text that was not returned yet."""
        before, self._returned = self._returned, text
        differs = (n for n, (a, b) in enumerate(zip(before, text, strict=False)) if a != b)
        return text[next(differs, len(before)) :]

    def _restart(self, window: list[int], open_end: bool = False) -> None:
        """Begin a new window with tokens whose text was returned, except an open end."""
        self._window = window
        text = self._text_of(*window)
        self._returned = text.removesuffix(UNFINISHED) if open_end else text

    def _text_of(self, *tokens: int) -> str:
        """Return the text of tokens without context; remember the text of a single token."""
        if len(tokens) > 1:
            return decode_all(self._tokenizer, tokens)
        (token,) = tokens
        if token not in self._token_texts:
            self._token_texts[token] = decode_all(self._tokenizer, tokens)
        return self._token_texts[token]

    def _ends_inside_character(self, token: int, name: object, text: str) -> bool:
        """Return whether more bytes can complete the last character of the text."""
        token_text = self._text_of(token)
        if UNFINISHED not in token_text:
            self._utf8.reset()
            return False
        if isinstance(name, str) and all(letter in BYTE_OF for letter in name):
            spelled = bytes(BYTE_OF[letter] for letter in name)
            if spelled.decode(errors="replace") == token_text:
                self._utf8.decode(spelled)
                return bool(self._utf8.getstate()[0])
        self._utf8.reset()
        if getattr(self._tokenizer, "is_fast", False):
            return False  # its names are its text: U+FFFD itself
        # The bytes are unknown: wait as long as the bytes of a character may.
        return text.endswith(UNFINISHED) and self._waiting < LONGEST - 1


def split_text(tokenizer: Decoder, tokens: Sequence[int]) -> list[str]:
    """Return the text that each token adds; the last one also adds the rest of `finish`."""
    stream = TextStream(tokenizer)
    pieces = [stream.push(token) for token in tokens]
    if pieces:
        pieces[-1] += stream.finish()
    return pieces
