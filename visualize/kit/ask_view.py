"""The start of a run: Enter in the prompt, either Generate or Stop, and why there is none."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

ASK_VIEW = markup("kit/ask_view")
FAULT_VIEW = markup("kit/fault_view")


class AskView(JsonHTML):
    """The keys and buttons of a prompt: Enter asks, an empty prompt is pointed out, and either
    Generate or Stop is shown. The button names what it would change beside the shown run.

    Value: the values of all inputs, which the view does not show."""

    def __init__(self, field: str, **options: Any) -> None:
        """field: the id of the prompt's box."""
        super().__init__(None, ASK_VIEW, field=field, **options)


class FaultView(JsonHTML):
    """Why a run could not be made, beside its button.

    Value: {seq, words}."""

    def __init__(self, **options: Any) -> None:
        super().__init__(None, FAULT_VIEW, padding=False, **options)
