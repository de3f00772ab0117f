"""The EAGLE-3 head: an EAGLE head whose features also hold states from between the target's layers
(arXiv 2503.01840, section 3.1)."""

from __future__ import annotations

from ouroboros_core.models.heads.eagle import EagleDrafter, EagleHead
from ouroboros_core.models.heads.recipes import Eagle3Recipe


class Eagle3Head(EagleHead):
    """Its configuration names the layers (`depths`)."""

    Recipe = Eagle3Recipe


class Eagle3Drafter(EagleDrafter):
    """The head of one target as a Drafter."""

    weights = Eagle3Head
