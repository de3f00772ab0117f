"""The interfaces that people already know, on plain transformers models: Ouroboros, Dual Decoding, Speculative-Decoding.

    from ouroboros_core.compat import CacheEngine, ouroboros
    ids = ouroboros(input_ids, draft, target, max_len=64, gamma=12, eos_token_id=tokenizer.eos_token_id)

* `ouroboros`, `dualdec`, `CacheEngine`: the packages `ourodec` and `dualdec` 0.1.0 (thunlp/Ouroboros)
* `speculative_generate`, `autoregressive_generate` and the processors: romsto/Speculative-Decoding

Names, order and defaults of the arguments are theirs; what is computed is this project's, so it is correct where they are not:
greedy is greedy, a draft model may have any number of layers, several end tokens are honoured, sampling keeps the target's
distribution, and no model has to be imported from a copied file.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core import methods
from ouroboros_core.decoding.engine import decode
from ouroboros_core.decoding.trace import Step
from ouroboros_core.errors import InvalidInput
from ouroboros_core.memory.pool import PhrasePool
from ouroboros_core.methods.base import Resources
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.check import check_tree_support
from ouroboros_core.models.drafts import check_vocabulary
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from ouroboros_core.tree import Learned

EndTokens = int | Sequence[int] | None
UNSET: Any = object()
"""The default of an argument that goes by two names."""

_checked: weakref.WeakSet[PreTrainedModel] = weakref.WeakSet()


class CacheEngine:
    """Phrases that outlive a call: hand one to several calls and each warms up the next (its `history`)."""

    def __init__(self, lookahead_level: int, guess_set_size: int) -> None:
        """lookahead_level: tokens of a phrase and its key together, which a call must share.

        guess_set_size: phrases kept per key, until a call has its own.
        """
        _knobs("ouroboros", _RENAMED, ngram_size=lookahead_level, guess_set_size=guess_set_size)
        self.pool = PhrasePool(lookahead_level, guess_set_size)

    def __len__(self) -> int:
        """Phrases held."""
        return len(self.pool)

    def has(self, key: int) -> bool:
        """Whether there is a phrase that follows this token."""
        return bool(self.pool.newest(key, 1))

    def get_guess_tokens(self, key: int) -> list[tuple[int, ...]]:
        """The phrases that follow a token, oldest first."""
        return [phrase.tokens for phrase in self.pool.newest(key, self.pool.guess_set_size)][::-1]

    def insert(self, key: int, tokens: Sequence[int]) -> None:
        """Add a phrase of lookahead_level - 1 tokens; a known one becomes the newest."""
        if len(tokens) != self.pool.ngram_size - 1:
            raise InvalidInput(f"a phrase must have {self.pool.ngram_size - 1} tokens, got {len(tokens)}")
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
    """Continue `prefix` as the target would alone, greedily: ids [1, at most prompt + max_len].

    prefix         token ids [1, prompt]
    approx_model   the draft model; target_model: the target. Any decoder-only transformers models with one vocabulary
    ngram_cache    phrases of earlier calls, to start warm; it learns on
    max_len        new tokens at most
    gamma, window_size, guess_set_size, lookahead_level, topk   as in the paper: draft length, W, G, N, K; W and G may differ
    eos_token_id   where the text ends: an id, several, or None

    Raises InvalidInput, VocabularyMismatch or UnsupportedModel. The text that follows a stop token in the reference is not
    there, and unlike there a fully accepted suffix is followed by the target's bonus token (Ouroboros, arXiv 2402.13720).
    """
    if not isinstance(prefix, torch.Tensor):
        raise InvalidInput(
            f"prefix must be a tensor of the shape [1, tokens], got a {type(prefix).__name__}: torch.tensor([ids])"
        )
    if prefix.dim() != 2 or prefix.shape[0] != 1:
        raise InvalidInput(f"prefix must have the shape [1, tokens], got {list(prefix.shape)}: texts are decoded one at a time")
    knobs = _knobs(
        "ouroboros",
        _RENAMED,
        gamma=gamma,
        window_size=window_size,
        guess_set_size=guess_set_size,
        ngram_size=lookahead_level,
        top_k_suffixes=topk,
    )
    pool = ngram_cache.pool if ngram_cache is not None else None
    if pool is not None and pool.ngram_size != lookahead_level:
        raise InvalidInput(
            f"ngram_cache was made with lookahead_level {pool.ngram_size}, the call has {lookahead_level}: its phrases have "
            f"another length"
        )
    stops = _stops(eos_token_id)
    steps = _steps("ouroboros", knobs, target_model, approx_model, prefix[0].tolist(), max_len, Sampling(), stops, pool)
    new = [token for step in steps for token in step.tokens]
    return torch.cat([prefix, torch.tensor([new], dtype=prefix.dtype, device=prefix.device)], dim=1)


dualdec = ouroboros
"""The earlier name: Dual Decoding is the same algorithm."""

_RENAMED = {"ngram_size": "lookahead_level", "top_k_suffixes": "topk"}


@dataclass(frozen=True)
class LogitsProcessor:
    """How the next token is chosen. Filters are applied in Hugging Face's order: temperature, then top-k, then top-p."""

    temperature: float = 1.0

    def sampling(self, seed: int) -> Sampling:
        """The same as this project's knobs."""
        values = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p") if hasattr(self, name)}
        made = Sampling.parse({**values, "seed": seed, "acceptance": "rejection"})
        assert isinstance(made, Sampling)
        if made.temperature == 0:
            raise InvalidInput("temperature must be above 0 here, got 0: for greedy decoding use GreedyProcessor()")
        return made

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Probabilities [..., vocabulary] from logits [..., vocabulary]; the logits stay as they are."""
        rows = logits.detach().double().cpu().reshape(-1, logits.shape[-1])
        laws = [torch.from_numpy(softmax(process(row.numpy(), self.sampling(0)))) for row in rows]
        return torch.stack(laws).reshape(logits.shape).to(logits.device, torch.float32)

    def sample(self, probs: torch.Tensor) -> torch.Tensor:
        """A token [..., 1] drawn from probabilities [..., vocabulary]."""
        return torch.multinomial(probs.reshape(-1, probs.shape[-1]), 1).reshape(*probs.shape[:-1], 1)


@dataclass(frozen=True)
class GreedyProcessor(LogitsProcessor):
    """The most probable token."""

    def sampling(self, seed: int) -> Sampling:
        return Sampling(seed=seed)

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.softmax(logits.float() / self.temperature, dim=-1)

    def sample(self, probs: torch.Tensor) -> torch.Tensor:
        return probs.argmax(-1, keepdim=True)


@dataclass(frozen=True)
class MultinomialProcessor(LogitsProcessor):
    """Sampling at a temperature."""


@dataclass(frozen=True)
class TopKProcessor(LogitsProcessor):
    """Sampling among the k most probable tokens."""

    top_k: int = 50


@dataclass(frozen=True)
class NucleusProcessor(LogitsProcessor):
    """Sampling among the most probable tokens of total mass p."""

    top_p: float = 1.0


@dataclass(frozen=True)
class TopKNucleusProcessor(LogitsProcessor):
    """Both filters, top-k first."""

    top_k: int = 50
    top_p: float = 1.0


def autoregressive_generate(
    inputs: Sequence[int],
    model: PreTrainedModel,
    max_gen_len: int = 40,
    logits_processor: LogitsProcessor = GreedyProcessor(),
    eos_tokens_id: EndTokens = 1,
    pad_token_id: int = 0,
    use_cache: bool = False,
    debug: bool = False,
    *,
    end_tokens_id: EndTokens = UNSET,
) -> list[int]:
    """Plain decoding of a list of token ids: the new tokens, at most max_gen_len.

    eos_tokens_id, or as the reference's README has it end_tokens_id: where the text ends; it is the last token then.
    pad_token_id and use_cache are taken and need nothing done: nothing is padded, and there always is a cache. debug prints
    the ids step by step. Sampling draws its seed from torch's generator: torch.manual_seed makes it repeat.
    """
    stops = _stops(eos_tokens_id if end_tokens_id is UNSET else end_tokens_id)
    sampling = _sampling(logits_processor)
    steps = _steps("autoregressive", _knobs("autoregressive", {}), model, None, inputs, max_gen_len, sampling, stops, None)
    new: list[int] = []
    for step in steps:
        new += step.tokens
        if debug:
            print(f"step {step.index}: {step.tokens[0]}")
    return new


def speculative_generate(
    inputs: Sequence[int],
    drafter: PreTrainedModel,
    target: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    gamma: int = 5,
    logits_processor: LogitsProcessor = GreedyProcessor(),
    max_gen_len: int = 40,
    eos_tokens_id: EndTokens = 1,
    pad_token_id: int = 0,
    use_cache: bool = False,
    skip_sample_adjustment: bool = False,
    first_target: bool = True,
    debug: bool = False,
    *,
    end_tokens_id: EndTokens = UNSET,
) -> tuple[list[int], float]:
    """Speculative decoding with rejection sampling: the new tokens, at most max_gen_len, and the acceptance rate.

    The rate is the reference's: accepted draft tokens / draft tokens, those behind a rejection counted too; 0 if there were
    none. (This project's own metric counts only what was tested: `decoding.metrics.draft_acceptance_rate`.) Arguments as in
    `autoregressive_generate`; first_target is taken and changes nothing. skip_sample_adjustment would change the
    distribution, and is refused. debug prints each step: accepted drafts green, rejected ones red, the target's token blue.
    """
    if skip_sample_adjustment:
        raise InvalidInput("skip_sample_adjustment=True would change the target's distribution; leave it False")
    knobs = _knobs("speculative", {}, gamma=gamma)
    stops = _stops(eos_tokens_id if end_tokens_id is UNSET else end_tokens_id)
    new: list[int] = []
    accepted = drafted = 0
    for step in _steps("speculative", knobs, target, drafter, inputs, max_gen_len, _sampling(logits_processor), stops, None):
        new += step.tokens
        accepted += len(step.path)
        drafted += len(step.tree) - 1
        if debug:
            _print_step(step, tokenizer)
    return new, accepted / drafted if drafted else 0.0


def _print_step(step: Step, tokenizer: PreTrainedTokenizerBase | None) -> None:
    from rich.console import Console
    from rich.text import Text

    def word(token: int) -> str:
        return str(tokenizer.decode([token])) if tokenizer else f"{token} "

    line = Text(f"Step {step.index + 1}: {len(step.tree) - 1} drafts, {len(step.tokens)} tokens: ")
    for node in range(1, len(step.tree)):
        line.append(word(step.tree.tokens[node]), style="green" if node in step.path else "red strike")
    if step.target_token is not None:
        line.append(word(step.target_token), style="blue")
    Console(highlight=False).print(line)


def _sampling(processor: LogitsProcessor) -> Sampling:
    """The knobs of a processor, with a seed from torch's generator."""
    if type(processor).__call__ not in (LogitsProcessor.__call__, GreedyProcessor.__call__):
        raise InvalidInput(
            f"{type(processor).__name__} has a __call__ of its own, which cannot be carried over: use GreedyProcessor, "
            f"MultinomialProcessor, TopKProcessor, NucleusProcessor or TopKNucleusProcessor"
        )
    return processor.sampling(int(torch.randint(2**32, (1,), dtype=torch.int64)))


def _stops(tokens: EndTokens) -> frozenset[int]:
    if tokens is None:
        return frozenset()
    return frozenset([tokens] if isinstance(tokens, int) else tokens)


def _knobs(method: str, renamed: dict[str, str], **values: Any) -> Any:
    """Validated knobs; messages speak of the arguments by the names they have here."""
    try:
        return methods.get(method).Hyperparameters.parse(values)
    except InvalidInput as error:
        message = str(error)
        for name, given in renamed.items():
            message = message.replace(name, given)
        raise InvalidInput(message) from None


def _wrap(model: PreTrainedModel, name: str, vocabulary: int | None = None) -> CausalLM:
    """A fresh wrapper; each model is checked once."""
    wrapped = CausalLM(model, str(model.name_or_path or name), vocabulary)
    if model not in _checked:
        check_tree_support(wrapped)
        _checked.add(model)
    return wrapped


def _steps(
    method: str,
    knobs: Any,
    target_model: PreTrainedModel,
    draft_model: PreTrainedModel | None,
    prompt: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling,
    stops: frozenset[int],
    pool: PhrasePool | None,
) -> Iterator[Step]:
    if isinstance(prompt, torch.Tensor):
        raise InvalidInput(f"inputs must be a list of token ids, got a tensor of the shape {list(prompt.shape)}: ids[0].tolist()")
    if max_new_tokens < 0:
        raise InvalidInput(f"{'max_len' if method == 'ouroboros' else 'max_gen_len'} must be at least 0, got {max_new_tokens}")
    target = _wrap(target_model, "the target model")
    draft = None
    if draft_model is not None:
        name = str(draft_model.name_or_path or type(draft_model).__name__)
        check_vocabulary(draft_model.config.get_text_config(decoder=True).vocab_size, target, name)
        draft = _wrap(draft_model, "the draft model", target.vocabulary)
        target.vocabulary = draft.vocabulary
    if pool is not None and pool.largest_token >= target.vocabulary:
        raise InvalidInput(f"the phrases hold token id {pool.largest_token}, beyond the vocabulary of {target.name}")
    sampler = Sampler(sampling, target.vocabulary)
    kind = methods.get(method)(knobs, Resources(sampler, draft, stops, pool))
    yield from decode(target, kind, list(prompt), max_new_tokens=max_new_tokens, sampler=sampler, stop_tokens=stops)
