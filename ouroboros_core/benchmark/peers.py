"""transformers' own decoding on the same weights and threads: what our methods are compared with.

Assisted generation and prompt lookup run at their defaults and at two tuned settings; the best one
counts and is named.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from ouroboros_core.benchmark.entrants import Outcome
from ouroboros_core.decoding.engine import check_length
from ouroboros_core.decoding.trace import Seconds
from ouroboros_core.errors import InvalidInput

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "hf-greedy": {"": {}},
    "hf-assisted": {
        "defaults": {},
        "num_assistant_tokens=2, no threshold": {
            "num_assistant_tokens": 2,
            "assistant_confidence_threshold": 0.0,
        },
        "num_assistant_tokens=4, threshold 0.4": {
            "num_assistant_tokens": 4,
            "assistant_confidence_threshold": 0.4,
        },
    },
    "hf-prompt-lookup": {
        "defaults": {"prompt_lookup_num_tokens": 10},
        "num_tokens=3": {"prompt_lookup_num_tokens": 3},
        "num_tokens=5, ngram 3": {"prompt_lookup_num_tokens": 5, "max_matching_ngram_size": 3},
    },
}
"""Peer -> setting -> options. `prompt_lookup_num_tokens` has no default in transformers: 10 is its
documentation's."""


def peers(names: Sequence[str], pair: Pair, sampling: Sampling) -> list[Peer]:
    """The peers of these names, each in all its settings; raises InvalidInput for a name that is
    none."""
    for name in names:
        if name not in SETTINGS:
            raise InvalidInput(f"peers must be among {', '.join(SETTINGS)}, got {name}")
        if name == "hf-assisted" and pair.draft is None:
            raise InvalidInput(
                "hf-assisted needs a draft model: name one with --draft, or leave the peer out"
            )
    return [
        Peer(name, setting, pair, sampling)
        for name in dict.fromkeys(names)
        for setting in SETTINGS[name]
    ]


class Passes:
    """Counts and times the forward passes of a model while it is watched.

    The first pass counts as prefill in seconds; it yields a token like every other, so it is
    counted as a pass.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model, self._device = model, model.device
        self._began = 0.0
        self.count, self.rows, self.first, self.rest = 0, 0, 0.0, 0.0

    def _before(self, _: Any, args: Any, kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        self.rows += 0 if ids is None else int(ids.shape[1])
        self._began = time.perf_counter()

    def _after(self, *_: Any) -> None:
        if self._device.type == "cuda" and self.count == 0:
            torch.cuda.synchronize(self._device)
        seconds = time.perf_counter() - self._began
        if self.count == 0:
            self.first = seconds
        else:
            self.rest += seconds
        self.count += 1

    @contextlib.contextmanager
    def watch(self) -> Iterator[Passes]:
        handles = (
            self._model.register_forward_pre_hook(self._before, with_kwargs=True),
            self._model.register_forward_hook(self._after),
        )
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()


class Peer:
    """`generate` of transformers in one mode and one setting."""

    def __init__(self, name: str, setting: str, pair: Pair, sampling: Sampling) -> None:
        self.label, self.setting = name, setting
        self.repeats_plain_text = sampling.temperature == 0
        self._pair, self._sampling = pair, sampling
        self._options = SETTINGS[name][setting]

    def run(
        self, prompt: str, history: Sequence[str], max_new_tokens: int, prediction: str = ""
    ) -> Outcome:
        pair = self._pair
        tokens = pair.encode(prompt, chat=bool(pair.tokenizer.chat_template), history=history)
        check_length(tokens, max_new_tokens, pair.target)
        ids = torch.tensor([tokens], device=pair.target.device)
        target = Passes(pair.target.model)
        draft = Passes(pair.draft.model) if pair.draft and self.label == "hf-assisted" else None
        torch.manual_seed(self._sampling.seed)
        with contextlib.ExitStack() as stack:
            stack.enter_context(target.watch())
            if draft:
                stack.enter_context(draft.watch())
            options = stack.enter_context(self._generation_options())
            began = time.perf_counter()
            output = pair.target.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens, **options
            )
            new = tuple(output[0, len(tokens) :].tolist())
            seconds = time.perf_counter() - began
        prefill = target.first + (draft.first if draft else 0.0)
        drafting = draft.rest if draft else 0.0
        phases = Seconds(
            prefill,
            drafting,
            target.rest,
            host=max(0.0, seconds - prefill - drafting - target.rest),
        )
        return Outcome(
            new, target.count, target.rows - (len(tokens) - 1), draft.count if draft else 0, phases
        )

    @contextlib.contextmanager
    def _generation_options(self) -> Iterator[dict[str, Any]]:
        """Arguments of `generate`, while both models have a neutral generation config: a
        checkpoint's own may have penalties."""
        sampling, pair = self._sampling, self._pair
        stops = sorted(pair.stop_tokens)
        common = {"eos_token_id": stops or None, "pad_token_id": stops[0] if stops else 0}
        options: dict[str, Any] = {"do_sample": sampling.temperature > 0}
        if sampling.temperature > 0:
            options |= {
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
            }
        models, configs = [pair.target.model], [GenerationConfig(**common)]
        if self.label == "hf-assisted":
            assert pair.draft is not None
            models.append(pair.draft.model)
            configs.append(GenerationConfig(**common, **self._options))
            options |= {"assistant_model": pair.draft.model}
        else:
            options |= self._options
        before = [model.generation_config for model in models]
        try:
            for model, config in zip(models, configs, strict=True):
                model.generation_config = config
            yield options
        finally:
            for model, config in zip(models, before, strict=True):
                model.generation_config = config
