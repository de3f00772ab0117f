"""Engines of a model's passes: C++ compiled here, torch, or transformers' code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import torch

from ouroboros_core.models.engines import compact as fused
from ouroboros_core.models.engines import static
from ouroboros_core.models.engines.native import decoder as native
from ouroboros_core.models.kv_cache import TreeCache

Engine = Literal["native", "compact", "static", "transformers"]
"""native: `native.decoder`; compact: `compact`; static: `static`, on a GPU or on request;
transformers: the model's forward."""

Product = Callable[[torch.Tensor], torch.Tensor]
Computation = TypeVar("Computation")


class Decoder(Protocol):
    """The layers and the last norm of a model, see `FusedDecoder`."""

    def run(self, rows: fused.Rows, cache: TreeCache) -> fused.States: ...


def engines(model: Any) -> list[Engine]:
    """Return the engines that can compute a model's passes here, the fastest first."""
    if not fused.fits(model):
        return ["transformers"]
    compact: list[Engine] = ["compact", "transformers"]
    if static.replayed(model.device):
        return ["static", *compact]
    able = native.available(model.dtype) and native.fits(model.base_model)
    return ["native", *compact] if able else compact


def product(engine: Engine, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product:
    """Return the product x [rows, in] -> x @ weight.T + bias [rows, out]."""
    if engine == "native" and native.exact(weight):
        return native.NativeProduct(weight, bias)
    return fused.product(weight, bias)


def decoder(engine: Engine, body: Any) -> Decoder:
    """Return the decoder of a transformers base model."""
    if engine == "native" and native.fits(body):
        return native.NativeDecoder(body)
    if engine == "static":
        return static.StaticDecoder(body)
    return fused.FusedDecoder(body)


def draft_product(
    engine: Engine, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> Product:
    """Return a product of a draft, which the native pass computes with 8 bits a weight."""
    return rounded(product(engine, weight, bias))


def draft_decoder(engine: Engine, body: Any) -> Decoder:
    """Return the decoder of a draft, which the native pass computes with 8 bits a weight."""
    return rounded(decoder(engine, body))


def rounded(computation: Computation) -> Computation:
    """Round the weights of a native computation, see `NativeProduct.round`."""
    if isinstance(computation, native.NativeProduct | native.NativeDecoder):
        computation.round()
    return computation
