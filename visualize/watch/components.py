"""Components of Watch: methods, examples, and what a method has learned, as a file."""

from __future__ import annotations

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup


class MethodCards(JsonHTML):
    """Cards of methods, and a sheet of all. A click runs the prompt in the box; if a recorded run
    is shown and one of this prompt and method exists, it triggers `choose_method` with both.

    Value: {lacking}, by method what the models of the page lack for it; such a method is hidden.

    cards     {id, name, line} of each card
    families  {title, line, methods} of each family of the sheet
    recorded  the methods with a recorded run by prompt
    """

    VIEW = markup("watch/method_cards", "choose_method")


class ExampleChips(JsonHTML):
    """Chips of example prompts. A click triggers `choose_example`.

    Value: {prompt, settings}, those of the last click; settings are a value of `RunSettings`, or
    null for those as they are. examples: the same with label and note, of each chip."""

    VIEW = markup("watch/example_chips", "choose_example")


class MemoryView(JsonHTML):
    """Buttons for the memory of a method. Triggers `save_memory`, and `load_memory` with the name
    and text of a file of at most `limit` bytes.

    Value: {seq, said}, with a file also {name, type, text}."""

    VIEW = markup("watch/memory_view", "save_memory", "load_memory")
