"""A GliDe draft: one small decoder layer that also attends to the target's own keys and values
(arXiv 2402.02082, section 3).

The target's embedding of a token passes through self-attention over the draft's tokens,
cross-attention to the keys and values of the text in the target's last layer, and an MLP; the
output matrix is the target's. The target has read the text without its last token, so that all
tokens of one draft see the same rows of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.forward import TorchEvaluation
from ouroboros_core.models.heads.head import (
    HeadDrafter,
    check_context,
    projection,
    scored_outputs,
)
from ouroboros_core.models.heads.layer import (
    LayerConfig,
    OneLayer,
    Rows,
    after_layer,
    attend,
    matrix,
    own_rows,
    split,
    turned,
)
from ouroboros_core.models.heads.recipes import GlideRecipe
from ouroboros_core.tree import Evaluation, TokenTree


@dataclass(frozen=True)
class GlideConfig(LayerConfig):
    """Sizes of the layer.

    memory_heads    number of keys of a token in the target's last layer
    memory_width    width of each of these keys
    memory_queries  heads of cross-attention
    block           tokens of a draft in training
    rotates         whether the target's keys are rotated, so that queries must be
    """

    memory_heads: int
    memory_width: int
    memory_queries: int
    block: int = 5
    rotates: bool = True


class GlideDraft(OneLayer):
    """The weights of the layer and of its cross-attention."""

    Recipe, Config = GlideRecipe, GlideConfig
    config: GlideConfig

    def __init__(self, config: GlideConfig, outputs: Sequence[int]) -> None:
        super().__init__(config, outputs)
        width, queries = config.width, config.memory_queries * config.memory_width
        self.enter = matrix(config.embedding, width) if config.embedding != width else None
        self.memory_query, self.memory_out = matrix(width, queries), matrix(queries, width)
        self.norm_cross = nn.RMSNorm(width, config.eps)

    @property
    def shape(self) -> str:
        return (
            f"one layer of width {self.config.width} with cross-attention, {super().shape}; "
            "embeddings and output matrix are the target's"
        )


def glance(
    config: GlideConfig,
    maps: Mapping[str, Any],
    x: torch.Tensor,
    positions: torch.Tensor,
    memory: Rows,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the sum that cross-attention adds to states [batch, rows, width] at `positions`.

    memory  the target's keys and values
    mask    [rows, held], True for the keys that a row sees; None: all
    """
    q = split(maps["memory_query"](maps["norm_cross"](x)), config.memory_queries)
    q = turned(q, positions, config.rope_theta) if config.rotates else q
    added: torch.Tensor = maps["memory_out"](attend(q, memory, mask))
    return added


class GlideDrafter(HeadDrafter):
    """A GliDe draft of one target as a Drafter. It remembers its keys and values of the text."""

    weights = GlideDraft

    def __init__(self, head: GlideDraft, target: CausalLM, name: str = GlideRecipe.kind) -> None:
        super().__init__(head, target, name)
        self._config, self._maps = head.config, head.products(target.engine)
        self._outputs = scored_outputs(head, target)
        self._project = projection(target, self._outputs)
        self._embed = target.model.get_input_embeddings()

    def forget(self) -> None:
        super().forget()
        self._latest: TorchEvaluation | None = None

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        context = tuple(context)
        check_context(context, tree)
        read = context[:-1]
        first = self._common_length(read)
        self._tokens, self._latest = (), None
        self._cache.keep(first)
        if first < len(read):
            self._append(self._embedded(read[first:]), torch.arange(first, len(read)))
        self._tokens = read
        nodes, logits = self._pass(context, tree, 0)
        where = (nodes, tree, self._outputs, self.vocabulary, context)
        self._latest = TorchEvaluation(logits, *where, wants_confidence=True)
        return self._latest

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> TorchEvaluation:
        """Make one pass for all new nodes."""
        assert isinstance(evaluation, TorchEvaluation)
        evaluated = evaluation.tree
        assert tree.begins_with(evaluated), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        if evaluation is not self._latest:
            return self.evaluate(evaluation.context, tree)
        if len(tree) > len(evaluated):
            nodes, logits = self._pass(evaluation.context, tree, len(evaluated))
            self._latest = evaluation.joined(logits, nodes, tree)
        return self._latest

    def _embedded(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return embeddings [1, tokens, width]."""
        weight = self._embed.weight
        x: torch.Tensor = self._embed(torch.tensor([list(tokens)], device=weight.device))
        enter = self._maps.get("enter")
        return x if enter is None else enter(x)

    def _append(self, x: torch.Tensor, positions: torch.Tensor) -> Rows:
        """Add the rows of embedded tokens to the cache, and return all rows."""
        self._cache.reserve(self._cache.get_seq_length() + x.shape[1])
        added = own_rows(self._config, self._maps, x, positions.to(x.device))
        held: Rows = self._cache.layers[0].update(*added)
        return held

    def _pass(
        self, context: tuple[int, ...], tree: TokenTree, first: int
    ) -> tuple[range, torch.Tensor]:
        """Return the nodes from `first` on, and their logits."""
        nodes, last = range(first, len(tree)), len(context) - 1
        x = self._embedded([tree.tokens[node] for node in nodes])
        positions = torch.tensor([last + tree.depths[node] for node in nodes], device=x.device)
        rows = self._append(x, positions)
        mask = None
        if not tree.ancestors[first:].all():
            mask = torch.ones(len(nodes), last + len(tree), dtype=torch.bool, device=x.device)
            mask[:, last:] = torch.from_numpy(tree.ancestors[first:]).to(x.device)
        keys, values = (tensor[None].to(x.device) for tensor in self.target.memory(context))
        self.passes += 1
        self.rows += len(nodes)
        cross = partial(
            glance, self._config, self._maps, positions=positions, memory=(keys, values)
        )
        drafted = after_layer(self._config, self._maps, x, positions, rows, mask, cross)
        drafted = self._maps["norm_last"](drafted)
        return nodes, self._project(drafted[0])
