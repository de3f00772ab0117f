"""Components of the recorded runs: the gallery, and opening a file."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace.file import MAX_BYTES
from visualize.gallery import runs as gallery
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.run.view import legend

GALLERY_VIEW = markup("gallery/gallery_view", "open_recorded")
OPEN_VIEW = markup("gallery/open_view", "open_file")


class GalleryView(JsonHTML):
    """The recorded runs. A choice triggers `open_recorded` with a name."""

    def __init__(self, **options: Any) -> None:
        super().__init__({"entries": gallery.entries()}, GALLERY_VIEW, looks=legend(), **options)


class OpenView(JsonHTML):
    """A field for a trace. A file triggers `open_file` with its name and text.

    Value: {seq, said}."""

    def __init__(self, **options: Any) -> None:
        super().__init__(None, OPEN_VIEW, limit=MAX_BYTES, **options)
