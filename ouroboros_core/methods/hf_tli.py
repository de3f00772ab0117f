"""transformers' token-level intersection: what `generate` proposes with `assistant_tokenizer` and
`do_sample=True`, step by step (TLI, arXiv 2502.05202)."""

from __future__ import annotations

from ouroboros_core.methods.parts.assisted import Assisted, DraftSettings
from ouroboros_core.methods.parts.base import Guesser, Shape
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import fixed_values


class HfTli(Assisted):
    """A draft model with a different tokenizer writes only tokens that the target has too; the code
    is transformers'."""

    id = "hf_tli"
    name = "Token-level intersection of transformers"
    paper = "https://arxiv.org/abs/2502.05202"
    summary = "A draft model with any tokenizer drafts only tokens that both vocabularies share."
    order = 204
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.SHARED_TOKENS})
    kind = "shared_tokens"

    published = fixed_values(num_tokens=20, schedule="constant", confidence=0.4)
    """transformers' defaults."""

    Hyperparameters = DraftSettings
