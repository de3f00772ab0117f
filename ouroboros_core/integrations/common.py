"""Helpers of the interfaces: steps from plain transformers models, and messages with the caller's
names of arguments."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from transformers import PreTrainedModel

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.check import check_tree_support
from ouroboros_core.loading.drafts import check_vocabulary
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.trace.trace import Step

EndTokens = int | Sequence[int] | None

_checked: weakref.WeakSet[PreTrainedModel] = weakref.WeakSet()


def stops_of(tokens: EndTokens) -> frozenset[int]:
    if tokens is None:
        return frozenset()
    return frozenset([tokens] if isinstance(tokens, int) else tokens)


def settings_of(method: str, renamed: Mapping[str, str], **values: Any) -> Any:
    """Return validated settings; in messages `renamed` maps a setting to its argument."""
    try:
        kind = methods.get(method).Hyperparameters
        return kind.parse(kind.fixed(**values))
    except InvalidInput as error:
        message = str(error).replace("must be auto, or ", "must be ")  # auto is not available here
        for name, argument in renamed.items():
            message = message.replace(name, argument)
        raise InvalidInput(message) from None


def wrap(
    model: PreTrainedModel,
    name: str,
    vocabulary: int | None = None,
    unshared: AbstractSet[int] = frozenset(),
) -> CausalLM:
    """Return a new wrapper of a model, which is checked once."""
    wrapped = CausalLM(model, str(model.name_or_path or name), vocabulary, unshared=unshared)
    if model not in _checked:
        check_tree_support(wrapped)
        _checked.add(model)
    return wrapped


def steps_of(
    method: str,
    settings: Any,
    target_model: PreTrainedModel,
    draft_model: PreTrainedModel | None,
    prompt: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling,
    stops: frozenset[int],
    pool: PhrasePool | None = None,
) -> Iterator[Step]:
    if isinstance(prompt, torch.Tensor):
        raise InvalidInput(
            f"inputs must be a list of token ids, got a tensor of the shape {list(prompt.shape)}: "
            "ids[0].tolist()"
        )
    if max_new_tokens < 0:
        raise InvalidInput(
            f"{'max_len' if method == 'ouroboros' else 'max_gen_len'} must be at least 0, got "
            f"{max_new_tokens}"
        )
    target = wrap(target_model, "the target model")
    draft = None
    if draft_model is not None:
        name = str(draft_model.name_or_path or type(draft_model).__name__)
        check_vocabulary(draft_model.config.get_text_config(decoder=True).vocab_size, target, name)
        draft = wrap(draft_model, "the draft model", target.vocabulary)
        draft.drafts = True
    if pool is not None and pool.largest_token >= target.vocabulary:
        raise InvalidInput(
            f"the phrases hold token id {pool.largest_token}, beyond the vocabulary of "
            f"{target.name}"
        )
    sampler = Sampler(sampling, target.vocabulary)
    kind = methods.create(methods.get(method), settings, Resources(sampler, draft, stops, pool))
    limits: Any = {"max_new_tokens": max_new_tokens, "stop_tokens": stops}
    yield from decode(target, kind, list(prompt), sampler=sampler, **limits)
