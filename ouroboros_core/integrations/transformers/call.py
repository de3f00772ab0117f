"""Checks of a call of `generate`: refused arguments, padding, and sampling settings."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sized
from typing import Any

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StopStringCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation import GenerationMode

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.check import check_kind
from ouroboros_core.rules.ensemble import ENSEMBLE, WEIGHT
from ouroboros_core.sampling import Sampling

PREPARED = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}
"""Arguments that `generate` prepares for a text model's pass."""

COMPARED = 16
"""Tokens of the prompt in the pass that shows whether an argument changes the outputs."""

WARPERS: dict[str, type] = {
    "top_p": TopPLogitsWarper,
    "top_k": TopKLogitsWarper,
    "temperature": TemperatureLogitsWarper,
}
"""The warpers that `Sampling` can replace, from the last applied to the first."""


def stopping_at(
    tokenizer: PreTrainedTokenizerBase | None, strings: str | list[str]
) -> StopStringCriteria:
    if tokenizer is None:
        raise InvalidInput(f"stop_strings {strings!r} need the tokenizer: pass tokenizer=...")
    return StopStringCriteria(tokenizer, strings)


def refuse(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    config: GenerationConfig,
    draft: PreTrainedModel | None,
    model_kwargs: Mapping[str, Any],
) -> None:
    """Raise InvalidInput for arguments that this loop does not support, and UnsupportedModel for a
    model that cannot read a token tree."""
    check_kind(model, str(model.name_or_path or type(model).__name__))
    mode = config.get_generation_mode(draft)
    possible = (
        GenerationMode.GREEDY_SEARCH,
        GenerationMode.SAMPLE,
        GenerationMode.ASSISTED_GENERATION,
    )
    if mode not in possible:
        raise InvalidInput(
            f"{mode.value.replace('_', ' ')} is not possible here, only greedy decoding and "
            "sampling: leave out num_beams, penalty_alpha and dola_layers"
        )
    if input_ids.dim() != 2 or input_ids.shape[0] != 1 or input_ids.shape[1] == 0:
        raise InvalidInput(
            f"input_ids must have the shape [1, tokens], got {list(input_ids.shape)}: texts are "
            "decoded one at a time, from token ids"
        )
    wrong = {
        "num_return_sequences": (config.num_return_sequences or 1) > 1,
        "output_attentions": config.output_attentions,
        "output_hidden_states": config.output_hidden_states,
        f"assistant_ensemble_weight other than {WEIGHT}, or without do_sample": (
            config.assistant_ensemble_weight not in (None, WEIGHT if config.do_sample else None)
        ),
    }
    refused = [name for name, is_set in wrong.items() if is_set]
    refused += [
        name
        for name, value in model_kwargs.items()
        if name not in PREPARED and not _is_neutral(model, input_ids, name, value)
    ]
    cache = model_kwargs.get("past_key_values")
    if cache is not None and cache.get_seq_length():
        refused.append("past_key_values that hold tokens")
    if refused:
        raise InvalidInput(
            f"{', '.join(refused)}: not possible here; leave it out, or leave out custom_generate"
        )


def _is_neutral(model: PreTrainedModel, ids: torch.Tensor, name: str, value: Any) -> bool:
    """Return whether an argument of the pass is empty or without effect.

    Zeros in `token_type_ids` have no effect in most models, but add a word's embedding in GPT-2.
    Therefore a pass of the model decides.
    """
    if isinstance(value, torch.Tensor) and value.numel():
        unmarked = value.shape == ids.shape and not value.is_floating_point() and not value.any()
        return unmarked and _changes_nothing(model, ids, name, value)
    if isinstance(value, torch.Tensor):
        return True
    return value is None or (isinstance(value, Sized) and not len(value))


def _changes_nothing(
    model: PreTrainedModel, ids: torch.Tensor, name: str, value: torch.Tensor
) -> bool:
    """Return whether this argument leaves a pass's logits the same, up to rounding."""
    ids, value = ids[:, -COMPARED:], value[..., -COMPARED:]
    with torch.inference_mode():
        plain = model(input_ids=ids, use_cache=False).logits
        changed = model(input_ids=ids, use_cache=False, **{name: value}).logits
    return bool((changed - plain).abs().max() <= torch.finfo(plain.dtype).eps ** 0.5 * plain.std())


def padding_of(
    model: PreTrainedModel, input_ids: torch.Tensor, model_kwargs: Mapping[str, Any]
) -> int:
    """Return the padding tokens at the prompt's left; raises InvalidInput for other masks."""
    count = input_ids.shape[1]
    mask = model_kwargs.get("attention_mask")
    padding = 0 if mask is None else int(count - mask.sum())
    positions = model_kwargs.get("position_ids")
    if mask is not None and (mask.shape != input_ids.shape or not mask[0, padding:].all()):
        raise InvalidInput("attention_mask may leave out tokens at the left end only")
    if positions is not None and not _count(model, input_ids[:, padding:], positions):
        raise InvalidInput("position_ids must count the tokens from 0; leave them out")
    return padding


def _count(model: PreTrainedModel, ids: torch.Tensor, positions: torch.Tensor) -> bool:
    """Return whether positions count the tokens from 0, or from another number if that does not
    change the outputs. Models of pictures have several positions for a token."""
    rows = positions.reshape(-1, positions.shape[-1])[:, -ids.shape[1] :]
    plain = torch.arange(ids.shape[1], device=rows.device).expand_as(rows)
    if rows.equal(plain):
        return True
    return rows.equal(plain + rows[0, 0]) and _changes_nothing(
        model, ids, "position_ids", positions
    )


def sampling_of(config: GenerationConfig, processors: list[Any]) -> Sampling:
    """Return the sampling settings, and remove the warpers that they replace from `processors`. The
    seed is drawn from torch's generator."""
    if not config.do_sample:
        return Sampling()
    values: dict[str, Any] = {"temperature": 1.0, "seed": int(torch.randint(2**32, (1,)))}
    if config.assistant_ensemble_weight is not None:
        values["acceptance"] = ENSEMBLE
    for name, kind in WARPERS.items():
        last = processors[-1] if processors else None
        if type(last) is kind and getattr(last, "filter_value", -np.inf) == -np.inf:
            chosen = {**values, name: float(getattr(last, name))}
            with contextlib.suppress(InvalidInput):  # a too high temperature remains a processor
                Sampling.parse(chosen)
                values = chosen
                processors.pop()
    return Sampling.parse(values)
