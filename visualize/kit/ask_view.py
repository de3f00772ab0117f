"""The start of a run: Enter in the prompt, and either Generate or Stop."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

ASK_VIEW = markup("kit/ask_view", "prompt_edit")


class AskView(JsonHTML):
    """The keys and buttons of a prompt: Enter asks, an empty prompt is pointed out, and either
    Generate or Stop is shown. Every change of the text by a visitor triggers `prompt_edit`.

    Value: the values of all inputs, which the view does not show."""

    def __init__(self, field: str, **options: Any) -> None:
        """field: the id of the prompt's box."""
        super().__init__(None, ASK_VIEW, field=field, **options)
