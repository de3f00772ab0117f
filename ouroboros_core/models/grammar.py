"""A grammar that a text must follow: a JSON schema, a regular expression or a list of choices.

The package llguidance says which tokens may come next; this module turns that into rules of a model
(see `models.processed`), so the loop, the acceptance rules and the trace need not know it. Where
only one token may come next, it is a draft that costs nothing, see `methods.parts.forced`.

Of the tokens that could begin a forced run, llguidance allows the one that the tokenizer itself
would write, because models have seen no other. So plain decoding under a grammar takes the same
tokens.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ouroboros_core.arrays import np, npt
from ouroboros_core.errors import InvalidInput

PACKAGE = "llguidance"
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Options of JSON: with free blanks nothing is forced. A schema may say otherwise under
`x-guidance`."""

KINDS = ("json-schema", "regex", "choices")


@dataclass(frozen=True)
class Grammar:
    """A grammar as a user writes it.

    kind  'json-schema', 'regex' or 'choices'
    text  the schema as JSON; the pattern, in the syntax of Rust's `regex`; the choices, a JSON list
          of texts
    """

    kind: str
    text: str

    def compiled(self, library: Any) -> str:
        """Return the grammar for llguidance. Raises InvalidInput for a text of the wrong form."""
        if self.kind not in KINDS:
            known = ", ".join(KINDS)
            raise InvalidInput(f"the kind of a grammar must be one of {known}, got {self.kind!r}")
        try:
            self.text.encode()
            json.dumps(json.loads(self.text), ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            broken = error.object[error.start : error.end]
            raise InvalidInput(
                f"half a surrogate pair in the {self.kind}, {broken!r}: remove it"
            ) from None
        except (ValueError, RecursionError):
            pass  # no JSON, see below
        if self.kind == "regex":
            return str(library.LLMatcher.grammar_from_regex(self.text))
        try:
            content = json.loads(self.text)
        except ValueError as error:
            raise InvalidInput(f"the {self.kind} must be JSON: {error}") from None
        if self.kind == "json-schema":
            if not isinstance(content, dict):
                raise InvalidInput('the JSON schema must be an object, such as {"type": "object"}')
            return str(library.LLMatcher.grammar_from_json_schema(content, defaults=COMPACT))
        if not (isinstance(content, list) and content and all(isinstance(c, str) for c in content)):
            raise InvalidInput("the choices must be a list of texts with at least one text")
        if not all(content):
            raise InvalidInput("a choice must have at least one character, got an empty one")
        options = " | ".join(_quoted(choice) for choice in content)
        return str(library.LLMatcher.grammar_from_lark(f"start: {options}"))


def _quoted(choice: str) -> str:
    """Return a text as Lark has it in a grammar."""
    return json.dumps(choice, ensure_ascii=False).replace("\x7f", "\\u007f")


class GrammarRules:
    """A grammar over one text, as `Rules` of a model: logits of forbidden tokens become -inf.

    The grammar wins over other rules: where they forbid every token that it allows, all that it
    allows are equally probable.
    """

    def __init__(
        self, grammar: Grammar, tokenizer: Any, vocabulary: int, prompt: int, stops: frozenset[int]
    ) -> None:
        """
        vocabulary  token ids of the target
        prompt      tokens before the text that must follow the grammar
        stops       tokens that may end the text where the grammar allows an end

        Raises InvalidInput without llguidance, without a stop token, for a tokenizer that it cannot
        read and for a grammar that it cannot follow.
        """
        if not stops:
            raise InvalidInput(
                "a grammar needs a stop token, and this model has none: set eos_token_id in its "
                "generation_config.json, or leave the grammar out"
            )
        library = _library()
        self._vocabulary, self._prompt, self._stops = vocabulary, prompt, stops
        self._matcher = library.LLMatcher(
            _tokenizer(tokenizer, vocabulary, stops), grammar.compiled(library), log_level=0
        )
        self._kind = grammar.kind
        self._consumed: list[int] = []
        self._check()

    def __call__(
        self, text: Sequence[int], logits: npt.NDArray[np.floating]
    ) -> npt.NDArray[np.floating]:
        if not self._move(text):
            return logits
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(bits, bitorder="little")[: len(logits)].astype(np.bool_)
        allowed = np.pad(allowed, (0, len(logits) - len(allowed)))
        if not allowed.any():
            raise InvalidInput("the grammar allows only tokens that the model cannot write")
        if not np.isfinite(logits[allowed]).any():
            logits = np.zeros_like(logits)
        return np.where(allowed, logits, -np.inf).astype(logits.dtype)

    def forced(self, text: Sequence[int]) -> list[int]:
        """Return the token ids that must come next, as long as there is no choice and the target
        can write them."""
        tokens = self._matcher.compute_ff_tokens() if self._move(text) else ()
        return list(takewhile(lambda token: token < self._vocabulary, tokens))

    def _move(self, text: Sequence[int]) -> bool:
        """Bring the matcher to the end of a text. Return False, and leave it where the text does
        follow the grammar, if the text does not or has ended."""
        self._check()
        written = list(text[self._prompt :])
        if not self._stops.isdisjoint(written):
            return False
        pairs = zip(written, self._consumed, strict=False)
        same = next((n for n, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        if same is None:
            same = min(len(written), len(self._consumed))
        self._matcher.rollback(len(self._consumed) - same)
        del self._consumed[same:]
        rest = written[same:]
        if self._matcher.validate_tokens(rest) < len(rest):  # a token that it refuses is fatal
            return False
        self._matcher.consume_tokens(rest)
        self._consumed += rest
        return True

    def _check(self) -> None:
        """Raise InvalidInput if the matcher has given up, as it does at its limits of size."""
        if self._matcher.is_error():
            reason = " ".join(self._matcher.get_error().split())
            raise InvalidInput(f"the {self._kind} cannot be used: {reason}")


def _library() -> Any:
    try:
        library = importlib.import_module(PACKAGE)
        importlib.import_module(f"{PACKAGE}.hf")
    except ImportError:
        raise InvalidInput(
            f"a grammar needs the package {PACKAGE}: install it into this environment with `python "
            f"-m pip install {PACKAGE}`, or leave the grammar out"
        ) from None
    return library


def _tokenizer(tokenizer: Any, vocabulary: int, stops: frozenset[int]) -> Any:
    """Return llguidance's form of a tokenizer. It takes about a second, so it is made once."""
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InvalidInput(
            f"a grammar needs a fast tokenizer, got {type(tokenizer).__name__}: convert it to a "
            "tokenizer.json, or leave the grammar out"
        )
    known = tokenizer.__dict__.setdefault("_ouroboros_grammar", {})
    size, ends = max(vocabulary, len(tokenizer)), tuple(sorted(stops))
    if (size, ends) not in known:
        make = _library().hf.from_tokenizer
        known[size, ends] = make(tokenizer, n_vocab=size, eos_token=list(ends))
    return known[size, ends]
