"""Calls the native pass: the same products and layers as `compact`, over bfloat16 weights."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_uint8, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.models.engines.compact import Rows, States
from ouroboros_core.models.engines.native import build, pages, threads
from ouroboros_core.models.engines.native.blocks import (
    INPUTS,
    KINDS,
    PANEL,
    ROUNDED,
    ROUNDED_BYTES,
    Blocks,
    BlocksOf,
    joined,
)
from ouroboros_core.models.kv_cache import TreeCache, attention_shape

DTYPES = (torch.bfloat16, torch.float32)

PRODUCTS = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "out": ("attn_output",),
    "gate": ("ffn_gate",),
    "up": ("ffn_up",),
    "down": ("ffn_down",),
}
"""A layer's products, each with its weights in a GGUF file."""


class _Matrix(ctypes.Structure):
    _fields_ = [
        ("panels", c_void_p),
        ("inner", c_int64),
        ("outer", c_int64),
        ("bias", c_void_p),
        ("kind", c_int64),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [(name, _Matrix) for name in PRODUCTS] + [
        (name, c_void_p) for name in ("norm_in", "norm_mid", "norm_q", "norm_k")
    ]


class _Decoder(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("width", "heads", "shared", "head", "middle", "layers")),
        ("eps", c_float),
        ("scale", c_float),
        ("layer", POINTER(_Layer)),
        ("norm", c_void_p),
    ]


class _Pass(ctypes.Structure):
    _fields_ = [
        ("rows", c_int64),
        ("past", c_int64),
        *(
            (name, c_void_p)
            for name in ("x", "hidden", "positions", "cos", "sin", "keys", "values")
        ),
        ("capacity", c_int64),
        *((name, c_void_p) for name in ("straight", "begin", "slots", "watched", "skipped")),
    ]


def available(dtype: torch.dtype) -> bool:
    """Return whether the native pass computes in a dtype here, with torch's number of threads:
    float32, or bfloat16 if the processor multiplies it."""
    library = build.library()
    if library is None or dtype not in DTYPES:
        return False
    if build.openmp() is None and torch.get_num_threads() > 1:
        return False
    return dtype == torch.float32 or bool(library.ouroboros_half())


def exact(weight: torch.Tensor) -> bool:
    """Return whether bfloat16 holds a weight without loss."""
    if weight.dtype == torch.float32 and sys.byteorder == "little":
        # It keeps the upper half of the bits; a look at the lower half takes a quarter of the time.
        halves = weight.detach().contiguous().view(torch.int16).view(-1, 2)
        return not halves[:, 0].any()
    return weight.dtype == torch.bfloat16 or torch.equal(weight.bfloat16().to(weight.dtype), weight)


def panels(weight: torch.Tensor) -> torch.Tensor:
    """Return a weight [out, in] in the order of the pass: [panels, in / 2, PANEL, 2], bfloat16."""
    outer, inner = weight.shape
    padded = weight.new_zeros(-(-outer // PANEL) * PANEL, inner, dtype=torch.bfloat16)
    padded[:outer] = weight.detach()
    return padded.view(-1, PANEL, inner // 2, 2).transpose(1, 2)


class NativeProduct:
    """The product x [rows, in] -> x @ weight.T + bias [rows, out]. The result of a row does not
    depend on the other rows."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """weight [out, in], `exact`; in is even."""
        outer, inner = weight.shape
        laid = panels(weight)
        self._panels = pages.empty(laid.shape, laid.dtype).copy_(laid)
        self._bias = None if bias is None else bias.detach().float().contiguous()
        self.matrix = _Matrix(
            self._panels.data_ptr(),
            inner,
            outer,
            None if self._bias is None else self._bias.data_ptr(),
            0,
        )
        self._library: Any = build.library()
        self.in_blocks: _Matrix | None = None
        self.block_rows = 0
        """Inputs of up to this number of rows use the weight in blocks, if there are any."""

    def add_blocks(self, blocks: Blocks) -> bool:
        """Also keep the weight as blocks, if all of them give the same bfloat16 numbers; return
        whether they do."""
        outer, groups, _ = blocks.data.shape
        matrix = self.matrix
        if (outer, INPUTS * groups) != (matrix.outer, matrix.inner):
            return False
        packed = blocks.packed()
        packed = pages.empty(packed.shape, packed.dtype).copy_(packed)
        other = _Matrix(packed.data_ptr(), matrix.inner, outer, matrix.bias, KINDS[blocks.kind])
        if self._library.ouroboros_differences(byref(other), byref(matrix)):
            return False
        self._packed, self.in_blocks = packed, other
        return True

    def round(self) -> None:
        """Round the weight to 8 bits with a scale for each 32 inputs, if that makes passes over few
        rows faster on this processor."""
        matrix, few = self.matrix, int(self._library.ouroboros_few())
        if matrix.inner % INPUTS or not few:
            return
        blocks = self._panels.numel() // INPUTS
        self._packed = pages.empty(torch.Size([blocks * ROUNDED_BYTES]), torch.uint8)
        self._library.ouroboros_round(byref(matrix), c_void_p(self._packed.data_ptr()))
        self.in_blocks = _Matrix(
            self._packed.data_ptr(), matrix.inner, matrix.outer, matrix.bias, ROUNDED
        )
        self.block_rows = few

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = x.new_empty(len(x), self.matrix.outer)
        team, half = threads.current(), int(x.dtype == torch.bfloat16)
        blocks = self.in_blocks if len(x) <= self.block_rows else None
        self._library.ouroboros_multiply(
            byref(blocks or self.matrix),
            c_void_p(x.data_ptr()),
            c_void_p(out.data_ptr()),
            c_int64(len(x)),
            byref(team),
            c_int(half),
        )
        return out


def fits(body: Any) -> bool:
    """Return whether the native pass computes layers of a model's sizes and weights."""
    config: Any = body.config
    head = attention_shape(config).width
    sizes = config.hidden_size % 16 == 0 and config.intermediate_size % 16 == 0 and head % 32 == 0
    weights = [p for p in body.layers.parameters() if p.dim() == 2]
    qkv = body.layers[0].self_attn.q_proj.in_features
    return (
        sizes
        and qkv == config.hidden_size
        and hasattr(body.norm, "weight")  # a head can lack these norms
        and hasattr(body.layers[0].input_layernorm, "weight")
        and body.norm.weight.device.type == "cpu"
        and all(map(exact, weights))
    )


class NativeDecoder:
    """The layers and the last norm of a model of the family, like `FusedDecoder`."""

    def __init__(self, body: Any) -> None:
        """body: the transformers base model, which `fits`; its weights are read once."""
        config: Any = body.config
        heads, shared, self.head = attention_shape(config)
        self.shared = shared
        self._held: list[Any] = []
        self._products: list[NativeProduct] = []
        """The products of PRODUCTS, layer by layer."""
        self._layers = (_Layer * len(body.layers))(*(self._layer(layer) for layer in body.layers))
        self._like: torch.Tensor = body.norm.weight.detach()
        self._rope: Any = body.rotary_emb
        self._cos = self._sin = torch.empty(0, self.head)
        self._decoder = _Decoder(
            config.hidden_size,
            heads,
            shared,
            self.head,
            config.intermediate_size,
            len(body.layers),
            float(body.norm.variance_epsilon),
            float(body.layers[0].self_attn.scaling),
            self._layers,
            self._floats(body.norm.weight),
        )
        self._library: Any = build.library()
        self._in_blocks = self._decoder
        self.block_rows = 0
        """Passes over up to this number of rows read the weights in blocks, if there are any."""

    def add_blocks(self, blocks: BlocksOf) -> int:
        """Also keep weights as blocks, if these give the same bfloat16 numbers; return the number
        of products with blocks."""
        added: list[_Matrix | None] = []
        for number, product in enumerate(self._products):
            layer, position = divmod(number, len(PRODUCTS))
            names = [*PRODUCTS.values()][position]
            weight = joined([blocks.get(f"blk.{layer}.{name}") for name in names])
            same = weight is not None and product.add_blocks(weight)
            added.append(product.in_blocks if same else None)
        self._use(added)
        return sum(matrix is not None for matrix in added)

    def round(self) -> None:
        """Round the weights, see `NativeProduct.round`."""
        for product in self._products:
            product.round()
        self._use([product.in_blocks for product in self._products])
        self.block_rows = max(product.block_rows for product in self._products)

    def _use(self, blocks: Sequence[_Matrix | None]) -> None:
        """Let passes over few rows read the products in blocks, where there are any."""
        layers = type(self._layers).from_buffer_copy(self._layers)
        for number, matrix in enumerate(blocks):
            layer, position = divmod(number, len(PRODUCTS))
            if matrix is not None:
                setattr(layers[layer], [*PRODUCTS][position], matrix)
        self._in_blocks = _Decoder.from_buffer_copy(self._decoder)
        self._in_blocks.layer = layers

    def _floats(self, weight: torch.Tensor) -> int:
        """Return the address of a copy in float32, which this object keeps alive."""
        held = weight.detach().float().contiguous()
        self._held.append(held)
        return held.data_ptr()

    def _product(self, *layers: Any) -> _Matrix:
        """Return the product of linear layers with concatenated outputs."""
        biases = [layer.bias for layer in layers if layer.bias is not None]
        product = NativeProduct(
            torch.cat([layer.weight for layer in layers]), torch.cat(biases) if biases else None
        )
        self._products.append(product)
        return product.matrix

    def _layer(self, layer: Any) -> _Layer:
        a, m = layer.self_attn, layer.mlp
        norms = [getattr(a, name, None) for name in ("q_norm", "k_norm")]
        return _Layer(
            self._product(a.q_proj, a.k_proj, a.v_proj),
            self._product(a.o_proj),
            *(self._product(linear) for linear in (m.gate_proj, m.up_proj, m.down_proj)),
            self._floats(layer.input_layernorm.weight),
            self._floats(layer.post_attention_layernorm.weight),
            *(None if norm is None else self._floats(norm.weight) for norm in norms),
        )

    def _turn(self, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines [positions, head] for at least `longest` positions."""
        if longest > len(self._cos):
            every = torch.arange(max(longest, 2 * len(self._cos), 512))
            cos, sin = self._rope(self._like[None], every[None])
            self._cos, self._sin = cos[0].float(), sin[0].float()
        return self._cos, self._sin

    def run(self, rows: Rows, cache: TreeCache) -> States:
        """Compute like `FusedDecoder.run`, without `rows.beside`."""
        assert rows.beside is None
        count, layers, without = len(rows.x), len(self._layers), rows.without
        x = rows.x.detach().clone(memory_format=torch.contiguous_format)
        hidden = torch.empty_like(x)
        past = without.rows(cache)
        held = {
            n: cache.append(n, count, self.shared, self.head, x)
            for n in range(layers)
            if n not in without.attention
        }
        cos, sin = self._turn(rows.longest)
        positions = rows.positions.contiguous()
        states = {depth: torch.empty_like(x) for depth in rows.depths}
        skipped = [(n in without.attention) + 2 * (n in without.mlp) for n in range(layers)]
        lists = (  # of addresses, alive during the call
            _pointers(layers, {n: keys for n, (keys, _, _) in held.items()}),
            _pointers(layers, {n: values for n, (_, values, _) in held.items()}),
            _pointers(layers, {depth - 1: state for depth, state in states.items()}),
            (c_uint8 * layers)(*skipped),
        )
        addresses = [ctypes.addressof(pointers) for pointers in lists]
        texts = _texts(count, past, rows.sees)
        call = _Pass(
            count,
            past,
            *(tensor.data_ptr() for tensor in (x, hidden, positions, cos, sin)),
            *addresses[:2],
            cache.capacity,
            *(array.ctypes.data for array in texts),
            *addresses[2:],
        )
        team, half = threads.current(), int(x.dtype == torch.bfloat16)
        decoder = self._in_blocks if count <= self.block_rows else self._decoder
        self._library.ouroboros_run(byref(decoder), byref(call), byref(team), c_int(half))
        return hidden, [states[depth] for depth in rows.depths]


def _pointers(count: int, tensors: Mapping[int, torch.Tensor]) -> ctypes.Array[c_void_p]:
    """Return the addresses of `count` tensors, null for missing ones."""
    addresses = (tensors[n].data_ptr() if n in tensors else None for n in range(count))
    return (c_void_p * count)(*addresses)


def _texts(
    rows: int, past: int, sees: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the cache slots of each row's text: the number of first tokens in order from slot 0,
    and the slots of the other tokens, for row r from begin[r] to begin[r + 1]."""
    if sees is None:
        straight = np.arange(past + 1, past + rows + 1, dtype=np.int32)
        return straight, np.zeros(rows + 1, np.int32), np.zeros(1, np.int32)
    base = past + rows - sees.shape[1]
    runs = np.logical_and.accumulate(sees, axis=1).sum(1, dtype=np.int32)
    scattered = sees.copy()
    scattered[np.arange(sees.shape[1]) < runs[:, None]] = False
    begin = np.zeros(rows + 1, np.int32)
    np.cumsum(scattered.sum(1), out=begin[1:])
    slots = (np.nonzero(scattered)[1] + base).astype(np.int32)
    return base + runs, begin, slots if len(slots) else np.zeros(1, np.int32)
