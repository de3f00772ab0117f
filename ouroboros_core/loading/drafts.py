"""Draft models: their vocabulary checked, their embeddings shared with the target's, their pass the
compact one where it fits."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core.errors import InvalidInput, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.loading.check import checked
from ouroboros_core.loading.sharding import processes
from ouroboros_core.loading.weights import load_model, load_tokenizer, short_name
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.passes import Engine

SHARED = "shared with the target"
OUTPUTS = "outputs.safetensors"
INDEX = "model.safetensors.index.json"
FITTING = (
    "SmolLM2-360M-Instruct with SmolLM2-135M-Instruct, Qwen2.5-7B-Instruct with "
    "Qwen2.5-0.5B-Instruct, Llama-3.1-8B with 3.2-1B"
)


@dataclass(frozen=True)
class ForeignDraft:
    """A draft model with a vocabulary of its own, whose text is translated.

    tokenizer  its own
    differs    how its vocabulary differs from the target's, in words
    """

    model: PreTrainedModel
    name: str
    tokenizer: PreTrainedTokenizerBase
    differs: str


def vocabularies_differ(
    size: int,
    target: CausalLM,
    tokenizers: tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase] | None = None,
) -> str:
    """How the draft's vocabulary differs from the target's, in words; '' where its token ids mean
    the same. Arguments are those of `check_vocabulary`."""
    if tokenizers is not None:
        mine, theirs = (t.get_vocab() for t in tokenizers)
        if mine != theirs:
            other = next(
                (w for w, i in mine.items() if theirs.get(w) != i),
                next(iter(theirs.keys() - mine.keys()), ""),
            )
            return (
                f"has {len(mine)} tokens, target {target.name} has {len(theirs)}, and they differ "
                f"at {other!r}"
            )
    if abs(size - target.vocabulary) > 0.01 * target.vocabulary:
        return f"has {size} tokens, target {target.name} has {target.vocabulary}"
    return ""


def check_vocabulary(
    size: int,
    target: CausalLM,
    name: str,
    tokenizers: tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase] | None = None,
) -> None:
    """Raise VocabularyMismatch unless the draft's token ids mean what the target's do.

    Output layers may be padded to different sizes (as in Qwen2.5); the words may not differ.
    tokenizers: draft's and target's.
    """
    reason = vocabularies_differ(size, target, tokenizers)
    if reason:
        raise VocabularyMismatch(
            f"Draft model {name} {reason}: speculative decoding needs one shared vocabulary. Pairs "
            f"that fit: {FITTING}."
        )


def load_draft(
    name: str,
    target: CausalLM,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    device: torch.device,
) -> CausalLM | ForeignDraft:
    """The draft model; a foreign one where its tokenizer has another vocabulary than the target's.

    Raises VocabularyMismatch for another vocabulary without a tokenizer, or with an output layer
    that was trimmed for a target.
    """
    folder = Path(name).expanduser()
    index = folder / INDEX
    outputs = _read_outputs(folder)
    if (
        index.exists()
        and json.loads(index.read_text(encoding="utf-8")).get("metadata", {}).get("embeddings")
        == SHARED
    ):
        if processes(target.model) > 1:
            raise InvalidInput(
                f"the draft {folder.name} shares its target's embeddings, and here these are split "
                "over processes: name a draft with embeddings of its own"
            )
        model = assemble_draft(folder, target.model, dtype)
    else:
        model = load_model(name, dtype, device, None)
        size, own = vocabulary_size(model), None
        with contextlib.suppress(
            WeightsUnavailable
        ):  # a draft without tokenizer files is judged by its size alone
            own = load_tokenizer(name)
        if own is None or outputs is not None:
            check_vocabulary(size, target, name, own and (own, tokenizer))
        elif differs := vocabularies_differ(size, target, (own, tokenizer)):
            return ForeignDraft(model, short_name(name), own, differs)
    return join_draft(model, short_name(name), target, outputs)


def _read_outputs(folder: Path) -> list[int] | None:
    """The token ids that a draft with a trimmed output vocabulary can write."""
    from safetensors.torch import load_file

    file = folder / OUTPUTS
    return load_file(file)["outputs"].tolist() if file.exists() else None


def join_draft(
    model: PreTrainedModel, name: str, target: CausalLM, outputs: Sequence[int] | None = None
) -> CausalLM:
    """The checked wrapper of a draft, computed by the fastest pass that fits and gives the same;
    in fixed shapes where the target is.

    Where output layers are padded differently, both models score the smaller vocabulary.
    """
    first: Engine | None = "static" if target.engine == "static" else None
    small = checked(model, name, target.vocabulary, outputs, first=first)
    target.limit(small.vocabulary)
    small.drafts = True
    return small


def vocabulary_size(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config(decoder=True).vocab_size)


def assemble_draft(folder: Path, target: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A draft that was saved without embeddings, put together with the target's; the matrix is
    shared, not copied."""
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
            part = load_file(folder / file)
        except (OSError, SafetensorError) as error:
            raise WeightsUnavailable(
                f"{folder / file} is missing or damaged: {error}. Fetch the project again."
            ) from None
        state |= {k: v.to(device=embeddings.weight.device, dtype=dtype) for k, v in part.items()}
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
