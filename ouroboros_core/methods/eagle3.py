"""EAGLE-3: a head that reads several of the target's layers drafts a tree (arXiv 2503.01840)."""

from __future__ import annotations

from ouroboros_core.methods.parts.head_tree import HeadTree
from ouroboros_core.methods.parts.needs import Need


class Eagle3(HeadTree):
    """The tree is that of `eagle2`; the head was trained on its own guesses, so that deeper levels
    are better."""

    id = "eagle3"
    name = "EAGLE-3"
    paper = "https://arxiv.org/abs/2503.01840"
    summary = (
        "A one-layer head reads hidden states from several of the target's layers and drafts a "
        "tree; the target checks its most likely part."
    )
    order = 26
    needs = frozenset({Need.EAGLE3})
