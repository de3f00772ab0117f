"""Train an EAGLE-3 head: the training-time test of arXiv 2503.01840, section 3, without a loss on
features."""

from __future__ import annotations

from typing import Any

from ouroboros_core.models.heads.eagle3 import Eagle3Head
from ouroboros_core.models.heads.recipes import Eagle3Recipe
from ouroboros_core.training.eagle import EagleStudent


class Eagle3Student(EagleStudent):
    """The head, its features, and its loss."""

    recipe: Eagle3Recipe
    kind = Eagle3Head

    @classmethod
    def teacher_options(cls, recipe: Any) -> dict[str, Any]:
        return {"features": True, "depths": recipe.depths}
