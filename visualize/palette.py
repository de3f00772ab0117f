"""The looks of all classes of token, for legend, CSS, charts and terminal; `ouroboros_core.sources`
declares them."""

from __future__ import annotations

from ouroboros_core.locations import assets
from ouroboros_core.sources import BONUS, CORRECTION, Look, Source


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
    bonus, or neither."""
    return (kind or "target") if source is Source.TARGET else source.value


def css() -> str:
    """Both palettes as CSS custom properties on the classes that carry a token."""
    rules = []
    for look in LOOKS.values():
        rules.append(f'[data-look="{look.key}"]{{--tone:{look.colour};--line:{look.underline};}}')
        rules.append(
            f'[data-ouro-palette="paper"] [data-look="{look.key}"]{{--tone:{look.paper};}}'
        )
        paper = f'[data-ouro-palette="paper"] [data-look="{look.key}"]'
        rules.append(f".dark {paper}{{--tone:{look.paper_dark};}}")
    return "\n".join(rules)


def style() -> str:
    """All styles of the page: page.css first, then those of single places, then the palettes."""
    folder = assets() / "css"
    files = sorted(folder.glob("*.css"), key=lambda file: (file.name != "page.css", file.name))
    texts = [file.read_text("utf-8") for file in files if file.name != "standalone.css"]
    return "\n".join([*texts, css()])
