"""The page's header, and with it the script of the page's address.

Each tab has an address: the page's own with #race, #sweep, #learn, #traces or #drafts behind it,
#generate for the first. It stands behind the # because what stands there never reaches the server
and makes the browser load nothing; the query before it belongs to the links that hold a run's
inputs (`visualize.permalink`), and both go together. Gradio's tabs know of no address, so the
script writes one into the browser's history when a tab is opened, and opens the tab when the
history is gone through.

What a visitor has written is kept in the browser's session storage while the page is reloaded;
nothing of it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from visualize.components.base import JsonHTML
from visualize.components.modules import imported
from visualize.markup import ADDRESS

KEY = "ouroboros"
"""In the session storage."""


class PageHeader(JsonHTML):
    """Title and motto. Triggers `go` when the browser's history leads to another tab."""

    def __init__(self, tabs: Sequence[str], **more: Any) -> None:
        """tabs: their ids, the first one first."""
        super().__init__(None, ADDRESS, tabs=list(tabs), store=KEY, **more)


def opened(tab: str) -> str:
    """For a tab that is opened: a function in the browser that tells the script so."""
    told = f"(await {imported('address')}).opened({json.dumps(tab)})"
    return f"async () => {{ {told}; return []; }}"


def named(tabs: Sequence[str]) -> str:
    """A function in the browser: the tab that the address names, as an update of the tabs; the
    first one where it names none."""
    found = f"{json.dumps(list(tabs))}.find((tab) => location.hash === '#' + tab)"
    return f"() => [{{ __type__: 'update', selected: {found} || {json.dumps(tabs[0])} }}]"


def changed() -> str:
    """For inputs that are changed: a function in the browser that hands their values to the
    script."""
    told = f"(await {imported('address')}).changed(values)"
    return f"async (...values) => {{ {told}; return []; }}"


def kept(inputs: int, charts: int, blank: dict[str, Any]) -> str:
    """For a page that was reloaded: a function in the browser that gives what was kept to
    inputs, view and charts."""
    facts = {"key": KEY, "inputs": inputs, "charts": charts, "blank": blank}
    return f"async () => (await {imported('kept')}).kept({json.dumps(facts)})"
