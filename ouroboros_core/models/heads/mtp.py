"""Multi-token prediction: a layer joins the target's last hidden state and the next token, each
after its norm (DeepSeek-V3, arXiv 2412.19437, section 2.2).

DeepSeek-V3, GLM-4.5 and Qwen3-Next call the norms `hnorm` and `enorm` or `pre_fc_norm_...`, the
matrix `eh_proj` or `fc`, and the norm after the layer `shared_head.norm` or `norm`. Embeddings and
output matrix are the target's. The first module of a checkpoint predicts every place here: it
continues from its own normalised output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import additive
from ouroboros_core.models.heads.eagle import EagleDrafter, EagleHead, Layout
from ouroboros_core.models.heads.head import Head, HeadConfig, HeadDrafter
from ouroboros_core.models.heads.recipes import MTP, MtpRecipe


class MtpHead(EagleHead):
    """A head that was trained here; its layer is a Llama layer."""

    Recipe, Own = MtpRecipe, Layout(joined_norms=True)


class ShippedMtp(EagleDrafter):
    """The first MTP layer in the files of a target as a Drafter. Transformers' code computes it,
    because it is a layer of the target's own kind."""

    def __init__(self, layers: Any, target: CausalLM) -> None:
        """layers: transformers' `MtpModel`."""
        config = HeadConfig(target.name, (), layers.config.hidden_size)
        self.head: Any = Head(config, range(target.vocabulary)).to(target.device)
        self.head.add_module("layer", layers.layers[0])
        HeadDrafter.__init__(self, self.head, target, f"{target.name}-{MTP}")
        target.keep_features()
        self.layers, self._outputs = layers, None

    def _logits(self, guessed: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers._project_to_logits(guessed)
        return logits[:, : self.vocabulary]

    def _inputs(self, features: torch.Tensor) -> torch.Tensor:
        return features

    def _pass(
        self,
        features: torch.Tensor,
        tokens: list[int],
        positions: torch.Tensor,
        sees: npt.NDArray[np.bool_] | None,
    ) -> torch.Tensor:
        past = self._cache.get_seq_length()
        self._cache.reserve(past + len(tokens))
        self.passes += 1
        embedded = self.layers.embed_tokens(torch.tensor(tokens, device=features.device))[None]
        mask = additive(past, len(tokens), sees, features)
        rotary = self.layers.rotary_emb
        guessed: torch.Tensor = self.layers.layers[0](
            embedded,
            features[None],
            position_embeddings=rotary and rotary(embedded, position_ids=positions[None]),
            attention_mask=None if mask is None else mask[None, None],
            position_ids=positions[None],
            past_key_values=self._cache,
        )
        if self.layers.use_shared_post_norm:
            guessed = self.layers.shared_post_norm(guessed)
        return guessed[0]


class MtpDrafter(EagleDrafter):
    """The head of one target as a Drafter."""

    weights = MtpHead
