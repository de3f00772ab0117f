"""The lessons: chapters whose words move the run beside them. They need no model."""

from __future__ import annotations

import json
from typing import Any

from visualize.gallery import runs as gallery
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import LEARN_VIEW
from visualize.kit.plot_view import PLOTLY
from visualize.learn import lessons as learn
from visualize.run.view import legend


def run(request: Any) -> str:
    """What the lessons ask of the server: the view of a recorded run, by its name, as JSON; null
    if there is none."""
    name = request.get("name") if isinstance(request, dict) else None
    return json.dumps(
        gallery.view(name) if isinstance(name, str) and name in gallery.runs() else None
    )


class LearnView(JsonHTML):
    """Value: {chapters, questions}, see `visualize.learn.lessons`. A chapter's run is fetched
    when it is opened."""

    def __init__(self, **more: Any) -> None:
        value = {"chapters": learn.chapters(), "questions": learn.questions()}
        super().__init__(
            value,
            LEARN_VIEW,
            looks=legend(),
            plotly=PLOTLY,
            place="learn/",
            server_functions=[run],
            **more,
        )
