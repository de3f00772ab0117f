"""Recorded runs, in the Lab: recorded runs, and a file that is opened."""

from __future__ import annotations

import time
from typing import Any

import gradio as gr

from ouroboros_core.errors import OuroborosError
from ouroboros_core.messages import say
from ouroboros_core.trace.file import MAX_BYTES, read_run
from ouroboros_core.trace.trace import Trace
from visualize.gallery import runs as gallery
from visualize.kit.events import PRIVATE, errors_on_page, field, refused
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.run.view import legend
from visualize.watch.session import Session
from visualize.watch.tab import WatchPanel

WATCH = "watch"
"""The id of the place in which a run is opened."""


class GalleryView(JsonHTML):
    """The recorded runs. A choice triggers `open_recorded` with a name.

    Value: {entries} at first, later {seq, refused}, why a choice opens nothing."""

    VIEW = markup("gallery/gallery_view", "open_recorded")


class OpenView(JsonHTML):
    """A field for a trace. A file of at most `limit` bytes triggers `open_file` with name and text.

    Value: {seq, said}."""

    VIEW = markup("gallery/open_view", "open_file")


class TracesPanel:
    """Builds the tab inside an open gr.Blocks; runs are opened in the panel that shows them."""

    def __init__(self, watch: WatchPanel, tabs: gr.Tabs) -> None:
        self.watch = watch
        gr.Markdown(say("traces.intro"))
        entries = {"entries": gallery.entries()}
        self.gallery = GalleryView(entries, looks=legend(), elem_id="gallery")
        self.open = OpenView(limit=MAX_BYTES, elem_id="open-view")
        self._wire(tabs)

    def _wire(self, tabs: gr.Tabs) -> None:
        session, shown = self.watch.session, [tabs, *self.watch.outputs]
        for opened, run, view in (
            (self.gallery.open_recorded, self._open_recorded, self.gallery),
            (self.open.open_file, self._open_file, self.open),
        ):
            opened(run, session, [view, *shown], concurrency_limit=None, **PRIVATE)

    def _open_recorded(self, event: gr.EventData, session: Session) -> list[Any]:
        try:
            name = field(event, "name", str)
            trace, baseline = gallery.trace(name), gallery.baseline(name)
            return [gr.skip(), *self._shown(session, trace, baseline, recorded=name)]
        except OuroborosError as error:
            return [refused(error), *self._unchanged]

    def _open_file(self, event: gr.EventData, session: Session) -> list[Any]:
        with errors_on_page():
            name = field(event, "name", str)[:100]
            text = field(event, "text", str)
        try:
            shown = self._shown(session, *read_run(text))
        except OuroborosError as error:
            return [_told(f"{name}: {error}"), *self._unchanged]
        return [_told(f"{name} is shown in Watch."), *shown]

    def _shown(
        self, session: Session, trace: Trace, baseline: Trace | None, recorded: str = ""
    ) -> list[Any]:
        return [gr.Tabs(selected=WATCH), *self.watch.show(session, trace, baseline, recorded)]

    @property
    def _unchanged(self) -> list[Any]:
        return [gr.skip() for _ in range(1 + len(self.watch.outputs))]


def _told(words: str) -> dict[str, Any]:
    return {"seq": time.time_ns(), "said": words}
