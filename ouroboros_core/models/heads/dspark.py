"""A block drafter: a few layers guess several tokens in one pass, and a small matrix product makes
each place depend on the token before it (DSpark, arXiv 2607.05147, on a drafter like DFlash, arXiv
2602.06036).

It reads the text as an EAGLE-3 head does: a row for each token joins the target's states and the
embedding of the next token. Every layer takes its keys and values of the text from these rows. The
last of them and learned masks, one for each further place, are the block. A place sees the text and
the places before it, in every layer, but no drafted token. The target's output matrix makes logits
U_k of the block's states. They are marginals: a place does not know what was chosen before it. The
correction adds B A e(x) to U_k, where e(x) is the embedding of the token before place k. It needs
no pass. A confidence for each place estimates how likely its token will be accepted, from the
place's state and the token before it, never from the token itself.

DFlash's places see each other both ways, and its rows of the text hold no embeddings. With rows
like EAGLE's, training can begin with an EAGLE-3 head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel

from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.passes import draft_decoder, draft_product
from ouroboros_core.models.forward import TorchEvaluation
from ouroboros_core.models.heads.eagle import head_input
from ouroboros_core.models.heads.head import (
    Head,
    HeadConfig,
    HeadDrafter,
    check_context,
    projection,
    scored_outputs,
)
from ouroboros_core.models.heads.layer import (
    LayerConfig,
    layer_modules,
    matrix,
    own_rows,
    products,
)
from ouroboros_core.models.heads.recipes import DSparkRecipe, HeadRecipe
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.tree import Evaluation, TokenTree

_MODULES = {
    **{name: f"self_attn.{name[0]}_proj" for name in ("query", "key", "value", "out")},
    **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    "norm_own": "input_layernorm",
    "norm_middle": "post_attention_layernorm",
}
"""The name of each module in a layer of transformers' Llama."""
_EAGLE_NAMES = {
    f"body.layers.0.{module}.weight": f"layers.0.{name}.weight" for name, module in _MODULES.items()
} | {"body.norm.weight": "norm_last.weight"}
"""The names of an EAGLE head's weights here, where they differ."""


@dataclass(frozen=True)
class DSparkConfig(LayerConfig):
    """Sizes of the drafter.

    layers  number of layers
    block   tokens of one pass
    rank    of the correction by the token before; 0: no correction
    depths  layers of the target after which its states are read, beside the last layer
    """

    layers: int
    block: int
    rank: int
    depths: tuple[int, ...]


class DSparkHead(Head):
    """The weights of the layers, the joining matrices, the masks, the correction, and the
    confidence."""

    Recipe: ClassVar[type[HeadRecipe]] = DSparkRecipe
    Config: ClassVar[type[HeadConfig]] = DSparkConfig
    by_output = frozenset({"correction.weight"})
    config: Any
    """A DSparkConfig, or another with its fields."""
    estimates: ClassVar[bool] = True
    """Whether it has a confidence."""

    def __init__(self, config: Any, outputs: Sequence[int]) -> None:
        super().__init__(config, outputs)
        width = config.width
        self.deeper: nn.Linear | None = None
        if config.depths:
            self.deeper = matrix(width * len(config.depths), width)
            nn.init.zeros_(self.deeper.weight)
        self.join = matrix(width + config.embedding, width)
        self.masks = nn.Parameter(0.02 * torch.randn(config.block - 1, width))
        self.layers = nn.ModuleList(
            nn.ModuleDict(layer_modules(config)) for _ in range(config.layers)
        )
        self.norm_last = nn.RMSNorm(width, config.eps)
        self.confidence: nn.Linear | None = None
        if self.estimates:
            self.confidence = nn.Linear(width + config.rank, 1)
        if config.rank:
            self.before = matrix(config.embedding, config.rank)
            self.correction = matrix(config.rank, len(outputs))
            nn.init.zeros_(self.correction.weight)

    @property
    def shape(self) -> str:
        config = self.config
        layers = "one layer" if config.layers == 1 else f"{config.layers} layers"
        correction = f", a correction of rank {config.rank}" if config.rank else ""
        return (
            f"{layers} of width {config.width}, {config.block} tokens in one pass{correction}, "
            f"{super().shape}; embeddings and output matrix are the target's"
        )

    def renamed(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Rename the weights of an EAGLE head, which becomes the first layer. All others stay as
        they are."""
        if not _EAGLE_NAMES.keys() <= state.keys():
            return state
        untrained = {name: value.detach() for name, value in self.stored.items()}
        return {**untrained, **{_EAGLE_NAMES.get(name, name): state[name] for name in state}}


def joined_rows(
    config: Any,
    join: Callable[[torch.Tensor], torch.Tensor],
    deeper: Callable[[torch.Tensor], torch.Tensor] | None,
    features: torch.Tensor,
    following: torch.Tensor,
) -> torch.Tensor:
    """Return the layers' inputs [..., rows, width] for the text.

    features   [..., rows, width * (1 + depths)], the target's
    following  embeddings [..., rows, embedding] of the token after each
    """
    state = head_input(features, config, deeper)
    return join(torch.cat([state, following.to(state.dtype)], -1))


def _llama(head: DSparkHead) -> LlamaModel:
    """Return the layers and the last norm as a model of the Llama family, which shares the
    weights."""
    config = head.config
    body = LlamaModel(
        LlamaConfig(
            vocab_size=1,
            hidden_size=config.width,
            intermediate_size=config.intermediate,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.key_value_heads,
            max_position_embeddings=1 << 20,
            rms_norm_eps=config.eps,
            pad_token_id=None,
            bos_token_id=None,
            eos_token_id=None,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            attn_implementation="sdpa",
        )
    )
    body.norm.weight = head.norm_last.weight
    layers: list[Any] = [*head.layers]
    for layer, modules in zip(body.layers, layers, strict=True):
        for name, module in modules.items():
            layer.get_submodule(_MODULES[name]).weight = module.weight
    body.rotary_emb.to(head.device)
    return body


class BlockEvaluation(TorchEvaluation):
    """Outputs after the nodes of a tree, all from one pass; none after a node of depth `block` or
    deeper."""

    marginals: torch.Tensor
    """Logits [block, outputs] of each place, before the correction."""
    states: torch.Tensor
    """States [block, width] of each place."""
    estimate: Callable[[torch.Tensor, int], float]
    """The confidence for a state [width] of a place and the token before it."""

    def acceptance(self, node: int) -> float:
        """Return the probability that the target accepts the token after a node, as the head
        estimates it before the token is chosen."""
        return self.estimate(self.states[self.tree.depths[node]], self.tree.tokens[node])


class DSparkDrafter(HeadDrafter):
    """The drafter of one target. It remembers its keys and values of the text."""

    weights = DSparkHead

    def __init__(self, head: DSparkHead, target: CausalLM, name: str = "") -> None:
        self._head, self._config = head, head.config
        super().__init__(head, target, name or head.Recipe.kind)
        config, engine = head.config, target.engine
        target.keep_features(config.depths)
        self.block: int = config.block
        joining = {"deeper": head.deeper, "join": head.join}
        joining = {name: module for name, module in joining.items() if module is not None}
        self._maps = products(joining, engine, config.eps)
        layers: list[Any] = [*head.layers]
        of_text = ("norm_own", "key", "value")
        self._layers = [
            products({name: layer[name] for name in of_text}, engine, config.eps)
            for layer in layers
        ]
        self._body = draft_decoder(engine, _llama(head))
        self._embed = target.model.get_input_embeddings()
        self._outputs = scored_outputs(head, target)
        self._project = projection(target, self._outputs)
        columns = torch.searchsorted(head.outputs.long(), self._outputs)
        self._narrow = self._correction = None
        if config.rank:
            self._narrow = draft_product(engine, head.before.weight)
            self._correction = draft_product(engine, head.correction.weight.detach()[columns])

    def reset(self) -> None:
        self._cache = TreeCache(self._config.layers)
        self.forget()

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens + self._config.block)

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> BlockEvaluation:
        context = tuple(context)
        check_context(context, tree)
        states = self._pass(context, self.rows_for(tree))
        return self._corrected(context, tree, self._project(states), states, None)

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> BlockEvaluation:
        """Correct the places of the new nodes, without a pass if the block is complete."""
        assert isinstance(evaluation, BlockEvaluation)
        assert tree.begins_with(evaluation.tree), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        marginals, states = evaluation.marginals, evaluation.states
        if self.rows_for(tree) > len(marginals):
            return self.evaluate(evaluation.context, tree)
        return self._corrected(evaluation.context, tree, marginals, states, evaluation)

    def _corrected(
        self,
        context: tuple[int, ...],
        tree: TokenTree,
        marginals: torch.Tensor,
        states: torch.Tensor,
        earlier: BlockEvaluation | None,
    ) -> BlockEvaluation:
        """Return the outputs after every node of a tree that begins with the one of `earlier`."""
        nodes = [node for node, depth in enumerate(tree.depths) if depth < len(marginals)]
        fresh = nodes[0 if earlier is None else len(earlier.all_logits) :]
        depths = [tree.depths[node] for node in fresh]
        logits = marginals[depths]
        if self._correction is not None:
            logits = logits + self._correction(self._before([tree.tokens[node] for node in fresh]))
        if earlier is not None:
            logits = torch.cat([earlier.all_logits, logits])
        evaluation = BlockEvaluation(
            logits, nodes, tree, self._outputs, self.vocabulary, context, wants_confidence=True
        )
        evaluation.marginals, evaluation.states = marginals, states
        evaluation.estimate = self._estimate
        return evaluation

    def _before(self, tokens: list[int]) -> torch.Tensor:
        """Return the correction's inputs [tokens, rank]."""
        assert self._narrow is not None
        ids = torch.tensor(tokens, dtype=torch.long, device=self._embed.weight.device)
        return self._narrow(self._embed(ids)).to(self._head.device)

    @torch.inference_mode()
    def _estimate(self, state: torch.Tensor, token: int) -> float:
        """Return the confidence for a state [width] of a place and the token before it."""
        assert self._head.confidence is not None, "a parallel drafter has none"
        row = state[None]
        if self._narrow is not None:
            row = torch.cat([row, self._before([token])], -1)
        return float(self._head.confidence(row).float().sigmoid())

    def rows_for(self, tree: TokenTree) -> int:
        """Return the number of rows to compute for a tree: all, as it may be extended."""
        return self.block

    def _pass(self, context: tuple[int, ...], count: int) -> torch.Tensor:
        """Read the new part of the text, and return the states [count, width] of the block's
        first places."""
        features = self.target.features(context, self._config.depths).to(self._head.device)
        # Row n joins the states of token n and the embedding of token n + 1.
        last = len(context) - 2
        first = min(max(0, self._common_length(context) - 1), self._cache.get_seq_length(), last)
        self._tokens = ()
        self._cache.keep(first)
        self._cache.reserve(last + count)
        for start in range(first, last, PREFILL_CHUNK):
            stop = min(start + PREFILL_CHUNK, last)
            text = self._joined(features, context, start, stop)
            positions = torch.arange(start, stop, device=text.device)
            for layer, maps in zip(self._cache.layers, self._layers, strict=True):
                layer.update(*own_rows(self._config, maps, text, positions))
        root = self._joined(features, context, last, last + 1)
        x = torch.cat([root[0], self._head.masks[: count - 1]])
        positions = torch.arange(last, last + count, device=x.device)
        self.passes += 1
        self.rows += count
        states, _ = self._body.run(Rows(x, positions, self._cache.capacity, None), self._cache)
        self._cache.keep(last)
        self._tokens = context
        return states

    def _joined(
        self, features: torch.Tensor, context: tuple[int, ...], start: int, stop: int
    ) -> torch.Tensor:
        """Return the layers' inputs [1, rows, width] from position `start` to `stop`."""
        tokens = torch.tensor(context[start + 1 : stop + 1], device=self._embed.weight.device)
        following = self._embed(tokens).to(features.device)[None]
        maps = self._maps
        return joined_rows(
            self._config, maps["join"], maps.get("deeper"), features[None, start:stop], following
        )
