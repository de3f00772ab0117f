"""transformers' prompt lookup, `generate(prompt_lookup_num_tokens=...)`, step by step (Saxena
2023)."""

from __future__ import annotations

from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.methods.parts.assisted import Assisted
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import fixed_values
from ouroboros_core.sources import Source


class HfPromptLookup(Assisted):
    """The first occurrence of the longest n-gram; the code is transformers' own."""

    id = "hf_prompt_lookup"
    name = "Prompt lookup of transformers"
    paper = "https://github.com/apoorvumang/prompt-lookup-decoding"
    summary = (
        "Proposes what generate(prompt_lookup_num_tokens=...) does, with transformers' own code."
    )
    order = 201
    superseded = "prompt_lookup copies in the same way, and suffix copies more."
    on_map = (Guesser.TEXT, Shape.CHAIN)
    needs = frozenset({Need.GENERATE})
    kind, source = "prompt_lookup", Source.COPY

    published = fixed_values(num_tokens=10, max_ngram=2)
    """transformers' defaults."""

    class Hyperparameters(settings.Hyperparameters):
        num_tokens: int = Field(10, ge=1, le=64, description="Tokens copied.")
        max_ngram: int = Field(2, ge=1, le=16, description="Longest n-gram that is looked for.")
