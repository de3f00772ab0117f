"""Ouroboros and its relatives: exact speculative decoding over token trees.

    from ouroboros_core import Generation, Task, load_pair, methods

    kind = methods.get("ouroboros")
    task = Task("Why is the sky blue?", kind.id, kind.Hyperparameters())
    trace = Generation(load_pair(), task).run()

Importing this package does not import torch. Names that need torch are imported on first use.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ouroboros_core.version import VERSION

__version__ = VERSION

_NAMES = {
    "decoding.generation": ("Generation", "Task"),
    "models.grammar": ("Grammar",),
    "loading.pairs": ("Execution", "Pair", "Placement", "load_pair", "make_pair"),
    "decoding.loop": ("decode",),
    "trace.trace": ("Step", "Trace"),
    "trace.file": ("read_trace",),
    "sampling": ("Sampling", "Sampler"),
    "lookup.phrase_pool": ("PhrasePool",),
    "sources": ("Source",),
    "tree": ("Provenance", "TokenTree", "TreeBuilder"),
    "rules.match": ("verify",),
    "errors": ("OuroborosError",),
    "integrations.transformers.generate": ("generate",),
    "benchmark.comparison": ("Comparison", "Lane", "compare"),
    "sweeps.call": ("SweepResult", "sweep"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from ouroboros_core.benchmark.comparison import Comparison as Comparison
    from ouroboros_core.benchmark.comparison import Lane as Lane
    from ouroboros_core.benchmark.comparison import compare as compare
    from ouroboros_core.decoding.generation import Generation as Generation
    from ouroboros_core.decoding.generation import Task as Task
    from ouroboros_core.decoding.loop import decode as decode
    from ouroboros_core.errors import OuroborosError as OuroborosError
    from ouroboros_core.integrations.transformers.generate import generate as generate
    from ouroboros_core.loading.pairs import Execution as Execution
    from ouroboros_core.loading.pairs import Pair as Pair
    from ouroboros_core.loading.pairs import Placement as Placement
    from ouroboros_core.loading.pairs import load_pair as load_pair
    from ouroboros_core.loading.pairs import make_pair as make_pair
    from ouroboros_core.lookup.phrase_pool import PhrasePool as PhrasePool
    from ouroboros_core.models.grammar import Grammar as Grammar
    from ouroboros_core.rules.match import verify as verify
    from ouroboros_core.sampling import Sampler as Sampler
    from ouroboros_core.sampling import Sampling as Sampling
    from ouroboros_core.sources import Source as Source
    from ouroboros_core.sweeps.call import SweepResult as SweepResult
    from ouroboros_core.sweeps.call import sweep as sweep
    from ouroboros_core.trace.file import read_trace as read_trace
    from ouroboros_core.trace.trace import Step as Step
    from ouroboros_core.trace.trace import Trace as Trace
    from ouroboros_core.tree import Provenance as Provenance
    from ouroboros_core.tree import TokenTree as TokenTree
    from ouroboros_core.tree import TreeBuilder as TreeBuilder


if "IPython" in sys.modules:
    from ouroboros_core.notebook.formatters import register_in_ipython

    register_in_ipython()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
