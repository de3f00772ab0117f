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

from ouroboros_core.integrations.romsto import (
    GreedyProcessor,
    LogitsProcessor,
    MultinomialProcessor,
    NucleusProcessor,
    TopKNucleusProcessor,
    TopKProcessor,
    autoregressive_generate,
    speculative_generate,
)
from ouroboros_core.integrations.samd import (
    DraftModel,
    Outputs,
    SamdConfig,
    SamdGenerationConfig,
    SamdModel,
    load_sam,
    samd_generate,
)
from ouroboros_core.integrations.thunlp import CacheEngine, dualdec, ouroboros

__all__ = [
    "CacheEngine",
    "DraftModel",
    "GreedyProcessor",
    "LogitsProcessor",
    "MultinomialProcessor",
    "NucleusProcessor",
    "Outputs",
    "SamdConfig",
    "SamdGenerationConfig",
    "SamdModel",
    "TopKNucleusProcessor",
    "TopKProcessor",
    "autoregressive_generate",
    "dualdec",
    "load_sam",
    "ouroboros",
    "samd_generate",
    "speculative_generate",
]
