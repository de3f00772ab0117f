"""Who proposed a token. A source is declared here once: name, looks and words; legend, colours,
charts, terminal and the reasons in a token's card take theirs from it. How likely its tokens are is
asked of the proposal itself: `tree.Provenance.prior`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


@dataclass(frozen=True)
class Look:
    """How a class of token is shown, and what is said of it.

    key        what `data-look` carries in the page: a source, or `correction` and `bonus` for the
               target's own; in CSS, `[data-look="key"]` has the colour as `--tone` (made of
               this in `visualize/kit/palette.py`)
    glyph      one of its own, because colour is never the only sign
    colour     hex. The first are those of Okabe and Ito (2008), which people with colour-vision
               deficiency can tell apart; those after them had to be chosen beside
    paper      hex, as in the paper (blue, black, red; arXiv 2402.13720, figure 1)
    underline  a CSS text-decoration style
    who        the proposer in the middle of a sentence
    """

    key: str
    label: str
    sentence: str
    glyph: str
    colour: str
    paper: str
    underline: str
    who: str = "the proposal"

    @property
    def paper_dark(self) -> str:
        """Black turns white on a dark page."""
        return "#f2f2f2" if self.paper == "#1a1a1a" else self.paper


class Source(StrEnum):
    """Who proposed a token; TARGET is for what nobody did."""

    look: Look | None

    def __new__(cls, value: str, *look: str) -> Self:
        """look: the fields of a `Look` in their order, without the key; none for what is never text
        that was accepted."""
        source = str.__new__(cls, value)
        source._value_ = value
        source.look = Look(value, *look) if look else None
        return source

    CONTEXT = "context"
    WINDOW = "window"
    DRAFT = (
        "draft",
        "draft model",
        "Written by the draft model, or by a head on the target's states, and confirmed by it.",
        *("●", "#0072B2", "#1f5fd0", "solid", "the draft"),
    )
    SUFFIX = (
        "suffix",
        "accepted candidate suffix",
        "A phrase from the pool, hung behind the draft at no extra draft pass, and confirmed.",
        *("◆", "#009E73", "#c81e1e", "wavy", "a candidate suffix"),
    )
    PHRASE = (
        "phrase",
        "looked-ahead phrase",
        "A phrase the model found in its lookahead window, or one seen in the prompt or the text "
        "before, confirmed.",
        *("◇", "#56B4E9", "#7b3fb5", "dashed", "a looked-ahead phrase"),
    )
    COPY = (
        "copy",
        "copied from the text",
        "Copied from an earlier part of the prompt or the output, or from the text that was "
        "expected, and confirmed.",
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
        "What most often followed the last few tokens so far, confirmed.",
        *("▤", "#B2182B", "#8a4b6b", "dashed", "the n-gram counts"),
    )
    RECYCLED = (
        "recycled",
        "recycled candidate",
        "One of the target's own runners-up from an earlier pass, confirmed.",
        *("↻", "#7F7F00", "#2f7f7f", "dotted", "an earlier pass's runner-up"),
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
    "All of the branch that was checked is accepted; the same pass yields one more token.",
    *("★", "#CC79A7", "#7a7a7a", "dotted"),
)


def _looks() -> list[Look]:
    """The draft's first, then what the target made of it, then the other sources in the order of
    their declaration."""
    sources = [source.look for source in Source if source.look]
    draft, suffix = (
        next(look for look in sources if look.key == key) for key in ("draft", "suffix")
    )
    first = [draft, CORRECTION, suffix, BONUS]
    return first + [look for look in sources if look not in first]


LOOKS: dict[str, Look] = {look.key: look for look in _looks()}


def key_of(source: Source, kind: str | None = None) -> str:
    """The look of an emitted token: its source, or for a target token whether it is a correction, a
    bonus, or neither. The page gives each its colour in visualize/kit/palette.py."""
    return (kind or "target") if source is Source.TARGET else source.value
