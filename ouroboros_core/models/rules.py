"""transformers' logits processors as rules of a model, see `models.processed`: a caller's
processors, and the processors that `generate` makes of a checkpoint's generation settings."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PrefixConstrainedLogitsProcessor,
    PreTrainedModel,
    SynthIDTextWatermarkLogitsProcessor,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)
from transformers.utils import logging

from ouroboros_core.models.processed import Rules

STATEFUL = (
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
)
"""Processors of transformers whose scores depend on earlier calls, or on a caller's function."""

GREEDY: dict[str, Any] = {"num_beams": 1, "num_return_sequences": 1}
GREEDY |= dict.fromkeys(("do_sample", "token_healing", "use_cache"), False)
GREEDY |= dict.fromkeys(("penalty_alpha", "dola_layers", "stop_strings"))
"""Arguments with which `generate` prepares one greedy text, for any checkpoint."""


def stateless(processor: Any) -> bool:
    """Return whether the scores of a processor depend only on its arguments. That is true of
    transformers' processors, with a few exceptions. A user's processor may have a state (in the
    object, its class or a closure), which a copy may share and a trial may change."""
    kind = type(processor)
    return kind.__module__ == LogitsProcessor.__module__ and kind not in STATEFUL


def rules_of(
    processors: Sequence[Any], ids: torch.Tensor, padding: int, stops: frozenset[int]
) -> Rules:
    """transformers' processors as rules of a model.

    They also see the padding of the prompt `ids` [1, tokens]. As in `generate`, they see no text
    after a stop token.
    """
    applied, device = LogitsProcessorList(processors), ids.device
    before, prompt = ids[0, :padding].tolist(), ids.shape[1] - padding

    def rules(text: Sequence[int], logits: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        if not stops.isdisjoint(text[prompt:]):
            return logits
        ids = torch.tensor([[*before, *text]], device=device)
        scores = torch.tensor(logits, dtype=torch.float32, device=device)[None]
        changed: npt.NDArray[np.floating] = applied(ids, scores)[0].cpu().numpy()
        return changed

    return rules


def own_processors(
    model: PreTrainedModel, ids: torch.Tensor, max_new_tokens: int, stops: frozenset[int]
) -> list[Any]:
    """Return the processors that `generate` makes of the model's generation config for one greedy
    text after the prompt `ids` [1, tokens]. No pass is computed."""
    processors: list[Any] = []

    def keep(*_: Any, logits_processor: LogitsProcessorList, **__: Any) -> torch.Tensor:
        processors.extend(logits_processor)
        return ids

    ends: dict[str, Any] = {"max_new_tokens": max(1, max_new_tokens)}
    ends |= {"eos_token_id": sorted(stops) or None, "pad_token_id": min(stops, default=0)}
    call: Any = model.generate
    with _quiet():
        call(ids, attention_mask=torch.ones_like(ids), custom_generate=keep, **ends, **GREEDY)
    return processors


def own_settings(model: PreTrainedModel, stops: frozenset[int]) -> dict[str, Any]:
    """Return the settings of the model's generation config that make processors, by name: each is
    tried separately."""
    ids = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    config = model.generation_config

    def any_processors(settings: Mapping[str, Any]) -> bool:
        trial = GenerationConfig()
        for name, value in settings.items():  # one by one: no check of how they go together
            setattr(trial, name, value)
        try:
            model.generation_config = trial
            return bool(own_processors(model, ids, 1, stops))
        except Exception:  # one that `generate` refuses: said when a text is asked for
            return True
        finally:
            model.generation_config = config

    with _quiet():
        settings = {
            name: value
            for name, value in config.to_diff_dict().items()
            if value is not None and name not in GREEDY
        }
    if not any_processors(settings):
        return {}
    return {name: value for name, value in settings.items() if any_processors({name: value})}


def unapplied_settings(model: PreTrainedModel) -> dict[str, Any]:
    """Return the settings of the model's generation config that ask for more than one greedy or
    sampled text, such as beams, by name. No method here applies them."""
    with _quiet():
        settings = model.generation_config.to_diff_dict()
    names = GREEDY.keys() & settings.keys() - {"do_sample", "use_cache"}
    return {name: settings[name] for name in sorted(names) if settings[name] != GREEDY[name]}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of `generate` about settings that exclude each other."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
