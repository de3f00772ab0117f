"""The views of the Lab's games."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import DICE_VIEW, PLAY_VIEW, PROOF_VIEW, SCORE_VIEW


class DiceView(JsonHTML):
    """Learn's game of three tokens, a thousand of them drawn already. It has no value."""

    def __init__(self, **more: Any) -> None:
        super().__init__(None, DICE_VIEW, drawn=True, **more)


class PlayView(JsonHTML):
    """Value: that of `visualize.draft_game.game.view`."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, PLAY_VIEW, **more)


class ScoreView(JsonHTML):
    """Value: that of `visualize.draft_game.game.score`."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, SCORE_VIEW, **more)


class ProofView(JsonHTML):
    """Value: that of `visualize.proof.tally.view`, or {seq, stopped}."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, PROOF_VIEW, **more)
