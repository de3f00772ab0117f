"""The choice whether the native pass reads a target's weights as blocks of their GGUF file, and for
how many rows that is faster on this machine."""

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
from ouroboros_core.loading.measured import measured_once
from ouroboros_core.loading.weights import gguf_file
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import pages
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.forward import EVERY_ROW

log = logging.getLogger(__name__)

Weights = Literal["auto", "bf16", "blocks"]

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Row counts of passes that are timed in both formats."""

PERMUTED = ("llama",)
"""Architectures whose files interleave the two halves of each head of queries and keys."""


def use_blocks(model: CausalLM, target: str | None, weights: Weights) -> None:
    """Let a checked target read its weights in the format `weights`.

    target  the name from which it was loaded, or None for the embedded target

    Raises InvalidInput if `weights` is `blocks` and the target has none, and WeightsUnavailable if
    the blocks of the embedded target cannot be downloaded.
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
    """Add the blocks that equal a model's weights; raises OuroborosError with the reason if it
    cannot."""
    if model.engine != "native":
        raise _refusal(
            model, f"only the native pass reads blocks, and its passes are {model.engine}"
        )
    file = gguf_file(target) if target else embedded.ensure_gguf()
    if file is None:
        raise _refusal(model, "it does not come from a GGUF file")
    metadata, blocks = read_blocks(file)
    if not blocks:
        raise _refusal(model, f"{file.name} has none of the formats {', '.join(TYPES.values())}")
    if not model.add_blocks(in_order(metadata, blocks, model.model.config)):
        raise _refusal(model, f"the blocks of {file.name} differ from the loaded weights")
    model.read_blocks(1)  # single rows use blocks, the rows of a tree use bfloat16
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


def in_order(metadata: dict[str, Any], blocks: BlocksOf, config: Any) -> BlocksOf:
    """Return the blocks with the outputs of queries and keys in transformers' order."""
    if metadata.get("general.architecture") not in PERMUTED:
        return blocks
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    result = dict(blocks)
    for name, matrix in blocks.items():
        count = heads.get(name.rpartition(".")[2])
        if count:
            order = np.arange(len(matrix.data)).reshape(count, -1, 2).swapaxes(1, 2).ravel()
            result[name] = matrix.rows(order)
    return result


def _measured(model: CausalLM) -> int:
    """Return the largest number of rows for which blocks are faster, from the cache or measured."""

    def timed() -> int:
        rows = rows_that_gain(model, lambda on: model.read_blocks(EVERY_ROW if on else 0), COUNTS)
        model.forget()
        model.passes = 0
        return EVERY_ROW if rows == COUNTS[-1] else rows

    return int(measured_once("blocks", model, timed, COUNTS, pages.kind()))


def rows_that_gain(
    model: LanguageModel, choose: Callable[[bool], None], counts: Sequence[int]
) -> int:
    """Return the largest of ascending row counts up to which a pass is faster with `choose(True)`
    than with `choose(False)`, timed alternately; 0 if it is never faster."""
    gaining = 0
    for rows in counts:
        timed = pass_of(model, rows, SHORT)

        def timed_with(choice: bool, timed: Callable[[], float] = timed) -> float:
            choose(choice)
            return timed()

        timers = [partial(timed_with, choice) for choice in (True, False)]
        on, off = in_turn(timers, ROUNDS, SECONDS / 4)
        if min(on) >= min(off):
            break
        gaining = rows
    return gaining
