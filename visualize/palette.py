"""One colour, glyph, label and sentence per class of token; legend, CSS, charts and terminal all read them here.

The first colours are those of Okabe and Ito (2008), which people with colour-vision deficiency can tell apart; the four after
them had to be chosen beside. The paper's own (blue, black, red; arXiv 2402.13720, figure 1) are the second palette. Colour is never
the only sign: each class has a glyph of its own in the legend, and an underline; where two share one, the hover card names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ouroboros_core.tree import Source
from ouroboros_core.words import say


@dataclass(frozen=True)
class Look:
    """How one class of token is shown.

    key        what `data-look` carries in the page: a source, or `correction` and `bonus` for the target's own
    colour     hex; paper and paper_dark: the same in the paper's palette, where black turns white on a dark page
    underline  a CSS text-decoration style
    """

    key: str
    glyph: str
    colour: str
    paper: str
    underline: str

    @property
    def label(self) -> str:
        return say(f"look.{self.key}")

    @property
    def sentence(self) -> str:
        return say(f"look.{self.key}.sentence")

    @property
    def paper_dark(self) -> str:
        return "#f2f2f2" if self.paper == "#1a1a1a" else self.paper


LOOKS: dict[str, Look] = {
    look.key: look
    for look in (
        Look("draft", "●", "#0072B2", "#1f5fd0", "solid"),
        Look("correction", "▲", "#D55E00", "#1a1a1a", "double"),
        Look("suffix", "◆", "#009E73", "#c81e1e", "wavy"),
        Look("bonus", "★", "#CC79A7", "#7a7a7a", "dotted"),
        Look("phrase", "◇", "#56B4E9", "#7b3fb5", "dashed"),
        Look("copy", "■", "#E69F00", "#a86b00", "solid"),
        Look("corpus", "▣", "#8C6D31", "#5f6f1f", "dashed"),
        Look("ngram", "▤", "#B2182B", "#8a4b6b", "dashed"),
        Look("recycled", "↻", "#7F7F00", "#2f7f7f", "dotted"),
        Look("target", "○", "#6B7280", "#1a1a1a", "solid"),
    )
}


def key_of(source: Source, kind: str | None = None) -> str:
    """The look of an emitted token: its source, or for a target token whether it is a correction, a bonus, or neither."""
    return (kind or "target") if source is Source.TARGET else source.value


def css() -> str:
    """Both palettes as CSS custom properties on the classes that carry a token."""
    rules = []
    for look in LOOKS.values():
        rules.append(f'[data-look="{look.key}"]{{--tone:{look.colour};--line:{look.underline};}}')
        rules.append(f'[data-ouro-palette="paper"] [data-look="{look.key}"]{{--tone:{look.paper};}}')
        rules.append(f'.dark [data-ouro-palette="paper"] [data-look="{look.key}"]{{--tone:{look.paper_dark};}}')
    return "\n".join(rules)
