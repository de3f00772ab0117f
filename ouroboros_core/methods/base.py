"""A method has two verbs, `propose` and `learn`, and no model bookkeeping."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from ouroboros_core import hyperparameters
from ouroboros_core.costs import TYPICAL, Choice, Costs
from ouroboros_core.errors import InvalidInput
from ouroboros_core.hyperparameters import AUTO
from ouroboros_core.memory.corpus import Corpus
from ouroboros_core.memory.governor import Governor
from ouroboros_core.memory.pool import PhrasePool
from ouroboros_core.models.language_model import Candidates, Evaluation, FeatureDrafter, LanguageModel, Output
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.tree import Law, Learned, Source, TokenTree


class Need(StrEnum):
    """What a method may need besides the target."""

    DRAFT_MODEL = "draft model"
    HEAD = "EAGLE head"
    CORPUS = "corpus"

    @property
    def flag(self) -> str:
        """The command-line option that names one."""
        return {Need.DRAFT_MODEL: "--draft", Need.HEAD: "--head", Need.CORPUS: "--corpus"}[self]

    @property
    def phrase(self) -> str:
        """With its article."""
        return f"{'an' if self.value[0] in 'AEIOU' else 'a'} {self.value}"


_REMEDIES = {
    Need.DRAFT_MODEL: "name one with --draft",
    Need.HEAD: "one trained for this target: name one with --head, train one (train eagle)",
    Need.CORPUS: "name one with --corpus, make one (sam build)",
}


@dataclass(frozen=True)
class Context:
    """What a method may know when it proposes.

    tokens  prompt and output so far, ids; the last one is the root of the tree
    budget  how many more tokens the text may get, at least 1; a proposal deeper than budget - 1 is wasted
    step    index of this step, from 0
    """

    tokens: tuple[int, ...]
    budget: int
    step: int

    @property
    def root(self) -> int:
        return self.tokens[-1]


@dataclass(frozen=True)
class Verdict:
    """What came of a proposal.

    evaluation    the target's outputs at every node, window nodes included
    path          accepted nodes in text order, without the root
    target_token  correction or bonus; None where the text ended inside the path
    """

    context: Context
    tree: TokenTree
    evaluation: Evaluation
    path: tuple[int, ...]
    target_token: int | None

    @property
    def emitted(self) -> tuple[int, ...]:
        """The tokens that the text grew by, ids; at least one."""
        last = () if self.target_token is None else (self.target_token,)
        return (*(self.tree.tokens[node] for node in self.path), *last)


@dataclass(frozen=True)
class Resources:
    """What a method is given for one run.

    draft_model  where the method needs one
    sampler      how the target chooses; a draft model should choose alike
    stop_tokens  after which the text ends, so that drafting further is useless
    pool         phrases of earlier runs, for a warm start; None starts cold
    head         the EAGLE head, where the method needs one
    corpus       texts to look things up in, in the target's token ids
    prediction   the text that is expected, token ids; empty where nothing is
    costs        what passes take, by which a knob that is 'auto' is set
    """

    sampler: Sampler = field(default_factory=lambda: Sampler(Sampling(), 1))
    draft_model: LanguageModel | None = None
    stop_tokens: frozenset[int] = frozenset()
    pool: PhrasePool | None = None
    head: FeatureDrafter | None = None
    corpus: Corpus | None = None
    prediction: tuple[int, ...] = ()
    costs: Costs = TYPICAL

    def has(self, need: Need) -> bool:
        return {Need.DRAFT_MODEL: self.draft_model, Need.HEAD: self.head, Need.CORPUS: self.corpus}[need] is not None

    def rng(self) -> random.Random:
        """A private generator, seeded by the run's seed."""
        return random.Random(self.sampler.sampling.seed)

    def chooser(self, evaluation: Evaluation, tree: TokenTree, root_position: int, step: int) -> Callable[[int], int]:
        """How a draft chooses: by `match` with the target's own noise. For rejection sampling it draws anew at every step: of a
        draft that was discarded there may be traces in a pool, and what is offered now must not know what will be drawn."""
        return self.sampler.chooser(evaluation, tree, root_position, 1 + step if self.sampler.sampling.rejects else 0)

    def law(self, evaluation: Evaluation, node: int) -> Law | None:
        """The probabilities from which the draft's token after a node is drawn, where the acceptance rule asks for them."""
        return self.sampler.law(evaluation, node) if self.sampler.sampling.rejects else None


class Method(ABC):
    """A source of proposals. State lives in the object and begins anew with `start`, one prompt at a time."""

    id: ClassVar[str]
    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    order: ClassVar[int] = 100
    needs: ClassVar[frozenset[Need]] = frozenset()
    learns_phrases: ClassVar[bool] = False
    reads_corpus: ClassVar[bool] = False
    """Whether it looks into a corpus where there is one."""
    takes_prediction: ClassVar[bool] = False
    """Whether a text that is expected is of use."""
    proposes: ClassVar[bool] = True
    """Whether there is anything to accept; False for plain decoding."""
    writer: ClassVar[Source] = Source.TARGET
    """Whose text it is: the target's, exactly; or the draft's, for comparison."""
    Hyperparameters: ClassVar[type[hyperparameters.Hyperparameters]]

    def __init__(self, hyperparameters: Any, resources: Resources) -> None:
        for need in sorted(self.needed(hyperparameters)):
            if not resources.has(need):
                raise InvalidInput(f"{self.id} needs {need.phrase}: {_REMEDIES[need]}, or choose another method")
        self.resources = resources
        self.pool: PhrasePool | None = None
        self._asked: dict[int, Output] = {}
        self._unread = 0
        self._automatic = hyperparameters is not None and AUTO in hyperparameters.model_dump().values()
        self.governor = self._new_governor()

    @classmethod
    def needed(cls, hyperparameters: Any) -> frozenset[Need]:
        """What must be there besides the target, with these knobs."""
        return cls.needs

    @property
    def drafter(self) -> LanguageModel | FeatureDrafter | None:
        """Whose passes a step counts beside the target's."""
        needs = self.needs
        return self.resources.draft_model if Need.DRAFT_MODEL in needs else self.resources.head if Need.HEAD in needs else None

    @property
    def prompt_candidates(self) -> int:
        """How many of the target's likeliest next tokens `read_prompt` wants behind the tokens of the prompt; 0: none."""
        return 0

    @property
    def head(self) -> FeatureDrafter:
        assert self.resources.head is not None
        return self.resources.head

    @property
    def draft_model(self) -> LanguageModel:
        assert self.resources.draft_model is not None
        return self.resources.draft_model

    @property
    def choice(self) -> Choice | None:
        """What the last proposal was chosen for; None where there was nothing to choose."""
        return self.governor.choice

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        """Begin a new text; may prefill a draft model. Nothing of an earlier text remains but a pool given for a warm start."""
        self.governor = self._new_governor()

    def read_prompt(self, likeliest: Candidates) -> None:  # noqa: B027 - asked for by few
        """Take note of the target's likeliest next tokens behind those of the prompt, before the first step."""

    @abstractmethod
    def offer(self, context: Context) -> TokenTree:
        """A tree rooted at context.root, of everything that might be checked."""

    def propose(self, context: Context) -> TokenTree:
        """The part of what is offered that is worth checking: all of it, unless a knob is 'auto'."""
        self.governor.pace.context = len(context.tokens)
        return self.governor.trim(self.offer(context))

    def asked(self) -> dict[int, Output]:
        """The draft's outputs in this step, by the node of the checked tree whose children came from them."""
        return {place: said for node, said in self._asked.items() for place in self.governor.places([node])}

    def settle(self, verdict: Verdict) -> None:
        """A step has ended: governor and method learn from it."""
        self.governor.learn(verdict.tree, verdict.path, len(verdict.path) + (verdict.target_token is not None))
        self.learn(verdict)

    def learn(self, verdict: Verdict) -> None:  # noqa: B027 - a method may have nothing to learn
        """Take note of what the target made of the last proposal, which was this method's or grew out of it."""

    def watch(self, verdict: Verdict) -> None:  # noqa: B027 - most learn from their own proposals only
        """Take note of a step in which another method proposed."""

    def _new_governor(self) -> Governor:
        return Governor(self.resources.costs, self._automatic)

    def _start_draft_model(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        """Let the draft model read the prompt; where a knob is 'auto' and that is too dear, a little of its end, once asked."""
        read = self.governor.readable(self.resources.costs.draft, len(prompt), max_new_tokens)
        self._unread = len(prompt) - max(1, read)
        self.draft_model.forget()
        self.draft_model.reserve(len(prompt) + max_new_tokens)
        if read == len(prompt):
            self.draft_model.prefill(prompt)

    def _ask(self, text: tuple[int, ...], tree: TokenTree) -> Evaluation:
        """The draft model's outputs after a tree behind the text; it does not know the part that it has not read."""
        return self.draft_model.evaluate(text[self._unread :], tree)

    def _make_pool(self, ngram_size: int, guess_set_size: int, prompt: tuple[int, ...], from_prompt: bool) -> PhrasePool:
        """The pool of this run: the one given for a warm start if it fits, otherwise a new one."""
        pool = self.resources.pool
        if pool is None:
            pool = PhrasePool(ngram_size, guess_set_size)
        elif pool.ngram_size != ngram_size:
            raise InvalidInput(
                f"the phrase pool holds n-grams of {pool.ngram_size} tokens, but ngram_size is {ngram_size}: "
                f"set ngram_size to {pool.ngram_size} or start a new pool"
            )
        pool.guess_set_size = guess_set_size
        pool.begin_run()
        if from_prompt:
            pool.learn_text(prompt, Learned.PROMPT)
        return pool

    def _learn_written(self, verdict: Verdict) -> None:
        """Add to the pool every n-gram of the text that ends in a token of this step."""
        assert self.pool is not None
        before = verdict.context.tokens[1 - self.pool.ngram_size :]
        self.pool.learn_text((*before, *verdict.emitted), Learned.TEXT, verdict.context.step)
