"""One colour, glyph, label and sentence per class of token; legend, CSS, charts and terminal all read them here.

The first colours are those of Okabe and Ito (2008), which people with colour-vision deficiency can tell apart; the four after
them had to be chosen beside. The paper's own (blue, black, red; arXiv 2402.13720, figure 1) are the second palette. Colour is never
the only sign: each class has a glyph of its own in the legend, and an underline; where two share one, the hover card names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ouroboros_core.tree import Source


@dataclass(frozen=True)
class Look:
    """How one class of token is shown.

    key        what `data-look` carries in the page: a source, or `correction` and `bonus` for the target's own
    colour     hex; paper and paper_dark: the same in the paper's palette, where black turns white on a dark page
    underline  a CSS text-decoration style
    """

    key: str
    label: str
    sentence: str
    glyph: str
    colour: str
    paper: str
    underline: str

    @property
    def paper_dark(self) -> str:
        return "#f2f2f2" if self.paper == "#1a1a1a" else self.paper


LOOKS: dict[str, Look] = {
    look.key: look
    for look in (
        Look("draft", "draft model", "Written by the draft model, or by an EAGLE head, and confirmed by the target.", "●", "#0072B2", "#1f5fd0", "solid"),
        Look("correction", "corrected by target", "The target's own token where it disagreed with the proposal.", "▲", "#D55E00", "#1a1a1a", "double"),
        Look("suffix", "accepted candidate suffix", "A phrase from the pool, hung behind the draft at no extra draft pass, and confirmed.", "◆", "#009E73", "#c81e1e", "wavy"),
        Look("bonus", "bonus from target", "The branch was accepted to its end; the same pass yields one more token of the target's.", "★", "#CC79A7", "#7a7a7a", "dotted"),
        Look("phrase", "looked-ahead phrase", "A phrase the model found earlier in its lookahead window, confirmed.", "◇", "#56B4E9", "#7b3fb5", "dashed"),
        Look("copy", "copied from the text", "Copied from an earlier place in the prompt or the output, or from the text that was expected, and confirmed.", "■", "#E69F00", "#a86b00", "solid"),
        Look("corpus", "retrieved from a corpus", "Found in a corpus of earlier texts, and confirmed.", "▣", "#8C6D31", "#5f6f1f", "dashed"),
        Look("ngram", "counted n-gram", "What most often followed the last few tokens so far, confirmed.", "▤", "#B2182B", "#8a4b6b", "dashed"),
        Look("recycled", "recycled candidate", "One of the target's own runners-up from an earlier pass, confirmed.", "↻", "#7F7F00", "#2f7f7f", "dotted"),
        Look("target", "target alone", "Written by the target in a pass of its own; nothing had been proposed.", "○", "#6B7280", "#1a1a1a", "solid"),
    )
}  # fmt: skip


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
