"""The EAGLE head: one decoder layer that continues the target's own features, and the tree it
drafts.

A feature is the target's last hidden state at a position, from which its output matrix makes
logits. The head takes the feature at position i and the token at i + 1, and guesses the feature at
i + 1 (EAGLE, arXiv 2401.15077, section 4.1); embeddings and output matrix are the target's. It
continues from its own guesses, and grows a tree from the nodes of the highest cumulative
probability (EAGLE-2, arXiv 2406.16858, section 4). A feature can also hold states from between the
target's layers, which a matrix of the head adds to the last one (EAGLE-3, arXiv 2503.01840, section
3.1).

Heads that are trained here are built like this. A `Layout` describes published heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaModel

from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import Product, Rows, norm
from ouroboros_core.models.engines.passes import draft_decoder, draft_product
from ouroboros_core.models.forward import TorchEvaluation
from ouroboros_core.models.heads.head import Head, HeadConfig, HeadDrafter, check_context
from ouroboros_core.models.heads.layer import LayerConfig
from ouroboros_core.models.heads.recipes import EagleRecipe
from ouroboros_core.tree import Evaluation, TokenTree, TreeBuilder


@dataclass(frozen=True)
class EagleConfig(HeadConfig):
    """Sizes of an EAGLE head.

    embedding  width of the target's token embeddings
    eps        of the norms
    depths     layers of the target after which the head reads its states, beside the last layer
    """

    embedding: int
    intermediate: int
    heads: int
    key_value_heads: int
    rope_theta: float = 10_000.0
    eps: float = 1e-6
    depths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The modules of a head. The defaults describe the heads that are trained here.

    joined_norms     whether state and embedding are normalised before the matrix that joins them
                     (multi-token prediction)
    separate         no matrix joins state and embedding: each has its own norm, and the layer's
                     queries, keys and values are made of both, the embedding first. The head
                     reads a matrix product of the states from between the target's layers,
                     without the last state (EAGLE-3)
    between          width of each of these states, if it is not the head's width
    state_norms      norms of these states before their product: one for each, or one for all of
                     them side by side; 0: none (EAGLE 3.1 and gpt-oss's heads)
    input_norm       whether there is a norm before the layer's attention
    residual_norm    this norm is also before the layer's residual: the layer itself has none
    query_norm       whether queries and keys are normalised, as in Qwen3
    last_norm        use of the norm after the layer: for the guessed features and the logits, for
                     the logits only, or there is no norm
    bias             of the joining matrix, or of the matrix over the states
    attention_bias   of queries, keys and values
    attention_width  of one of the layer's attention heads, if it is not width / heads
    rope             transformers' `rope_parameters`, if they have more than a base
    own_outputs      whether the head has its own output matrix, with a row for each output
    own_tokens       rows of the head's own embedding matrix; 0: it is the target's matrix
    """

    joined_norms: bool = False
    separate: bool = False
    between: int | None = None
    state_norms: int = 0
    input_norm: bool = True
    residual_norm: bool = False
    query_norm: bool = False
    last_norm: Literal["features", "logits", "none"] = "features"
    bias: bool = False
    attention_bias: bool = False
    attention_width: int | None = None
    rope: dict[str, Any] | None = None
    own_outputs: bool = False
    own_tokens: int = 0


OWN = Layout()
"""The layout of the EAGLE heads that are trained here."""


def _body(config: EagleConfig, layout: Layout) -> LlamaConfig:
    """Return the configuration of the layer."""
    return LlamaConfig(
        vocab_size=1,
        hidden_size=config.width,
        intermediate_size=config.intermediate,
        num_hidden_layers=1,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
        head_dim=layout.attention_width or config.width // config.heads,
        max_position_embeddings=1 << 20,
        rms_norm_eps=config.eps,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        rope_parameters=layout.rope or {"rope_type": "default", "rope_theta": config.rope_theta},
        attn_implementation="sdpa",
    )


class EagleHead(Head):
    """A matrix that joins feature and embedding, and one Llama layer with its norm; or the modules
    of another layout."""

    Recipe, Config, Own = EagleRecipe, EagleConfig, OWN
    config: EagleConfig

    def __init__(
        self, config: EagleConfig, outputs: Sequence[int], layout: Layout | None = None
    ) -> None:
        """outputs: the token ids that the head can draft. layout: None for a head that is trained
        here."""
        super().__init__(config, outputs)
        self.layout = layout = layout or self.Own
        width, states = config.width, len(config.depths) * (layout.between or config.width)
        self.join: nn.Linear | None = None
        if not layout.separate:
            self.join = nn.Linear(width + config.embedding, width, bias=layout.bias)
        self.deeper: nn.Linear | None = None
        if config.depths:
            self.deeper = nn.Linear(states, width, bias=layout.bias and layout.separate)
            nn.init.zeros_(self.deeper.weight)
        self.body = LlamaModel(_body(config, layout))
        self.body.embed_tokens.requires_grad_(False)  # never used: inputs are vectors
        self.joined_norms = nn.ModuleList()
        self.state_norms = nn.ModuleList()
        self.embedding_norm: nn.RMSNorm | None = None
        self.residual_norm: nn.RMSNorm | None = None
        self.last_norm: nn.RMSNorm | None = None
        self.output: nn.Linear | None = None
        self.embedding: nn.Embedding | None = None
        if layout != OWN:
            self._lay_out(width, len(outputs))

    def _lay_out(self, width: int, outputs: int) -> None:
        layout, layer = self.layout, self.body.layers[0]
        if layout.separate or layout.attention_bias:
            inputs = width + (self.config.embedding if layout.separate else 0)
            for name in ("q_proj", "k_proj", "v_proj"):
                rows = getattr(layer.self_attn, name).out_features
                setattr(layer.self_attn, name, nn.Linear(inputs, rows, bias=layout.attention_bias))
        self._lay_out_norms(width, layer, self.config.eps)
        if layout.own_outputs:
            self.output = nn.Linear(width, outputs, bias=False)
        if layout.own_tokens:
            self.embedding = nn.Embedding(layout.own_tokens, self.config.embedding)

    def _lay_out_norms(self, width: int, layer: Any, eps: float) -> None:
        layout, embedding = self.layout, self.config.embedding
        if layout.joined_norms:
            self.joined_norms.extend(nn.RMSNorm(size, eps) for size in (width, embedding))
        if layout.separate:
            self.embedding_norm = nn.RMSNorm(embedding, eps)
        if layout.state_norms:
            assert self.deeper is not None
            each = self.deeper.in_features // layout.state_norms
            self.state_norms.extend(nn.RMSNorm(each, eps) for _ in range(layout.state_norms))
        if layout.query_norm:
            for name in ("q_norm", "k_norm"):
                setattr(layer.self_attn, name, nn.RMSNorm(layer.self_attn.head_dim, eps))
        if layout.residual_norm:
            self.residual_norm = nn.RMSNorm(width, eps)
        if not layout.input_norm or layout.residual_norm:
            layer.input_layernorm = nn.Identity()
        if layout.last_norm != "features":
            self.body.norm = nn.Identity()
        if layout.last_norm == "logits":
            self.last_norm = nn.RMSNorm(width, eps)

    @property
    def stored(self) -> dict[str, torch.Tensor]:
        return {
            name: value for name, value in self.state_dict().items() if "embed_tokens" not in name
        }

    @property
    def shape(self) -> str:
        return f"one layer of width {self.config.width}, {super().shape}"

    def save(self, folder: Path, bits: int = 16) -> None:
        assert self.layout == self.Own, "published layouts are only read"
        super().save(folder, bits)


def beside(
    features: torch.Tensor, embedded: torch.Tensor, norms: Iterable[Callable[..., torch.Tensor]]
) -> torch.Tensor:
    """Return features and embeddings side by side, each after its norm if there are any."""
    pair = features, embedded
    normed = [norm(x) for norm, x in zip(norms, pair, strict=True)] if norms else pair
    return torch.cat([*normed], dim=-1)


def head_input(
    features: torch.Tensor,
    config: EagleConfig | LayerConfig,
    deeper: Callable[[torch.Tensor], torch.Tensor] | None,
) -> torch.Tensor:
    """Return the input [..., width] of the head for features [..., width * (1 + depths)]: the sum
    of the last hidden state and of `deeper` of the other states, each divided by its size."""
    last = features[..., : config.width]
    if deeper is None:
        return last
    shape = (*features.shape[:-1], -1, config.width)
    between = features[..., config.width :].reshape(shape)
    between = F.rms_norm(between, (config.width,), eps=config.eps)
    return last + deeper(between.flatten(-2))


class HeadEvaluation(TorchEvaluation):
    """Outputs after nodes that the head can extend: their rows follow the rows of the context in
    the head's cache."""

    features: torch.Tensor
    """[nodes, width], guessed after each node."""


def _norm(module: nn.RMSNorm, config: EagleConfig) -> Product:
    return norm(module.weight, config.eps)


class EagleDrafter(HeadDrafter):
    """An EAGLE head of one target as a Drafter. It remembers the rows of the context that it has
    read."""

    weights = EagleHead
    _depths: tuple[int, ...] = ()

    def __init__(self, head: EagleHead, target: CausalLM, name: str = "") -> None:
        super().__init__(head, target, name or head.Recipe.kind)
        target.keep_features(head.config.depths)
        self.head, self._depths = head, head.config.depths
        engine = target.engine
        self._ids = head.outputs.long()
        self._project = self._projection()
        # The frequencies are not weights: in half precision the angles would be wrong.
        rope = type(head.body.rotary_emb)(config=head.body.config)
        head.body.rotary_emb = rope.to(head.device)
        self._embed = head.embedding or target.model.get_input_embeddings()
        self._join = (
            None if head.join is None else draft_product(engine, head.join.weight, head.join.bias)
        )
        self._deeper = (
            None
            if head.deeper is None
            else draft_product(engine, head.deeper.weight, head.deeper.bias)
        )
        self._norm_embedding = (
            None if head.embedding_norm is None else _norm(head.embedding_norm, head.config)
        )
        self._norm_residual = (
            None if head.residual_norm is None else _norm(head.residual_norm, head.config)
        )
        self._norms_joined = [_norm(cast(nn.RMSNorm, n), head.config) for n in head.joined_norms]
        self._norm_states = [_norm(cast(nn.RMSNorm, n), head.config) for n in head.state_norms]
        self._body = draft_decoder(engine, head.body)
        drafted = int((self._ids < self.vocabulary).sum())
        self._drafted = slice(drafted)  # the token ids that the target also scores
        self._outputs = None if drafted == self.vocabulary else self._ids[:drafted]

    def _projection(self) -> Product:
        """Return the map of the layer's outputs [rows, width] to logits of the head's token ids."""
        head, engine = self.head, self.target.engine
        if head.output is not None:
            project = draft_product(engine, head.output.weight)
        else:
            output = self.target.model.get_output_embeddings()
            rows: Any = self._ids.to(output.weight.device)
            if len(rows) == rows[-1] + 1:  # a slice of all first rows makes no copy
                rows = slice(len(rows))
            bias = None if output.bias is None else output.bias.detach()[rows].to(head.device)
            project = draft_product(engine, output.weight.detach()[rows].to(head.device), bias)
        if head.last_norm is None:
            return project
        last = _norm(head.last_norm, head.config)
        return lambda x: project(last(x))

    def _logits(self, guessed: torch.Tensor) -> torch.Tensor:
        """Return logits of the layer's outputs [rows, width], for token ids that the target also
        scores."""
        return self._project(guessed)[:, self._drafted]

    def forget(self) -> None:
        super().forget()
        self._latest: HeadEvaluation | None = None

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> HeadEvaluation:
        context = tuple(context)
        check_context(context, tree)
        root = TreeBuilder(context[-1]).build()
        guessed = self._read(context)
        self.rows += 1
        logits = self._logits(guessed)
        where = [0], root, self._outputs, self.vocabulary, context
        evaluation = HeadEvaluation(logits, *where, wants_confidence=True)
        evaluation.features = guessed
        self._latest = evaluation
        return self.extend(evaluation, tree)

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> HeadEvaluation:
        """Make one pass for each level of new nodes. The input of a node has the feature that was
        guessed after its parent."""
        assert isinstance(evaluation, HeadEvaluation)
        assert tree.begins_with(evaluation.tree), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        if evaluation is not self._latest and len(tree) > len(evaluation.tree):
            return self.evaluate(evaluation.context, tree)
        while len(evaluation.tree) < len(tree):
            first = len(evaluation.tree)
            level = next(
                (n for n in range(first, len(tree)) if tree.parents[n] >= first), len(tree)
            )
            evaluation = self._level(evaluation, tree.first(level))
        self._latest = evaluation
        return evaluation

    def _level(self, evaluation: HeadEvaluation, tree: TokenTree) -> HeadEvaluation:
        """Evaluate new nodes, which are children of evaluated ones."""
        base, first = len(evaluation.context) - 1, len(evaluation.tree)
        fresh = list(range(first, len(tree)))
        features = evaluation.features[[tree.parents[node] for node in fresh]]
        # The root has the last row of the context, node n row base + n - 1.
        positions = torch.tensor(
            [base + tree.depths[node] - 1 for node in fresh], device=features.device
        )
        sees = tree.ancestors[first:, 1:]
        guessed = self._pass(features, [tree.tokens[node] for node in fresh], positions, sees)
        self.rows += len(fresh)
        extended = HeadEvaluation(
            torch.cat([evaluation.all_logits, self._logits(guessed)]),
            range(len(tree)),
            tree,
            self._outputs,
            self.vocabulary,
            evaluation.context,
            wants_confidence=True,
        )
        extended.features = torch.cat([evaluation.features, guessed])
        return extended

    def _read(self, tokens: tuple[int, ...]) -> torch.Tensor:
        """Read the context, and return the feature [1, width] that the head guesses after it."""
        features = self.target.features(tokens, self._depths).to(self.head.device)
        start_row = min(max(0, self._common_length(tokens) - 1), len(tokens) - 2)
        self._cache.keep(start_row)
        self._tokens, self._latest = (), None
        guessed = features[:0]
        for start in range(start_row, len(tokens) - 1, PREFILL_CHUNK):
            stop = min(start + PREFILL_CHUNK, len(tokens) - 1)
            positions = torch.arange(start, stop, device=features.device)
            inputs = self._inputs(features[start:stop])
            guessed = self._pass(inputs, list(tokens[start + 1 : stop + 1]), positions, None)
        self._tokens = tokens
        return guessed[-1:]

    def _inputs(self, features: torch.Tensor) -> torch.Tensor:
        """Return the head's inputs [rows, width] for the target's features."""
        if not self.head.layout.separate:
            return head_input(features, self.head.config, self._deeper)
        assert self._deeper is not None
        states = features[:, features.shape[1] // (1 + len(self.head.config.depths)) :]
        if self._norm_states:
            parts = states.chunk(len(self._norm_states), -1)
            states = torch.cat([n(x) for n, x in zip(self._norm_states, parts, strict=True)], -1)
        return self._deeper(states)

    def _pass(
        self,
        features: torch.Tensor,
        tokens: list[int],
        positions: torch.Tensor,
        sees: npt.NDArray[np.bool_] | None,
    ) -> torch.Tensor:
        self._cache.reserve(self._cache.get_seq_length() + len(tokens))
        embedded = self._embed(torch.tensor(tokens, device=features.device))
        self.passes += 1
        normed = None
        if self._join is not None:
            features = self._join(beside(features, embedded, self._norms_joined))
        else:
            assert self._norm_embedding is not None
            normed = self._norm_embedding(embedded)
        if self._norm_residual is not None:
            features = self._norm_residual(features)
        capacity = self._cache.capacity
        rows = Rows(features, positions, capacity, sees, beside=normed)
        guessed, _ = self._body.run(rows, self._cache)
        return guessed
