"""The five n-gram modes of llama.cpp as one method (its `docs/speculative.md`).

They are built from their documentation. docs/methods/ngram_tables.md names where the code there
does something else.
"""

from __future__ import annotations

from itertools import count, takewhile
from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import Field, model_validator

from ouroboros_core import settings
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.lookup.ngram_tables import (
    Dominant,
    Found,
    Newest,
    NextTokens,
    NgramTable,
    Remembering,
    Rolling,
    Validated,
)
from ouroboros_core.lookup.session_text import SessionText
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder

LONGEST = 24
"""Draft tokens where that is 'auto', of which as many are checked as pay."""


class NgramTables(Method):
    """One table over this text and earlier ones; `cache` counts earlier ones apart."""

    id = "ngram_tables"
    name = "N-gram tables of llama.cpp"
    paper = "https://github.com/ggml-org/llama.cpp/blob/master/docs/speculative.md"
    summary = (
        "No draft model: looks up the last tokens in one of five tables built from the text, as "
        "llama.cpp does."
    )
    order = 16
    on_map = (Guesser.TEXT, Shape.CHAIN)
    uses = frozenset({Need.MEMORY})

    published = fixed_values(kind="simple", ngram_size=12, num_tokens=48, min_hits=1)
    """The defaults of `ngram-simple` there."""
    auto_setting = "num_tokens"

    class Hyperparameters(settings.Hyperparameters):
        kind: Literal["simple", "map-k", "map-k4v", "mod", "cache"] = Field(
            "map-k",
            description=(
                "simple: the newest place with the same last tokens; map-k: the same, and as long "
                "as the last draft from there was accepted; map-k4v: a continuation that is three "
                "times as frequent as all others; mod: the next token of each n-gram, rolled on; "
                "cache: the next token, if it was seen often enough."
            ),
        )
        ngram_size: int = Field(
            4, ge=1, le=64, description="Tokens that must match (n); cache has 1 to 4."
        )
        num_tokens: Annotated[int, Ge(1), Le(64)] | Auto = Field(
            AUTO, examples=[12], description="Draft tokens at most (m)."
        )
        min_hits: int = Field(
            1, ge=1, le=16, description="How often the last tokens must have occurred (map-k)."
        )
        min_tokens: int = Field(
            1, ge=1, le=64, description="Shortest draft that is made (mod); llama.cpp has 48."
        )

        @model_validator(mode="after")
        def _check(self) -> NgramTables.Hyperparameters:
            most = upto(self.num_tokens, LONGEST)
            if self.min_tokens > most:
                raise ValueError(
                    f"min_tokens must be at most num_tokens, got {self.min_tokens} and {most}"
                )
            return self

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> SessionText:
        return SessionText(fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        settings, memory = self.settings, of_kind(self.resources.memory, SessionText)
        self.session = session = SessionText() if memory is None else memory
        session.begin_run(())
        earlier = session.index("next tokens", NextTokens)
        if settings.kind == "cache":
            self.begins = session.begins
            self.table: NgramTable = Validated(upto(settings.num_tokens, LONGEST), earlier)
        else:
            self.begins = 0
            sizes = settings.ngram_size, settings.num_tokens, settings.min_hits, settings.min_tokens
            self.table = session.index("table", self._table, (settings.kind, *sizes))
            self.table.begin()
        session.follow(prompt.tokens)

    def _table(self) -> NgramTable:
        settings, most = self.settings, upto(self.settings.num_tokens, LONGEST)
        size = settings.ngram_size
        match settings.kind:
            case "map-k":
                return Remembering(size, most, settings.min_hits)
            case "map-k4v":
                return Dominant(size, most)
            case "mod":
                return Rolling(size, most, settings.min_tokens)
            case _:
                return Newest(size, most)

    def propose(self, context: Context) -> TokenTree:
        self.session.follow(context.tokens)
        self.table.extend(self.session.tokens[self.begins + len(self.table.tokens) :])
        draft = self.table.draft()
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        # A negative number stands between two texts.
        tokens = takewhile(lambda token: token >= 0, draft.tokens)
        origins = (self._origin(draft, index, context.step) for index in count())
        builder.add_chain(zip(tokens, origins, strict=False), self.resources.stop_tokens)
        return builder.build()

    def _origin(self, draft: Found, index: int, step: int) -> Provenance:
        if draft.position is None:
            return Provenance(Source.NGRAM, step=step, match=draft.match)
        position = draft.position + index - self.session.begins
        if position < 0:
            return Provenance(Source.COPY, Learned.HISTORY, match=draft.match)
        return Provenance(Source.COPY, position=position, match=draft.match)

    def learn(self, result: VerificationResult) -> None:
        """Report the acceptance to the table, and keep the text for later runs."""
        checked = sum(node not in result.unchecked for node in result.tree.proposals)
        self.table.accepted(checked, len(result.path))
        self.session.follow((*result.context.tokens, *result.emitted))
