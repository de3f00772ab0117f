"""Simple views: a run, saving and opening runs, the gallery, the difference of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ouroboros_core.trace.file import MAX_BYTES
from visualize.gallery import runs as gallery
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import (
    ASK_VIEW,
    DETAILS_VIEW,
    DIFF_VIEW,
    ELSEWHERE_VIEW,
    GALLERY_VIEW,
    LINK_VIEW,
    MEMORY_VIEW,
    METHOD_CARDS,
    OPEN_VIEW,
    SWEEP_VIEW,
    TOKEN_VIEW,
    save_buttons,
)
from visualize.kit.plot_view import PLOTLY
from visualize.run.view import legend


class TokenView(JsonHTML):
    """A run. Triggers `select` with a token, `step` with the step that is shown, and `run_again`
    with the act of a notice's button.

    Value: what `views.run_view` makes, or a part of it; {run, seq, from, steps} are in every part.
    `steps` are those from index `from` on, so that a stream sends each step once; another `run`
    starts anew. `seq` makes every part another value, because a browser is not told of one that
    equals the last."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, TOKEN_VIEW, looks=legend(), padding=False, **more)


class SaveView(JsonHTML):
    """Value: {seq, name, type, text}, a file for the browser; {seq, link}; or {seq, problem}.
    Triggers `save_run` with a kind."""

    def __init__(self, kinds: Sequence[str], **more: Any) -> None:
        """kinds: of the buttons, in their order."""
        super().__init__(None, save_buttons(*kinds), **more)


class AskView(JsonHTML):
    """Beside the buttons of a prompt: Enter asks, an empty prompt is pointed out, and either
    Generate or Stop is there. Whatever a visitor does to the text triggers `prompt_edit`.

    Value: those of all inputs as they stand, which it does not show."""

    def __init__(self, field: str, **more: Any) -> None:
        """field: the id of the prompt's box."""
        super().__init__(None, ASK_VIEW, field=field, **more)


class MethodCards(JsonHTML):
    """Value: {method}, the id of the method that is chosen, which may have no card. A card
    triggers `choose_method` with its method."""

    def __init__(self, cards: Sequence[dict[str, str]], method: str, **more: Any) -> None:
        """cards: {id, name, line} each."""
        shown = {"method": method}
        super().__init__(shown, METHOD_CARDS, cards=list(cards), padding=False, **more)


class DetailsView(JsonHTML):
    """Value: {has}, the ids of the charts that the run has; one at a time is shown, of the
    components `chart-<id>`."""

    def __init__(self, charts: Sequence[dict[str, str]], has: Sequence[str], **more: Any) -> None:
        """charts: {id, label} each, the first one shown first."""
        shown = {"has": list(has)}
        super().__init__(shown, DETAILS_VIEW, charts=list(charts), padding=False, **more)


class ElsewhereView(JsonHTML):
    """Value: {seq, models, said, notes, rows, time, batch} or {seq, models, problem}, see
    `visualize.what_if.view`.
    Triggers `price_run` with {machine, target, draft, batch, numbers} whenever it is seen and
    what it shows is of another run, or of another choice."""

    def __init__(self, choices: dict[str, Any], **more: Any) -> None:
        super().__init__(
            None,
            ELSEWHERE_VIEW,
            choices=choices,
            plotly=PLOTLY,
            looks=legend(),
            padding=False,
            **more,
        )


class OpenView(JsonHTML):
    """Value: {seq, said}. A file triggers `open_file` with its name and text."""

    def __init__(self, **more: Any) -> None:
        super().__init__(None, OPEN_VIEW, limit=MAX_BYTES, **more)


class MemoryView(JsonHTML):
    """Value: {seq, said}, with a file also {name, type, text}. Triggers `save_memory`, and with the
    name and text of a file `load_memory`."""

    def __init__(self, **more: Any) -> None:
        super().__init__(None, MEMORY_VIEW, limit=MAX_BYTES, padding=False, **more)


class LinkView(JsonHTML):
    """Value: {lines, offer}: what there is to say of a link, and whether to offer its run, which
    the button of that id starts."""

    def __init__(self, button: str, **more: Any) -> None:
        super().__init__(None, LINK_VIEW, button=button, **more)


class GalleryView(JsonHTML):
    """The recorded runs; a choice triggers `open_recorded` with a name."""

    def __init__(self, **more: Any) -> None:
        super().__init__({"entries": gallery.entries()}, GALLERY_VIEW, looks=legend(), **more)


class DiffView(JsonHTML):
    """Value: {seq, ...}, see `visualize.run.diff.view`, or {seq, problem}."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, DIFF_VIEW, **more)


class SweepView(JsonHTML):
    """Value: {seq, sweep, status, done, total, left, lines?, head?, rows?, finished?}; {seq,
    stopped}. Triggers `open_cell`."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, SWEEP_VIEW, **more)
