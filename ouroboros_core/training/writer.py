"""Continue many texts at once with the target, to write conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from transformers import AttentionInterface, PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.chat_template import ChatTemplate
from ouroboros_core.loading.weights import stop_tokens
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.tree import until_stop


@dataclass(frozen=True)
class Choice:
    """The choice of the next token: greedy at temperature 0, otherwise among the `top_k`
    likeliest."""

    temperature: float = 0.0
    top_k: int = 50


ASKING = Choice(1.0, 100)
ANSWERING = Choice(0.8, 50)
GREEDY = Choice()


def _grouped(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention. A single new row of each text reads keys and values once for all heads
    that share them.

    query [texts, heads, rows, width], key and value [texts, shared heads, length, width].
    """
    texts, heads, rows, width = query.shape
    shared = key.shape[1]
    if rows > 1:
        key, value = (x.repeat_interleave(heads // shared, 1) for x in (key, value))
    else:
        query = query.reshape(texts, shared, heads // shared, width)
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=options.get("scaling")
    )
    return mixed.reshape(texts, heads, rows, width).transpose(1, 2).contiguous(), None


AttentionInterface.register("grouped", _grouped)


class Writer:
    """Continues many texts at once; the model's own `generate` copies its whole cache at every
    token."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises InvalidInput for a tokenizer without a chat template."""
        if not getattr(tokenizer, "chat_template", None):
            raise InvalidInput(
                "the target's tokenizer has no chat template, so it cannot write conversations: "
                "train with --texts"
            )
        self.model, self.tokenizer = model.eval(), tokenizer
        model.set_attn_implementation("grouped")
        self.stop = stop_tokens(model, tokenizer)
        self.before, self.after = ChatTemplate(tokenizer).around

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False).input_ids
        return ids

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[Sequence[int]],
        longest: int,
        choice: Choice,
        generator: torch.Generator,
    ) -> list[list[int]]:
        """Return up to `longest` tokens after each prompt, with a stop token at the end."""
        width = max(map(len, prompts))
        device = self.model.device
        ids = torch.zeros(len(prompts), width, dtype=torch.long)
        real = torch.zeros(len(prompts), width + longest, dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            real[row, width - len(prompt) :] = True
        ids, real = ids.to(device), real.to(device)
        lowest = torch.finfo(self.model.dtype).min
        cache = TreeCache(self.model.config.num_hidden_layers)
        cache.reserve(width + longest)
        alive = list(range(len(prompts)))
        texts: list[list[int]] = [[] for _ in prompts]
        ended: set[int] = set()
        positions = (real[:, :width].cumsum(1) - 1).clamp_(min=0)
        causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=device)
        sees = causal & real[:, None, None, :width] | itself
        kept = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
        for count in range(longest):
            mask = torch.zeros(sees.shape, dtype=self.model.dtype, device=device)
            rows = {"attention_mask": mask.masked_fill_(~sees, lowest), "position_ids": positions}
            logits = self.model(input_ids=ids, **rows, **kept).logits[:, -1]
            tokens = _choose(logits, choice, generator)
            for row, token in zip(alive, tokens.tolist(), strict=True):
                texts[row].append(token)
                if token in self.stop:
                    ended.add(row)
            going = [n for n, row in enumerate(alive) if row not in ended]
            if not going:
                break
            ids, positions = tokens[:, None], positions[:, -1:] + 1
            if len(going) <= 0.8 * len(alive):
                keep = torch.tensor(going, device=device)
                ids, positions, real = ids[keep], positions[keep], real[keep]
                for layer in cache.layers:
                    layer.keys, layer.values = layer.keys[keep], layer.values[keep]
                alive = [alive[n] for n in going]
            sees = real[:, None, None, : width + count + 1]
        return [list(until_stop(text, self.stop)) for text in texts]


def _choose(logits: torch.Tensor, choice: Choice, generator: torch.Generator) -> torch.Tensor:
    """Return a token id for each row of logits [texts, vocabulary]."""
    if not choice.temperature:
        return logits.argmax(-1)
    top = logits.float().topk(min(choice.top_k, logits.shape[-1]))
    drawn = torch.multinomial(
        F.softmax(top.values / choice.temperature, -1).cpu(), 1, generator=generator
    )
    return top.indices.gather(1, drawn.to(logits.device))[:, 0]
