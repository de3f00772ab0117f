"""What the components share: a fixed template, code from assets, a JSON value that never touches a
template."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from visualize.markup import Markup


class JsonHTML(gr.HTML):
    """A gr.HTML whose value is JSON for its script; the template is fixed, so no text of a visitor
    is ever markup."""

    def __init__(self, value: Any, markup: Markup, **more: Any) -> None:
        options = {
            "html_template": markup.template,
            "js_on_load": markup.body,
            "apply_default_css": False,
        }
        super().__init__(value=value, **options, **more)

    def postprocess(self, value: Any) -> Any:
        """JSON text: Gradio streams differences of nested lists, and applies them wrongly where a
        list got shorter."""
        return None if value is None else json.dumps(value)

    def preprocess(self, payload: Any) -> Any:
        return payload

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}

    def example_payload(self) -> Any:
        return "{}"

    def example_value(self) -> Any:
        return {}
