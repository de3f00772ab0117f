"""Candidate generators as a method uses them: transformers' generators (assisted generation, also
with another tokenizer, prompt lookup, early exit) and a user's. The code that runs is theirs; only
the check of the candidates is ours. `state_candidates` has the generators that read the target's
states.

Candidates are always written greedily. If a generator fails, or if its model has no row or position
for a token, it gives no candidates: a plain step, which is counted.
"""

from __future__ import annotations

import inspect
import logging as python_logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.candidate_generator import (
    AssistantToTargetTranslator,
    AssistedCandidateGenerator,
    AssistedCandidateGeneratorDifferentTokenizers,
    CandidateGenerator,
    EarlyExitCandidateGenerator,
    PromptLookupCandidateGenerator,
    UniversalSpeculativeDecodingGenerator,
)
from transformers.generation.logits_process import (
    LogitsProcessorList,
    SuppressTokensLogitsProcessor,
)
from transformers.utils import logging

from ouroboros_core.models.reach import longest_text

log = python_logging.getLogger(__name__)

WANT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)

Make = Callable[..., Any]
"""Makes a candidate generator of the prompt [1, tokens], a generation config and settings."""


class Unreadable(Exception):
    """A text that a draft model cannot read; the message gives the reason.

    for_good  longer texts cannot be read either
    """

    def __init__(self, reason: str, *, for_good: bool = True) -> None:
        super().__init__(reason)
        self.for_good = for_good


def check_readable(model: PreTrainedModel, ids: torch.Tensor) -> int:
    """Return the number of tokens that the model has positions to write after ids [1, tokens]; the
    last token needs no position. Raise Unreadable without a position, without ids, and for an id
    without a row."""
    count, rows = ids.shape[-1], model.get_input_embeddings().weight.shape[0]
    positions: int = getattr(model.config.get_text_config(), "max_position_embeddings", 0) or 2**20
    if count > positions // 2:  # rope scaling may give more
        positions = longest_text(model)
    if not count:
        raise Unreadable("its tokenizer makes no token of the text", for_good=False)
    if int(ids.max()) >= rows:
        raise Unreadable(f"token id {int(ids.max())} has none of its {rows} rows")
    if count > positions:
        raise Unreadable(f"the text has {count} tokens, and it has {positions} positions")
    return positions - count + 1


class _Readable:
    """A check that the draft model can read the text, before transformers' generator of another
    tokenizer."""

    assistant_model: PreTrainedModel

    def _prepare_assistant_input_ids(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        ids, removed = super()._prepare_assistant_input_ids(input_ids)  # type: ignore[misc]
        self.room = check_readable(self.assistant_model, ids)
        return ids, removed

    def _prepare_generation_args(
        self, input_ids: torch.Tensor, min_new_tokens: int, max_new_tokens: int
    ) -> dict[str, Any]:
        counts = min(min_new_tokens, self.room), min(max_new_tokens, self.room)
        arguments: dict[str, Any] = super()._prepare_generation_args(  # type: ignore[misc]
            input_ids, *counts
        )
        return arguments


class _Translating(_Readable, AssistedCandidateGeneratorDifferentTokenizers):  # type: ignore[misc]
    """The draft model's text, translated."""


class _SharedTokens(_Readable, UniversalSpeculativeDecodingGenerator):  # type: ignore[misc]
    """The draft model's tokens that are also the target's."""


class TransformersCandidates:
    """A candidate generator, made again for each text.

    in_step  it reads at most one token more than it wrote since its last call. If the text has
             grown by more, as by tokens that a grammar forces, it starts again.
    """

    in_step = False

    def __init__(
        self, name: str, make: Make, device: torch.device, model: PreTrainedModel | None = None
    ) -> None:
        """model: the model whose passes are counted while candidates are written."""
        self.name, self.passes, self.rows, self.failures = name, 0, 0, 0
        self._make, self._device, self._model = make, device, model
        self._generator: Any = None
        self._begin: Callable[[Sequence[int]], Any] | None = None
        self._reads = True
        """Whether the next pass reads the text so far."""
        self.translates = False
        """Whether it keeps a second text, aligned with the target's. If the alignment fails, as in
        a sliding window that cannot move back, it starts again."""
        self.reads_ids = False
        """Whether its model reads the target's token ids."""
        self._over = False
        """Whether the text can no longer be read."""

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
        self._generator, self._over, self.failures = None, False, 0
        self._longest = len(prompt) + 1

    def candidates(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        """Return candidates, [] if the generator fails; then it starts again with the next text.

        Raise its error only if memory is short.
        """
        if self._over:
            self.failures += 1
            return []
        if self.in_step and len(text) > self._longest:
            self._generator = None
        with self._counted(), _unwarned():
            candidates = self._tried(text)
        self._longest = len(text) + len(candidates) + 1
        return candidates

    def _tried(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        begun = self._generator is not None
        try:
            return self._generated(text)
        except WANT_OF_MEMORY:
            raise
        except Exception as error:  # a foreign generator can fail in any way
            if self.translates and begun:
                self._generator = None
                return self._tried(text)
            self._fail(error)
            return []

    def _generated(self, text: Sequence[int]) -> list[tuple[int, float | None]]:
        ids = self._ids(text)
        room = check_readable(self._model, ids) if self.reads_ids and self._model else None
        if self._generator is None:
            assert self._begin is not None
            self._generator, self._reads = self._begin(text), True
        with _at_most(self._generator, room):
            written, logits = self._generator.get_candidates(ids)
        return self._with_shares(text, written, logits)

    def _with_shares(
        self, text: Sequence[int], written: torch.Tensor, logits: torch.Tensor | None
    ) -> list[tuple[int, float | None]]:
        """Return the tokens written after the text, each with its share."""
        tokens: list[int] = written[0, len(text) :].tolist()
        if logits is None:
            return [(token, None) for token in tokens]
        shares = logits[0].float().softmax(-1)
        return [(token, float(shares[n, token])) for n, token in enumerate(tokens)]

    def _fail(self, error: Exception) -> None:
        """Count a plain step; log the first one of a text."""
        if not self.failures:
            kind = "" if isinstance(error, Unreadable) else f"{type(error).__name__}: "
            log.warning("%s drafts nothing in some steps: %s%s", self.name, kind, error)
        self.failures += 1
        self._generator = None
        self._over = isinstance(error, Unreadable) and error.for_good

    def report(self, text: Sequence[int], proposed: int, accepted: int) -> None:
        tell = getattr(self._generator, "update_candidate_strategy", None)
        if tell is None:
            return
        try:
            tell(self._ids(text), torch.empty(1, proposed + 1, 0), accepted)
        except WANT_OF_MEMORY:
            raise
        except Exception as error:  # as above
            self._fail(error)

    def _ids(self, tokens: Sequence[int]) -> torch.Tensor:
        return torch.tensor([list(tokens)], device=self._device)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        def count(_: Any, __: Any, arguments: dict[str, Any], output: Any) -> None:
            self.passes += 1
            read = self._reads or arguments.get("input_ids") is None
            self.rows += 1 if read else int(arguments["input_ids"].shape[-1])
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
def _at_most(generator: Any, room: int | None) -> Iterator[None]:
    """Limit the tokens that the generator writes to `room` for a while."""
    if room is None:
        yield
        return
    count = generator.num_assistant_tokens
    generator.num_assistant_tokens = min(count, room)
    try:
        yield
    finally:
        generator.num_assistant_tokens = count


@contextmanager
def _unwarned() -> Iterator[None]:
    """Silence the generators' warnings about their own calls of `generate`."""
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
        inputs = {"attention_mask": torch.ones_like(ids)}
        return _scheduled(AssistedCandidateGenerator(ids, model, config, inputs), **settings)

    device = model.get_input_embeddings().weight.device
    generator = TransformersCandidates(name, make, device, model)
    generator.reads_ids = True
    return generator


def ends_early(model: PreTrainedModel) -> bool:
    """Return whether transformers' code of a model runs as many layers as its configuration says at
    the time. Otherwise, or if the code cannot be read, `assistant_early_exit` is not offered."""
    reads_depth = _reads_depth(type(model.base_model).forward)
    return reads_depth and model.config.get_text_config().num_hidden_layers > 1


@cache
def _reads_depth(forward: Callable[..., Any]) -> bool:
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
        inputs = {"attention_mask": torch.ones_like(ids)}
        translating = _Translating(ids, model, target_tokenizer, tokenizer, config, inputs)
        return _scheduled(translating, **settings)

    device = model.get_input_embeddings().weight.device
    generator = TransformersCandidates(name, make, device, model)
    generator.translates = True
    return generator


def shared_tokens(
    model: PreTrainedModel,
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase,
    translator: Callable[[], AssistantToTargetTranslator],
) -> TransformersCandidates:
    """The generator that `generate` uses for a draft model of another tokenizer if it samples
    (token-level intersection, TLI). The output layer of the draft model is not pruned in place;
    instead tokens that the target does not have are suppressed.

    translator: returns `shared_vocabulary` of these models
    """

    def make(ids: torch.Tensor, config: Any, **settings: Any) -> Any:
        inputs, words = {"attention_mask": torch.ones_like(ids)}, translator()
        translating = _SharedTokens(ids, model, target_tokenizer, tokenizer, config, inputs, words)
        return _scheduled(translating, **settings)

    device = model.get_input_embeddings().weight.device
    generator = TransformersCandidates(name, make, device, model)
    generator.translates = generator.in_step = True
    return generator


def shared_vocabulary(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase,
    vocabulary: int,
) -> AssistantToTargetTranslator:
    """Return which token of the draft model is which of the target; it takes part of a second.

    vocabulary: the target's number of token ids
    """
    device = model.get_input_embeddings().weight.device
    words = AssistantToTargetTranslator(target_tokenizer, tokenizer, vocabulary, model)
    shared = set(words.target_to_assistant_input_ids.values())
    # Rows that pad the output layer are in no vocabulary, and transformers leaves them possible.
    rows = model.get_output_embeddings().weight.shape[0]
    ruled_out = [token for token in range(rows) if token not in shared]
    processors = [SuppressTokensLogitsProcessor(ruled_out, device)] if ruled_out else []
    words.logits_processors = LogitsProcessorList(processors)
    return words


def anybodys(generator: CandidateGenerator, device: torch.device) -> TransformersCandidates:
    """A user's candidate generator, for one text."""
    model = getattr(generator, "assistant_model", None)
    return TransformersCandidates(
        type(generator).__name__, lambda ids, config: generator, device, model
    )


def early_exit(model: PreTrainedModel, name: str) -> TransformersCandidates:
    """`generate(assistant_early_exit=...)`: the target's first layers."""

    def make(ids: torch.Tensor, config: Any, exit_layer: int, **settings: Any) -> Any:
        layers = model.config.get_text_config(decoder=True).num_hidden_layers
        config.assistant_early_exit = max(1, min(exit_layer, layers - 1))
        inputs = {"attention_mask": torch.ones_like(ids)}
        return _scheduled(EarlyExitCandidateGenerator(ids, model, config, inputs), **settings)

    device = model.get_input_embeddings().weight.device
    return TransformersCandidates(f"{name}, first layers", make, device, model)


def _scheduled(generator: Any, num_tokens: int, schedule: str, confidence: float) -> Any:
    """Return the generator with its first number of tokens, the schedule of that number, and the
    probability below which it stops."""
    generator.num_assistant_tokens = num_tokens
    assistant_config = generator.assistant_generation_config
    assistant_config.num_assistant_tokens_schedule = schedule
    for config in (assistant_config, generator.generation_config):
        config.assistant_confidence_threshold = confidence
    return generator
