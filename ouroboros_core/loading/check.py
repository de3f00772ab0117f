"""Checks whether a model can be verified over a tree: of its configuration, and of one tree pass
against plain passes."""

from __future__ import annotations

import contextlib
import logging
import math
import random
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.loading import speed
from ouroboros_core.loading.capacity import SPARE, free_memory
from ouroboros_core.models.bookkeeping import TokenRows
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Engine, engines
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

log = logging.getLogger(__name__)

REMEDY = (
    "Choose a decoder-only model with rotary or learned positions and full or sliding-window "
    "attention, such as Llama, Qwen2/3, Mistral, Gemma, Phi-3, GPT-2, GPT-NeoX, OPT, OLMo-2, "
    "Granite, StarCoder2, Cohere or StableLM."
)
TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.04}
"""Largest relative difference due to rounding, by dtype; an ignored mask causes 0.06 to 1.7. A row
that takes a different expert differs as much, so a model in half precision is refused only if
float32 also shows the difference."""

SDPA = "Load it with attn_implementation='sdpa'"

SAME = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.15}
"""Largest relative difference between two orders of the same arithmetic, in the compact pass and in
transformers' pass; exchanged layers cause 1.6."""


def _known_obstacle(model: PreTrainedModel) -> str | None:
    """Return the reason why a model cannot read a tree if its class or configuration shows one."""
    config = model.config.get_text_config(decoder=True)
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder model"
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        return "its attention uses ALiBi, whose distances a tree mask cannot express"
    if config.model_type == "gpt_neo":
        return "its local attention layers ignore a tree mask"
    kinds = set(getattr(config, "layer_types", None) or ())
    stateful = sorted(kinds - {"full_attention", "sliding_attention"})
    if stateful:
        return f"it has layers of kind {', '.join(stateful)}, which cannot read a token tree"
    if getattr(model, "_is_stateful", False):
        return "it keeps a recurrent or convolution state, which cannot branch over a tree"
    return None


def checked(
    model: PreTrainedModel,
    name: str,
    vocabulary: int | None = None,
    outputs: Sequence[int] | None = None,
    *,
    unshared: AbstractSet[int] = frozenset(),
    first: Engine | None = None,
) -> CausalLM:
    """Return the wrapper of a model that can be verified over a tree, with the fastest of the
    `engines` that gives the same results as transformers' pass.

    first  an engine to try before the others, if the model has engines besides transformers'

    The other arguments are those of CausalLM. Raises UnsupportedModel. The results of a faster
    engine are compared with plain passes, so that they need no other check.
    """
    general = CausalLM(model, name, vocabulary)
    check_kind(model, name)
    quickest = _quick_engines(model)
    if first is not None and quickest:
        quickest = [first, *quickest]
    for engine in quickest:
        quick = computed_by(engine, model, name, general.vocabulary, outputs, unshared)
        if quick is not None:
            return quick
    check_tree_support(general)
    if outputs is None and not unshared:
        return general
    return CausalLM(model, name, vocabulary, outputs=outputs, unshared=unshared)


def _quick_engines(model: PreTrainedModel) -> list[Engine]:
    """Return the engines except transformers', the fastest first."""
    try:
        return engines(model)[:-1]
    except UnsupportedModel:  # `check_tree_support` raises it again with the model's name
        return []


def check_tree_support(model: CausalLM) -> None:
    """Raise UnsupportedModel, with reason and remedy, unless a tree pass equals plain passes over
    its branches.

    A tree of seven nodes after a short context must give the logits of each branch in a plain pass
    without a cache. The same must hold for the next pass, after the cache has been compacted to an
    accepted path. `reach.windows_of` checks the windows of the configuration after more tokens than
    the longest window. A check that fails in half precision is repeated in float32.
    """
    check_kind(model.model, model.name)
    obstacle = _shown_obstacle(model)
    if obstacle and model.dtype in (torch.float16, torch.bfloat16):
        with in_float32(model.model) as converted:
            if converted and not _shown_obstacle(CausalLM(model.model, model.name)):
                obstacle = None
    model.reset()
    model.passes = 0
    if obstacle is not None:
        standard = _attention(model.model) in ("eager", "sdpa")
        raise UnsupportedModel(_refusal(model.name, obstacle, REMEDY if standard else SDPA))


def check_kind(model: PreTrainedModel, name: str) -> None:
    """Raise UnsupportedModel if class or configuration shows an obstacle; no pass is made."""
    obstacle = _known_obstacle(model)
    if obstacle is not None:
        raise UnsupportedModel(_refusal(name, obstacle, REMEDY))
    if model.device.type == "cpu" and _attention(model) == "flex_attention":
        # On a CPU, a mask makes torch's flex_attention end the process.
        obstacle = "its attention implementation flex_attention takes no token tree on a CPU"
        raise UnsupportedModel(_refusal(name, obstacle, SDPA))


def _refusal(name: str, obstacle: str, remedy: str) -> str:
    return f"{name} cannot be decoded speculatively: {obstacle}. {remedy}"


def _attention(model: PreTrainedModel) -> str:
    return str(getattr(model.config, "_attn_implementation", None) or "eager")


def _shown_obstacle(model: CausalLM) -> str | None:
    """Return the reason why a model cannot read a tree if its passes show one."""
    try:
        differences = _differences(model)
    except UnsupportedModel as error:
        return str(error)
    except Exception as error:  # a foreign model can fail in any way
        log.info("%s: a pass over a tree fails", model.name, exc_info=True)
        reason = str(error).strip().partition("\n")[0][:120]
        return f"its code cannot read a token tree ({type(error).__name__}: {reason})"
    worst = max(differences, key=lambda d: math.inf if math.isnan(d) else d)
    if worst <= TOLERANCE.get(model.dtype, 0.04):
        return None
    attention = _attention(model.model)
    if attention not in ("eager", "sdpa"):
        return f"its attention implementation {attention} does not follow the mask of a token tree"
    if _ignores_masks(model):
        return "its attention ignores the mask of a token tree"
    off = sum(not d <= TOLERANCE.get(model.dtype, 0.04) for d in differences)
    return (
        f"its tree pass differs from plain passes by {worst:.2g} (relative) in {off} of "
        f"{len(differences)} rows"
    )


@torch.inference_mode()
def _ignores_masks(model: CausalLM) -> bool:
    """Return whether a model gives the same logits for different masks."""
    chain, roots = range(-1, 5), [-1] * 6
    logits = []
    for parents in (chain, roots):
        model.forget()
        rows = TokenRows(range(1, 7), range(6), parents, scored=range(6), past=0)
        logits.append(model.forward_pass.logits(rows).double())
    return bool((logits[0] - logits[1]).norm() <= 1e-6 * logits[0].norm())


@contextlib.contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[bool]:
    """Convert a model's weights to float32 for the duration of the context.

    Yield False, without converting, if the memory is too small or the weights are quantized or
    spread over devices.
    """
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    free = free_memory(model.device)
    plain = not (hasattr(model.config, "quantization_config") or hasattr(model, "hf_device_map"))
    if not plain or (free is not None and 4 * sum(t.numel() for t in tensors) + SPARE > free):
        yield False
        return
    originals = [t.data for t in tensors]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.float()
        yield True
    finally:
        for tensor, original in zip(tensors, originals, strict=True):
            tensor.data = original


def computed_by(
    engine: Engine,
    model: PreTrainedModel,
    name: str,
    vocabulary: int,
    outputs: Sequence[int] | None,
    unshared: AbstractSet[int] = frozenset(),
) -> CausalLM | None:
    """Return the wrapper with another engine than transformers', or None if its results differ or
    it is slow; the other arguments are those of CausalLM."""
    try:
        quick = CausalLM(model, name, vocabulary, outputs=outputs, unshared=unshared, engine=engine)
    except Exception as error:  # the weights have an unexpected layout: use another pass
        log.warning("%s: the %s pass is not used, it fails: %s", name, engine, error)
        return None
    return quick if computes_alike(quick) and not speed.too_slow(quick) else None


def computes_alike(model: CausalLM) -> bool:
    """Return whether a wrapper's logits equal those of transformers' pass up to rounding, and
    whether the native pass's logits of a row do not depend, to the bit, on the rows beside it."""
    try:
        worst = max(_differences(model), key=lambda d: math.inf if math.isnan(d) else d)
        same = model.engine != "native" or invariant(model)
    except Exception as error:  # another pass can compute it
        log.warning("%s: the %s pass is not used, it fails: %s", model.name, model.engine, error)
        return False
    model.reset()
    model.passes = 0
    close = worst <= SAME.get(model.dtype, 0.15)
    if not (close and same):
        reason = f"its logits are {worst:.2g} off" if not close else "rows change one another"
        log.warning("%s: the %s pass is not used: %s", model.name, model.engine, reason)
    return close and same


def invariant(model: CausalLM) -> bool:
    """Return whether the rows of a tree equal those of passes over one token each."""
    context, tree = _probe(model)
    tree_pass = model.evaluate(context, tree)
    model.forget()
    for node in range(len(tree)):
        branch = [*context, *tree.tokens_to(node)]
        first = len(context) if node else 1  # the context is in the cache after the first branch
        for end in range(first, len(branch) + 1):
            single = model.evaluate(branch[:end], TreeBuilder(branch[end - 1]).build())
        if not np.array_equal(single.logits(0), tree_pass.logits(node)):
            return False
    return True


def _probe(model: CausalLM) -> tuple[list[int], TokenTree]:
    """Return up to 20 random tokens, and a tree of seven nodes with two branches."""
    rng = random.Random(0)
    draw = [rng.randrange(model.vocabulary) for _ in range(26)]
    builder = TreeBuilder(draw[19])
    guess = Provenance(Source.DRAFT)
    first = builder.add_path(draw[20:23], 0, guess)
    builder.add_path(draw[23:25], first[0], guess)
    builder.add_path(draw[25:], 0, guess)
    tree = builder.build()
    room = max(1, min(20, model.max_length - 4))  # an accepted path has three more, and a token
    return draw[20 - room : 20], tree


@torch.inference_mode()
def _differences(model: CausalLM) -> list[float]:
    """Return each row's relative difference from plain passes: of a tree, and after it."""
    context, tree = _probe(model)
    evaluation = model.evaluate(context, tree)
    branches = [context + tree.tokens_to(node) for node in range(len(tree))]
    logits = [evaluation.logits(node) for node in range(len(tree))]
    accepted = [*context, tree.tokens[1], tree.tokens[4], tree.tokens[2]]  # a branch and a token
    after = model.evaluate(accepted, TreeBuilder(accepted[-1]).build())
    plain = _plain(model, [*branches, accepted])
    return [*map(_difference, [*logits, after.logits(0)], plain)]


def _plain(model: CausalLM, texts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """Return the logits [vocabulary] after each text, from one batch of transformers' own pass
    without a cache. Shorter texts are padded at their end, which no token sees."""
    texts = [model.forward_pass.readable(text) for text in texts]
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[text[-1]] * (longest - len(text))] for text in texts])
    rows = longest + 1 - min(map(len, texts))
    logits = model.model(
        input_ids=ids.to(model.device), use_cache=False, logits_to_keep=rows
    ).logits[..., : model.vocabulary]
    return [logits[n, len(text) - 1 - longest] for n, text in enumerate(texts)]


def _difference(logits: object, plain: torch.Tensor) -> float:
    plain = plain.double().cpu()
    checked_logits = torch.as_tensor(logits).double()
    written = ~checked_logits.isneginf()  # a trimmed output vocabulary excludes the other tokens
    return float((checked_logits[written] - plain[written]).norm() / plain[written].norm())
