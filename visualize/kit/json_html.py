"""The base of the page's components: a fixed template, a module, and a JSON value that never
touches the template."""

from __future__ import annotations

import json
from typing import Any, ClassVar

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
"""Mount a view in a gr.HTML, which provides `props`, `watch`, `trigger` and `server`. The module
arrives later than the template; earlier values wait for it. The view gets each whole value, because
a stream sends differences. `keep` sets the component's value."""


def mounting(markup: Markup, module: str = "") -> str:
    """Return the script that gr.HTML runs once the view is there. Gradio finds the names of its
    events in it.

    module  an expression in JavaScript, the promise of the view's module; by default the module
            that this server serves
    """
    events = f"// triggers: {json.dumps(markup.events)}" if markup.events else ""
    return events + MOUNT.replace("MODULE", module or imported(markup.module))


class JsonHTML(gr.HTML):
    """A gr.HTML with a JSON value for its script. The template is fixed, so text of a visitor is
    never markup.

    Every view is a subclass: if an event leaves a view unchanged, Gradio makes it again from its
    class, without its value. Its docstring says what value and properties it has.
    """

    VIEW: ClassVar[Markup]
    """Of a subclass whose markup is always the same."""

    def __init__(
        self,
        value: Any = None,
        markup: Markup | None = None,
        *,
        module: str = "",
        **settings: Any,
    ) -> None:
        """module: see `mounting`."""
        assert type(self) is not JsonHTML
        markup = markup or self.VIEW
        options = {
            "html_template": markup.template,
            "js_on_load": mounting(markup, module),
            "apply_default_css": False,
        }
        super().__init__(value=value, **options, **settings)

    def postprocess(self, value: Any) -> Any:
        """Return JSON text: Gradio streams differences of lists, and errs if one shortens."""
        return None if value is None else json.dumps(value)

    def preprocess(self, payload: Any) -> Any:
        return payload

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}

    def example_payload(self) -> Any:
        return "{}"

    def example_value(self) -> Any:
        return {}
