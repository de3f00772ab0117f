"""A run from prompt text to trace: what page and command line share."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.decoding.loop import check_length, decode
from ouroboros_core.decoding.recorder import Recorder
from ouroboros_core.decoding.text import TextStream, decode_all
from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.lookup.memory import Memory
from ouroboros_core.methods.parts.base import Method, Resources
from ouroboros_core.methods.parts.forced import UnderGrammar
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.models.grammar import Grammar, GrammarRules
from ouroboros_core.models.processed import ProcessedModel, Rules, for_vocabulary, in_order
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.settings import Hyperparameters
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Ending, Prompt, Step, Trace

if TYPE_CHECKING:  # this module loads torch; a browser has another pair
    from ouroboros_core.loading.pairs import Pair


@dataclass(frozen=True)
class Task:
    """A text to generate, and its settings.

    hyperparameters  of the method's `Hyperparameters` class
    history          earlier turns of the chat, user and assistant alternately
    prediction       the predicted output, for a method that can use it
    record           keep the models' probabilities at each position, and the window
    generation_config  apply the checkpoint's generation settings, such as a penalty, as
                       transformers' `generate` does; temperature, top_k and top_p always come from
                       `sampling`
    grammar          the grammar that the text follows; tokens that it forces are drafts of every
                     method but plain decoding
    """

    prompt: str
    method: str
    hyperparameters: Hyperparameters
    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int = 128
    chat: bool = True
    history: tuple[str, ...] = ()
    prediction: str = ""
    record: bool = False
    generation_config: bool = True
    grammar: Grammar | None = None

    def plain(self) -> Task:
        """Return the task for the same text by plain decoding, the baseline."""
        plain = methods.get(methods.PLAIN)
        task = replace(self, method=plain.id, hyperparameters=plain.Hyperparameters())
        return replace(task, sampling=self.sampling.plain(), prediction="", record=False)


def _resources(pair: Pair, *, chat: bool, self_draft: bool) -> Resources:
    """Return a pair's resources; the target with layers skipped is made on first use."""
    return Resources(
        draft_model=pair.draft,
        stop_tokens=pair.stops(chat=chat),
        corpus=pair.corpus,
        sizing=pair.costs.sizing,
        self_draft=pair.self_draft if self_draft else None,
        heads=pair.heads,
        candidate_generators=pair.candidate_generators,
        foreign_draft=pair.foreign,
    )


def lacking(pair: Pair, kind: type[Method], hyperparameters: Hyperparameters) -> Need | None:
    """Return a need of a method with these settings that the pair does not meet, or None."""
    resources = _resources(pair, chat=False, self_draft=True)
    return next(
        (need for need in sorted(methods.needed(kind, hyperparameters)) if not resources.has(need)),
        None,
    )


def _obeying(pair: Pair, rules: Rules | None) -> tuple[LanguageModel, LanguageModel | None]:
    """Return target and draft, both under the rules, so that the draft can agree."""
    target, draft = pair.target, pair.draft
    if rules is None:
        return target, draft
    helper: LanguageModel | None = None
    if draft is not None:
        helper = ProcessedModel(draft, for_vocabulary(rules, target.vocabulary))
    return ProcessedModel(target, rules), helper


def target_of(pair: Pair, trace: Trace) -> LanguageModel:
    """Return the target under the rules of a run, for a comparison with plain decoding."""
    prompt, stops = trace.prompt.tokens, pair.stops(chat=trace.prompt.chat)
    rules = None
    if trace.generation_config:
        rules = pair.rules(prompt, trace.max_new_tokens, stops)
    for kind, text in trace.grammar.items():
        rules = in_order(rules, grammar_rules(pair, Grammar(kind, text), len(prompt), stops))
    return _obeying(pair, rules)[0]


def grammar_rules(pair: Pair, grammar: Grammar, prompt: int, stops: frozenset[int]) -> GrammarRules:
    """Return a grammar as rules of a pair's target for one text after `prompt` tokens."""
    return GrammarRules(grammar, pair.tokenizer, pair.target.vocabulary, prompt, stops)


def check_kept(memory: Memory, pair: Pair) -> None:
    """Raise InvalidInput for the memory of another tokenizer."""
    if memory.fingerprint != pair.fingerprint:
        raise InvalidInput(
            f"the {memory.holds} belongs to another tokenizer (fingerprint "
            f"{memory.fingerprint or 'none'}, this pair's is {pair.fingerprint}): start a new one"
        )
    if memory.largest_token >= pair.target.vocabulary:
        raise InvalidInput(
            f"the {memory.holds} holds token id {memory.largest_token}, beyond the vocabulary of "
            f"{pair.target.name}"
        )


class Generation:
    """One run of a task: an iterator of its steps, with the trace so far."""

    def __init__(self, pair: Pair, task: Task, memory: Memory | None = None) -> None:
        """memory: of earlier runs (`Method.new_memory`), for a warm start; it learns."""
        if not task.prompt:
            raise InvalidInput("the prompt is empty; write at least one character")
        if memory is not None:
            check_kept(memory, pair)
        self.pair = pair
        self.task = task
        # Token ids, with the chat template around the prompt in a chat.
        ids = tuple(pair.encode(task.prompt, chat=task.chat, history=task.history))
        self.prompt = Prompt(task.prompt, task.chat, ids)
        self.stop_tokens = pair.stops(chat=task.chat)
        kind = methods.get(task.method)
        if task.prediction and Need.PREDICTED_OUTPUT not in kind.uses:
            raise InvalidInput(
                f"{kind.id} has no use for a prediction: leave it out, or choose "
                f"{methods.able(Need.PREDICTED_OUTPUT)}"
            )
        # The method reports a missing draft model.
        plain = pair.target if kind.writer is Source.TARGET else pair.draft or pair.target
        check_length(self.prompt.tokens, task.max_new_tokens, plain)
        rules = None
        if task.generation_config:
            rules = pair.rules(ids, task.max_new_tokens, self.stop_tokens)
        forcing = None
        if task.grammar is not None:
            forcing = grammar_rules(pair, task.grammar, len(ids), self.stop_tokens)
            rules = in_order(rules, forcing)
        self.target, draft = _obeying(pair, rules)
        self.model = self.target if plain is pair.target else draft or self.target
        self.steps: list[Step] = []
        self.texts: list[str] = []
        self.created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._ending: Ending = "cancelled"
        self._stream = TextStream(pair.tokenizer)
        self._sampler = Sampler(
            task.sampling, pair.target.vocabulary, run=memory.runs if memory is not None else 0
        )
        resources = replace(
            _resources(pair, chat=task.chat, self_draft=Need.SELF_DRAFT in kind.needs),
            draft_model=draft,
            sampler=self._sampler,
            memory=memory if Need.MEMORY in kind.uses else None,
            prediction=self._prediction(),
        )
        # For example Speculative(hyperparameters, resources), if the pair meets its needs.
        method = methods.create(kind, task.hyperparameters, resources)
        # If an amount is 'auto', a Controller wraps the method and may leave out nodes.
        self._method = controlled(method, pair.costs)
        if forcing is not None and kind.proposes:
            self._method = UnderGrammar(self._method, forcing.forced)
        drafter = self._method.drafter
        self.draft_name = drafter.name if drafter and drafter is not self.model else None
        computing = [
            model
            for model, writes in ((pair.target, self.target), (pair.draft, draft))
            if model is not None and writes in (self.model, drafter)
        ]
        pair.check_memory(computing, len(self.prompt.tokens) + task.max_new_tokens)

    def _prediction(self) -> tuple[int, ...]:
        """Return the predicted output as token ids, encoded as text like the prompt."""
        if not self.task.prediction:
            return ()
        ids = tuple(self.pair.as_text(self.task.prediction))
        outside = next((t for t in ids if t >= self.pair.target.vocabulary), None)
        if outside is not None:
            raise InvalidInput(
                f"the prediction holds token id {outside}, beyond the vocabulary of "
                f"{self.pair.target.name}: take out "
                f"{self.piece(outside)!r}"
            )
        return ids

    def __iter__(self) -> Iterator[Step]:
        assert not self.steps, "a generation runs once"
        task = self.task
        steps = decode(
            self.model,
            self._method,
            self.prompt.tokens,
            max_new_tokens=task.max_new_tokens,
            sampler=self._sampler,
            stop_tokens=self.stop_tokens,
            recorder=Recorder(self._sampler) if task.record else None,
        )
        for step in steps:
            self.steps.append(step)
            # The text that each token adds: '' if it ends inside a character.
            self.texts += [self._stream.push(token) for token in step.tokens]
            stopped = step.tokens[-1] in self.stop_tokens
            if stopped or len(self.texts) == task.max_new_tokens:
                # Before the last step is shown: the texts are not read again after it.
                self.texts[-1] += self._stream.finish()
            yield step
        stopped = bool(self.steps) and self.steps[-1].tokens[-1] in self.stop_tokens
        self._ending = "stop token" if stopped else "budget"

    def run(self) -> Trace:
        for _ in self:
            pass
        return self.trace()

    @property
    def repeats_plain_text(self) -> bool:
        """Whether the text must be that of plain decoding: not where the draft writes alone, nor
        under a rule that draws or keeps tokens of its own."""
        return self.model is self.target and self.task.sampling.repeats_plain_text

    def piece(self, token: int) -> str:
        return decode_all(self.pair.tokenizer, [token])

    def trace(self) -> Trace:
        """Return the record so far; its ending is 'cancelled' until the run is over."""
        kind = methods.get(self.task.method)
        occurring = {t for s in self.steps for t in s.occurring}
        costs = self.pair.costs.target
        return Trace(
            method=self.task.method,
            hyperparameters=self.task.hyperparameters.model_dump(),
            sampling=self.task.sampling.model_dump(),
            target=self.model.name,
            draft=self.draft_name,
            environment=self.pair.environment,
            created=self.created,
            prompt=self.prompt,
            max_new_tokens=self.task.max_new_tokens,
            prediction=self.task.prediction,
            generation_config=self.pair.generation_config if self.task.generation_config else {},
            grammar={self.task.grammar.kind: self.task.grammar.text} if self.task.grammar else {},
            corpus=self.pair.corpus.name
            if self.pair.corpus and Need.CORPUS in kind.needs | kind.uses
            else None,
            ending=self._ending,
            steps=tuple(self.steps),
            texts=tuple(self.texts),
            pieces={token: self.piece(token) for token in sorted(occurring)},
            costs=dict(zip(costs.rows, costs.seconds, strict=True)),
        )
