"""A model's outputs after the nodes of a tree, as tensors on its device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.interfaces import Mixture
from ouroboros_core.models.engines.native.choose import LogitRows, logit_rows
from ouroboros_core.tree import TokenTree

BLOCK = 128
"""Columns of a block of logits."""


def candidates_of(logits: torch.Tensor, k: int, outputs: torch.Tensor | None) -> list[list[int]]:
    """The token ids [rows, k] of the largest logits [rows, columns], the largest first; fewer where
    there are fewer columns."""
    found: list[list[int]] = _ids(_largest(logits, min(k, logits.shape[-1])), outputs)
    return found


def _ids(columns: Any, outputs: torch.Tensor | None) -> Any:
    """The token ids of some columns, a tensor or an array, in lists."""
    if outputs is None:
        return columns.tolist()
    ids: Any = outputs if isinstance(columns, torch.Tensor) else outputs.numpy()
    return ids[columns].tolist()


def _largest(logits: torch.Tensor, k: int) -> torch.Tensor | npt.NDArray[np.int32]:
    """Columns [rows, k] of the largest logits. The k largest lie in the k blocks with the largest
    maxima, so that only those are sorted: a tenth of the time of `topk` over a vocabulary.
    """
    rows, columns = logits.shape
    blockwise = columns % BLOCK == 0 and columns >= BLOCK * BLOCK and k <= BLOCK // 4
    native = logit_rows(logits)
    if native is not None:
        return native.top(k, BLOCK if blockwise else 0)
    if not blockwise:
        return logits.topk(k).indices
    blocks = logits.view(rows, -1, BLOCK)
    best = blocks.amax(-1).topk(k).indices
    within = blocks.gather(1, best[:, :, None].expand(-1, -1, BLOCK)).view(rows, -1).topk(k).indices
    return best.gather(1, within // BLOCK) * BLOCK + within % BLOCK


class TorchEvaluation:
    """Logits of the nodes of one tree, on the model's device."""

    def __init__(
        self,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        outputs: torch.Tensor | None,
        vocabulary: int,
        context: tuple[int, ...] = (),
        mixtures: tuple[Mixture, ...] = (),
        *,
        wants_confidence: bool = False,
    ) -> None:
        """logits [len(nodes), columns] belong to `nodes` of the tree, which hangs behind the tokens
        `context`.

        outputs: the token id of each column, where the model can write only some; the others have
        no chance. mixtures: what stands for the tokens of the last nodes. wants_confidence: the
        probabilities of the likeliest tokens will be asked for, so that one wait for the device
        brings both.
        """
        self.context, self.tree, self.mixtures = context, tree, mixtures
        self._logits = logits
        self._outputs = outputs
        self._vocabulary = vocabulary
        self._row = {node: row for row, node in enumerate(nodes)}
        self._size = len(tree)
        self._wants_confidence = wants_confidence and logits.device.type != "cpu"
        self._argmax: list[int] | None = None
        self._shares: dict[tuple[int, int], float] = {}
        """Of nodes and their likeliest tokens, where these came with the tokens."""

    @property
    def all_logits(self) -> torch.Tensor:
        """Logits [nodes, columns] of all nodes that are not silent, on the model's device."""
        return self._logits

    def joined(
        self,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...] = (),
    ) -> TorchEvaluation:
        """With the logits [len(nodes), columns] of more nodes, of a tree that begins with this
        one's."""
        both, every = torch.cat([self._logits, logits]), [*self._row, *nodes]
        known = self._outputs, self._vocabulary, self.context, mixtures
        return TorchEvaluation(both, every, tree, *known, wants_confidence=self._wants_confidence)

    def argmax(self) -> list[int]:
        if self._argmax is None:
            best = self._best()
            self._argmax = [-1] * self._size
            for node, row in self._row.items():
                self._argmax[node] = best[row]
        return self._argmax

    def _best(self) -> list[int]:
        """The likeliest token of every row."""
        if not self._wants_confidence:
            native = self._native
            columns = native.argmax() if native else self._logits.argmax(-1)
            found: list[int] = _ids(columns, self._outputs)
            return found
        logits = self._logits.float()
        columns = logits.argmax(-1)
        scores = logits.gather(1, columns[:, None])[:, 0] - logits.logsumexp(-1)
        best: list[int]
        best, shares = self._together(columns, scores.exp())
        self._shares = {(node, best[row]): shares[row] for node, row in self._row.items()}
        return best

    def likeliest(self, k: int) -> dict[int, list[int]]:
        best = candidates_of(self._logits, k, self._outputs)
        return {node: best[row] for node, row in self._row.items()}

    @cached_property
    def _native(self) -> LogitRows | None:
        return logit_rows(self._logits)

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        rows, k = [self._row[node] for node in nodes], min(k, self._logits.shape[-1])
        if self._native is not None:
            columns, scores = self._native.scored(rows, k)
            ids, of = _ids(columns, self._outputs), scores.tolist()
        else:
            logits = self._logits[rows].float()
            values, found = logits.topk(k)
            ids, of = self._together(found, values - logits.logsumexp(-1, keepdim=True))
        return [[*zip(*one, strict=True)] for one in zip(ids, of, strict=True)]

    def _together(self, columns: torch.Tensor, numbers: torch.Tensor) -> tuple[Any, Any]:
        """The token ids of some columns, and numbers of the same shape in single precision, in
        lists; they come as the same kind of bits, so that the device is waited for once."""
        ids = columns if self._outputs is None else self._outputs[columns]
        found, bits = torch.stack([ids.int(), numbers.contiguous().view(torch.int32)]).tolist()
        return found, np.array(bits, dtype=np.int32).view(np.float32).tolist()

    def confidence(self, node: int, token: int) -> float:
        return self.confidences([(node, token)])[0]

    def confidences(self, asked: Sequence[tuple[int, int]]) -> list[float]:
        if not asked:
            return []
        if self._native is not None:
            return [self._natively(self._native, self._row[node], token) for node, token in asked]
        if all(pair in self._shares for pair in asked):
            return [self._shares[pair] for pair in asked]
        rows = sorted({self._row[node] for node, _ in asked})
        logits = self._logits[rows].float()
        places = [rows.index(self._row[node]) for node, _ in asked]
        tokens = torch.tensor([token for _, token in asked], device=logits.device)
        last = logits.shape[-1] - 1
        if self._outputs is None:  # a draft may have fewer rows than its target
            columns, missing = tokens.clamp(max=last), tokens > last
        else:  # searched on the device, which is then waited for once
            columns = torch.searchsorted(self._outputs, tokens).clamp_(max=last)
            missing = self._outputs[columns] != tokens
        chosen = logits[places, columns].masked_fill(missing, -torch.inf)
        shares: list[float] = (chosen - logits.logsumexp(-1)[places]).exp().tolist()
        return shares

    def _natively(self, native: LogitRows, row: int, token: int) -> float:
        column = self._column(token)
        return 0.0 if column is None else math.exp(native.log_probability(row, column))

    def _column(self, token: int) -> int | None:
        """Where a token's logit stands; None for one that the model cannot write."""
        if self._outputs is None:
            return token if token < self._logits.shape[-1] else None
        outputs = self._outputs.numpy()
        place = int(outputs.searchsorted(token))
        return place if place < len(outputs) and outputs[place] == token else None

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        row = self._logits[self._row[node]]
        if self._outputs is not None:
            row = row.new_full((self._vocabulary,), -torch.inf).scatter_(0, self._outputs, row)
        if row.dtype in (torch.bfloat16, torch.float16):
            row = row.float()
        result: npt.NDArray[np.floating] = row.cpu().numpy()
        return result
