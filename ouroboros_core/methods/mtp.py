"""Multi-token prediction: a layer that was trained together with the target writes a chain
(DeepSeek-V3, arXiv 2412.19437, section 2.2)."""

from __future__ import annotations

from ouroboros_core.methods.parts.head_chain import HeadChain
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import fixed_values


class Mtp(HeadChain):
    """One module predicts every place: it continues from its own output."""

    id = "mtp"
    name = "Multi-token prediction"
    paper = "https://arxiv.org/abs/2412.19437"
    summary = (
        "A layer that ships with the target reads its last hidden states and drafts the next few "
        "tokens."
    )
    order = 26
    needs = frozenset({Need.MTP_HEAD})

    published = fixed_values(gamma=1)
    """DeepSeek-V3 predicts one token more (section 5.4.3)."""
