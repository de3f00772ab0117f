"""Plain decoding, one token a pass: the baseline, and what every other method must equal."""

from __future__ import annotations

from ouroboros_core import settings
from ouroboros_core.methods.parts.base import Context, Method
from ouroboros_core.tree import TokenTree, TreeBuilder


class Autoregressive(Method):
    """Proposes nothing."""

    id = "autoregressive"
    name = "Plain decoding"
    paper = ""
    summary = "One target pass for every token: the baseline."
    order = 0
    proposes = False

    class Hyperparameters(settings.Hyperparameters):
        """No settings."""

    def propose(self, context: Context) -> TokenTree:
        return TreeBuilder(context.root).build()
