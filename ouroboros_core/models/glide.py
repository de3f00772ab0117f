"""A GliDe draft: one small decoder layer that also attends to the target's own keys and values
(arXiv 2402.02082, section 3).

A token's embedding, the target's, passes through self-attention over the draft's own tokens,
cross-attention to the keys and values that the target's last layer has kept of the text, and an
MLP; the output matrix is the target's. The target has read the text but for its last token, so that
all tokens of one draft see the same rows of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ouroboros_core.interfaces import Evaluation
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.evaluation import TorchEvaluation
from ouroboros_core.models.fused import Product, norm, product
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.trained import TrainedConfig, TrainedHead, check_context, projection
from ouroboros_core.tree import TokenTree

Rows = tuple[torch.Tensor, torch.Tensor]
"""Keys and values [..., heads, rows, width of a head]."""


@dataclass(frozen=True)
class GlideConfig(TrainedConfig):
    """What the layer is made of.

    embedding     width of the target's token embeddings
    heads, key_value_heads  of self-attention
    memory_heads, memory_width  how many keys the target's last layer has for a token, and of what
                  width
    memory_queries  heads of cross-attention
    block         tokens that were drafted at once in training
    rope_theta    base of the rotary positions
    rotates       whether the target's keys are rotated, and queries to them have to be
    """

    embedding: int
    intermediate: int
    heads: int
    key_value_heads: int
    memory_heads: int
    memory_width: int
    memory_queries: int
    block: int = 5
    rope_theta: float = 10_000.0
    rotates: bool = True
    eps: float = 1e-6


class GlideDraft(TrainedHead):
    """The weights of the layer."""

    kind, called, Config = "glide", "a GliDe draft", GlideConfig
    config: GlideConfig

    def __init__(self, config: GlideConfig, outputs: Sequence[int]) -> None:
        super().__init__(config, outputs)
        width, each = config.width, config.width // config.heads
        shared, queries = config.key_value_heads * each, config.memory_queries * config.memory_width

        def matrix(given: int, made: int) -> nn.Linear:
            return nn.Linear(given, made, bias=False)

        self.enter = matrix(config.embedding, width) if config.embedding != width else None
        self.query, self.key = matrix(width, width), matrix(width, shared)
        self.value, self.out = matrix(width, shared), matrix(width, width)
        self.memory_query, self.memory_out = matrix(width, queries), matrix(queries, width)
        self.gate, self.up = (matrix(width, config.intermediate) for _ in range(2))
        self.down = matrix(config.intermediate, width)
        for name in ("own", "cross", "middle", "last"):
            setattr(self, f"norm_{name}", nn.RMSNorm(width, config.eps))

    @property
    def maps(self) -> dict[str, Any]:
        """The weights as functions, by name; for training."""
        return dict(self.named_children())

    def products(self) -> dict[str, Product]:
        """The same for drafting, laid out for the processor's matrix kernels."""
        eps = self.config.eps
        return {
            name: norm(module.weight, eps)
            if isinstance(module, nn.RMSNorm)
            else product(module.weight)
            for name, module in self.maps.items()
        }


def turned(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """x [..., rows, width] rotated by the positions [rows], first half against second half."""
    half = x.shape[-1] // 2
    steps = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angles = positions[:, None].float() / theta**steps
    cos, sin = (torch.cat([one, one], -1).to(x.dtype) for one in (angles.cos(), angles.sin()))
    first, second = x.split([half, x.shape[-1] - half], -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[..., rows, heads * width] as [..., heads, rows, width]."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def attend(q: torch.Tensor, rows: Rows, mask: torch.Tensor | None) -> torch.Tensor:
    """Mixed values [batch, rows, heads * width] of queries [batch, heads, rows, width], several of
    whose heads may share keys and values.

    mask [rows, held], True where a row may look.
    """
    batch, heads, count, width = q.shape
    shared = rows[0].shape[1]
    folded = q.reshape(batch, shared, -1, width)
    seen = None if mask is None else mask.repeat(heads // shared, 1)
    mixed = F.scaled_dot_product_attention(folded, *rows, attn_mask=seen)
    return mixed.reshape(batch, heads, count, width).transpose(1, 2).flatten(2)


def own_rows(
    config: GlideConfig, maps: Mapping[str, Any], x: torch.Tensor, positions: torch.Tensor
) -> Rows:
    """Keys and values of self-attention of embedded tokens [batch, rows, width]: those of a token
    depend on it and its position alone, because there is one layer."""
    seen = maps["norm_own"](x)
    keys = split(maps["key"](seen), config.key_value_heads)
    values = split(maps["value"](seen), config.key_value_heads)
    return turned(keys, positions, config.rope_theta), values


def states(
    config: GlideConfig,
    maps: Mapping[str, Any],
    x: torch.Tensor,
    positions: torch.Tensor,
    own: Rows,
    memory: Rows,
    masks: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None),
) -> torch.Tensor:
    """Normalised states [batch, rows, width] behind embedded tokens [batch, rows, width] at
    `positions`.

    own     keys and values of self-attention, those of these tokens among them
    memory  the target's keys and values
    masks   what each row sees of the two; None: everything
    """
    q = split(maps["query"](maps["norm_own"](x)), config.heads)
    x = x + maps["out"](attend(turned(q, positions, config.rope_theta), own, masks[0]))
    q = split(maps["memory_query"](maps["norm_cross"](x)), config.memory_queries)
    q = turned(q, positions, config.rope_theta) if config.rotates else q
    x = x + maps["memory_out"](attend(q, memory, masks[1]))
    seen = maps["norm_middle"](x)
    x = x + maps["down"](F.silu(maps["gate"](seen)) * maps["up"](seen))
    last: torch.Tensor = maps["norm_last"](x)
    return last


def flat(maps: Mapping[str, Product]) -> dict[str, Product]:
    """Products of rows [rows, width] for a batch of one."""

    def apply(one: Product) -> Product:
        return lambda x: one(x[0])[None]

    return {name: apply(one) for name, one in maps.items()}


class GlideDrafter:
    """The draft of one target as a Drafter; remembers its keys and values of the text."""

    def __init__(self, head: GlideDraft, target: CausalLM, name: str = "glide") -> None:
        self.target, self.name, self.passes = target, name, 0
        self._config, self._maps = head.config, flat(head.products())
        self._outputs = head.outputs.long()
        self._project = projection(target, self._outputs)
        self._embed = target.model.get_input_embeddings()
        self.reset()

    @property
    def vocabulary(self) -> int:
        vocabulary: int = self.target.vocabulary
        return vocabulary

    def reset(self) -> None:
        """Forget every token and give the cache's memory back."""
        self._cache = TreeCache(1)
        self.forget()

    def forget(self) -> None:
        """Drop what is remembered of earlier texts; keeps the memory."""
        self._tokens: tuple[int, ...] = ()
        self._latest: TorchEvaluation | None = None
        self._cache.keep(0)

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens)

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        """The draft's outputs after every node; the context has at least two tokens, since the
        target has read all but the last."""
        context = tuple(context)
        check_context(context, tree)
        read = context[:-1]
        pairs = zip(read, self._tokens, strict=False)
        short = min(len(read), len(self._tokens))
        held = next((n for n, (a, b) in enumerate(pairs) if a != b), short)
        self._tokens, self._latest = (), None
        self._cache.keep(held)
        if held < len(read):
            self._append(self._embedded(read[held:]), torch.arange(held, len(read)))
        self._tokens = read
        nodes, logits = self._pass(context, tree, 0)
        self._latest = TorchEvaluation(logits, nodes, tree, self._outputs, self.vocabulary, context)
        return self._latest

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> TorchEvaluation:
        """One pass for all new nodes."""
        assert isinstance(evaluation, TorchEvaluation)
        known = evaluation.tree
        assert tree.begins_with(known), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        if evaluation is not self._latest:
            return self.evaluate(evaluation.context, tree)
        if len(tree) > len(known):
            nodes, logits = self._pass(evaluation.context, tree, len(known))
            self._latest = evaluation.joined(logits, nodes, tree)
        return self._latest

    def _embedded(self, tokens: Sequence[int]) -> torch.Tensor:
        """[1, tokens, width]."""
        weight = self._embed.weight
        x: torch.Tensor = self._embed(torch.tensor([list(tokens)], device=weight.device))
        enter = self._maps.get("enter")
        return x if enter is None else enter(x)

    def _append(self, x: torch.Tensor, positions: torch.Tensor) -> Rows:
        """Add the rows of embedded tokens to the cache; all rows."""
        self._cache.reserve(self._cache.get_seq_length() + x.shape[1])
        added = own_rows(self._config, self._maps, x, positions.to(x.device))
        held: Rows = self._cache.layers[0].update(*added)
        return held

    def _pass(
        self, context: tuple[int, ...], tree: TokenTree, known: int
    ) -> tuple[range, torch.Tensor]:
        """The nodes from `known` on, and their logits."""
        nodes, last = range(known, len(tree)), len(context) - 1
        x = self._embedded([tree.tokens[node] for node in nodes])
        positions = torch.tensor([last + tree.depths[node] for node in nodes], device=x.device)
        own = self._append(x, positions)
        mask = None
        if not tree.ancestors[known:].all():
            mask = torch.ones(len(nodes), last + len(tree), dtype=torch.bool, device=x.device)
            mask[:, last:] = torch.from_numpy(tree.ancestors[known:]).to(x.device)
        keys, values = (part[None].to(x.device) for part in self.target.memory(context))
        self.passes += 1
        found = states(self._config, self._maps, x, positions, own, (keys, values), (mask, None))
        return nodes, self._project(found[0])
