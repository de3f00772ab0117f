"""The compact pass in fixed shapes, so that a GPU can run it again without launching every kernel.

The rows of a pass are padded to a bucket, and every row reads the whole capacity of the cache
through a mask. The tensors of a bucket stay where they are from pass to pass, and nothing in
`StaticDecoder.compute` depends on how many rows or tokens there are. On a GPU a bucket is captured
as a CUDA graph when it is first needed, and replayed afterwards; elsewhere `compute` itself runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.models.engines.compact import FusedDecoder, Rows, States
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.skips import NOTHING

BUCKETS = (1, 2, 4, 8, 16, 32, 64)
"""Rows of passes in fixed shapes; the compact pass computes longer ones."""

WARM_UPS = 3
"""Passes before a capture, in which libraries allocate their memory."""

Held = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values [1, heads, capacity, width] of every layer."""


def bucket(rows: int) -> int | None:
    """Return the smallest bucket for `rows` rows, or None."""
    return next((size for size in BUCKETS if size >= rows), None)


@dataclass(frozen=True)
class Inputs:
    """Inputs of a bucket, which every pass overwrites in place.

    x         embeddings [size, width]
    turns     cosines and sines [2, size, heads + 2 shared heads, width of a head]
    mask      [size, capacity], additive
    slots     [size], rows of the cache that are written
    values    number of the last heads, which hold values and are rotated by 0
    """

    x: torch.Tensor
    turns: torch.Tensor
    mask: torch.Tensor
    slots: torch.Tensor
    values: int

    def fill(
        self,
        x: torch.Tensor,
        angles: torch.Tensor,
        sees: npt.NDArray[np.bool_],
        past: int,
    ) -> None:
        """x and sees: as in `Rows`, after `past` cached rows; angles [2, rows, width of a head].
        Rows of padding are zeros with any rotation. They see nothing, and are written after the
        others, where no row reads."""
        rows = len(x)
        self.x[:rows] = x
        self.x[rows:] = 0
        heads = self.turns.shape[2] - self.values
        self.turns[:, :rows, :heads] = angles[:, :, None]
        self.mask.fill_(torch.finfo(self.mask.dtype).min)
        all_see = past + rows - sees.shape[1]
        self.mask[:rows, :all_see] = 0
        visible = torch.from_numpy(sees).to(x.device)
        self.mask[:rows, all_see : past + rows].masked_fill_(visible, 0)
        torch.arange(past, past + len(self.slots), out=self.slots)


class StaticDecoder(FusedDecoder):
    """The layers and the last norm of a model of the family, see the module."""

    def __init__(self, body: Any) -> None:
        super().__init__(body)
        self._first: torch.Tensor | None = None
        self._inputs: dict[int, Inputs] = {}
        self._graphs: dict[tuple[int, tuple[int, ...]], Callable[[], States]] = {}

    def run(self, rows: Rows, cache: TreeCache) -> States:
        """Compute like the compact pass. That computes passes that fit no bucket, passes without
        some sublayers or with `beside`, and passes over a cache that is not `zeroed`."""
        x, count, size = rows.x, len(rows.x), bucket(len(rows.x))
        plain = rows.beside is None and rows.without == NOTHING and cache.zeroed
        if size is None or not plain:
            return super().run(rows, cache)
        past = cache.get_seq_length()
        cache.reserve(past + size)
        appended = [
            cache.append(index, count, layer.shared, layer.width, x)
            for index, layer in enumerate(self.layers)
        ]
        held = [(keys, values) for keys, values, _ in appended]
        inputs = self._inputs_of(size, x, held)
        sees = np.tri(count, dtype=np.bool_) if rows.sees is None else rows.sees
        inputs.fill(x, self._angles(rows.positions, rows.longest), sees, past)
        hidden, states = self._pass_of(size, inputs, held, tuple(rows.depths))()
        return hidden[:count], [state[:count] for state in states]

    def compute(self, inputs: Inputs, held: Held, depths: tuple[int, ...]) -> States:
        """Compute the pass: always the same operations on the same tensors."""
        x, states = inputs.x, []
        mask = inputs.mask.repeat(self.groups, 1)[None, None]
        for number, (layer, (keys, values)) in enumerate(zip(self.layers, held, strict=True), 1):
            q, k, v = layer.heads_of(x, inputs.turns[0], inputs.turns[1])
            keys[0].index_copy_(1, inputs.slots, k)
            values[0].index_copy_(1, inputs.slots, v)
            x = layer.feed(layer.mix(x, q, keys, values, mask))
            states += [x] if number in depths else []
        return self.norm(x), states

    def _inputs_of(self, size: int, x: torch.Tensor, held: Held) -> Inputs:
        """Return the tensors of a bucket; make all buckets again if the cache has moved."""
        keys = held[0][0]
        if keys is not self._first:
            self._first = keys
            self._inputs.clear()
            self._graphs.clear()
        if size not in self._inputs:
            turns = x.new_zeros(2, size, self._heads, self._tables.shape[2])
            turns[0] = 1
            mask = x.new_zeros(size, keys.shape[2])
            slots = torch.zeros(size, dtype=torch.long, device=x.device)
            embeddings = x.new_zeros(size, x.shape[1])
            self._inputs[size] = Inputs(embeddings, turns, mask, slots, self.shared)
        return self._inputs[size]

    def _pass_of(
        self, size: int, inputs: Inputs, held: Held, depths: tuple[int, ...]
    ) -> Callable[[], States]:
        """Return the computation of a bucket: on CUDA its graph."""

        def compute() -> States:
            return self.compute(inputs, held, depths)

        if not inputs.x.is_cuda:
            return compute
        if (size, depths) not in self._graphs:
            self._graphs[size, depths] = captured(compute, inputs.x.device)
        return self._graphs[size, depths]


def replayed(device: torch.device) -> bool:
    """Return whether buckets are captured on a device, which makes this the fastest pass."""
    return device.type == "cuda"


_planning = threading.Lock()
"""Lock for the time in which the process may plan attention: one capture at a time."""


def plan_no_attention() -> None:
    """Switch cuDNN's attention off for this process, except in captures. It plans again for every
    number of keys, which took 59 ms each on an H200; PyTorch's other kernels plan nothing
    (docs/gpu.md)."""
    with _planning:
        torch.backends.cuda.enable_cudnn_sdp(False)


@contextmanager
def attention_planned() -> Iterator[None]:
    """Allow cuDNN's attention for a while: for a captured pass, which has one shape, it is
    faster."""
    with _planning:
        before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        torch.backends.cuda.enable_cudnn_sdp(True)
        try:
            yield
        finally:
            torch.backends.cuda.enable_cudnn_sdp(before)


def captured(compute: Callable[[], States], device: torch.device) -> Callable[[], States]:
    """Capture a pass as a CUDA graph; return a function that replays it and returns its output
    tensors. Other threads may use the GPU during a capture; their other passes may take longer."""
    with torch.cuda.device(device), attention_planned():
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            states = compute()

    def replay() -> States:
        with torch.cuda.device(device):
            graph.replay()
        return states

    return replay
