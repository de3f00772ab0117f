"""What the components share: a fixed template, code from assets, a JSON value that never touches a template."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import gradio as gr

from ouroboros_core.locations import assets


@cache
def script(*names: str) -> str:
    """The JavaScript of a component: files one behind the other, in a scope of its own."""
    return "\n".join((assets() / "js" / name).read_text() for name in names)


class JsonHTML(gr.HTML):
    """A gr.HTML whose value is JSON for its script; the template is fixed, so no text of a visitor is ever markup."""

    def postprocess(self, value: Any) -> Any:
        """JSON text: Gradio streams differences of nested lists, and applies them wrongly where a list got shorter."""
        return None if value is None else json.dumps(value)

    def preprocess(self, payload: Any) -> Any:
        return payload

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}

    def example_payload(self) -> Any:
        return "{}"

    def example_value(self) -> Any:
        return {}
