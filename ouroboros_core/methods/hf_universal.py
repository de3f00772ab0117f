"""transformers' universal assisted generation, `generate(assistant_model=..., tokenizer=...,
assistant_tokenizer=...)`, step by step (Intel Labs and Hugging Face 2024)."""

from __future__ import annotations

from pydantic import Field

from ouroboros_core.methods.parts.assisted import Assisted, DraftSettings
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import fixed_values


class HfUniversal(Assisted):
    """A draft model with a different tokenizer writes text, which is translated to the target's
    tokens; the code is transformers'."""

    id = "hf_universal"
    name = "Universal assisted generation of transformers"
    paper = "https://huggingface.co/blog/universal_assisted_generation"
    summary = (
        "A draft model with any tokenizer: proposes what generate(assistant_tokenizer=...) does."
    )
    order = 203
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.TRANSLATED})
    kind = "universal"

    published = fixed_values(num_tokens=20, schedule="constant", confidence=0.4)
    """transformers' defaults."""

    class Hyperparameters(DraftSettings):
        num_tokens: int = Field(
            20,
            ge=1,
            le=64,
            description="Draft tokens of the first step, in the draft's own tokens.",
        )
