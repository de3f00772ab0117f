"""Components of the game "Be the draft"."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

DRAFT_GAME_VIEW = markup("draft_game/draft_game_view")
SCORE_VIEW = markup("draft_game/score_view")


class DraftGameView(JsonHTML):
    """The text of the game. Value: a `visualize.draft_game.game.view`."""

    def __init__(self, value: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(value, DRAFT_GAME_VIEW, **options)


class ScoreView(JsonHTML):
    """The score of the game. Value: a `visualize.draft_game.game.score`."""

    def __init__(self, value: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(value, SCORE_VIEW, **options)
