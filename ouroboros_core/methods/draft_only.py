"""The draft model on its own: not exact, here for comparison."""

from __future__ import annotations

from ouroboros_core import settings
from ouroboros_core.methods.parts.base import Context, Method
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sources import Source
from ouroboros_core.tree import TokenTree, TreeBuilder


class DraftOnly(Method):
    """Plain decoding of the draft model."""

    id = "draft_only"
    name = "Draft model alone"
    paper = ""
    summary = (
        "The draft model writes the text unchecked, to show how fast and how different that is."
    )
    order = 5
    proposes = False
    needs = frozenset({Need.DRAFT_MODEL})
    writer = Source.DRAFT

    class Hyperparameters(settings.Hyperparameters):
        """No settings."""

    def propose(self, context: Context) -> TokenTree:
        return TreeBuilder(context.root).build()
