"""A model's outputs after the nodes of a tree, as tensors on its device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.interfaces import Mixture
from ouroboros_core.tree import TokenTree

BLOCK = 128
"""Columns of a block of logits."""


def candidates_of(logits: torch.Tensor, k: int, outputs: torch.Tensor | None) -> torch.Tensor:
    """The token ids [rows, k] of the largest logits [rows, columns], the largest first; fewer where
    there are fewer columns."""
    chosen = _largest(logits, min(k, logits.shape[-1]))
    return chosen if outputs is None else outputs[chosen]


def _largest(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Columns [rows, k] of the largest logits. The k largest lie in the k blocks with the largest
    maxima, so that only those are sorted: a tenth of the time of `topk` over a vocabulary.
    """
    rows, columns = logits.shape
    if columns % BLOCK or columns < BLOCK * BLOCK or k > BLOCK // 4:
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
    ) -> None:
        """logits [len(nodes), columns] belong to `nodes` of the tree, which hangs behind the tokens
        `context`.

        outputs: the token id of each column, where the model can write only some; the others have
        no chance. mixtures: what stands for the tokens of the last nodes.
        """
        self.context, self.tree, self.mixtures = context, tree, mixtures
        self._logits = logits
        self._outputs = outputs
        self._vocabulary = vocabulary
        self._row = {node: row for row, node in enumerate(nodes)}
        self._size = len(tree)
        self._argmax: list[int] | None = None

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
        return TorchEvaluation(
            both, every, tree, self._outputs, self._vocabulary, self.context, mixtures
        )

    def argmax(self) -> list[int]:
        if self._argmax is None:
            chosen = self._logits.argmax(-1)
            best = (chosen if self._outputs is None else self._outputs[chosen]).tolist()
            self._argmax = [-1] * self._size
            for node, row in self._row.items():
                self._argmax[node] = best[row]
        return self._argmax

    def likeliest(self, k: int) -> dict[int, list[int]]:
        best = candidates_of(self._logits, k, self._outputs).tolist()
        return {node: best[row] for node, row in self._row.items()}

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        logits = self._logits[[self._row[node] for node in nodes]].float()
        best = logits.topk(min(k, logits.shape[-1]))
        scores = (best.values - logits.logsumexp(-1, keepdim=True)).tolist()
        ids = (best.indices if self._outputs is None else self._outputs[best.indices]).tolist()
        return [[*zip(some, of, strict=True)] for some, of in zip(ids, scores, strict=True)]

    def confidence(self, node: int, token: int) -> float:
        row = self._logits[self._row[node]].float()
        column = token
        if self._outputs is not None:
            column = int(torch.searchsorted(self._outputs, token))
            if column == len(self._outputs) or int(self._outputs[column]) != token:
                return 0.0
        return float((row[column] - row.logsumexp(-1)).exp())

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        row = self._logits[self._row[node]]
        if self._outputs is not None:
            row = row.new_full((self._vocabulary,), -torch.inf).scatter_(0, self._outputs, row)
        if row.dtype in (torch.bfloat16, torch.float16):
            row = row.float()
        result: npt.NDArray[np.floating] = row.cpu().numpy()
        return result
