"""Conversations as token ids: the chat template's markers become control tokens, while anything
that people and models have written remains text.

A control token is a special token, or an added token that the template writes as a marker. To
tokenize a typed `<|im_end|>` as text, its control token gets a spelling that nobody can type, in a
copy of the tokenizer and in the template's output. Everything else is tokenized as usual.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

ROLES = ("user", "assistant")
QUESTION, ANSWER = "qzquestionqz", "qzanswerqz"
"""Contents that no template changes."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A token that stands for one byte of a text."""


class ChatTemplate:
    """The chat template of a tokenizer, if it has one, and its control tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._salt = secrets.token_hex(8)

    def render(self, contents: Sequence[str], *, prompted: bool = True) -> str:
        """Return the text of a conversation with alternating turns of user and assistant, and with
        the prompt for the next answer if `prompted`. Raises any error of the template."""
        turns = [{"role": ROLES[n % 2], "content": text} for n, text in enumerate(contents)]
        rendered = self.tokenizer.apply_chat_template(
            turns, add_generation_prompt=prompted, tokenize=False
        )
        return str(rendered)

    @property
    def around(self) -> tuple[str, str]:
        """Return the template's text before and after a question."""
        before, after = self.render([QUESTION]).split(QUESTION)
        return before, after

    def ids(self, contents: Sequence[str]) -> list[int]:
        """Return the token ids of a conversation that waits for an answer; contents are text."""
        rendered = self.render(contents)
        ids = self._plain(rendered)
        if not self._typed(contents) and self._markers(ids) == self._markers(
            self._plain(self.render([QUESTION for _ in contents]))
        ):
            return ids
        return self._encode(*self._separated(contents, rendered))

    def as_text(self, text: str) -> list[int]:
        """Return the token ids of a text without control tokens."""
        ids = self._plain(text)
        unknown = self.tokenizer.unk_token
        if not self._markers(ids) and not (unknown and str(unknown) in text):
            return ids
        return self._encode([text], [text])

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids that end an answer: the tokenizer's end token, and the control token that the
        template writes after the last answer or else between an answer and the next question."""
        end = self.tokenizer.eos_token_id
        ends = frozenset() if end is None else frozenset([int(end)])
        for contents in ((QUESTION, ANSWER), (QUESTION, ANSWER, QUESTION)):
            after = self._rendered(contents, prompted=False).partition(ANSWER)[2].lstrip()
            closing = self._control.match(after)
            if closing:
                return ends | {self.controls[closing[0]]}
        return ends

    @cached_property
    def controls(self) -> dict[str, int]:
        """The control tokens by their texts."""
        contents = (QUESTION, ANSWER, QUESTION)
        written = "".join(self._rendered(contents, prompted=prompted) for prompted in (False, True))
        return {
            token.content: number
            for number, token in self._added.items()
            if token.content.strip() and not BYTE.fullmatch(token.content)
            if token.content in self._special
            or (token.content in written and not token.content.strip().isalnum())
        }

    @property
    def _added(self) -> dict[int, Any]:
        return dict(self.tokenizer.added_tokens_decoder)

    @cached_property
    def _special(self) -> set[str]:
        special = {token.content for token in self._added.values() if token.special}
        return special | set(map(str, self.tokenizer.all_special_tokens))

    def _rendered(self, contents: Sequence[str], *, prompted: bool) -> str:
        """Return the text of a conversation, or '' if there is no template or it fails."""
        if not self.tokenizer.chat_template:
            return ""
        try:
            return self.render(contents, prompted=prompted)
        except Exception:  # the template is a program of the model's author
            return ""

    @cached_property
    def _control(self) -> re.Pattern[str]:
        return _any_of(self.controls)

    def _plain(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _typed(self, contents: Sequence[str]) -> bool:
        """Return whether the contents include the text of a control token."""
        return any(self._control.search(text) for text in contents)

    def _markers(self, ids: Sequence[int]) -> list[int]:
        """Return the control tokens in `ids`, except the unknown token."""
        controls = set(self.controls.values()) - {self.tokenizer.unk_token_id}
        return [token for token in ids if token in controls]

    def _separated(self, contents: Sequence[str], rendered: str) -> tuple[list[str], list[str]]:
        """Return the rendered conversation in alternating pieces, of the template and of control
        tokens typed by somebody; and the same pieces with the template's markers respelled."""
        everywhere = [self._control] * len(contents)
        special = _any_of(self._special & self.controls.keys())
        answers_keep = [(self._control, special)[n % 2] for n in range(len(contents))]
        pieces: list[str] = []
        # A template may search for a marker, such as the end of a model's thoughts in an answer.
        # That marker remains a marker of the template.
        for patterns in (everywhere, answers_keep, everywhere):
            pieces = self._marked(contents, patterns)
            if "".join(pieces) == rendered:
                break
        respelled = [
            piece if number % 2 else self._control.sub(lambda match: self._names[match[0]], piece)
            for number, piece in enumerate(pieces)
        ]
        return pieces, respelled

    def _marked(self, contents: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> list[str]:
        """Return the rendered conversation, split at the patterns' matches in the contents."""
        written: list[str] = []

        def mark(match: re.Match[str]) -> str:
            written.append(match[0])
            return f"\ue000{self._salt}-{len(written) - 1}\ue001"

        marked = [pattern.sub(mark, text) for pattern, text in zip(patterns, contents, strict=True)]
        pieces = re.split(f"\ue000{self._salt}-([0-9]+)\ue001", self.render(marked))
        pieces[1::2] = [written[int(number)] for number in pieces[1::2]]
        return pieces

    def _encode(self, pieces: Sequence[str], respelled: Sequence[str]) -> list[int]:
        if self._respelled is not None:
            return list(self._respelled.encode("".join(respelled), add_special_tokens=False).ids)
        # The tokenizer has no backend in Rust.
        ids: list[int] = []
        for number, piece in enumerate(pieces):
            typed = bool(number % 2) or len(pieces) == 1
            options = {"split_special_tokens": True} if typed else {}
            ids += self.tokenizer(piece, add_special_tokens=False, **options).input_ids
        return ids

    @cached_property
    def _names(self) -> dict[str, str]:
        """Spellings of the control tokens that nobody can type."""
        return {
            text: f"\ue002{self._salt}-{number}\ue003" for number, text in enumerate(self.controls)
        }

    @cached_property
    def _respelled(self) -> Tokenizer | None:
        """A copy of the tokenizer with respelled control tokens and the same ids."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            return None
        data, names = json.loads(backend.to_str()), self._names
        for token in data["added_tokens"]:
            token["content"] = names.get(token["content"], token["content"])
        model = data["model"]
        vocabulary = model["vocab"]
        if isinstance(vocabulary, dict):
            model["vocab"] = {names.get(text, text): number for text, number in vocabulary.items()}
        else:
            model["vocab"] = [[names.get(text, text), score] for text, score in vocabulary]
        if model.get("unk_token") in names:
            model["unk_token"] = names[model["unk_token"]]
        if "merges" in model:
            model["merges"] = [
                pair for pair in model["merges"] if names.keys().isdisjoint(_of(pair))
            ]
        data |= {"post_processor": None, "truncation": None, "padding": None}
        return Tokenizer.from_str(json.dumps(data))


def _any_of(texts: Any) -> re.Pattern[str]:
    """Return a pattern that matches the longest of the texts."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _of(merge: str | Sequence[str]) -> Iterator[str]:
    """Yield the two tokens of a merge and the merged token."""
    pair = merge.split(" ") if isinstance(merge, str) else merge
    yield from pair
    yield "".join(pair)
