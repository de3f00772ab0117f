"""Components that show a run: its text, charts, files and link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import Markup, markup
from visualize.kit.plot_view import PLOTLY
from visualize.run.view import legend

TOKEN_VIEW = markup("run/token_view", "select", "step", "run_again")
SAVING = {"json": "JSON", "html": "replay (HTML)", "csv": "table (CSV)", "link": "link"}
"""The kinds of file that a run can be saved as, and a link, with the labels of their buttons."""


def save_buttons(*kinds: str) -> Markup:
    """Return a row of buttons; each saves a run as a file of one kind, or as a link."""
    buttons = "\n".join(
        f'<button type="button" class="ouro-toggle" data-kind="{kind}">{SAVING[kind]}</button>'
        for kind in kinds
    )
    return markup("run/save_view", "save_run", buttons=buttons)


class TokenView(JsonHTML):
    """A run. Triggers `select` with a token, `step` with the step that is shown, and `run_again`
    with the act of a notice's button.

    Value: a `visualize.run.view.run_view`, or a part of it. Every part has {run, seq, from, steps}.
    `steps` begin at index `from`, so that a stream sends each step once. Another `run` starts anew.
    At `step`, if it is there, the run is shown.
    `seq` differs in every part, because a browser does not notice a value that equals the last."""

    def __init__(self, value: dict[str, Any] | None = None, **options: Any) -> None:
        facts: dict[str, Any] = {"looks": legend(), "plotly": PLOTLY, "padding": False}
        super().__init__(value, TOKEN_VIEW, **facts, **options)


class SaveView(JsonHTML):
    """Buttons that save a run. Triggers `save_run` with a kind.

    Value: {seq, name, type, text}, a file for the browser; {seq, link, said}; or {seq, problem}."""

    def __init__(self, kinds: Sequence[str], **options: Any) -> None:
        """kinds: the kinds of the buttons, in their order; see `SAVING`."""
        super().__init__(None, save_buttons(*kinds), **options)


class DetailsView(JsonHTML):
    """A fold that shows one more chart of a run at a time, of the components `chart-<id>`.

    Value: {has}, the ids of the charts that the run has. charts: {id, label} of each chart; the
    first one is shown first."""

    VIEW = markup("run/details_view")


class LinkView(JsonHTML):
    """What a link holds. At an address such as #run=NAME&step=15 it triggers `open_link` with name
    and step.

    Value: {lines, offer}: sentences about a link, and whether to offer its run. button: the id of
    the button that starts the run."""

    VIEW = markup("run/link_view", "open_link")
