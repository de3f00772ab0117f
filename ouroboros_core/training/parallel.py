"""Train a parallel drafter on what its target wrote, group by group (ParallelSpec, arXiv
2410.05589, section 3): as a block drafter (`dspark.py`), with a block at every position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ouroboros_core.models.heads.parallel import ParallelHead
from ouroboros_core.training.corpus import Ids
from ouroboros_core.training.dspark import DSparkStudent


class ParallelStudent(DSparkStudent):
    """The drafter and its loss."""

    kind = ParallelHead

    @classmethod
    def teacher_options(cls, recipe: Any) -> dict[str, Any]:
        return {"features": True}

    @property
    def sizes(self) -> dict[str, Any]:
        return {"group": self.recipe.group}

    def weight(self, depth: int) -> float:
        decay: float = self.recipe.decay**depth
        return decay

    def chosen(self, anchors: Ids, rng: np.random.Generator) -> Ids:
        return anchors
