"""The page's header, and with it the script of the page's address.

Each place has an address: the page's own with #race, #learn or #lab behind it, #watch for the
first; each page of the Lab has one, too, such as #sweep. It stands behind the # because what stands
there never reaches the server and makes the browser load nothing; the query before it belongs to
the links that hold a run's inputs (`visualize.run.permalink`), and both go together. Gradio's tabs know
of no address, so the script writes one into the browser's history when a tab is opened, and opens
the tab when the history is gone through.

What a visitor has written is kept in the browser's session storage for a reload of the page and for
the way back to it; nothing of it is sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.kit.modules import imported

ADDRESS = markup("kit/address", "go")
KEY = "ouroboros"
"""In the session storage."""


@dataclass(frozen=True)
class Addresses:
    """places: ids of the outer tabs, the first one first; pages: ids of the tabs inside one of
    them, by the place they lie in."""

    places: tuple[str, ...]
    pages: dict[str, str]

    def opened(self, tab: str) -> str:
        """For a tab that is opened: a function in the browser that tells the script so."""
        told = f"(await {imported('kit/address.js')}).opened({json.dumps(tab)})"
        return f"async () => {{ {told}; return []; }}"

    def named(self) -> str:
        """A function in the browser: what the address names, as updates of the outer and of the
        inner tabs; the first place where it names nothing."""
        tabs = json.dumps([*self.places, *self.pages])
        known = f"{tabs}.find((tab) => '#' + tab === location.hash.split('/')[0])"
        found = f"const tab = {known} || {json.dumps(self.places[0])};"
        place = f"const place = {json.dumps(self.pages)}[tab];"
        update = "(selected) => ({ __type__: 'update', ...(selected ? { selected } : {}) })"
        inner = f"place ? tab : {json.dumps(self.first)}[tab]"
        return (
            f"() => {{ {found} {place} const update = {update};"
            f" return [update(place || tab), update({inner})]; }}"
        )

    @property
    def first(self) -> dict[str, str]:
        """The first page of each place that has pages."""
        return {place: page for page, place in reversed(self.pages.items())}


class PageHeader(JsonHTML):
    """Title and motto. Triggers `go` when the browser's history leads to another tab."""

    def __init__(self, addresses: Addresses, **more: Any) -> None:
        facts: dict[str, Any] = {
            "tabs": [*addresses.places, *addresses.pages],
            "pages": addresses.pages,
        }
        super().__init__(
            None, ADDRESS, **facts, first=addresses.first, store=KEY, padding=False, **more
        )


def changed() -> str:
    """For inputs that are changed: a function in the browser that hands their values to the
    script, and gives them as JSON text to one component."""
    told = f"{imported('kit/address.js')}.then((page) => page.changed(values))"
    return f"(...values) => {{ {told}; return [JSON.stringify(values)]; }}"


def kept(inputs: int, charts: int, blank: dict[str, Any]) -> str:
    """For a page that was reloaded or gone back to: a function in the browser that gives what was
    kept to inputs, view and charts."""
    facts = {"key": KEY, "inputs": inputs, "charts": charts, "blank": blank}
    return f"async () => (await {imported('kit/page_storage.js')}).restored({json.dumps(facts)})"
