"""The looks of all classes of token as CSS; `ouroboros_core.sources` declares them."""

from __future__ import annotations

import re
from pathlib import Path

from ouroboros_core.sources import LOOKS

VISUALIZE = Path(__file__).parents[1]


def css() -> str:
    """Both palettes as CSS custom properties on what has a `data-look`, as tokens have."""
    rules = []
    for look in LOOKS.values():
        rules.append(f'[data-look="{look.key}"]{{--tone:{look.colour};--line:{look.underline};}}')
        rules.append(
            f'[data-ouro-palette="paper"] [data-look="{look.key}"]{{--tone:{look.paper};}}'
        )
        paper = f'[data-ouro-palette="paper"] [data-look="{look.key}"]'
        rules.append(f".dark {paper}{{--tone:{look.paper_dark};}}")
        rules.append(_isolation(look.key, f':not([data-look="{look.key}"])'))
    others = "".join(f':not([data-look="{key}"])' for key in MAIN)
    rules.append(f".ouro-grouped [data-look]{others}{{--tone:{OTHERS};--line:dotted;}}")
    main = ",".join(f'[data-look="{key}"]' for key in MAIN)
    rules.append(_isolation("others", f":is({main})"))
    return "\n".join(rules)


def _isolation(key: str, faded: str) -> str:
    """Return the rule that fades the tokens of all other looks."""
    return f'[data-only="{key}"] :is(.ouro-token,.ouro-node){faded}{{opacity:0.2;}}'


MAIN = ("draft", "correction", "suffix", "bonus", "target")
"""The looks that always have a colour of their own; token_summary.js also knows them. The first
three are the origins. The other two are the target's own tokens: plain decoding has
them too, and "other sources" must not count them."""
OTHERS = "#7E6BB3"
"""The colour of all others together, until a visitor asks for each."""
COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)
FIRST = ("run.css", "base.css")
"""Style sheets that come before all features, which may override them."""


def style() -> str:
    """Return the styles of the page, without comments: a run, all features, each feature, then the
    palettes."""
    sheets = {file.name: file for file in VISUALIZE.glob("*/*.css")}
    features = sorted(sheets.keys() - {*FIRST, "standalone.css", "opening.css"})
    texts = [sheets[name].read_text("utf-8") for name in (*FIRST, *features)]
    return COMMENT.sub("", "\n".join([*texts, css()]))


def run_style() -> str:
    """Return the styles of a run's view in another app. They affect nothing around the view, and
    override the app's rules for all buttons."""
    text = (VISUALIZE / "run" / "run.css").read_text("utf-8") + css()
    return f":root:root {{\n{text}\n}}"
