"""Components of Watch: methods, examples, and what a method has learned, as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ouroboros_core.trace.file import MAX_BYTES
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.watch.examples import Example

METHOD_CARDS = markup("watch/method_cards", "choose_method")
EXAMPLE_CHIPS = markup("watch/example_chips", "choose_example")
MEMORY_VIEW = markup("watch/memory_view", "save_memory", "load_memory")


class MethodCards(JsonHTML):
    """Cards of methods, and a sheet of all. A click runs the prompt in the box; if a recorded run
    is shown and one of this prompt and method exists, it triggers `choose_method` with both.

    Value: {lacking}, by method what the models of the page lack for it; such a method is hidden.
    """

    def __init__(
        self,
        cards: Sequence[dict[str, str]],
        families: Sequence[dict[str, Any]],
        recorded: Mapping[str, Sequence[str]],
        **options: Any,
    ) -> None:
        """
        cards     {id, name, line} of each card
        families  {title, line, methods} of each family of the sheet
        recorded  the methods with a recorded run by prompt
        """
        options |= {"cards": list(cards), "families": list(families), "recorded": dict(recorded)}
        super().__init__({"lacking": {}}, METHOD_CARDS, padding=False, **options)


class ExampleChips(JsonHTML):
    """Chips of example prompts. A click triggers `choose_example`.

    Value: {prompt, settings}, those of the last click; settings are a value of `RunSettings`, or
    null for those as they are."""

    def __init__(
        self, examples: Sequence[Example], settings: Mapping[str, Any], **options: Any
    ) -> None:
        """settings: a value of `RunSettings` by the label of an example of one method."""
        chips = [asdict(e) | {"settings": settings.get(e.label)} for e in examples]
        super().__init__(None, EXAMPLE_CHIPS, examples=chips, padding=False, **options)


class MemoryView(JsonHTML):
    """Buttons for the memory of a method. Triggers `save_memory`, and `load_memory` with the name
    and text of a file.

    Value: {seq, said}, with a file also {name, type, text}."""

    def __init__(self, **options: Any) -> None:
        super().__init__(None, MEMORY_VIEW, limit=MAX_BYTES, padding=False, **options)
