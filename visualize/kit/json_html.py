"""What the components share: a fixed template, code from assets, a JSON value that never touches a
template."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from visualize.kit.markup import Markup
from visualize.kit.modules import imported

MOUNT = """
const view = { ...props }, early = [];
let hear = (value) => early.push(value);
watch("value", () => hear(props.value));
MODULE.then(({ mount }) => {
  const acts = [];
  const keep = (value) => { props.value = value; };
  mount(element, view, (_, act) => acts.push(act), trigger, server, keep);
  hear = (value) => {
    view.value = value;
    for (const act of acts) act();
  };
  early.forEach(hear);
});
"""
"""Mounts a view in a gr.HTML, which gives `props`, `watch`, `trigger` and `server`. Its module
comes later than its template; values that come before it wait. The view sees each value by itself,
because a stream sends differences. `keep` gives the component another value."""


def mounting(markup: Markup, module: str = "") -> str:
    """What gr.HTML runs when the view is there. Gradio finds a view's events by their names in
    it.

    module: an expression in JavaScript, the promise of the view's module, where it is not one of
    the page's own
    """
    named = f"// triggers: {json.dumps(markup.events)}" if markup.events else ""
    return named + MOUNT.replace("MODULE", module or imported(markup.module))


class JsonHTML(gr.HTML):
    """A gr.HTML whose value is JSON for its script; the template is fixed, so no text of a visitor
    is ever markup.

    A view is a class of its own: where an event leaves it as it is, Gradio makes it anew by its
    class, without its value.
    """

    def __init__(self, value: Any, markup: Markup, *, module: str = "", **more: Any) -> None:
        """module: see `mounting`."""
        assert type(self) is not JsonHTML
        options = {
            "html_template": markup.template,
            "js_on_load": mounting(markup, module),
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
