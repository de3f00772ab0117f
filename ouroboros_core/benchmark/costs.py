"""What a pass costs: seconds of a target pass by its rows, and of a draft pass, as a share of a plain target pass."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from ouroboros_core.models.language_model import LanguageModel
from ouroboros_core.tree import Provenance, Source, TokenTree, chain

CONTEXT = 100
"""Tokens of the context at which passes are timed."""


def tree_of(rows: int, root: int) -> TokenTree:
    """A chain of so many rows, the root included."""
    return chain(root, [root] * (rows - 1), Provenance(Source.DRAFT))


def pass_seconds(models: Sequence[tuple[LanguageModel, int]], repeats: int = 24) -> list[float]:
    """Median seconds of a pass of each (model, rows), timed in turn behind the same context of 100 tokens."""
    context = [7 + n % 50 for n in range(CONTEXT)]
    taken: list[list[float]] = [[] for _ in models]
    for repeat in range(repeats + 4):
        for (model, rows), seconds in zip(models, taken, strict=True):
            tree = tree_of(rows, context[-1])
            model.evaluate(context, tree_of(1, context[-1]))  # so that the cache holds the context, and the weights were touched
            begun = time.perf_counter()
            model.evaluate(context, tree).argmax()
            if repeat >= 4:
                seconds.append(time.perf_counter() - begun)
    return [statistics.median(seconds) for seconds in taken]
