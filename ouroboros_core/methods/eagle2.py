"""EAGLE-2: a head that continues the target's last hidden states drafts a tree (arXiv 2401.15077,
2406.16858)."""

from __future__ import annotations

from ouroboros_core.methods.parts.head_tree import HeadTree
from ouroboros_core.methods.parts.needs import Need


class Eagle2(HeadTree):
    """For heads of EAGLE and EAGLE-2, which read one layer of the target; `eagle3` has the same
    tree."""

    id = "eagle2"
    name = "EAGLE-2"
    paper = "https://arxiv.org/abs/2406.16858"
    summary = (
        "A one-layer head reads the target's last hidden states and drafts a tree; the target "
        "checks its most likely part."
    )
    order = 25
    needs = frozenset({Need.EAGLE})
