"""transformers' block drafter, `generate(speculation_type="dflash")`, step by step (DFlash, arXiv
2602.06036)."""

from __future__ import annotations

from ouroboros_core import settings
from ouroboros_core.methods.parts.assisted import Assisted
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need


class HfDflash(Assisted):
    """One pass over masks writes a whole block from the target's states; the code is transformers'
    own."""

    id = "hf_dflash"
    name = "Block drafter of transformers"
    paper = "https://arxiv.org/abs/2602.06036"
    summary = (
        'Proposes what generate(speculation_type="dflash") does, with transformers\' own code.'
    )
    order = 206
    on_map = (Guesser.HEAD, Shape.CHAIN)
    needs = frozenset({Need.BLOCK_DRAFT})
    kind = "dflash"

    class Hyperparameters(settings.Hyperparameters):
        """No settings: the length of a block is the drafter's."""
