"""The choice of the models in the page's header, and the download of those that are not on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import gradio as gr

from ouroboros_core.errors import OuroborosError
from ouroboros_core.loading import download
from visualize.kit.events import PRIVATE
from visualize.kit.markup import safe
from visualize.server.models import Models


class ModelList:
    """The list, or the name of the only pair. A pair that is not on the disk is chosen when it has
    been downloaded; until then runs go on with the pair before.

    pair  the component with the name of the chosen pair
    """

    def __init__(self, models: Models) -> None:
        self.models = models
        self.one_at_a_time = threading.Lock()
        several = len(models.choices) > 1
        self.pair = gr.Dropdown(
            self._entries(),
            value=models.first,
            label="Model for your runs",
            visible=several,
            allow_custom_value=models.own,
            elem_id="pair",
            min_width=0,
            show_label=False,
            container=False,
        )
        if not several:
            gr.HTML(
                f"Model for your runs <b>{safe(models.first)}</b>",
                elem_id="only-pair",
                padding=False,
            )

    def build_download(self, page: gr.Blocks) -> None:
        """Build the panel that asks before a download and shows it, below the header."""
        self.chosen, self.wanted = gr.State(self.models.first), gr.State(("", 0))
        with gr.Column(visible=False, elem_id="download", min_width=0) as self.panel:
            self.words = gr.Markdown()
            self.bar = gr.HTML(padding=False)
            with gr.Row():
                self.go, self.stop, self.close = (
                    gr.Button(label, size="sm", min_width=0, variant=variant)
                    for label, variant in (
                        ("Download", "primary"),
                        ("Stop", "secondary"),
                        ("Close", "secondary"),
                    )
                )
        panel = [self.panel, self.words, self.bar, self.go, self.stop, self.close]
        outputs = [self.pair, self.chosen, *panel]
        private: dict[str, Any] = {"queue": False, **PRIVATE}
        named = [self.pair, self.chosen]
        self.pair.input(self._choose, named, [*outputs, self.wanted], **private)
        running = self.go.click(
            self._download, [self.wanted, self.chosen], outputs, concurrency_limit=None, **PRIVATE
        )
        self.stop.click(self._stopped, self.chosen, outputs, cancels=[running], **private)
        self.close.click(_panel, None, panel, **private)
        page.load(lambda: gr.update(choices=self._entries()), None, self.pair, **private)

    def _entries(self) -> list[tuple[str, str]]:
        """Return each pair's label and name; one that must be downloaded says its size."""
        return [(self._label(name), name) for name in self.models.choices]

    def _label(self, name: str) -> str:
        if not self.models.missing(name):
            return name
        size = self.models.choice(name).size
        return f"{name} ({download.in_words(size) if size else 'a'} download)"

    def _shows(self, name: str, *, free: bool = True) -> list[Any]:
        """Return updates of list and chosen pair; free: whether another one can be chosen."""
        return [gr.update(choices=self._entries(), value=name, interactive=free), name]

    def _choose(self, name: str, chosen: str) -> list[Any]:
        """Choose a pair, or ask before it is downloaded."""
        name = name or self.models.first
        try:
            if not (names := self.models.missing(name)):
                return [*self._shows(name), *_panel(), ("", 0)]
            size = download.size(names, self.models.choice(name).size)
            question = f"{name} is not on this disk. Download {download.in_words(size)}?"
            panel, wanted = _panel(question, can_download=True), (name, size)
        except OuroborosError as error:
            panel, wanted = _panel(str(error)), ("", 0)
        return [*self._shows(chosen), *panel, wanted]

    def _download(self, wanted: tuple[str, int], chosen: str) -> Iterator[list[Any]]:
        name, size = wanted
        waits = _panel(f"{name}: waiting for the end of another download.", can_stop=True)
        while not self.one_at_a_time.acquire(timeout=download.INTERVAL):
            yield [*self._shows(chosen, free=False), *waits]
        try:
            for arrived in download.download(self.models.missing(name)):
                so_far = f"{download.in_words(arrived)} of {download.in_words(size)}"
                words = f"Downloading {name}: {so_far}. Meanwhile, {chosen} writes."
                amounts = f'value="{arrived}" max="{size}"'
                bar = f'<progress class="ouro-progress" aria-label="Download" {amounts}></progress>'
                panel = _panel(words, bar, can_stop=True)
                yield [*self._shows(chosen, free=False), *panel]
        except OuroborosError as error:
            yield [*self._shows(chosen), *_panel(str(error))]
        else:
            yield [*self._shows(name), *_panel()]
        finally:
            self.one_at_a_time.release()

    def _stopped(self, chosen: str) -> list[Any]:
        return [*self._shows(chosen), *_panel(f"Stopped. {chosen} goes on writing.")]


def _panel(
    words: str = "", bar: str = "", *, can_download: bool = False, can_stop: bool = False
) -> list[Any]:
    """Return updates of the panel, its words, its bar and its buttons; without words it is hidden.

    bar  HTML without text of a visitor
    """
    return [
        gr.update(visible=bool(words)),
        words,
        bar,
        gr.update(visible=can_download),
        gr.update(visible=can_stop),
        gr.update(visible=not can_stop),
    ]
