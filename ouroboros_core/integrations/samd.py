"""The interface of hyx1999/SAM-Decoding: the names that its inference script imports, and the
script's samd_generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.common import EndTokens, settings_of, stops_of, wrap
from ouroboros_core.loading.heads import kind_of, load_head
from ouroboros_core.loading.pairs import fingerprint
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models.heads.head import HeadDrafter
from ouroboros_core.models.heads.recipes import EAGLE, EAGLE3
from ouroboros_core.sampling import Sampler, Sampling

TREE_METHODS = {"token_recycle": "token_recycling", "eagle2": "eagle2"}
"""The reference's auxiliary methods -> ours; its static tree of EAGLE-1 is missing."""


def load_sam(path: str | Path, fingerprint: str | None = None) -> Corpus:
    """Load a corpus made by `ouroboros sam build`. The reference's pickle files are
    refused, because they can run code.

    fingerprint: the tokenizer's, to refuse a corpus of another one
    """
    if Path(path).suffix == ".pkl":
        raise InvalidInput(
            f"{path} is a pickle, which can run code when it is loaded: build an .npz with the "
            "command sam build"
        )
    return Corpus.load(Path(path), fingerprint)


@dataclass(frozen=True)
class SamdConfig:
    """Names, order and defaults as in the reference.

    n_predicts                    tokens copied in a step, for any length of the match
    len_threshold, len_bias       as in the paper
    tree_method, tree_model_path  the drafter for other steps: token_recycle, or eagle2 with the
                                  folder or Hub id of a head for the model, trained here or
                                  published
    max_predicts, cache_type, use_last_hidden_states   no effect: there is one cache, which grows
    """

    n_predicts: int = 40
    max_predicts: int = 70
    len_threshold: int = 5
    len_bias: int = 5
    cache_type: str = "static"
    use_last_hidden_states: bool = False
    tree_method: str = "token_recycle"
    tree_model_path: str | Path | None = None

    def __post_init__(self) -> None:
        if self.tree_method not in TREE_METHODS:
            raise InvalidInput(
                f"tree_method must be one of {', '.join(TREE_METHODS)}, got {self.tree_method}"
            )
        self.settings()

    def settings(self) -> Any:
        lengths = {"n_predicts": self.n_predicts, "len_threshold": self.len_threshold}
        lengths |= {"len_bias": self.len_bias, "auxiliary_size": 60}
        auxiliary = TREE_METHODS[self.tree_method]
        if auxiliary == "eagle2" and self.tree_model_path and self.head_kind == EAGLE3:
            auxiliary = "eagle3"
        ways = {"alpha": 16.0, "copy_from": "first", "auxiliary": auxiliary}
        return settings_of("sam", {"auxiliary": "tree_method"}, **lengths, **ways)

    @property
    def head_kind(self) -> str:
        """The kind of the head in `tree_model_path`: EAGLE-2's or EAGLE-3's, which have one
        tree."""
        return EAGLE3 if kind_of(str(self.tree_model_path)) == EAGLE3 else EAGLE


@dataclass(frozen=True)
class SamdGenerationConfig:
    """Names, order and defaults as in the reference; top_p 0 keeps all tokens.

    max_steps  most target passes
    greedy     False: sampling, which is exact here and biased in the reference
    """

    max_steps: int = 512
    max_new_tokens: int = 512
    max_cache_len: int = 2048
    greedy: bool = True
    temperature: float = 0.0
    top_p: float = 0.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not self.greedy and not self.temperature > 0:
            raise InvalidInput(
                f"temperature must be above 0 with greedy=False, got {self.temperature}"
            )
        self.sampling(0)

    def sampling(self, seed: int) -> Sampling:
        """Return this project's equivalent settings."""
        settings = {
            "temperature": self.temperature,
            "top_p": self.top_p or 1.0,
            "top_k": self.top_k,
        }
        return Sampling.parse({"seed": seed, **({} if self.greedy else settings)})


@dataclass(frozen=True)
class Outputs:
    """The result of a run.

    output_ids              [[prompt and new tokens]], a list in a list
    decode_steps            number of target passes after the pass over the prompt
    decode_tokens           number of new tokens
    accept_length_per_step  number of tokens that each of these passes emitted
    """

    output_ids: list[list[int]]
    decode_steps: int
    decode_tokens: int
    accept_length_per_step: list[int]

    @property
    def accepet_length_per_step(self) -> list[int]:
        """accept_length_per_step in the reference's spelling."""
        return self.accept_length_per_step


class DraftModel:
    """The sources of drafts of a `SamdModel`."""

    def __init__(
        self,
        config: SamdConfig,
        sam_dyn: None = None,
        sam_static: Corpus | None = None,
        tree_model: None = None,
        lm: PreTrainedModel | None = None,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        """Collect the sources.

        sam_static           corpus from `load_sam`
        lm, dtype, device    no effect: SamdModel has the model
        sam_dyn, tree_model  must be None: every run makes its automaton of the text and its tree
        """
        for name, value in (("sam_dyn", sam_dyn), ("tree_model", tree_model)):
            if value is not None:
                raise InvalidInput(
                    f"{name} must be None, got a {type(value).__name__}: it is made for every run"
                )
        self.config, self.sam_static = config, sam_static


class SamdModel:
    """A transformers model with SAM-Decoding; the model itself does not change."""

    def __init__(
        self,
        samd_config: SamdConfig,
        lm: PreTrainedModel,
        draft: DraftModel,
        eos_token_id: EndTokens,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        stop_token_id: int | None = None,
    ) -> None:
        """Check and wrap the model.

        dtype, device: the model's, or None. Raises InvalidInput or UnsupportedModel, and for eagle2
        WeightsUnavailable or VocabularyMismatch.
        """
        if dtype is not None and lm.dtype != dtype:
            raise InvalidInput(
                f"the model is in {lm.dtype}, but dtype is {dtype}: load it with dtype={dtype}, or "
                "leave dtype out"
            )
        if device is not None and torch.device(device).type != lm.device.type:
            raise InvalidInput(
                f"the model is on {lm.device}, but device is {device}: model.to({str(device)!r})"
            )
        self.config, self.draft = samd_config, draft
        self.stops = stops_of(eos_token_id) | stops_of(stop_token_id)
        self._target = wrap(lm, "the model")
        corpus = draft.sam_static
        if corpus is not None and corpus.largest_token >= self._target.vocabulary:
            raise InvalidInput(
                f"the corpus holds token id {corpus.largest_token}, beyond the vocabulary of the "
                "model"
            )
        self._heads: dict[str, HeadDrafter] = {}
        if samd_config.tree_method == "eagle2":
            if samd_config.tree_model_path is None:
                raise InvalidInput(
                    "tree_method eagle2 needs tree_model_path, the folder of a head (train eagle "
                    "makes one)"
                )
            kind = samd_config.head_kind
            head = load_head(str(samd_config.tree_model_path), self._target, kind)
            self._heads = {kind: head}

    def eval(self) -> SamdModel:
        return self

    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        generation_config: SamdGenerationConfig | None = None,
        **_: Any,
    ) -> Outputs:
        """Continue ids [1, tokens] with the model's text.

        The text ends at an end token, after max_new_tokens or max_steps, or at max_cache_len or the
        model's own length. attention_mask must not hide tokens. Further arguments of the tokenizer,
        such as token_type_ids, have no effect.
        """
        settings = generation_config or SamdGenerationConfig()
        if input_ids.dim() != 2 or input_ids.shape[0] != 1:
            raise InvalidInput(
                f"input_ids must have the shape [1, tokens], got {list(input_ids.shape)}: one text "
                "at a time"
            )
        if attention_mask is not None and not bool(attention_mask.all()):
            raise InvalidInput(
                "attention_mask hides some of the tokens: leave the padding out, one text needs "
                "none"
            )
        prompt = input_ids[0].tolist()
        count = min(
            settings.max_new_tokens,
            settings.max_cache_len - len(prompt),
            self._target.max_length - len(prompt),
        )
        if count < 1:
            raise InvalidInput(
                f"the prompt has {len(prompt)} tokens, max_new_tokens is {settings.max_new_tokens} "
                f"and max_cache_len {settings.max_cache_len}, and the model has room for "
                f"{self._target.max_length}: none for a new token"
            )
        seed = 0 if settings.greedy else int(torch.randint(2**32, (1,), dtype=torch.int64))
        sampler = Sampler(settings.sampling(seed), self._target.vocabulary)
        resources = Resources(
            sampler, stop_tokens=self.stops, heads=self._heads, corpus=self.draft.sam_static
        )
        method = methods.create(methods.get("sam"), self.config.settings(), resources)
        ends: dict[str, Any] = {"max_new_tokens": count, "stop_tokens": self.stops}
        steps = decode(self._target, method, prompt, sampler=sampler, **ends)
        lengths: list[int] = []
        new: list[int] = []
        for step in islice(steps, settings.max_steps):
            lengths.append(len(step.tokens))
            new += step.tokens
        return Outputs([[*prompt, *new]], len(lengths), len(new), lengths)


def samd_generate(
    input_ids: torch.Tensor,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    sam_path: str | Path | None = None,
    n_predicts: int = 15,
    tree_method: str = "token_recycle",
    tree_model_path: str | Path | None = None,
    max_new_tokens: int = 512,
    max_cache_len: int = 2048,
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
) -> Outputs:
    """Continue ids [1, tokens] greedily, copying from text and corpus (SAM-Decoding, arXiv
    2411.10666).

    sam_path         a corpus made with this tokenizer (`sam build`)
    tree_method      token_recycle or eagle2
    tree_model_path  for eagle2, the folder or Hub id of a head for the model
    dtype, device    the model's, or None
    """
    config = SamdConfig(
        n_predicts=n_predicts, tree_method=tree_method, tree_model_path=tree_model_path
    )
    sam = load_sam(sam_path, fingerprint(tokenizer)) if sam_path is not None else None
    ends: Sequence[int] | int | None = tokenizer.eos_token_id
    built = SamdModel(config, model, DraftModel(config, sam_static=sam), ends, dtype, device)
    return built.generate(
        input_ids,
        generation_config=SamdGenerationConfig(
            max_new_tokens=max_new_tokens, max_cache_len=max_cache_len
        ),
    )
