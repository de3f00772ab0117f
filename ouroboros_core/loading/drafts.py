"""Loading of draft models: the check of the vocabulary, embeddings shared with the target, and the
fastest pass."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core.errors import VocabularyMismatch, WeightsUnavailable
from ouroboros_core.loading.check import checked
from ouroboros_core.loading.weights import load_model, load_tokenizer, short_name
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Engine
from ouroboros_core.models.state_candidates import is_block_drafter

SHARED = "shared with the target"
OUTPUTS = "outputs.safetensors"
INDEX = "model.safetensors.index.json"
SHARED_FRACTION = 0.9
"""Fraction of a target's words that a draft must have to propose token ids."""

FITTING = (
    "SmolLM2-360M-Instruct with SmolLM2-135M-Instruct, Qwen2.5-7B-Instruct with "
    "Qwen2.5-0.5B-Instruct, Llama-3.1-8B with 3.2-1B"
)


@dataclass(frozen=True)
class ForeignDraft:
    """A draft model with a different vocabulary, whose text is retokenized for the target.

    tokenizer  the draft's tokenizer
    differs    difference between the vocabularies, in words
    """

    model: PreTrainedModel
    name: str
    tokenizer: PreTrainedTokenizerBase
    differs: str


@dataclass(frozen=True)
class BlockDraft:
    """A DFlash drafter. It reads the target's states and uses the target's embeddings and output
    layer."""

    model: PreTrainedModel
    name: str


@dataclass(frozen=True)
class SharedVocabulary:
    """The result of a comparison of a draft's vocabulary with the target's.

    differs            reason why the draft cannot propose token ids, or ''
    unshared           ids of the draft that have another meaning for the target
    differing_entries  number of entries of either vocabulary that the draft never proposes
    """

    differs: str = ""
    unshared: frozenset[int] = frozenset()
    differing_entries: int = 0


def shared_vocabulary(
    size: int,
    target: CausalLM,
    tokenizers: tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase] | None = None,
) -> SharedVocabulary:
    """Compare a draft's vocabulary with the target's.

    If the vocabularies differ in a few words, the draft proposes only ids with the same meaning. It
    must have its target's ids for all common words, and most of its target's words.

    size        rows of the draft's output layer
    tokenizers  the draft's and the target's
    """
    if tokenizers is None:
        differs = ""
        if abs(size - target.vocabulary) > 0.01 * target.vocabulary:
            differs = f"has {size} tokens, target {target.name} has {target.vocabulary}"
        return SharedVocabulary(differs, frozenset(), max(0, target.vocabulary - size))
    draft_ids, target_ids = (tokenizer.get_vocab() for tokenizer in tokenizers)
    common = draft_ids.keys() & target_ids.keys()
    moved = next(
        (word for word in draft_ids if word in common and draft_ids[word] != target_ids[word]), None
    )
    if moved is not None or len(common) < SHARED_FRACTION * len(target_ids):
        different = moved
        if moved is None:
            different = next((word for word in target_ids if word not in common), "")
        return SharedVocabulary(
            f"has {len(draft_ids)} tokens, target {target.name} has {len(target_ids)}, and they "
            f"differ at {different!r}"
        )
    different_words = draft_ids.keys() ^ target_ids.keys()
    unshared = {
        ids[word] for ids in (draft_ids, target_ids) for word in different_words if word in ids
    }
    without_rows = sum(target_ids[word] >= size for word in common)
    return SharedVocabulary(
        "",
        frozenset(token for token in unshared if token < size),
        len(different_words) + without_rows,
    )


def check_vocabulary(size: int, target: CausalLM, name: str) -> None:
    """Raise VocabularyMismatch unless a draft without a tokenizer has about as many tokens as its
    target; output layers may be padded to different sizes (as in Qwen2.5)."""
    refuse_draft(shared_vocabulary(size, target), name)


def refuse_draft(shared: SharedVocabulary, name: str) -> None:
    """Raise VocabularyMismatch for a draft that cannot propose the target's token ids."""
    if shared.differs:
        raise VocabularyMismatch(
            f"Draft model {name} {shared.differs}: speculative decoding needs one shared "
            f"vocabulary. Pairs that fit: {FITTING}."
        )


def load_draft(
    name: str,
    target: CausalLM,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    device: torch.device,
) -> CausalLM | ForeignDraft | BlockDraft:
    """Return the draft model, as a ForeignDraft if its tokenizer has a different vocabulary, or as
    a BlockDraft.

    Raises VocabularyMismatch for a different vocabulary without a tokenizer, or with an output
    layer that was trimmed for a target.
    """
    folder = Path(name).expanduser()
    index = folder / INDEX
    outputs = read_outputs(folder)
    if (
        os.path.isfile(index)  # the name of a folder can be too long for a path
        and json.loads(index.read_text(encoding="utf-8")).get("metadata", {}).get("embeddings")
        == SHARED
    ):
        model, shared = assemble_draft(folder, target.model, dtype), SharedVocabulary()
    else:
        model = load_model(name, dtype, device, None)
        if is_block_drafter(model.config):
            return BlockDraft(model, short_name(name))
        size, draft_tokenizer = vocabulary_size(model), None
        # Without tokenizer files, only the sizes of the vocabularies are compared.
        with contextlib.suppress(WeightsUnavailable):
            draft_tokenizer = load_tokenizer(name)
        tokenizers = draft_tokenizer and (draft_tokenizer, tokenizer)
        shared = shared_vocabulary(size, target, tokenizers)
        if draft_tokenizer is None or outputs is not None:
            refuse_draft(shared, name)
        elif shared.differs:
            return ForeignDraft(model, short_name(name), draft_tokenizer, shared.differs)
    return join_draft(model, short_name(name), target, outputs, shared)


def read_outputs(folder: Path) -> list[int] | None:
    """Return the token ids that a draft with a trimmed output vocabulary can write."""
    from safetensors.torch import load_file

    file = folder / OUTPUTS
    return load_file(file)["outputs"].tolist() if os.path.isfile(file) else None


def join_draft(
    model: PreTrainedModel,
    name: str,
    target: CausalLM,
    outputs: Sequence[int] | None = None,
    shared: SharedVocabulary = SharedVocabulary(),
) -> CausalLM:
    """Return the checked wrapper of a draft with the fastest pass that gives the same results; in
    fixed shapes if the target's are.

    The draft scores only token ids that it shares with the target.
    """
    first: Engine | None = "static" if target.engine == "static" else None
    small = checked(model, name, target.vocabulary, outputs, unshared=shared.unshared, first=first)
    small.drafts = True
    small.round_weights()
    small.differing_entries = shared.differing_entries
    return small


def vocabulary_size(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config(decoder=True).vocab_size)


def assemble_draft(folder: Path, target: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """Return a draft that was saved without embeddings, with the target's embeddings, which are
    shared and not copied."""
    from safetensors.torch import load_file

    config = transformers.AutoConfig.from_pretrained(folder)
    for key in ("hidden_size", "vocab_size"):
        if getattr(config, key) != getattr(target.config, key):
            raise VocabularyMismatch(
                f"Draft model {folder.name} was made for a target with {key} "
                f"{getattr(config, key)}, this one has "
                f"{getattr(target.config, key)}: its embeddings are the target's. Use the target "
                "named in its card."
            )
    config.dtype = dtype
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    embeddings = target.get_input_embeddings()
    state: dict[str, torch.Tensor] = {}
    for file in sorted(
        set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    ):
        try:
            tensors = load_file(folder / file)
        except (OSError, SafetensorError) as error:
            raise WeightsUnavailable(
                f"{folder / file} is missing or damaged: {error}. Fetch the project again."
            ) from None
        device = embeddings.weight.device
        state |= {name: t.to(device=device, dtype=dtype) for name, t in tensors.items()}
    model.load_state_dict(state, strict=False, assign=True)
    model.set_input_embeddings(embeddings)
    model.set_output_embeddings(target.get_output_embeddings())
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config).to(
        embeddings.weight.device
    )
    left = [name for name, p in model.named_parameters() if p.is_meta]
    if left:
        raise WeightsUnavailable(
            f"the draft in {folder.name} is incomplete: {left[0]} is missing. Fetch the project "
            "again."
        )
    return model.eval()
