"""GliDe: a small draft that attends to the target's keys and values writes a chain (arXiv
2402.02082)."""

from __future__ import annotations

from ouroboros_core.methods.parts.head_chain import HeadChain
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import fixed_values


class Glide(HeadChain):
    """`cape` adds siblings by confidence."""

    id = "glide"
    name = "GliDe"
    paper = "https://arxiv.org/abs/2402.02082"
    summary = (
        "A one-layer draft attends to the target's cached keys and values, and drafts the next few "
        "tokens."
    )
    order = 27
    needs = frozenset({Need.GLIDE})

    published = fixed_values(gamma=5)
    """The block of the authors' code (github.com/NonvolatileMemory/GliDe_with_a_CaPE_ICML_24,
    glide/glideModel.py)."""
