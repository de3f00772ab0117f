"""The sources of tokens, each declared once with its name, looks and words.

Legend, colours, charts, terminal and the reasons on a token's card derive from the declaration. The
prior probability of a token is a function of its proposal: `tree.Provenance.prior`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


@dataclass(frozen=True)
class Look:
    """The appearance and the words of a class of token.

    key        value of `data-look` on the page: a source, or `correction` and `bonus` for the
               target's tokens; in CSS, `[data-look="key"]` has the colour as `--tone` (from
               `visualize/kit/palette.py`)
    label      name in the legend
    sentence   explanation in the legend
    glyph      a unique sign, because colour is never the only sign
    colour     hex. The first colours are the palette of Okabe and Ito (2008), which people with
               colour-vision deficiency can distinguish; the others were chosen to fit them
    paper      hex, as in the paper (blue, black, red; arXiv 2402.13720, figure 1)
    underline  a CSS text-decoration style
    proposer   the proposer in the middle of a sentence
    """

    key: str
    label: str
    sentence: str
    glyph: str
    colour: str
    paper: str
    underline: str
    proposer: str = "the proposal"

    @property
    def paper_dark(self) -> str:
        """The paper's colour on a dark page, where black turns white."""
        return "#f2f2f2" if self.paper == "#1a1a1a" else self.paper


class Source(StrEnum):
    """The proposer of a token, or TARGET for a token without a proposal."""

    look: Look | None

    def __new__(cls, value: str, *look: str) -> Self:
        """look: the fields of a `Look` in order, without the key; empty for sources that never emit
        text."""
        source = str.__new__(cls, value)
        source._value_ = value
        source.look = Look(value, *look) if look else None
        return source

    CONTEXT = "context"
    WINDOW = "window"
    DRAFT = (
        "draft",
        "draft model",
        "Written by the draft model, or by a head on the target's states, and confirmed by the "
        "target.",
        *("●", "#0072B2", "#1f5fd0", "solid", "the draft"),
    )
    SUFFIX = (
        "suffix",
        "accepted candidate suffix",
        "A phrase from the pool, appended to the draft without an extra draft pass, and confirmed.",
        *("◆", "#009E73", "#c81e1e", "wavy", "a candidate suffix"),
    )
    PHRASE = (
        "phrase",
        "looked-ahead phrase",
        "A phrase from the model's lookahead window, the prompt or the earlier text, confirmed.",
        *("◇", "#56B4E9", "#7b3fb5", "dashed", "a looked-ahead phrase"),
    )
    COPY = (
        "copy",
        "copied from the text",
        "Copied from an earlier part of the prompt or the output, or from the expected text, and "
        "confirmed.",
        *("■", "#E69F00", "#a86b00", "solid", "the copy"),
    )
    CORPUS = (
        "corpus",
        "retrieved from a corpus",
        "Found in a corpus of earlier texts, and confirmed.",
        *("▣", "#8C6D31", "#5f6f1f", "dashed", "the corpus"),
    )
    NGRAM = (
        "ngram",
        "counted n-gram",
        "The most frequent token so far after the last few tokens, confirmed.",
        *("▤", "#B2182B", "#8a4b6b", "dashed", "the n-gram counts"),
    )
    RECYCLED = (
        "recycled",
        "recycled candidate",
        "One of the target's runners-up from an earlier pass, confirmed.",
        *("↻", "#7F7F00", "#2f7f7f", "dotted", "an earlier pass's runner-up"),
    )
    GRAMMAR = (
        "grammar",
        "forced by the grammar",
        "The grammar allows no other token here, so no model had to guess.",
        *("▬", "#332288", "#4b3fa8", "solid", "the grammar"),
    )
    TARGET = (
        "target",
        "target alone",
        "Written by the target in a pass that checked nothing else.",
        *("○", "#6B7280", "#1a1a1a", "solid"),
    )


CORRECTION = Look(
    "correction",
    "corrected by target",
    "The target's own token where it disagreed with the proposal.",
    *("▲", "#D55E00", "#1a1a1a", "double"),
)
BONUS = Look(
    "bonus",
    "bonus from target",
    "The whole checked branch is accepted; the same pass yields one more token.",
    *("★", "#CC79A7", "#7a7a7a", "dotted"),
)


def _looks() -> list[Look]:
    """Return the looks in the legend's order: the draft's, the target's and the suffix's, then the
    other sources as declared."""
    sources = [source.look for source in Source if source.look]
    draft, suffix = (
        next(look for look in sources if look.key == key) for key in ("draft", "suffix")
    )
    first = [draft, CORRECTION, suffix, BONUS]
    return first + [look for look in sources if look not in first]


LOOKS: dict[str, Look] = {look.key: look for look in _looks()}


def key_of(source: Source, kind: str | None = None) -> str:
    """Return the key of an emitted token's look: its source, or for a target token `correction`,
    `bonus` or `target`. visualize/kit/palette.py gives each key its colour."""
    return (kind or "target") if source is Source.TARGET else source.value
