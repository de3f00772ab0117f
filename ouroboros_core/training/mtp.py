"""Train a multi-token prediction head, one module that continues from its own output (FastMTP,
arXiv 2509.18362)."""

from __future__ import annotations

from ouroboros_core.models.heads.mtp import MtpHead
from ouroboros_core.models.heads.recipes import MtpRecipe
from ouroboros_core.training.eagle import EagleStudent


class MtpStudent(EagleStudent):
    """The head and its loss."""

    recipe: MtpRecipe
    kind = MtpHead
