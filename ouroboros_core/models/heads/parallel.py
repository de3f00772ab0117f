"""A parallel drafter: one layer guesses several tokens in one pass, from mask tokens (ParallelSpec,
arXiv 2410.05589, section 3).

It reads the target like an EAGLE head: the last hidden state at a position and the embedding of the
next token, joined by a matrix. Mask tokens follow the last of these rows. They are learned vectors,
one for each further place: the last row guesses the next token, the first mask the token after it.
A mask sees the text and the masks before it, never a drafted token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.head import DepthDrafter
from ouroboros_core.models.heads.layer import LayerConfig, OneLayer, Rows, matrix, own_rows, states
from ouroboros_core.models.heads.recipes import ParallelRecipe


@dataclass(frozen=True)
class ParallelConfig(LayerConfig):
    """Sizes of the drafter.

    group  tokens of one pass, one more than masks
    """

    group: int


_LAYER = "body.layers.0."
EAGLE_NAMES = {
    **{name: f"{_LAYER}self_attn.{name[0]}_proj" for name in ("query", "key", "value", "out")},
    **{name: f"{_LAYER}mlp.{name}_proj" for name in ("gate", "up", "down")},
    "norm_own": _LAYER + "input_layernorm",
    "norm_middle": _LAYER + "post_attention_layernorm",
    "norm_last": "body.norm",
    "join": "join",
}
"""The name of each module in an EAGLE head."""


class ParallelHead(OneLayer):
    """The weights of the layer, the joining matrix, and the masks."""

    Recipe, Config = ParallelRecipe, ParallelConfig
    config: ParallelConfig

    def __init__(self, config: ParallelConfig, outputs: Sequence[int]) -> None:
        super().__init__(config, outputs)
        self.join = matrix(config.width + config.embedding, config.width)
        self.masks = nn.Parameter(0.02 * torch.randn(config.group - 1, config.width))

    @property
    def shape(self) -> str:
        return (
            f"one layer of width {self.config.width}, {self.config.group} tokens in one pass, "
            f"{super().shape}; embeddings and output matrix are the target's"
        )

    def renamed(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Rename the weights of an EAGLE head, which is a parallel drafter of one token. The masks
        stay as they are."""
        if EAGLE_NAMES["join"] + ".weight" not in state or "masks" in state:
            return state
        names = {f"{eagle}.weight": f"{name}.weight" for name, eagle in EAGLE_NAMES.items()}
        weights = {names.get(name, name): weight for name, weight in state.items()}
        return {**weights, "masks": self.masks.detach()}


class ParallelDrafter(DepthDrafter):
    """The drafter of one target. Outputs after a node depend on its depth only, because no row sees
    a drafted token. It remembers its keys and values of the text."""

    weights = ParallelHead

    def __init__(
        self, head: ParallelHead, target: CausalLM, name: str = ParallelRecipe.kind
    ) -> None:
        super().__init__(head, target, name)
        target.keep_features()
        self.group = head.config.group
        self._config, self._maps = head.config, head.products(target.engine)
        self._masks = head.masks.detach()
        self._embed = target.model.get_input_embeddings()

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens + self.group)

    @torch.inference_mode()
    def guesses(self, context: tuple[int, ...], levels: int) -> torch.Tensor:
        hidden = self.target.features(context)[:, : self._config.width]
        hidden = hidden.to(self._masks.device)
        # Row n joins the hidden state of token n and the embedding of token n + 1.
        last = len(context) - 2
        first = min(max(0, self._common_length(context) - 1), self._cache.get_seq_length(), last)
        self._tokens = ()
        self._cache.keep(first)
        while last - first > PREFILL_CHUNK:
            stop = first + PREFILL_CHUNK
            self._append(self._joined(hidden, context, first, stop), first)
            first = stop
        masks = self._masks[: min(levels, self.group) - 1]
        x = torch.cat([self._joined(hidden, context, first, last + 1), masks[None]], 1)
        rows, x = self._append(x, first), x[:, last - first :]
        positions = torch.arange(last + x.shape[1], device=x.device)
        sees = None if x.shape[1] == 1 else positions[None, :] <= positions[last:, None]
        self.passes += 1
        self.rows += x.shape[1]
        drafted = states(self._config, self._maps, x, positions[last:], rows, sees)
        self._cache.keep(last)
        self._tokens = context
        return drafted[0]

    def _joined(
        self, hidden: torch.Tensor, context: tuple[int, ...], start: int, stop: int
    ) -> torch.Tensor:
        """Return the layer's inputs [1, rows, width] from position `start` to `stop`."""
        tokens = torch.tensor([context[start + 1 : stop + 1]], device=self._embed.weight.device)
        embedded = self._embed(tokens).to(hidden.device)
        joined: torch.Tensor = self._maps["join"](
            torch.cat([hidden[None, start:stop], embedded], -1)
        )
        return joined

    def _append(self, x: torch.Tensor, start: int) -> Rows:
        """Add the rows of the layer's inputs, from position `start` on, to the cache, and return
        all rows."""
        self._cache.reserve(self._cache.get_seq_length() + x.shape[1])
        positions = torch.arange(start, start + x.shape[1], device=x.device)
        held: Rows = self._cache.layers[0].update(*own_rows(self._config, self._maps, x, positions))
        return held
