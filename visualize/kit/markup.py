"""The parts of a view in the browser: fixed markup, and a module that mounts it.

The page, a saved replay and the static site mount the same views. The markup of a view is the
.html file beside its module, such as run/token_view.html and run/token_view.js.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

import plotly

from ouroboros_core.locations import assets
from ouroboros_core.messages import say
from visualize.kit import labels

PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
"""The plotly.js that plotly.py was made for."""
VISUALIZE = Path(__file__).parents[1]
MOTTO = (
    "A small draft model guesses, the large target keeps what it would write: same text, sooner."
)
LOGO = (assets() / "logo.svg").read_text(encoding="utf-8").replace(' role="img"', "")
"""A ring of tokens that ends where it begins."""
RULES = {rule: name[:1].upper() + name[1:] for rule, name in labels.acceptance_rules().items()}
"""Names of the acceptance rules, for the dice."""
TERMS = {
    "forward pass": say("terms.forward_pass"),
    "draft pass": say("terms.draft_pass"),
    "greedy": say("terms.greedy"),
    "acceptance length": say("terms.acceptance_length"),
    "target": say("terms.target"),
    "bonus": say("terms.bonus"),
    "row": say("terms.row"),
}
"""Terms that the sentences of a run explain, see run/terms.js."""
INNER = re.compile("<!-- view: (.*) -->")
"""In the HTML of a view: the place of another view."""


@dataclass(frozen=True)
class Markup:
    """A view.

    template  HTML, which no text of a visitor ever enters
    module    the path below `visualize` of the module that mounts it
    events    the names of the events that the module triggers
    """

    template: str
    module: str
    events: tuple[str, ...] = ()


def template(view: str, **parts: str) -> str:
    """Return the HTML of a view by its path, such as "run/token_view", with the views inside it.

    parts  HTML by the name that stands for it, such as $buttons; $logo, $rules and $terms are known
    """
    text = (VISUALIZE / f"{view}.html").read_text("utf-8")
    text = INNER.sub(lambda inner: template(inner[1]), text)
    known = {"logo": LOGO, "rules": safe(json.dumps(RULES)), "terms": safe(json.dumps(TERMS))}
    return Template(text).substitute(known | parts)


def markup(view: str, *events: str, **parts: str) -> Markup:
    """Return a view whose module and HTML have the same path, such as "run/token_view"."""
    return Markup(template(view, **parts), f"{view}.js", events)


def safe(text: str) -> str:
    """Return a text that may stand in an element, or in an attribute between double quotes."""
    return html.escape(text, quote=False).replace('"', "&quot;")
