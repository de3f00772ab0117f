"""transformers' assisted generation, `generate(assistant_model=...)`, step by step (Gante 2023)."""

from __future__ import annotations

from ouroboros_core.methods.parts.assisted import Assisted, DraftSettings
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import fixed_values


class HfAssisted(Assisted):
    """The draft model's own `generate` writes a chain until it is unsure; the code is
    transformers' own."""

    id = "hf_assisted"
    name = "Assisted generation of transformers"
    paper = "https://huggingface.co/blog/assisted-generation"
    summary = "Proposes what generate(assistant_model=...) does, with transformers' own code."
    order = 200
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.HF_DRAFT})
    kind = "assisted"

    published = fixed_values(num_tokens=20, schedule="constant", confidence=0.4)
    """transformers' defaults."""

    Hyperparameters = DraftSettings
