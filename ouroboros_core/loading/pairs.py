"""A target model, a draft model, mostly with the same vocabulary, and their tokenizer.

Sources: the embedded pair, a local folder or GGUF file, a Hub id. Weights are safetensors or GGUF
only, of a published EAGLE head also a .bin file's tensors, and no code out of a model repository is
ever run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ouroboros_core.adaptive.cost_model import TYPICAL, Costs
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput, UnsupportedModel
from ouroboros_core.loading import embedded
from ouroboros_core.loading.blocks import Weights, use_blocks
from ouroboros_core.loading.capacity import check_characters, check_memory, check_text, give_back
from ouroboros_core.loading.chat_template import ChatTemplate
from ouroboros_core.loading.check import check_tree_support, checked
from ouroboros_core.loading.costs import costs_of
from ouroboros_core.loading.drafts import (
    BlockDraft,
    ForeignDraft,
    check_vocabulary,
    join_draft,
    load_draft,
    vocabulary_size,
)
from ouroboros_core.loading.heads import choose_folders, load_heads, shipped_mtp
from ouroboros_core.loading.machine import (
    DType,
    available_threads,
    choose_device,
    choose_dtype,
    device_name,
    processor,
)
from ouroboros_core.loading.weights import (
    DeviceMap,
    Quantize,
    load_model,
    load_tokenizer,
    short_name,
    stop_tokens,
)
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.models import candidates, state_candidates
from ouroboros_core.models.candidates import TransformersCandidates
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import FAMILY
from ouroboros_core.models.engines.native import build, pages
from ouroboros_core.models.heads.head import HeadDrafter
from ouroboros_core.models.heads.mtp import ShippedMtp
from ouroboros_core.models.heads.recipes import MTP
from ouroboros_core.models.processed import Rules
from ouroboros_core.models.rules import (
    own_processors,
    own_settings,
    rules_of,
    stateless,
    unapplied_settings,
)
from ouroboros_core.models.self_draft import SelfDraft
from ouroboros_core.models.skips import generic
from ouroboros_core.version import VERSION

log = logging.getLogger(__name__)

Passes = Literal["auto", "static", "transformers"]
SMALL = 10**9
"""Parameters below which a model is called small."""


@dataclass(frozen=True)
class Placement:
    """Where the models of a pair lie, and the form of their weights.

    device      auto (CUDA, else MPS, else CPU), cpu, cuda, cuda:1, mps
    device_map  of the target, overrides its device: what accelerate takes ('auto' spreads it over
                devices). Left out, a target that does not fit on a GPU is spread
    quantize    the target's weights in 8 or 4 bits, by bitsandbytes; needs an NVIDIA GPU
    """

    device: str = "auto"
    dtype: DType = "auto"
    device_map: DeviceMap | None = None
    quantize: Quantize | None = None


@dataclass(frozen=True)
class Execution:
    """How the passes of a pair are computed.

    passes   auto: the native or the compact pass, on a GPU the one in fixed shapes, where the
             target fits it and gives the same; static: the compact pass in fixed shapes, of the
             draft too, which a GPU replays as CUDA graphs; transformers: its own always
    weights  weights of the target that the native pass reads: bfloat16, the blocks of its GGUF
             file, or (auto) the faster of both for each pass; the logits are the same
    checks   False: compute nothing yet, for a process that only lends the models to others
             (ZeroGPU): no pass is checked or timed, and the target's passes are transformers' own
    """

    passes: Passes = "auto"
    weights: Weights = "bf16"
    checks: bool = True


@dataclass(frozen=True)
class Pair:
    """A loaded and checked pair. Draft, heads and corpus may be missing; methods that need them
    cannot run then.

    heads  the heads that were trained for the target, by kind
    foreign_draft  instead of `draft`, a draft model with another vocabulary
    block_draft    instead of `draft`, a DFlash drafter
    """

    target: CausalLM
    draft: CausalLM | None
    tokenizer: PreTrainedTokenizerBase
    stop_tokens: frozenset[int]
    quantization: Quantize | None = None
    corpus: Corpus | None = None
    costs: Costs = TYPICAL
    heads: Mapping[str, HeadDrafter] = field(default_factory=dict)
    foreign_draft: ForeignDraft | None = None
    block_draft: BlockDraft | None = None

    @property
    def small(self) -> bool:
        """Whether one must expect mistakes of the target."""
        return bool(self.target.model.num_parameters() < SMALL)

    @property
    def draft_name(self) -> str | None:
        """The name of the draft model of any kind."""
        draft = self.draft or self.foreign_draft or self.block_draft
        return draft.name if draft else None

    @property
    def foreign(self) -> str:
        """How the draft's vocabulary differs from the target's, in words; '' if it does not."""
        draft = self.foreign_draft
        return f"{draft.name} {draft.differs}" if draft else ""

    @property
    def beside(self) -> list[str]:
        """Return in words the models beside the target."""
        parts = {"draft": self.draft, **self.heads, "corpus": self.corpus}
        said = [f"{what} {part.name}" for what, part in parts.items() if part]
        if self.draft is not None and self.draft.differing_entries:
            said[0] += f" ({self.draft.differing_entries} entries of the vocabularies differ)"
        if self.foreign_draft is not None:
            said.insert(0, f"draft {self.foreign_draft.name} of another tokenizer (hf_universal)")
        if self.block_draft is not None:
            said.insert(0, f"DFlash drafter {self.block_draft.name} (hf_dflash)")
        return said

    def stops(self, *, chat: bool) -> frozenset[int]:
        """The token ids that end a text: raw those at which `generate` stops, in chat also those
        that end a turn."""
        return self.stop_tokens | self.template.ends if chat else self.stop_tokens

    @cached_property
    def template(self) -> ChatTemplate:
        """The tokenizer's chat template, where it has one, and its control tokens."""
        return ChatTemplate(self.tokenizer)

    def encode(self, prompt: str, *, chat: bool, history: Sequence[str] = ()) -> list[int]:
        """Token ids of a prompt, with the tokenizer's chat template around it or raw.

        In chat, prompt and history are text: a control token that somebody wrote is none. Raw it is
        one, as in any call of the tokenizer, but for end tokens that the tokenizer itself adds
        behind a text: nothing could follow them.

        history: earlier turns, user and assistant alternately; needs the chat template.
        """
        text = "".join((*history, prompt))
        check_text(text)
        check_characters(text, self.tokenizer, self.target.max_length, self.target.name)
        if history and not chat:
            raise InvalidInput(
                "earlier turns need the chat template: leave them out, or do not send the prompt "
                "raw"
            )
        if chat:
            if not self.tokenizer.chat_template:
                raise InvalidInput(f"{self.target.name} has no chat template: send the prompt raw")
            try:
                return self.template.ids((*history, prompt))
            except Exception as error:  # the template is a program of the model's author
                raise InvalidInput(
                    f"the chat template of {self.target.name} fails: {error}. Send the prompt raw"
                ) from None
        try:
            encoded = self.tokenizer(prompt, return_special_tokens_mask=True)
        except Exception as error:  # of characters without a token, where none stands for them
            raise InvalidInput(
                f"the tokenizer of {self.target.name} cannot read the prompt: {error}. Write it in "
                "characters that its vocabulary has"
            ) from None
        ids, added = list(encoded.input_ids), list(encoded.special_tokens_mask)
        while len(ids) > 1 and added[-1] and ids[-1] in self.stops(chat=True):
            ids.pop()
            added.pop()
        return ids

    def as_text(self, text: str) -> list[int]:
        """Return the token ids of a text without control tokens; raise InvalidInput for no text."""
        check_text(text)
        return self.template.as_text(text)

    def check_memory(self, models: Sequence[CausalLM], tokens: int) -> None:
        """Raise NotEnoughMemory unless a run of these models over `tokens` tokens fits."""
        check_memory(models, tokens)

    def reset(self) -> None:
        """Forget all texts and return their memory to the system, but for what passes in fixed
        shapes have been captured over."""
        for model in (self.target, self.draft, *self.heads.values()):
            if isinstance(model, CausalLM) and model.engine == "static":
                model.forget()
            elif model is not None:
                model.reset()
        give_back()

    @cached_property
    def self_draft(self) -> SelfDraft | None:
        """Return the target without the generic choice of layers as a drafter; None if no layer can
        be skipped."""
        try:
            return SelfDraft(self.target, generic(self.target.layers))
        except UnsupportedModel as error:
            log.info("%s", error)
            return None

    @property
    def candidate_generators(self) -> dict[str, TransformersCandidates]:
        """transformers' own candidate generators for one run, by kind."""
        target, draft, foreign = self.target, self.draft, self.foreign_draft
        generators = {"prompt_lookup": candidates.lookup(target.device)}
        if candidates.ends_early(target.model):
            generators["early_exit"] = candidates.early_exit(target.model, target.name)
        if state_candidates.mtp_layers(target.model):
            generators["mtp"] = state_candidates.mtp(target, lambda: self.mtp_layers)
        if self.block_draft is not None:
            model, name = self.block_draft.model, self.block_draft.name
            generators["dflash"] = state_candidates.dflash(target, model, name)
        if draft is not None:
            generators["assisted"] = candidates.assisted(draft.model, draft.name)
        other = foreign if foreign is not None else draft
        if other is not None and self.tokenizer is not None:
            words = foreign.tokenizer if foreign is not None else self.tokenizer
            translated = other.model, other.name, words, self.tokenizer
            generators["universal"] = candidates.universal(*translated)
            generators["shared_tokens"] = candidates.shared_tokens(
                *translated, lambda: self.shared_vocabulary
            )
        return generators

    @cached_property
    def shared_vocabulary(self) -> Any:
        """Return which token of the draft model is which of the target."""
        foreign = self.foreign_draft
        model = foreign.model if foreign is not None else cast(CausalLM, self.draft).model
        words = foreign.tokenizer if foreign is not None else self.tokenizer
        return candidates.shared_vocabulary(model, words, self.tokenizer, self.target.vocabulary)

    @cached_property
    def mtp_layers(self) -> Any:
        """Return the MTP layers in the target's files."""
        head = self.heads.get(MTP)
        if isinstance(head, ShippedMtp):
            return head.layers
        return state_candidates.load_mtp(self.target.model)

    @cached_property
    def generation_config(self) -> dict[str, bool | int | float | str]:
        """The checkpoint's own generation settings that change which token is chosen, such as a
        penalty, a ban or a shortest length; what is no number as JSON text, or as how many entries
        it has."""
        settings = own_settings(self.target.model, self.stop_tokens)
        return {name: _short(value) for name, value in settings.items()}

    def rules(
        self, prompt: Sequence[int], max_new_tokens: int, stops: frozenset[int]
    ) -> Rules | None:
        """The checkpoint's own generation settings as rules for one text; None without any.

        Raises InvalidInput where `generate` refuses them, or where they depend on earlier calls.
        """
        if not self.generation_config:
            return None
        target = self.target
        ids = torch.tensor([list(prompt)], device=target.device)
        try:
            processors = own_processors(target.model, ids, max_new_tokens, stops)
            if states := [one for one in processors if not stateless(one)]:
                name = type(states[0]).__name__
                raise InvalidInput(f"scores of {name} depend on earlier calls")
            rules = rules_of(processors, ids, 0, stops)
            rules(prompt, np.zeros(target.vocabulary, np.float32))
        except Exception as error:  # a checkpoint can say anything
            raise InvalidInput(
                f"the generation_config.json of {target.name} cannot be applied: {error}. Switch "
                "it off (--no-generation-config)"
            ) from None
        return rules

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of the tokenizer: equal if and only if token ids mean the same."""
        return fingerprint(self.tokenizer)

    @cached_property
    def environment(self) -> Environment:
        return Environment(
            device=device_name(self.target.device),
            dtype=str(self.target.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            processor=processor(),
            python=platform.python_version(),
            torch=torch.__version__,
            transformers=transformers.__version__,
            ouroboros=VERSION,
            quantization=self.quantization,
            passes=self.target.engine,
            weights=self.target.weights,
        )


SHOWN = 60
"""Characters of a setting that are shown as they are."""


def _short(value: Any) -> bool | int | float | str:
    """A value of a generation config as it may stand in a line."""
    if isinstance(value, bool | int | float | str):
        return value
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN else f"{len(value)} entries"


def fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Sixteen hex digits of a hash over the vocabulary."""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()), ensure_ascii=False)
    return hashlib.sha256(vocabulary.encode()).hexdigest()[:16]


def load_pair(
    target: str | None = None,
    draft: str | None = None,
    head: str | Sequence[str] | None = None,
    corpus: str | None = None,
    *,
    placement: Placement = Placement(),
    execution: Execution = Execution(),
) -> Pair:
    """Load and check a pair.

    target, draft  folder, GGUF file, Hub id, or `repository:file.gguf`; None is the embedded model.
                   Another target than the embedded one has no draft unless one is named; 'none'
                   means no draft. A draft with another tokenizer is a foreign one
    head           folder or Hub id of an EAGLE head for the target, trained here or in a published
                   layout (`heads`), or a folder of heads of another kind, or several of these, one
                   a kind; None and 'none' as for the draft
    corpus         file of texts to look things up in, made with the target's tokenizer; None
                   and 'none' as for the draft

    Raises UnsupportedModel, VocabularyMismatch, WeightsUnavailable or InvalidInput.
    """
    passes, weights, checks = execution.passes, execution.weights, execution.checks
    where = choose_device(placement.device)
    kind = choose_dtype(placement.dtype, where)
    torch.set_num_threads(min(torch.get_num_threads(), available_threads()))
    if checks and target is None and passes == "auto" and where.type == "cpu":
        build.begin()  # needed once the target is read
    if checks and target is None and weights != "bf16" and not embedded.target_folder().exists():
        embedded.ensure_gguf()  # the target is made of the same file: it is fetched once for both
    big, tokenizer = load_target(target, placement)
    if checks:
        big = _computed(big, passes)
        use_blocks(big, target, weights)
    if draft is None and target is None and embedded.draft_folder().exists():
        draft = str(embedded.draft_folder())
    small = None if draft in (None, "none") else load_draft(str(draft), big, tokenizer, kind, where)
    drafts = _drafts(small)
    folders = choose_folders(head, shipped=target is None)
    heads = {**shipped_mtp(head, big), **load_heads(folders, big)}
    if corpus is None and target is None and embedded.corpus_file().exists():
        corpus = str(embedded.corpus_file())
    texts = None if corpus in (None, "none") else _load_corpus(str(corpus), big, tokenizer)
    stops = stop_tokens(big.model, tokenizer)
    pair = Pair(big, None, tokenizer, stops, placement.quantize, texts, heads=heads)
    pair = replace(pair, **drafts)
    return _timed(pair) if checks else pair


def _drafts(draft: CausalLM | ForeignDraft | BlockDraft | None) -> dict[str, Any]:
    """Return the fields of a pair for a draft; the fields of other kinds are None."""
    kinds = {"draft": CausalLM, "foreign_draft": ForeignDraft, "block_draft": BlockDraft}
    return {name: draft if isinstance(draft, kind) else None for name, kind in kinds.items()}


def _computed(target: CausalLM, passes: Passes) -> CausalLM:
    """The checked target, its passes computed as `load_pair` says."""
    if passes == "transformers":
        check_tree_support(target)
        return target
    if passes == "auto":
        return checked(target.model, target.name)
    found = checked(target.model, target.name, first="static")
    if found.engine != "static":
        raise UnsupportedModel(
            f"{target.name} has no passes in fixed shapes: they are for models of the families "
            f"{', '.join(sorted(FAMILY))}, unquantised and on one device. Leave --passes out"
        )
    return found


def _timed(pair: Pair) -> Pair:
    """The same pair with the measured costs of its passes."""
    models = [m for m in (pair.target, pair.draft) if m]
    how = " ".join(f"{m.engine} {m.model.num_parameters()}" for m in models)
    if any(m.engine == "native" for m in models):
        how += f" {build.name()} {pages.kind()}"
    how += "".join(f" {head.weight_count}" for head in pair.heads.values())
    timed = pair.target, pair.draft, pair.heads
    return replace(pair, costs=costs_of(pair.environment, *timed, how))


def with_draft(pair: Pair, name: str) -> Pair:
    """The same target with another draft model, loaded and checked: folder, GGUF file, Hub id, or
    'none' for none.

    The name of the pair's own draft returns the pair itself. Errors are those of `load_pair`.
    """
    if name == (pair.draft_name or "none"):
        return pair
    small: CausalLM | ForeignDraft | BlockDraft | None = None
    if name != "none":
        small = load_draft(name, pair.target, pair.tokenizer, pair.target.dtype, pair.target.device)
    return _timed(replace(pair, **_drafts(small)))


def load_target(
    target: str | None = None, placement: Placement = Placement()
) -> tuple[CausalLM, PreTrainedTokenizerBase]:
    """Return an unchecked target without drafts, and its tokenizer. Arguments and errors as
    for `load_pair`."""
    where = choose_device(placement.device)
    folder = str(embedded.ensure_target()) if target is None else target
    kind, free = choose_dtype(placement.dtype, where), placement.device == "auto"
    device_map, quantize = placement.device_map, placement.quantize
    model = load_model(folder, kind, where, device_map, quantize, may_spread=free)
    name = embedded.FOLDER if target is None else short_name(folder)
    if unapplied := unapplied_settings(model):
        asked = ", ".join(f"{setting} {value}" for setting, value in unapplied.items())
        log.warning("the generation_config.json of %s: %s is not applied here", name, asked)
    return CausalLM(model, name), load_tokenizer(folder)


def _load_corpus(file: str, target: CausalLM, tokenizer: PreTrainedTokenizerBase) -> Corpus:
    corpus = Corpus.load(Path(file).expanduser(), fingerprint(tokenizer))
    if corpus.largest_token >= target.vocabulary:
        raise InvalidInput(
            f"the corpus {file} holds token id {corpus.largest_token}, beyond the vocabulary of "
            f"{target.name}"
        )
    return corpus


def make_pair(
    target: PreTrainedModel, draft: PreTrainedModel | None, tokenizer: PreTrainedTokenizerBase
) -> Pair:
    """A pair of models already in memory, checked like loaded ones."""
    big = checked(target, short_name(target.name_or_path) or type(target).__name__)
    small = None
    if draft is not None:
        check_vocabulary(vocabulary_size(draft), big, "the draft model")
        small = join_draft(draft, short_name(draft.name_or_path) or "draft", big)
    return Pair(big, small, tokenizer, stop_tokens(target, tokenizer))
