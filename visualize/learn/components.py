"""The component of the lessons: chapters whose words move the run beside them. No model runs."""

from __future__ import annotations

import json
from typing import Any

from visualize.gallery import runs as gallery
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.kit.plot_view import PLOTLY
from visualize.learn import lessons
from visualize.run.view import legend

LEARN_VIEW = markup("learn/learn_view")
ONWARD = {"#watch": "Watch", "#compare": "Compare", "#play": "Play", "#lab": "Lab"}
"""Places of the page to which the end leads."""


def run(request: Any) -> str:
    """Return the view of a recorded run, which the lessons ask for by name, as JSON; null if there
    is no such run."""
    name = request.get("name") if isinstance(request, dict) else None
    return json.dumps(
        gallery.view(name) if isinstance(name, str) and name in gallery.runs() else None
    )


class LearnView(JsonHTML):
    """Value: {chapters, questions, end}, see `visualize.learn.lessons`. A chapter's run is fetched
    when the chapter is opened."""

    def __init__(self, **options: Any) -> None:
        value: dict[str, Any] = {"chapters": lessons.chapters(), "questions": lessons.questions()}
        value["end"] = lessons.end(ONWARD)
        super().__init__(
            value,
            LEARN_VIEW,
            looks=legend(),
            plotly=PLOTLY,
            place="learn/",
            server_functions=[run],
            **options,
        )
