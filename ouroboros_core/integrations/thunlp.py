"""The interface of thunlp/Ouroboros: the packages `ourodec` and `dualdec` 0.1.0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.common import EndTokens, settings_of, steps_of, stops_of
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import Learned

_RENAMED = {"ngram_size": "lookahead_level", "top_k_suffixes": "topk"}


class CacheEngine:
    """Phrases that outlive a call and start the next one (the reference's `history`)."""

    def __init__(self, lookahead_level: int, guess_set_size: int) -> None:
        """Make an empty pool.

        lookahead_level  tokens of a phrase with its key; equal to lookahead_level of the calls
        guess_set_size   phrases per key until a call sets its own number
        """
        settings_of(
            "ouroboros", _RENAMED, ngram_size=lookahead_level, guess_set_size=guess_set_size
        )
        self.pool = PhrasePool(lookahead_level, guess_set_size)

    def __len__(self) -> int:
        """Return the number of phrases."""
        return len(self.pool)

    def has(self, key: int) -> bool:
        """Return whether a phrase follows the token `key`."""
        return bool(self.pool.newest(key, 1))

    def get_guess_tokens(self, key: int) -> list[tuple[int, ...]]:
        """Return the phrases that follow the token `key`, the oldest first."""
        return [phrase.tokens for phrase in self.pool.newest(key, self.pool.guess_set_size)][::-1]

    def insert(self, key: int, tokens: Sequence[int]) -> None:
        """Add a phrase of lookahead_level - 1 tokens, or make a known one the newest."""
        if len(tokens) != self.pool.ngram_size - 1:
            raise InvalidInput(
                f"a phrase must have {self.pool.ngram_size - 1} tokens, got {len(tokens)}"
            )
        self.pool.insert(key, tuple(tokens), Learned.HISTORY, None)


def ouroboros(
    prefix: torch.Tensor,
    approx_model: PreTrainedModel,
    target_model: PreTrainedModel,
    ngram_cache: CacheEngine | None = None,
    max_len: int = 512,
    gamma: int = 4,
    window_size: int = 20,
    guess_set_size: int = 20,
    lookahead_level: int = 7,
    eos_token_id: EndTokens = 2,
    topk: int = 3,
) -> torch.Tensor:
    """Continue `prefix` greedily with the target's text, and return ids [1, at most prompt +
    max_len].

    prefix           token ids [1, prompt]
    approx_model     the draft model: any decoder-only transformers model with the target's
                     vocabulary
    target_model     the target: any decoder-only transformers model
    ngram_cache      phrases of earlier calls for a warm start; the call adds to it
    max_len          most new tokens
    gamma            draft length, as in the paper
    window_size      W
    guess_set_size   G, which may differ from W
    lookahead_level  N
    topk             K
    eos_token_id     one or several ids that end the text, or None

    Raises InvalidInput, VocabularyMismatch or UnsupportedModel. In two points the result differs
    from the reference: no text follows a stop token, and the target's bonus token follows a fully
    accepted suffix (Ouroboros, arXiv 2402.13720).
    """
    if not isinstance(prefix, torch.Tensor):
        raise InvalidInput(
            f"prefix must be a tensor of the shape [1, tokens], got a {type(prefix).__name__}: "
            "torch.tensor([ids])"
        )
    if prefix.dim() != 2 or prefix.shape[0] != 1:
        raise InvalidInput(
            f"prefix must have the shape [1, tokens], got {list(prefix.shape)}: texts are decoded "
            "one at a time"
        )
    sizes = {"window_size": window_size, "guess_set_size": guess_set_size, "top_k_suffixes": topk}
    settings = settings_of("ouroboros", _RENAMED, gamma=gamma, ngram_size=lookahead_level, **sizes)
    pool = ngram_cache.pool if ngram_cache is not None else None
    if pool is not None and pool.ngram_size != lookahead_level:
        raise InvalidInput(
            f"ngram_cache was made with lookahead_level {pool.ngram_size}, the call has "
            f"{lookahead_level}: its phrases have another length"
        )
    ids, ends = prefix[0].tolist(), (Sampling(), stops_of(eos_token_id), pool)
    steps = steps_of("ouroboros", settings, target_model, approx_model, ids, max_len, *ends)
    new = [token for step in steps for token in step.tokens]
    return torch.cat([prefix, torch.tensor([new], dtype=prefix.dtype, device=prefix.device)], dim=1)


dualdec = ouroboros
"""The earlier name of the same algorithm."""
