"""What a call of `generate` asks of our loop: what is refused, and how its rules are read."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
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
from transformers.generation import (
    GenerationMode,
)

from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling

TAKEN = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}
"""What `generate` prepares for a text model's pass."""

STATEFUL = ("UnbatchedClassifierFreeGuidanceLogitsProcessor", "SynthIDTextWatermarkLogitsProcessor")
"""Processors whose scores depend on earlier calls."""

WARPERS: dict[str, type] = {
    "top_p": TopPLogitsWarper,
    "top_k": TopKLogitsWarper,
    "temperature": TemperatureLogitsWarper,
}
"""The warpers that this project's `Sampling` has, from the last one applied to the first."""


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
    """Raise InvalidInput for what this loop cannot do."""
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
        "assistant_ensemble_weight": config.assistant_ensemble_weight is not None,
        "guidance_scale": config.guidance_scale not in (None, 1),
    }
    refused = [name for name, is_set in wrong.items() if is_set]
    refused += [n for n, value in model_kwargs.items() if n not in TAKEN and value is not None]
    cache = model_kwargs.get("past_key_values")
    if cache is not None and cache.get_seq_length():
        refused.append("past_key_values that hold tokens")
    if refused:
        raise InvalidInput(
            f"{', '.join(refused)}: not possible here; leave it out, or leave out custom_generate"
        )


def padding_of(input_ids: torch.Tensor, model_kwargs: Mapping[str, Any]) -> int:
    """How many tokens at the left of the prompt are padding; raises InvalidInput for a mask or for
    positions that say more."""
    count = input_ids.shape[1]
    mask = model_kwargs.get("attention_mask")
    padding = 0 if mask is None else int(count - mask.sum())
    positions = model_kwargs.get("position_ids")
    plain = torch.arange(count - padding)
    if mask is not None and (mask.shape != input_ids.shape or not mask[0, padding:].all()):
        raise InvalidInput("attention_mask may leave out tokens at the left end only")
    if positions is not None and not positions[0, padding:].cpu().equal(plain):
        raise InvalidInput("position_ids must count the tokens from 0; leave them out")
    return padding


def sampling_of(config: GenerationConfig, processors: list[Any]) -> Sampling:
    """The settings that choose the token; the warpers that they stand for are taken off the list.
    The seed is drawn from torch's generator."""
    if not config.do_sample:
        return Sampling()
    values: dict[str, Any] = {"temperature": 1.0, "seed": int(torch.randint(2**32, (1,)))}
    for name, kind in WARPERS.items():
        last = processors[-1] if processors else None
        if type(last) is kind and getattr(last, "filter_value", -np.inf) == -np.inf:
            chosen = {**values, name: float(getattr(last, name))}
            with contextlib.suppress(InvalidInput):  # one that is too hot is applied as it is
                Sampling.parse(chosen)
                values = chosen
                processors.pop()
    made = Sampling.parse(values)
    assert isinstance(made, Sampling)
    return made
