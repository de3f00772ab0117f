"""The interface of romsto/Speculative-Decoding: speculative_generate, autoregressive_generate and
the logits processors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.common import EndTokens, settings_of, steps_of, stops_of
from ouroboros_core.sampling import Sampling, process, softmax
from ouroboros_core.trace.trace import Step

UNSET: Any = object()
"""The default of an argument with two names."""


@dataclass(frozen=True)
class LogitsProcessor:
    """The choice of a token; filters apply in this order: temperature, top-k, top-p."""

    temperature: float = 1.0

    def sampling(self, seed: int) -> Sampling:
        """Return this project's equivalent settings."""
        names = ("temperature", "top_k", "top_p")
        values = {name: getattr(self, name) for name in names if hasattr(self, name)}
        made = Sampling.parse({**values, "seed": seed, "acceptance": "rejection"})
        if made.temperature == 0:
            raise InvalidInput(
                "temperature must be above 0 here, got 0: for greedy decoding use GreedyProcessor()"
            )
        return made

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Return probabilities of logits [..., vocabulary], which stay unchanged."""
        rows = logits.detach().double().cpu().reshape(-1, logits.shape[-1])
        filtered = [process(row.numpy(), self.sampling(0)) for row in rows]
        probabilities = torch.stack([torch.from_numpy(softmax(row)) for row in filtered])
        return probabilities.reshape(logits.shape).to(logits.device, torch.float32)

    def sample(self, probs: torch.Tensor) -> torch.Tensor:
        """Draw a token [..., 1] from probabilities [..., vocabulary]."""
        drawn = torch.multinomial(probs.reshape(-1, probs.shape[-1]), 1)
        return drawn.reshape(*probs.shape[:-1], 1)


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
    """Decode a list of token ids plainly, and return at most max_gen_len new tokens.

    eos_tokens_id, or end_tokens_id as in the reference's README, ends the text and is its last
    token. pad_token_id and use_cache have no effect: nothing is padded, and there is always a
    cache. debug prints the ids step by step. Sampling draws its seed from torch's generator, so
    that torch.manual_seed makes it repeat.
    """
    stops = stops_of(eos_tokens_id if end_tokens_id is UNSET else end_tokens_id)
    settings, sampling = settings_of(methods.PLAIN, {}), _sampling(logits_processor)
    models = (model, None)
    new: list[int] = []
    for step in steps_of(methods.PLAIN, settings, *models, inputs, max_gen_len, sampling, stops):
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
    """Decode speculatively with rejection sampling, and return at most max_gen_len new tokens and
    the acceptance rate.

    The rate is the reference's: accepted draft tokens / draft tokens, including draft tokens after
    a rejection (`trace.metrics.proposal_acceptance_rate`); 0 without draft tokens. Arguments are
    those of `autoregressive_generate`. first_target has no effect. skip_sample_adjustment would
    change the distribution, and is refused. debug prints each step: accepted drafts green, rejected
    drafts red, the target's token blue.
    """
    if skip_sample_adjustment:
        raise InvalidInput(
            "skip_sample_adjustment=True would change the target's distribution; leave it False"
        )
    settings = settings_of("speculative", {}, gamma=gamma)
    stops = stops_of(eos_tokens_id if end_tokens_id is UNSET else end_tokens_id)
    models, sampling = (target, drafter), _sampling(logits_processor)
    new: list[int] = []
    accepted = drafted = 0
    for step in steps_of("speculative", settings, *models, inputs, max_gen_len, sampling, stops):
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
        style = "green" if node in step.path else "red strike"
        line.append(word(step.tree.tokens[node]), style=style)
    if step.target_token is not None:
        line.append(word(step.target_token), style="blue")
    Console(highlight=False).print(line)


def _sampling(processor: LogitsProcessor) -> Sampling:
    """Return the settings of a processor with a seed from torch's generator."""
    if type(processor).__call__ not in (LogitsProcessor.__call__, GreedyProcessor.__call__):
        raise InvalidInput(
            f"{type(processor).__name__} has its own __call__, which cannot be carried over: use "
            "GreedyProcessor, MultinomialProcessor, TopKProcessor, NucleusProcessor or "
            "TopKNucleusProcessor"
        )
    return processor.sampling(int(torch.randint(2**32, (1,), dtype=torch.int64)))
