"""The token view: the text, each token in the colour of who wrote it, with legend, counts and
headline numbers."""

from __future__ import annotations

from typing import Any

from visualize.components.base import JsonHTML
from visualize.markup import TOKEN_VIEW
from visualize.views import legend


class TokenView(JsonHTML):
    """Value: {seq, run, from, steps, prompt?, chat?, badge?, title?, tiles?, notices?, numbers?,
    status?, done?}, see `views.run_view`.

    `steps` are those from index `from` on, so a stream sends each step once; another `run` starts
    anew. A chosen token triggers `token_select` with its data, the button of a notice `run_again`
    with its act. With `asks`, the run that is shown is marked as the old one as soon as another is
    asked for.
    """

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(
            value,
            TOKEN_VIEW,
            looks=legend(),
            keep=True,
            padding=False,
            **more,
        )
