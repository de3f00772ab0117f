"""transformers' multi-token prediction, `generate(use_mtp=True)`, step by step (DeepSeek-V3, arXiv
2412.19437)."""

from __future__ import annotations

from ouroboros_core import settings
from ouroboros_core.methods.parts.assisted import Assisted
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need


class HfMtp(Assisted):
    """Each MTP layer of the checkpoint writes one token; the code is transformers' own."""

    id = "hf_mtp"
    name = "Multi-token prediction of transformers"
    paper = "https://arxiv.org/abs/2412.19437"
    summary = "Proposes what generate(use_mtp=True) does, with transformers' own code."
    order = 205
    on_map = (Guesser.HEAD, Shape.CHAIN)
    needs = frozenset({Need.MTP})
    kind = "mtp"

    class Hyperparameters(settings.Hyperparameters):
        """No settings: as many tokens as the checkpoint has MTP layers."""
