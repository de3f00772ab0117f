"""Whether the native pass reads a target's weights in the blocks of the GGUF file that they come
from, and for how many rows that is faster here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from ouroboros_core.adaptive.profiler import ROUNDS, SECONDS, SHORT, in_turn, pass_of
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.loading import embedded
from ouroboros_core.loading.check import invariant
from ouroboros_core.loading.gguf import TYPES, read_blocks
from ouroboros_core.loading.measured import kept
from ouroboros_core.loading.weights import gguf_file
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import pages
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.forward import EVERY_ROW

log = logging.getLogger(__name__)

Weights = Literal["auto", "bf16", "blocks"]

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Rows of the passes that are timed in both formats."""

PERMUTED = ("llama",)
"""Architectures whose queries and keys lie in a file with the two halves of a head interleaved."""


def use_blocks(model: CausalLM, target: str | None, weights: Weights) -> None:
    """Let a checked target read its weights as `weights` says.

    target  what it was loaded from; None: the embedded one

    Raises InvalidInput, for `blocks` only, where there are none for it; WeightsUnavailable where
    those of the embedded target would have to be fetched and cannot be.
    """
    if weights == "bf16":
        return
    try:
        _add(model, target)
    except OuroborosError as error:
        if weights == "blocks":
            raise
        log.warning("%s: %s", model.name, error)
        return
    rows = EVERY_ROW if weights == "blocks" else _measured(model)
    model.read_blocks(rows)


def _add(model: CausalLM, target: str | None) -> None:
    """Give a model the blocks that come to its weights; raises OuroborosError with the reason where
    there are none."""
    if model.engine != "native":
        raise _refusal(
            model, f"only the native pass reads blocks, and its passes are {model.engine}"
        )
    file = gguf_file(target) if target else embedded.ensure_gguf()
    if file is None:
        raise _refusal(model, "it does not come from a GGUF file")
    said, found = read_blocks(file)
    if not found:
        raise _refusal(model, f"{file.name} has none of the formats {', '.join(TYPES.values())}")
    if not model.add_blocks(_in_order(said, found, model.model.config)):
        raise _refusal(model, f"those of {file.name} come to other numbers than were loaded")
    model.read_blocks(1)  # single rows by blocks, the tree's by bfloat16
    same = invariant(model)
    model.read_blocks(0)
    model.reset()
    model.passes = 0
    if not same:
        raise _refusal(model, "their pass gives other logits here")


def _refusal(model: CausalLM, reason: str) -> InvalidInput:
    return InvalidInput(
        f"the weights of {model.name} cannot be read as blocks: {reason}. Leave --weights out, or "
        "name a GGUF file with Q4_1 or Q8_0 blocks as --target"
    )


def _in_order(said: dict[str, Any], found: BlocksOf, config: Any) -> BlocksOf:
    """The blocks with the outputs of queries and keys in transformers' order."""
    if said.get("general.architecture") not in PERMUTED:
        return found
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    result = dict(found)
    for name, blocks in found.items():
        count = heads.get(name.rpartition(".")[2])
        if count:
            order = np.arange(len(blocks.data)).reshape(count, -1, 2).swapaxes(1, 2).ravel()
            result[name] = blocks.rows(order)
    return result


def _measured(model: CausalLM) -> int:
    """Up to how many rows a pass is faster with blocks: timed once, and kept."""

    def timed() -> int:
        rows = rows_that_gain(model, lambda way: model.read_blocks(EVERY_ROW if way else 0), COUNTS)
        model.forget()
        model.passes = 0
        return EVERY_ROW if rows == COUNTS[-1] else rows

    return int(kept("blocks", model, timed, COUNTS, pages.kind()))


def rows_that_gain(
    model: LanguageModel, choose: Callable[[bool], None], counts: Sequence[int]
) -> int:
    """Up to which of some ascending numbers of rows a pass is faster with `choose(True)` than with
    `choose(False)`, timed in turn; 0 if it never is."""
    found = 0
    for rows in counts:
        timed = pass_of(model, rows, SHORT)

        def one(way: bool, timed: Callable[[], float] = timed) -> float:
            choose(way)
            return timed()

        mine, other = in_turn([partial(one, True), partial(one, False)], ROUNDS, SECONDS / 4)
        if min(mine) >= min(other):
            break
        found = rows
    return found
