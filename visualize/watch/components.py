"""Components of Watch: the cards of the methods, and what a method has learned, as a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ouroboros_core.trace.file import MAX_BYTES
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

METHOD_CARDS = markup("watch/method_cards", "choose_method")
MEMORY_VIEW = markup("watch/memory_view", "save_memory", "load_memory")


class MethodCards(JsonHTML):
    """Cards of methods. A card triggers `choose_method` with its method.

    Value: {method}, the id of the chosen method, which may have no card."""

    def __init__(self, cards: Sequence[dict[str, str]], method: str, **options: Any) -> None:
        """cards: {id, name, line} of each card."""
        value = {"method": method}
        super().__init__(value, METHOD_CARDS, cards=list(cards), padding=False, **options)


class MemoryView(JsonHTML):
    """Buttons for the memory of a method. Triggers `save_memory`, and `load_memory` with the name
    and text of a file.

    Value: {seq, said}, with a file also {name, type, text}."""

    def __init__(self, **options: Any) -> None:
        super().__init__(None, MEMORY_VIEW, limit=MAX_BYTES, padding=False, **options)
