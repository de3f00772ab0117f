"""The page's header, with the script of the page's address.

Each tab has an address: the page's own with #compare, #learn or #lab, #watch for the first. Each
page of the Lab also has one, such as #results. It is behind the # because that part never reaches the
server and makes the browser load nothing. The query before it belongs to links that describe a
run's inputs (`visualize.run.permalink`); both work together. Gradio's tabs know no address, so the
script writes one into the browser's history when a tab is opened, and opens the tab when the
visitor moves through the history.

The browser's session storage keeps a visitor's inputs for a reload of the page and for the way back
to it; none of it is sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.kit.modules import imported

ADDRESS = markup("kit/address", "go")
KEY = "ouroboros"
"""In the session storage."""


@dataclass(frozen=True)
class Addresses:
    """places  ids of the outer tabs, the first one first
    pages   ids of the inner tabs, with the outer tab that contains each
    moved   addresses of earlier versions, with the tab that has their content now
    """

    places: tuple[str, ...]
    pages: dict[str, str]
    moved: dict[str, str] = field(default_factory=dict)

    def opened(self, tab: str) -> str:
        """Return a function in the browser that reports an opened tab to the script."""
        report = f"(await {imported('kit/address.js')}).opened({json.dumps(tab)})"
        return f"async () => {{ {report}; return []; }}"

    def named(self) -> str:
        """Return a function in the browser that turns the address into updates of the outer and the
        inner tabs; an address without a tab names the first place."""
        tabs = json.dumps([*self.places, *self.pages])
        name = "const name = location.hash.split('/')[0].slice(1);"
        match = f"{tabs}.find((tab) => tab === ({json.dumps(self.moved)}[name] || name))"
        tab = f"{name} const tab = {match} || {json.dumps(self.places[0])};"
        outer = f"const place = {json.dumps(self.pages)}[tab];"
        update = "(selected) => ({ __type__: 'update', ...(selected ? { selected } : {}) })"
        inner = f"place ? tab : {json.dumps(self.first)}[tab]"
        return (
            f"() => {{ {tab} {outer} const update = {update};"
            f" return [update(place || tab), update({inner})]; }}"
        )

    @property
    def first(self) -> dict[str, str]:
        """The first page of each place that has pages."""
        return {outer: page for page, outer in reversed(self.pages.items())}


class PageHeader(JsonHTML):
    """The title. Triggers `go` when the browser's history leads to another tab."""

    def __init__(self, addresses: Addresses, **options: Any) -> None:
        facts: dict[str, Any] = {
            "tabs": [*addresses.places, *addresses.pages],
            "pages": addresses.pages,
            "moved": addresses.moved,
        }
        super().__init__(
            None, ADDRESS, **facts, first=addresses.first, store=KEY, padding=False, **options
        )


def changed() -> str:
    """Return a function in the browser for changed inputs: it hands their values to the script, and
    returns them as JSON text for one component."""
    report = f"{imported('kit/address.js')}.then((page) => page.changed(values))"
    return f"(...values) => {{ {report}; return [JSON.stringify(values)]; }}"


def restored(inputs: int, charts: int, blank: dict[str, Any]) -> str:
    """Return a function in the browser for a page that was reloaded or gone back to: it returns the
    values of its inputs, view and charts."""
    facts = {"key": KEY, "inputs": inputs, "charts": charts, "blank": blank}
    return f"async () => (await {imported('kit/page_storage.js')}).restored({json.dumps(facts)})"
