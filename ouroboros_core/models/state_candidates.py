"""Candidate generators of transformers that read the target's hidden states: MTP and DFlash.

`generate` hands them the outputs of its last pass. Here they get the target's cached features for
all tokens since their last call. As in `generate`, the first step of a text is plain, and
candidates are greedy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel

try:
    from transformers.cache_utils import MtpCache
    from transformers.generation.candidate_generator import (
        DFlashTokenCandidateGenerator,
        MTPCandidateGenerator,
    )
    from transformers.modeling_layers import MtpModel
except ImportError:  # an older transformers
    MtpCache = DFlashTokenCandidateGenerator = MtpModel = None
    MTPCandidateGenerator = object

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.models.candidates import Make, TransformersCandidates
from ouroboros_core.models.causal_lm import CausalLM


class StateCandidates(TransformersCandidates):
    """A generator that reads states of the target: the last one as number -1, and the states after
    `depths` layers."""

    in_step = True

    def __init__(self, name: str, make: Make, target: CausalLM, depths: Sequence[int] = ()) -> None:
        super().__init__(name, make, target.device)
        self._target, self._depths = target, tuple(depths)
        self._rows_read = 0

    def start(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        stop_tokens: Sequence[int],
        **settings: Any,
    ) -> None:
        self._target.keep_features([d for d in self._depths if d < self._target.layers])
        super().start(prompt, max_new_tokens, stop_tokens, **settings)

    def _generated(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        if self._generator is None:
            assert self._begin is not None
            self._generator, self._rows_read = self._begin(text), 0
            return []  # the pass that follows is the first one whose states it reads
        ids, before = self._ids(text), self.rows
        states = self._new_states(text)
        count = next(iter(states.values())).shape[1]
        positions = torch.arange(len(text), device=self._device)[None]
        with torch.no_grad():
            written, logits = self._generator.get_candidates(
                ids,
                model_kwargs={"position_ids": positions, "attention_mask": torch.ones_like(ids)},
                model_outputs=SimpleNamespace(hidden_states=states),
                is_first_iteration=False,
                n_last_matches=count - 1,
            )
        candidates = self._with_shares(text, written, logits)
        self.rows = before + len(candidates)
        return candidates

    def _new_states(self, text: Sequence[int]) -> dict[int, torch.Tensor]:
        """Return the states [1, rows, width], by number, of the tokens since the last call."""
        rows = self._target.features(text)[None, self._rows_read :]
        self._rows_read = len(text) - 1
        numbers = (self._target.layers, *(self._target.forward_pass.depths or ()))
        width = rows.shape[-1] // len(numbers)
        states = dict(zip(numbers, torch.split(rows, width, -1), strict=True))
        return states | {-1: states[self._target.layers]}


class _MtpGenerator(MTPCandidateGenerator):  # type: ignore[misc]
    """transformers' generator with MTP layers that are already loaded: its own constructor reads
    them from the files for each text."""

    def __init__(self, layers: Any) -> None:
        self.num_mtp_layers, self.mtp_model = layers.num_mtp_layers, layers
        self.device = next(layers.layers.parameters()).device
        self.mtp_cache = MtpCache(config=layers.config)
        self.mtp_cache.activate_past_recording()
        self.do_sample, self.logits_processor = False, None
        self.is_main_model_prefill = True


def mtp_layers(model: PreTrainedModel) -> int:
    """Return the number of MTP layers that ship with a model, 0 without any, or if transformers is
    too old to read them."""
    if MtpModel is None:
        return 0
    config = model.config.get_text_config(decoder=True)
    return int(getattr(config, "num_mtp_layers", None) or 0)


def load_mtp(model: PreTrainedModel) -> Any:
    """Return the MTP layers in the files of a model; they share its embeddings and its head.

    Raises UnsupportedModel if they cannot be read.
    """
    device = model.get_output_embeddings().weight.device
    try:
        return MtpModel.from_pretrained(model, device_map={"": device})
    except Exception as error:  # a foreign loader can fail in any way
        raise UnsupportedModel(
            f"the configuration of {model.config.name_or_path} names MTP layers, and they cannot "
            f"be loaded ({type(error).__name__}: {error}): choose another method than hf_mtp"
        ) from error


class _MtpCandidates(StateCandidates):
    """MTP layers are loaded before the first step of a text."""

    def __init__(self, target: CausalLM, load: Callable[[], Any]) -> None:
        def make(ids: torch.Tensor, config: GenerationConfig) -> Any:
            return _MtpGenerator(self._model)

        super().__init__(f"{target.name}, MTP layers", make, target)
        self._load = load

    def start(self, *arguments: Any, **settings: Any) -> None:
        self._model = self._load()
        super().start(*arguments, **settings)


def mtp(target: CausalLM, load: Callable[[], Any]) -> StateCandidates:
    """`generate(use_mtp=True)`; `load` is called for each text."""
    return _MtpCandidates(target, load)


def is_block_drafter(config: PreTrainedConfig) -> bool:
    """Return whether a model of this configuration drafts blocks from a target's states."""
    needed = ("block_size", "mask_token_id", "target_layer_ids")
    return all(getattr(config, name, None) is not None for name in needed)


def dflash(target: CausalLM, model: PreTrainedModel, name: str) -> StateCandidates:
    """`generate(assistant_model=..., speculation_type="dflash")`."""

    def make(ids: torch.Tensor, config: GenerationConfig) -> Any:
        target_model = target.model
        return DFlashTokenCandidateGenerator(
            model,
            target_model.get_input_embeddings(),
            target_model.get_output_embeddings(),
            config,
        )

    depths = sorted({layer + 1 for layer in model.config.target_layer_ids})
    candidates = StateCandidates(name, make, target, depths)
    candidates._model = model
    return candidates
