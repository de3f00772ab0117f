"""A Hugging Face causal language model as a scorer of token trees.

One forward pass scores a whole tree: a 4D mask lets each node see the context and its own ancestors, and position ids count
depth. The wrapper remembers which tokens its cache holds - a context, then the last tree - and keeps what a new context still
agrees with: a common prefix, then a walk down the old tree. Nobody rolls back, crops or confirms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.tree import TokenTree

PREFILL_CHUNK = 512
"""Rows of the context computed in one pass; its mask has this many rows, never as many as the context."""

TREE_ROOM = 256
"""Rows kept free behind the context for the trees of a run."""

PACKED_CONTEXT = 64
"""Up to this many missing context rows travel in the same pass as the tree."""


class TorchEvaluation:
    """Logits of the nodes of one tree, on the model's device."""

    def __init__(self, logits: torch.Tensor, nodes: Sequence[int], size: int) -> None:
        """logits [len(nodes), vocabulary] belong to `nodes`, of a tree of `size` nodes."""
        self._logits = logits
        self._row = {node: row for row, node in enumerate(nodes)}
        self._size = size
        self._argmax: list[int] | None = None

    def argmax(self) -> list[int]:
        if self._argmax is None:
            best = self._logits.argmax(-1).tolist()
            self._argmax = [-1] * self._size
            for node, row in self._row.items():
                self._argmax[node] = best[row]
        return self._argmax

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        row = self._logits[self._row[node]]
        if row.dtype in (torch.bfloat16, torch.float16):
            row = row.float()
        result: npt.NDArray[np.floating] = row.cpu().numpy()
        return result


class CausalLM:
    """A LanguageModel (see `language_model`) over a decoder-only transformers model."""

    def __init__(self, model: PreTrainedModel, name: str, vocabulary: int | None = None) -> None:
        """vocabulary: score only the first so many token ids, where a draft's output is padded beyond its target's."""
        self.model = model.eval()
        self.name = name
        config = model.config.get_text_config(decoder=True)
        self.vocabulary = min(vocabulary or config.vocab_size, config.vocab_size)
        self.max_length: int = getattr(config, "max_position_embeddings", None) or 2**20
        rope = getattr(config, "rope_parameters", None) or {}
        if rope.get("rope_type") == "longrope":
            # Beyond this length transformers rotates the whole pass otherwise, and rows computed before would not fit.
            original = rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
            self.max_length = min(self.max_length, original or self.max_length)
        self.passes = 0
        self._layers = int(config.num_hidden_layers)
        self._window: int | None = getattr(config, "sliding_window", None)
        self._layer_types = set(getattr(config, "layer_types", None) or ()) if self._window else set()
        self.reset()

    @property
    def device(self) -> torch.device:
        """Where token ids go in; with `device_map` the layers may lie elsewhere too."""
        weight: torch.Tensor = self.model.get_input_embeddings().weight
        return weight.device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    def reset(self) -> None:
        """Forget every token and give the cache's memory back."""
        self._cache = TreeCache(self._layers)
        self._context: tuple[int, ...] = ()
        self._tree: TokenTree | None = None

    @property
    def held(self) -> tuple[tuple[int, ...], TokenTree | None]:
        """The tokens whose keys and values the cache holds: a context, and the tree behind it, whose root ends the context."""
        return self._context, self._tree

    @property
    def cache(self) -> TreeCache:
        return self._cache

    def forget(self) -> None:
        self._context, self._tree = (), None
        self._cache.keep(0)

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens + TREE_ROOM)

    @torch.inference_mode()
    def prefill(self, context: Sequence[int]) -> None:
        context = tuple(context)
        if len(context) > 1:
            self._fill(context, self._rewind(context))
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # so that a clock read now has the pass behind it

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        context = tuple(context)
        if not context or tree.tokens[0] != context[-1]:
            raise InvalidInput("the root of the tree must be the last token of the context, and the context must not be empty")
        kept = self._rewind(context)
        if len(context) - 1 - kept > PACKED_CONTEXT:
            kept = self._fill(context, kept)
        missing = len(context) - 1 - kept
        nodes = [n for n in range(len(tree)) if n not in tree.silent]
        self._context, self._tree = (), None  # until the pass has ended, the cache holds nothing that can be relied on
        logits = self._forward(
            [*context[kept:-1], *tree.tokens],
            [*range(kept, len(context) - 1), *(len(context) - 1 + d for d in tree.depths)],
            _packed_visibility(missing, tree.ancestors),
            [missing + n for n in nodes],
        )
        self.passes += 1
        self._context, self._tree = context, tree
        return TorchEvaluation(logits, nodes, len(tree))

    def _rewind(self, context: tuple[int, ...]) -> int:
        """Keep of the cache what agrees with `context`, without its last token; the number of rows kept."""
        held, tree = self._context, self._tree
        self._context, self._tree = (), None
        limit = len(context) - 1
        if context[: len(held)] != held or limit < len(held):
            kept = min(_agreement(held, context), limit)
            self._cache.keep(kept)
        else:
            walk: list[int] = []
            if tree is not None:
                walk = _walk(tree, context[len(held) : limit])
            self._cache.keep(len(held), [len(held) - 1 + node for node in walk])
            kept = len(held) + len(walk)
        self._context = context[:kept]
        return kept

    def _fill(self, context: tuple[int, ...], kept: int) -> int:
        """Compute context rows from `kept` up to the last token, in chunks; of each chunk only the last row is projected."""
        end = len(context) - 1
        for start in range(kept, end, PREFILL_CHUNK):
            stop = min(start + PREFILL_CHUNK, end)
            self._context = ()
            count = stop - start
            self._forward(context[start:stop], range(start, stop), np.tri(count, dtype=np.bool_), [count - 1])
            self._context = context[:stop]
        return end

    def _forward(
        self, tokens: Sequence[int], positions: Sequence[int], sees: npt.NDArray[np.bool_], wanted: Sequence[int]
    ) -> torch.Tensor:
        """Logits [len(wanted), vocabulary] of the wanted rows.

        sees [rows, rows] is visibility among the new rows; all of them see everything that is cached.
        """
        device = self.device
        past = self._cache.get_seq_length()
        self._cache.reserve(past + len(tokens))
        places = torch.tensor([positions], device=device).clamp_(max=self.max_length - 1)
        output = self.model(
            input_ids=torch.tensor([tokens], device=device),
            attention_mask=self._masks(past, places[0], torch.from_numpy(sees).to(device)),
            position_ids=places,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=torch.tensor(wanted, device=device),
        )
        logits: torch.Tensor = output.logits[0, :, : self.vocabulary]
        return logits

    def _masks(self, past: int, positions: torch.Tensor, sees: torch.Tensor) -> Any:
        """Additive float masks [1, 1, rows, past + rows]; by layer type where only some layers have a sliding window.

        Float in the model's dtype, because eager attention adds a bool mask as 0 and 1.
        """
        lowest = torch.finfo(self.dtype).min
        mask = torch.zeros(1, 1, len(sees), past + len(sees), dtype=self.dtype, device=sees.device)
        mask[0, 0, :, past:].masked_fill_(~sees, lowest)
        if not self._window:
            return mask
        keys = torch.cat([torch.arange(past, device=sees.device), positions])
        windowed = mask.masked_fill(positions[:, None] - keys[None, :] >= self._window, lowest)
        if self._layer_types == {"full_attention"}:
            return mask
        if "full_attention" in self._layer_types:
            return {"full_attention": mask, "sliding_attention": windowed}
        return windowed


def _packed_visibility(missing: int, ancestors: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Visibility among `missing` context rows followed by a tree's rows: causal, then everything before plus ancestors."""
    if not missing:
        return ancestors
    rows = missing + len(ancestors)
    sees = np.tri(rows, dtype=np.bool_)
    sees[missing:, missing:] = ancestors
    return sees


def _agreement(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _walk(tree: TokenTree, tokens: Sequence[int]) -> list[int]:
    """Nodes below the root that carry `tokens` one after the other, as far as the tree goes; window nodes count, too."""
    below = {(parent, token): node for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)) if node}
    path: list[int] = []
    node = 0
    for token in tokens:
        if (node, token) not in below:
            break
        node = below[node, token]
        path.append(node)
    return path
