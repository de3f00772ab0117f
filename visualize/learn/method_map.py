"""The map of the field: every method by who guesses and in what shape, and who checks."""

from __future__ import annotations

from ouroboros_core import methods, rules
from ouroboros_core.methods.parts.base import Guesser, Method, Shape
from visualize.kit import labels
from visualize.kit.markup import safe

TITLE = "The methods on a map"
TOLD = (
    "Across: who guesses the next tokens. Down: the shape of the guess. The target checks all of "
    "it in one forward pass; nothing else decides what is written."
)
WHOLE = "All of them in one tree:"
CHECKS = (
    f"The target checks by a rule: {rules.explained()}. Under rejection and block, several chains "
    "of SpecTr are judged together by K-SEQ."
)


def placed() -> dict[tuple[Guesser, Shape], list[type[Method]]]:
    """The methods of the page by their place on the map, the simplest first."""
    found: dict[tuple[Guesser, Shape], list[type[Method]]] = {}
    for method in labels.offered():
        if method.on_map:
            found.setdefault(method.on_map, []).append(method)
    return found


def _link(method: type[Method]) -> str:
    label = f'<span title="{safe(method.summary)}">{safe(method.name)}</span>'
    if not method.paper:
        return label
    return f'<a href="{safe(method.paper)}" target="_blank" rel="noreferrer">{label}</a>'


def _row(shape: Shape, places: dict[tuple[Guesser, Shape], list[type[Method]]]) -> str:
    cells = []
    for guesser in Guesser:
        links = "".join(f"<li>{_link(kind)}</li>" for kind in places.get((guesser, shape), ()))
        listed = f'<ul class="ouro-list ouro-column">{links}</ul>' if links else ""
        cells.append(f'<td data-label="{safe(guesser.value)}">{listed}</td>')
    return f'<tr><th scope="row">{safe(shape.value)}</th>{"".join(cells)}</tr>'


def field_map() -> str:
    """The map as HTML."""
    places = placed()
    head = "".join(f'<th scope="col">{safe(guesser.value)}</th>' for guesser in Guesser)
    rows = "".join(_row(shape, places) for shape in Shape)
    union = _link(methods.get(methods.DEFAULT))
    return (
        f'<section class="ouro-field"><h3>{safe(TITLE)}</h3><p>{safe(TOLD)}</p>'
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{safe(WHOLE)} {union}. {safe(CHECKS)}</p></section>"
    )
