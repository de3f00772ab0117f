"""transformers' own candidate generators - assisted generation, also with another tokenizer, prompt
lookup, early exit - and anybody's, as a method asks them. What is run is their code; only what
checks the candidates is ours.

Candidates are written greedily, whatever the target does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.candidate_generator import (
    AssistedCandidateGenerator,
    AssistedCandidateGeneratorDifferentTokenizers,
    CandidateGenerator,
    EarlyExitCandidateGenerator,
    PromptLookupCandidateGenerator,
)
from transformers.utils import logging

Make = Callable[..., Any]
"""From the prompt [1, tokens], a generation config and the settings to a candidate generator."""


class TransformersCandidates:
    """A candidate generator, made anew for each text."""

    def __init__(
        self, name: str, make: Make, device: torch.device, model: PreTrainedModel | None = None
    ) -> None:
        """model: whose passes are counted while candidates are written."""
        self.name, self.passes, self.rows = name, 0, 0
        self._make, self._device, self._model = make, device, model
        self._generator: Any = None
        self._begin: Callable[[Sequence[int]], Any] | None = None
        self._reads = True
        """Whether the next pass reads the text so far."""
        self.translates = False
        """Whether it keeps a text of its own, aligned with the target's; where that goes wrong, as
        in a window of a sliding attention that cannot go back, it begins anew."""

    def start(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        stop_tokens: Sequence[int],
        **settings: Any,
    ) -> None:
        config = GenerationConfig(
            max_length=len(prompt) + max_new_tokens,
            min_length=0,
            eos_token_id=sorted(stop_tokens) or None,
            pad_token_id=0,
            do_sample=False,
        )
        self._begin = lambda text: self._make(self._ids(text), config, **settings)
        self._anew(prompt)

    def _anew(self, text: Sequence[int]) -> None:
        assert self._begin is not None
        self._generator, self._reads = self._begin(text), True

    def candidates(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        with self._counted(), _unwarned():
            try:
                found, logits = self._generator.get_candidates(self._ids(text))
            except RuntimeError as error:
                full = isinstance(error, torch.OutOfMemoryError)
                if full or not self.translates or self._begin is None:
                    raise
                self._anew(text)
                found, logits = self._generator.get_candidates(self._ids(text))
        tokens: list[int] = found[0, len(text) :].tolist()
        if logits is None:
            return [(token, None) for token in tokens]
        shares = logits[0].float().softmax(-1)
        return [(token, float(shares[n, token])) for n, token in enumerate(tokens)]

    def told(self, text: Sequence[int], proposed: int, accepted: int) -> None:
        tell = getattr(self._generator, "update_candidate_strategy", None)
        if tell is not None:
            tell(self._ids(text), torch.empty(1, proposed + 1, 0), accepted)

    def _ids(self, tokens: Sequence[int]) -> torch.Tensor:
        return torch.tensor([list(tokens)], device=self._device)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        def count(_: Any, __: Any, given: dict[str, Any], output: Any) -> None:
            self.passes += 1
            self.rows += 1 if self._reads else int(given["input_ids"].shape[-1])
            self._reads = False

        if self._model is None:
            yield
            return
        hook = self._model.register_forward_hook(count, with_kwargs=True)
        config = self._model.config
        layers = getattr(config, "num_hidden_layers", None)
        try:
            yield
        finally:
            hook.remove()
            if layers is not None:  # early exit lowers it, and an error leaves it so
                config.num_hidden_layers = layers


@contextmanager
def _unwarned() -> Iterator[None]:
    """Their generators warn of how they themselves call `generate` and decode."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def lookup(device: torch.device) -> TransformersCandidates:
    """`generate(prompt_lookup_num_tokens=...)`."""

    def make(ids: torch.Tensor, config: Any, num_tokens: int, max_ngram: int) -> Any:
        ends = config.eos_token_id
        return PromptLookupCandidateGenerator(
            eos_token_id=None if ends is None else torch.tensor(ends, device=device),
            num_output_tokens=num_tokens,
            max_matching_ngram_size=max_ngram,
            max_length=config.max_length,
        )

    return TransformersCandidates("prompt lookup", make, device)


def assisted(model: PreTrainedModel, name: str) -> TransformersCandidates:
    """`generate(assistant_model=...)`."""

    def make(ids: torch.Tensor, config: Any, **settings: Any) -> Any:
        given = {"attention_mask": torch.ones_like(ids)}
        return _scheduled(AssistedCandidateGenerator(ids, model, config, given), **settings)

    return TransformersCandidates(name, make, model.get_input_embeddings().weight.device, model)


def ends_early(model: PreTrainedModel) -> bool:
    """Whether transformers' code of a model goes through as many layers as its configuration says
    at the time; where it goes through all, or its code cannot be read, `assistant_early_exit` is
    not offered."""
    asked = _asks_for_depth(type(model.base_model).forward)
    return asked and model.config.get_text_config().num_hidden_layers > 1


@cache
def _asks_for_depth(forward: Callable[..., Any]) -> bool:
    try:
        return "num_hidden_layers" in inspect.getsource(inspect.unwrap(forward))
    except (OSError, TypeError):  # typed at a prompt, or compiled
        return False


def universal(
    model: PreTrainedModel,
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase,
) -> TransformersCandidates:
    """`generate(assistant_model=..., tokenizer=..., assistant_tokenizer=...)`: the draft model's
    text, translated from its `tokenizer` to the target's."""

    def make(ids: torch.Tensor, config: Any, **settings: Any) -> Any:
        given = {"attention_mask": torch.ones_like(ids)}
        made = AssistedCandidateGeneratorDifferentTokenizers(
            ids, model, target_tokenizer, tokenizer, config, given
        )
        return _scheduled(made, **settings)

    device = model.get_input_embeddings().weight.device
    found = TransformersCandidates(name, make, device, model)
    found.translates = True
    return found


def anybodys(generator: CandidateGenerator, device: torch.device) -> TransformersCandidates:
    """A candidate generator that is made already, for one text."""
    model = getattr(generator, "assistant_model", None)
    return TransformersCandidates(
        type(generator).__name__, lambda ids, config: generator, device, model
    )


def early_exit(model: PreTrainedModel, name: str) -> TransformersCandidates:
    """`generate(assistant_early_exit=...)`: the target's own first layers."""

    def make(ids: torch.Tensor, config: Any, exit_layer: int, **settings: Any) -> Any:
        layers = model.config.get_text_config(decoder=True).num_hidden_layers
        config.assistant_early_exit = max(1, min(exit_layer, layers - 1))
        given = {"attention_mask": torch.ones_like(ids)}
        return _scheduled(EarlyExitCandidateGenerator(ids, model, config, given), **settings)

    device = model.get_input_embeddings().weight.device
    return TransformersCandidates(f"{name}, first layers", make, device, model)


def _scheduled(generator: Any, num_tokens: int, schedule: str, confidence: float) -> Any:
    """The generator with how many tokens it writes at first, how that changes, and the probability
    below which it stops."""
    generator.num_assistant_tokens = num_tokens
    own = generator.assistant_generation_config
    own.num_assistant_tokens_schedule = schedule
    for config in (own, generator.generation_config):
        config.assistant_confidence_threshold = confidence
    return generator
