"""The interfaces of three known packages on plain transformers models: Ouroboros,
Speculative-Decoding, SAM-Decoding.

    from ouroboros_core.integrations import CacheEngine, ouroboros

    end = tokenizer.eos_token_id
    ids = ouroboros(input_ids, draft, target, max_len=64, gamma=12, eos_token_id=end)

* `ouroboros`, `dualdec`, `CacheEngine`: the packages `ourodec` and `dualdec` 0.1.0
  (thunlp/Ouroboros)
* `speculative_generate`, `autoregressive_generate` and the processors: romsto/Speculative-Decoding
* `samd_generate`, `load_sam`, `SamdConfig`, `SamdModel`, `SamdGenerationConfig`, `DraftModel`:
  hyx1999/SAM-Decoding

Names, order and defaults of the arguments are those packages', and the decoding is this project's.
So it is correct in cases in which they are not: greedy decoding is greedy, a draft model can have
any number of layers, several end tokens work, sampling keeps the target's distribution, and no
model is imported from a copied file.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "thunlp": ("CacheEngine", "dualdec", "ouroboros"),
    "samd": (
        *("DraftModel", "Outputs", "SamdConfig", "SamdGenerationConfig", "SamdModel"),
        *("load_sam", "samd_generate"),
    ),
    "romsto": (
        *("GreedyProcessor", "LogitsProcessor", "MultinomialProcessor", "NucleusProcessor"),
        *("TopKNucleusProcessor", "TopKProcessor"),
        *("autoregressive_generate", "speculative_generate"),
    ),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = [*sorted(_HOMES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from ouroboros_core.integrations.romsto import GreedyProcessor as GreedyProcessor
    from ouroboros_core.integrations.romsto import LogitsProcessor as LogitsProcessor
    from ouroboros_core.integrations.romsto import MultinomialProcessor as MultinomialProcessor
    from ouroboros_core.integrations.romsto import NucleusProcessor as NucleusProcessor
    from ouroboros_core.integrations.romsto import TopKNucleusProcessor as TopKNucleusProcessor
    from ouroboros_core.integrations.romsto import TopKProcessor as TopKProcessor
    from ouroboros_core.integrations.romsto import (
        autoregressive_generate as autoregressive_generate,
    )
    from ouroboros_core.integrations.romsto import speculative_generate as speculative_generate
    from ouroboros_core.integrations.samd import DraftModel as DraftModel
    from ouroboros_core.integrations.samd import Outputs as Outputs
    from ouroboros_core.integrations.samd import SamdConfig as SamdConfig
    from ouroboros_core.integrations.samd import SamdGenerationConfig as SamdGenerationConfig
    from ouroboros_core.integrations.samd import SamdModel as SamdModel
    from ouroboros_core.integrations.samd import load_sam as load_sam
    from ouroboros_core.integrations.samd import samd_generate as samd_generate
    from ouroboros_core.integrations.thunlp import CacheEngine as CacheEngine
    from ouroboros_core.integrations.thunlp import dualdec as dualdec
    from ouroboros_core.integrations.thunlp import ouroboros as ouroboros


def __getattr__(name: str) -> Any:
    """Import what is asked for: `formatters` needs none of it, and all of it needs torch."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
