"""transformers' own decoding on the same weights and threads: what our methods are compared with;
and by name another engine, llama.cpp.

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

from ouroboros_core.benchmark import llama_cpp
from ouroboros_core.benchmark.entrants import BASELINE, Entrant, Outcome, Request, Spent
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import question_of
from ouroboros_core.trace.trace import Seconds

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling


def _assisted(tokens: int, threshold: float) -> dict[str, Any]:
    return {"num_assistant_tokens": tokens, "assistant_confidence_threshold": threshold}


SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "hf-greedy": {"": {}},
    "hf-assisted": {
        "defaults": {},
        "num_assistant_tokens=2, no threshold": _assisted(2, 0.0),
        "num_assistant_tokens=4, threshold 0.4": _assisted(4, 0.4),
    },
    "hf-prompt-lookup": {
        "defaults": {"prompt_lookup_num_tokens": 10},
        "num_tokens=3": {"prompt_lookup_num_tokens": 3},
        "num_tokens=5, ngram 3": {"prompt_lookup_num_tokens": 5, "max_matching_ngram_size": 3},
    },
}
"""Peer -> setting -> options; 10 tokens of prompt lookup are its documentation's."""


def peers(names: Sequence[str], pair: Pair, sampling: Sampling) -> list[Entrant]:
    """Return peers in all their settings; raises InvalidInput if one cannot run."""
    rivals: list[Entrant] = []
    for name in dict.fromkeys(names):
        if name.partition("[")[0] == llama_cpp.NAME:
            rivals.append(llama_cpp.LlamaCpp(name, pair, sampling))
            continue
        if name not in SETTINGS:
            allowed = ", ".join((*SETTINGS, llama_cpp.NAME))
            raise InvalidInput(f"peers must be among {allowed}, got {name}")
        if name == "hf-assisted" and pair.draft is None:
            raise InvalidInput(_no_draft(pair))
        rivals += [Peer(name, setting, pair, sampling) for setting in SETTINGS[name]]
    return rivals


def _no_draft(pair: Pair) -> str:
    if pair.foreign_draft is None:
        return "hf-assisted needs a draft model: name one with --draft, or leave the peer out"
    return (
        f"hf-assisted needs a draft model with the target's vocabulary, and {pair.foreign}: name "
        "another with --draft, or leave the peer out (the method hf_universal takes this draft)"
    )


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


class Steps:
    """A streamer that notes number and cost of the tokens whenever `generate` has written some."""

    def __init__(self, target: Passes, draft: Passes | None, prompt: int) -> None:
        """prompt: its tokens, whose rows but the last are no part of decoding."""
        self._target, self._draft = target, draft
        self._prompt: int | None = prompt
        self._before = 0, 0, 0, 0.0, 0.0, 0.0
        self._began = time.perf_counter()
        self.found: list[Spent] = []

    def put(self, value: torch.Tensor) -> None:
        if self._prompt is None:
            self._note(value.numel())
        else:  # the prompt comes first
            self._before = 0, self._prompt - 1, 0, 0.0, 0.0, 0.0
            self._prompt = None

    def _note(self, tokens: int) -> None:
        time_now, target, draft = time.perf_counter(), self._target, self._draft
        done = (
            target.count,
            target.rows,
            draft.count if draft else 0,
            target.first + (draft.first if draft else 0.0),
            draft.rest if draft else 0.0,
            target.rest,
        )
        passes, rows, drafts, *phases = (a - b for a, b in zip(done, self._before, strict=True))
        prefill, drafting, verifying = phases
        host = max(0.0, time_now - self._began - sum(phases))
        seconds = Seconds(prefill, drafting, verifying, host=host)
        self.found.append(Spent(tokens, int(passes), int(rows), int(drafts), seconds))
        self._before, self._began = done, time_now

    def end(self) -> None:
        """Add the work after the last tokens to them."""
        self._note(0)
        self.found[-2:] = [Spent.total(self.found[-2:])]


class Peer:
    """`generate` of transformers in one mode and one setting."""

    lossless, plain = True, BASELINE

    def __init__(self, name: str, setting: str, pair: Pair, sampling: Sampling) -> None:
        self.label, self.setting = name, setting
        self.separate = False
        self.repeats_plain_text = sampling.temperature == 0
        self._pair, self._sampling = pair, sampling
        self._options = SETTINGS[name][setting]

    def run(self, request: Request) -> Outcome:
        pair = self._pair
        tokens = request.ids(pair)
        ids = torch.tensor([tokens], device=pair.target.device)
        target = Passes(pair.target.model)
        draft = Passes(pair.draft.model) if pair.draft and self.label == "hf-assisted" else None
        torch.manual_seed(self._sampling.seed ^ question_of(tokens))
        with contextlib.ExitStack() as stack:
            stack.enter_context(target.watch())
            if draft:
                stack.enter_context(draft.watch())
            options = stack.enter_context(self._generation_options())
            steps = Steps(target, draft, len(tokens))
            output = pair.target.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.max_new_tokens,
                streamer=steps,
                **options,
            )
            new = tuple(output[0, len(tokens) :].tolist())
        return Outcome(new, tuple(steps.found)).before(len(new))

    @contextlib.contextmanager
    def _generation_options(self) -> Iterator[dict[str, Any]]:
        """Arguments of `generate`; both models have neutral generation configs meanwhile."""
        sampling, pair = self._sampling, self._pair
        stops = sorted(pair.stops(chat=bool(pair.tokenizer.chat_template)))
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
