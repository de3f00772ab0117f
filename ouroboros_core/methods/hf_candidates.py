"""Any candidate generator of transformers, step by step; the generator is given in Python."""

from __future__ import annotations

from ouroboros_core import settings
from ouroboros_core.methods.parts.assisted import Assisted
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need


class HfCandidates(Assisted):
    """The candidates of an object of your own that has `get_candidates`, as transformers calls
    it."""

    id = "hf_candidates"
    name = "Any candidate generator of transformers"
    paper = "https://huggingface.co/docs/transformers/assisted_decoding"
    summary = "Proposes what your own CandidateGenerator does; set from Python only."
    order = 207
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.CANDIDATES})
    kind = "candidates"

    class Hyperparameters(settings.Hyperparameters):
        """No settings."""
