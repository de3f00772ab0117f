"""Checks whether a model can be verified over a tree: its configuration, and one tree pass compared
with plain passes."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.loading import speed
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.passes import Engine, engines
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
to 1.7."""

ALIKE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.15}
"""Largest relative difference between two orders of the same arithmetic, the compact pass and
transformers' own; exchanged layers make 1.6."""


def _known_obstacle(model: PreTrainedModel) -> str | None:
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
        return f"it has layers of kind {', '.join(stateful)}, whose state cannot branch over a tree"
    if getattr(model, "_is_stateful", False):
        return "it keeps a recurrent or convolution state, which cannot branch over a tree"
    return None


def checked(
    model: PreTrainedModel,
    name: str,
    vocabulary: int | None = None,
    outputs: Sequence[int] | None = None,
    *,
    first: Engine | None = None,
) -> CausalLM:
    """The wrapper of a model that can be verified over a tree, by the fastest of the `engines` that
    gives what transformers' own pass gives.

    Arguments are those of CausalLM; first: is tried before the others, where the model has any but
    transformers'. Raises UnsupportedModel. What another pass gives was compared with plain ones, so
    that no other check is needed then.
    """
    general = CausalLM(model, name, vocabulary)
    if _known_obstacle(model) is None:
        quickest = engines(model)[:-1]
        if first is not None and quickest:
            quickest = [first, *quickest]
        for engine in quickest:
            quick = computed_by(engine, model, name, general.vocabulary, outputs)
            if quick is not None:
                return quick
    check_tree_support(general)
    return general if outputs is None else CausalLM(model, name, vocabulary, outputs=outputs)


def check_tree_support(model: CausalLM) -> None:
    """Raise UnsupportedModel, with reason and remedy, unless a tree pass equals plain passes over
    its branches.

    A seven-node tree behind a short context, scored at once, must give the logits of each branch
    fed alone without any cache; so must the next pass, after an accepted path has been compacted in
    the cache.
    """
    obstacle = _known_obstacle(model.model)
    if obstacle is None:
        try:
            worst = _worst_difference(model)
        except Exception as error:  # whatever a foreign model throws here is the reason
            obstacle = f"its forward pass with a tree mask fails ({type(error).__name__}: {error})"
        else:
            if not worst <= TOLERANCE.get(model.dtype, 0.04):
                obstacle = (
                    f"its tree pass differs from plain passes by {worst:.2g} (relative): its "
                    "attention ignores the mask"
                )
    model.reset()
    model.passes = 0
    if obstacle is not None:
        raise UnsupportedModel(
            f"{model.name} cannot be decoded speculatively: {obstacle}. {REMEDY}"
        )


def computed_by(
    engine: Engine,
    model: PreTrainedModel,
    name: str,
    vocabulary: int,
    outputs: Sequence[int] | None,
) -> CausalLM | None:
    """The wrapper with another pass than transformers' own, if it gives the same and is not slow;
    other arguments as for CausalLM."""
    try:
        quick = CausalLM(model, name, vocabulary, outputs=outputs, engine=engine)
    except Exception as error:  # weights laid out otherwise than expected: another pass is right
        log.warning("%s: the %s pass is not used, it fails: %s", name, engine, error)
        return None
    return quick if computes_alike(quick) and not speed.too_slow(quick) else None


def computes_alike(model: CausalLM) -> bool:
    """Whether a wrapper gives the logits of transformers' own pass, up to rounding; the native one
    the same logits for a row whatever rows are beside it, to the bit."""
    try:
        worst = _worst_difference(model)
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
def _worst_difference(model: CausalLM) -> float:
    """The largest relative difference of a tree's logits, and of those behind an accepted path,
    from the plain passes'."""
    context, tree = _probe(model)
    evaluation = model.evaluate(context, tree)
    branches = [context + [tree.tokens[n] for n in tree.path_to(node)] for node in range(len(tree))]
    found = [evaluation.logits(node) for node in range(len(tree))]
    accepted = [*context, tree.tokens[1], tree.tokens[4], tree.tokens[2]]  # down a branch, and on
    after = model.evaluate(accepted, TreeBuilder(accepted[-1]).build())
    plain = _plain(model, [*branches, accepted])
    differences = [*map(_difference, [*found, after.logits(0)], plain)]
    return math.nan if any(map(math.isnan, differences)) else max(differences)


def _plain(model: CausalLM, texts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """The logits of shape (vocabulary) behind each text, by transformers' own pass without a cache:
    one over all of them, the shorter ones filled up behind their end, which no token looks at."""
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
