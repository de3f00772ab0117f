"""transformers' early exit, `generate(assistant_early_exit=...)`, step by step (LayerSkip, arXiv
2404.16710)."""

from __future__ import annotations

from pydantic import Field

from ouroboros_core.methods.parts.assisted import Assisted, DraftSettings
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need


class HfEarlyExit(Assisted):
    """The target's own first layers write a chain; the code is transformers' own. It is for a
    target that was trained to say something there."""

    id = "hf_early_exit"
    name = "Early exit of transformers"
    paper = "https://arxiv.org/abs/2404.16710"
    summary = "Proposes what generate(assistant_early_exit=...) does, with transformers' own code."
    order = 202
    superseded = "It needs a model trained for it; draft_verify skips layers of any model."
    on_map = (Guesser.TARGET, Shape.CHAIN)
    needs = frozenset({Need.EARLY_EXIT})
    kind = "early_exit"

    class Hyperparameters(DraftSettings):
        exit_layer: int = Field(
            4,
            ge=1,
            le=128,
            description="Layers of the target that draft, one fewer than all at most.",
        )
