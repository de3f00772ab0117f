"""Components of the proof: the game of three tokens, and the test of a real pair."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

DICE_VIEW = markup("proof/dice_view")
PROOF_VIEW = markup("proof/proof_view")


class DiceView(JsonHTML):
    """The game of three tokens, with a thousand draws at the start. It has no value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(None, DICE_VIEW, drawn=True, **options)


class ProofView(JsonHTML):
    """Counts of drawn texts. Value: a `visualize.proof.tally.view`, or {seq, stopped}."""

    def __init__(self, value: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(value, PROOF_VIEW, **options)
