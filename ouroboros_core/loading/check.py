"""Checks whether a model can be verified over a tree: its configuration, and one tree pass compared
with plain passes."""

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
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Engine, engines
from ouroboros_core.models.forward import TokenRows
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

log = logging.getLogger(__name__)

REMEDY = (
    "Choose a decoder-only model with rotary or learned positions and full or sliding-window "
    "attention, such as Llama, Qwen2/3, "
    "Mistral, Gemma, Phi-3, GPT-2, GPT-NeoX, OPT, OLMo-2, Granite, StarCoder2, Cohere or StableLM."
)
TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.04}
"""Largest relative difference that rounding explains, by dtype; a mask that is ignored makes 0.06
to 1.7. A row that goes through another expert is off by as much, so a model in half precision is
refused only if float32 shows the difference, too."""

SDPA = "Load it with attn_implementation='sdpa'"

ALIKE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.15}
"""Largest relative difference between two orders of the same arithmetic, the compact pass and
transformers' own; exchanged layers make 1.6."""


def _known_obstacle(model: PreTrainedModel) -> str | None:
    """Return why a model cannot read a tree, where its class or configuration shows it."""
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
    """The wrapper of a model that can be verified over a tree, by the fastest of the `engines` that
    gives what transformers' own pass gives.

    Arguments are those of CausalLM; first: is tried before the others, where the model has any but
    transformers'. Raises UnsupportedModel. What another pass gives was compared with plain ones, so
    that no other check is needed then.
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
    """Return the engines other than transformers' own, the fastest first."""
    try:
        return engines(model)[:-1]
    except UnsupportedModel:  # `check_tree_support` raises it again, with the model's name
        return []


def check_tree_support(model: CausalLM) -> None:
    """Raise UnsupportedModel, with reason and remedy, unless a tree pass equals plain passes over
    its branches.

    A seven-node tree behind a short context, scored at once, must give the logits of each branch
    fed alone without any cache; so must the next pass, after an accepted path has been compacted in
    the cache. Windows that the configuration names are checked by `reach.windows_of`, behind more
    tokens than the longest of them. A check that fails in half precision is repeated in float32.
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
    """Raise UnsupportedModel for a model whose class or configuration shows that it cannot read a
    tree; computes nothing."""
    obstacle = _known_obstacle(model)
    if obstacle is not None:
        raise UnsupportedModel(_refusal(name, obstacle, REMEDY))
    if model.device.type == "cpu" and _attention(model) == "flex_attention":
        # On a CPU, torch's flex_attention ends the process when it is given a mask.
        obstacle = "its attention implementation flex_attention takes no token tree on a CPU"
        raise UnsupportedModel(_refusal(name, obstacle, SDPA))


def _refusal(name: str, obstacle: str, remedy: str) -> str:
    return f"{name} cannot be decoded speculatively: {obstacle}. {remedy}"


def _attention(model: PreTrainedModel) -> str:
    """Return the name of a model's attention implementation."""
    return str(getattr(model.config, "_attn_implementation", None) or "eager")


def _shown_obstacle(model: CausalLM) -> str | None:
    """Return why a model cannot read a tree, where its passes show it."""
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
    """Whether a model gives the same logits whatever a mask says."""
    causal = np.tri(6, dtype=np.bool_)
    alone = np.eye(6, dtype=np.bool_)
    logits = []
    for sees in (causal, alone):
        model.forget()
        rows = TokenRows(range(1, 7), range(6), sees, scored=range(6), past=0)
        logits.append(model.forward_pass.logits(rows).double())
    return bool((logits[0] - logits[1]).norm() <= 1e-6 * logits[0].norm())


@contextlib.contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[bool]:
    """Convert a model's weights to float32 for a while; gives False, and converts nothing, where
    the memory is too small or the weights are quantized or spread over devices."""
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    free = free_memory(model.device)
    whole = not (hasattr(model.config, "quantization_config") or hasattr(model, "hf_device_map"))
    if not whole or (free is not None and 4 * sum(t.numel() for t in tensors) + SPARE > free):
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
    """The wrapper with another pass than transformers' own, if it gives the same and is not slow;
    other arguments as for CausalLM."""
    try:
        quick = CausalLM(model, name, vocabulary, outputs=outputs, unshared=unshared, engine=engine)
    except Exception as error:  # weights laid out otherwise than expected: another pass is right
        log.warning("%s: the %s pass is not used, it fails: %s", name, engine, error)
        return None
    return quick if computes_alike(quick) and not speed.too_slow(quick) else None


def computes_alike(model: CausalLM) -> bool:
    """Whether a wrapper gives the logits of transformers' own pass, up to rounding; the native one
    the same logits for a row whatever rows are beside it, to the bit."""
    try:
        worst = max(_differences(model), key=lambda d: math.inf if math.isnan(d) else d)
        same = model.engine != "native" or invariant(model)
    except Exception as error:  # what this pass cannot compute, another one does
        log.warning("%s: the %s pass is not used, it fails: %s", model.name, model.engine, error)
        return False
    model.reset()
    model.passes = 0
    alike = worst <= ALIKE.get(model.dtype, 0.15)
    if not (alike and same):
        found = f"its logits are {worst:.2g} off" if not alike else "rows change one another"
        log.warning("%s: the %s pass is not used: %s", model.name, model.engine, found)
    return alike and same


def invariant(model: CausalLM) -> bool:
    """Whether the rows of a tree equal those of passes over one token each."""
    context, tree = _probe(model)
    together = model.evaluate(context, tree)
    model.forget()
    for node in range(len(tree)):
        branch = [*context, *(tree.tokens[n] for n in tree.path_to(node))]
        first = len(context) if node else 1  # of the context nothing has to be computed again
        for end in range(first, len(branch) + 1):
            alone = model.evaluate(branch[:end], TreeBuilder(branch[end - 1]).build())
        if not np.array_equal(alone.logits(0), together.logits(node)):
            return False
    return True


def _probe(model: CausalLM) -> tuple[list[int], TokenTree]:
    """A context of 20 random tokens, and a tree of seven nodes with two branches."""
    rng = random.Random(0)
    draw = [rng.randrange(model.vocabulary) for _ in range(26)]
    builder = TreeBuilder(draw[19])
    guess = Provenance(Source.DRAFT)
    first = builder.add_path(draw[20:23], 0, guess)
    builder.add_path(draw[23:25], first[0], guess)
    builder.add_path(draw[25:], 0, guess)
    return draw[:20], builder.build()


@torch.inference_mode()
def _differences(model: CausalLM) -> list[float]:
    """Return the relative difference of each row's logits, of a tree and behind an accepted path,
    from the plain passes'."""
    context, tree = _probe(model)
    evaluation = model.evaluate(context, tree)
    branches = [context + [tree.tokens[n] for n in tree.path_to(node)] for node in range(len(tree))]
    found = [evaluation.logits(node) for node in range(len(tree))]
    accepted = [*context, tree.tokens[1], tree.tokens[4], tree.tokens[2]]  # down a branch, and on
    after = model.evaluate(accepted, TreeBuilder(accepted[-1]).build())
    plain = _plain(model, [*branches, accepted])
    return [*map(_difference, [*found, after.logits(0)], plain)]


def _plain(model: CausalLM, texts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """The logits of shape (vocabulary) behind each text, by transformers' own pass without a cache:
    one over all of them, the shorter ones filled up behind their end, which no token looks at."""
    texts = [model.forward_pass.readable(text) for text in texts]
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[text[-1]] * (longest - len(text))] for text in texts])
    kept = longest + 1 - min(map(len, texts))
    logits = model.model(
        input_ids=ids.to(model.device), use_cache=False, logits_to_keep=kept
    ).logits[..., : model.vocabulary]
    return [logits[n, len(text) - 1 - longest] for n, text in enumerate(texts)]


def _difference(logits: object, plain: torch.Tensor) -> float:
    plain = plain.double().cpu()
    mine = torch.as_tensor(logits).double()
    written = ~mine.isneginf()  # a trimmed output vocabulary leaves the others without a chance
    return float((mine[written] - plain[written]).norm() / plain[written].norm())
