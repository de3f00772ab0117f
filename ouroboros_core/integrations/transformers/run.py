"""The run of a call of `generate`: its models, its steps and its output."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StoppingCriteriaList,
)
from transformers.generation import CandidateGenerator, GenerateDecoderOnlyOutput

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.decoding.loop import decode
from ouroboros_core.decoding.recorder import Recorder
from ouroboros_core.decoding.text import decode_all, split_text
from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.common import wrap
from ouroboros_core.integrations.transformers.call import sampling_of
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.loading.drafts import (
    BlockDraft,
    ForeignDraft,
    SharedVocabulary,
    refuse_draft,
    shared_vocabulary,
    vocabulary_size,
)
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.loading.weights import short_name
from ouroboros_core.methods.parts.base import Method, Resources
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.models import candidates
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.processed import ProcessedModel, for_vocabulary
from ouroboros_core.models.rules import rules_of, stateless
from ouroboros_core.models.state_candidates import is_block_drafter
from ouroboros_core.sampling import Sampler
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Ending, Prompt, Step, Trace


@dataclass(frozen=True)
class Statistics:
    """Counts and seconds of a run.

    steps              target passes without prefill
    draft_passes       passes of the draft model
    acceptance_length  tokens per step, with the target's token
    acceptance_rate    accepted / proposed tokens; None without proposals
    seconds            seconds of the loop, with prefill
    sources            emitted tokens by source
    draft_failures     steps without a proposal because a candidate generator of transformers
                       failed, or because its draft model cannot read the text
    """

    method: str
    new_tokens: int
    steps: int
    draft_passes: int
    acceptance_length: float
    acceptance_rate: float | None
    seconds: float
    sources: Mapping[str, int]
    draft_failures: int = 0


@dataclass
class Output(GenerateDecoderOnlyOutput):  # type: ignore[misc]
    """The output of `generate` with `return_dict_in_generate=True`, extended by the statistics of
    the run and, on request, its trace. It has no `past_key_values`."""

    statistics: Statistics | None = None
    trace: Trace | None = None


@dataclass
class Request:
    """One checked call."""

    model: PreTrainedModel
    input_ids: torch.Tensor
    padding: int
    processors: LogitsProcessorList
    criteria: StoppingCriteriaList
    config: GenerationConfig
    method: str
    settings: Mapping[str, Any]
    keep_trace: bool
    assistant_model: PreTrainedModel | None
    streamer: Any
    tokenizer: PreTrainedTokenizerBase | None
    assistant_tokenizer: PreTrainedTokenizerBase | None
    candidate_generator: CandidateGenerator | None

    def __post_init__(self) -> None:
        if self.keep_trace and (self.tokenizer is None or not self.config.return_dict_in_generate):
            raise InvalidInput(
                "trace=True needs tokenizer=... and return_dict_in_generate=True: the trace is a "
                "part of that output"
            )
        self.steps: list[Step] = []
        self.scores: list[torch.Tensor] = []
        self.logits: list[torch.Tensor] = []
        self.ending: Ending = "budget"

    def run(self) -> torch.Tensor | Output:
        """Run the call and return the text, or an `Output` if the call requests one."""
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        pair = self._pair()
        prompt = tuple(self.input_ids[0, self.padding :].tolist())
        new = [token for step in self._steps(pair, prompt) for token in step.tokens]
        sequences = torch.cat([self.input_ids, self.input_ids.new_tensor([new])], -1)
        if not self.config.return_dict_in_generate:
            return sequences
        trace = self._trace(pair, prompt, created)
        config = self.config
        return Output(
            sequences=sequences,
            scores=tuple(self.scores) if config.output_scores else None,
            logits=tuple(self.logits) if config.output_logits else None,
            statistics=_statistics(trace, getattr(self.running_method, "failures", 0)),
            trace=trace if self.keep_trace else None,
        )

    def _pair(self) -> Pair:
        """Return the models with transformers' passes."""
        target = wrap(self.model, type(self.model).__name__)
        target.name = short_name(target.name)
        draft = foreign = block = None
        if self.assistant_model is not None and is_block_drafter(self.assistant_model.config):
            block = BlockDraft(self.assistant_model, self._draft_name(self.assistant_model))
        elif self.assistant_model is not None:
            name, shared = self._draft_name(self.assistant_model), self._shared(target)
            if shared.differs and self.assistant_tokenizer is not None:
                words = self.assistant_tokenizer
                foreign = ForeignDraft(self.assistant_model, name, words, shared.differs)
            else:
                refuse_draft(shared, name)
                draft = wrap(self.assistant_model, name, target.vocabulary, shared.unshared)
                draft.name, draft.drafts = name, True
        eos: Any = self.config._eos_token_tensor
        stops = frozenset() if eos is None else frozenset(eos.flatten().tolist())
        drafts: dict[str, Any] = {"foreign_draft": foreign, "block_draft": block}
        return Pair(target, draft, self.tokenizer, stops, **drafts)

    def _draft_name(self, model: PreTrainedModel) -> str:
        return short_name(str(model.name_or_path or type(model).__name__))

    def _shared(self, target: CausalLM) -> SharedVocabulary:
        model, words = self.assistant_model, self.assistant_tokenizer
        assert model is not None
        if words is not None and self.tokenizer is None:
            raise InvalidInput(
                "assistant_tokenizer needs the target's tokenizer: pass tokenizer=... too"
            )
        tokenizers = None if words is None else (words, self.tokenizer)
        return shared_vocabulary(vocabulary_size(model), target, tokenizers)

    def _steps(self, pair: Pair, prompt: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of the run; the last step is cut if a criterion ends the text."""
        kind, preset = methods.with_preset(self.method)
        self.hyperparameters = kind.Hyperparameters.parse({**preset, **self.settings})
        processors = list(self.processors)
        keep_scores = self.config.return_dict_in_generate and (
            self.config.output_scores or self.config.output_logits
        )
        self.sampling = sampling_of(self.config, [] if keep_scores else processors)
        sampler = Sampler(self.sampling, pair.target.vocabulary)
        model, helper = self._with_processors(pair, kind, processors, bool(keep_scores))
        method = controlled(self._create_method(kind, pair, helper, sampler), pair.costs)
        self.running_method = method
        self.drafter = method.drafter.name if method.drafter is not None else None
        self.writer = model.name
        room, stops = int(self.config.max_length) - self.input_ids.shape[1], pair.stop_tokens
        limits: dict[str, Any] = {"max_new_tokens": room, "stop_tokens": stops}
        limits["recorder"] = Recorder(sampler) if self.keep_trace else None
        steps = decode(model, method, prompt, sampler=sampler, **limits)
        ids = self.input_ids
        for step in steps:
            count = 0
            for token in step.tokens:
                ids, count = torch.cat([ids, ids.new_tensor([[token]])], -1), count + 1
                if keep_scores and isinstance(model, ProcessedModel):
                    self._keep_scores(model, (0, *step.path)[count - 1])
                if self.streamer is not None:
                    self.streamer.put(torch.tensor([token]))
                if bool(self.criteria(ids, tuple(self.scores) or None).all()):
                    self._end(token in stops, ids.shape[1] - self.input_ids.shape[1] == room)
                    self.steps.append(_first_tokens(step, count))
                    yield self.steps[-1]
                    return
            self.steps.append(step)
            yield step

    def _with_processors(
        self, pair: Pair, kind: type[Method], processors: list[Any], keep_scores: bool
    ) -> tuple[LanguageModel, LanguageModel | None]:
        """Return the model that writes and the draft model, with the processors as their rules.

        A processor that may have a state sees only the text, in its order. The draft model follows
        only stateless processors: this can make its guesses worse, but never changes the text.
        """
        target, draft = pair.target, pair.draft
        draft_writes = kind.writer is not Source.TARGET and draft is not None
        writer: LanguageModel = draft if draft_writes and draft is not None else target
        helper: LanguageModel | None = draft
        without_state = [processor for processor in processors if stateless(processor)]
        prompt = self.input_ids, self.padding, pair.stop_tokens
        if processors or keep_scores:
            in_turn = len(without_state) < len(processors)
            rules = for_vocabulary(rules_of(processors, *prompt), target.vocabulary)
            writer = ProcessedModel(writer, rules, in_turn=in_turn)
        if draft_writes:
            return writer, writer
        if without_state and draft is not None:
            rules = for_vocabulary(rules_of(without_state, *prompt), target.vocabulary)
            helper = ProcessedModel(draft, rules)
        return writer, helper

    def _end(self, stopped: bool, full: bool) -> None:
        self.ending = "stop token" if stopped else "budget" if full else "cancelled"

    def _create_method(
        self, kind: type[Method], pair: Pair, draft: LanguageModel | None, sampler: Sampler
    ) -> Method:
        generators = pair.candidate_generators
        if self.candidate_generator is not None:
            device = self.input_ids.device
            generators["candidates"] = candidates.anybodys(self.candidate_generator, device)
        resources = Resources(
            sampler,
            draft,
            pair.stop_tokens,
            sizing=pair.costs.sizing,
            self_draft=pair.self_draft if Need.SELF_DRAFT in kind.needs else None,
            candidate_generators=generators,
            foreign_draft=pair.foreign,
        )
        try:
            return methods.create(kind, self.hyperparameters, resources)
        except InvalidInput as error:
            raise InvalidInput(_in_python(str(error))) from None

    def _keep_scores(self, model: ProcessedModel, node: int) -> None:
        assert model.last is not None
        for rows, tensors in ((model.last, self.scores), (model.last.plain, self.logits)):
            row = torch.tensor(rows.logits(node), dtype=torch.float32, device=self.input_ids.device)
            tensors.append(row[None])

    def _trace(self, pair: Pair, prompt: tuple[int, ...], created: str) -> Trace:
        """Return the trace of the run, without texts if there is no tokenizer."""
        tokens = [token for step in self.steps for token in step.tokens]
        texts: dict[str, Any] = {"texts": ()}
        text = ""
        if self.tokenizer is not None and self.keep_trace:
            occurring = sorted({token for step in self.steps for token in step.occurring})
            pieces = {token: decode_all(self.tokenizer, [token]) for token in occurring}
            texts = {"texts": tuple(split_text(self.tokenizer, tokens)), "pieces": pieces}
            text = decode_all(self.tokenizer, prompt)
        return Trace(
            method=methods.with_preset(self.method)[0].id,
            hyperparameters=self.hyperparameters.model_dump(),
            sampling=self.sampling.model_dump(),
            target=self.writer,
            draft=self.drafter if self.drafter != self.writer else None,
            environment=pair.environment,
            created=created,
            prompt=Prompt(text, False, prompt),
            max_new_tokens=int(self.config.max_length) - self.input_ids.shape[1],
            ending=self.ending,
            steps=tuple(self.steps),
            **texts,
        )


def _in_python(message: str) -> str:
    """Return a message of the command line in terms of function arguments."""
    message = message.replace("name one with --draft", "pass it as assistant_model")
    return message.replace("name another draft with --draft", "pass another assistant_model")


def _first_tokens(step: Step, count: int) -> Step:
    if count == len(step.tokens):
        return step
    path = step.path[:count]
    return replace(step, path=path, target_token=None, judged=step.judged[:count])


def _statistics(trace: Trace, draft_failures: int) -> Statistics:
    run = Summary(trace)
    return Statistics(
        method=trace.method,
        new_tokens=run.tokens,
        steps=run.steps,
        draft_passes=run.draft_passes,
        acceptance_length=run.tokens_per_pass,
        acceptance_rate=run.proposal_acceptance_rate,
        seconds=run.seconds,
        sources=dict(Counter(source.value for source in metrics.token_sources(trace))),
        draft_failures=draft_failures,
    )
