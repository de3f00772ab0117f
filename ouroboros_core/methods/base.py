"""A method has two verbs, `propose` and `learn`, and no model bookkeeping."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ouroboros_core import hyperparameters
from ouroboros_core.errors import InvalidInput
from ouroboros_core.memory.pool import PhrasePool
from ouroboros_core.models.language_model import Evaluation, FeatureDrafter, LanguageModel
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.tree import Law, Source, TokenTree


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


@dataclass(frozen=True)
class Resources:
    """What a method is given for one run.

    draft_model  where the method needs one
    sampler      how the target chooses; a draft model should choose alike
    stop_tokens  after which the text ends, so that drafting further is useless
    pool         phrases of earlier runs, for a warm start; None starts cold
    head         the EAGLE head, where the method needs one
    """

    sampler: Sampler = field(default_factory=lambda: Sampler(Sampling(), 1))
    draft_model: LanguageModel | None = None
    stop_tokens: frozenset[int] = frozenset()
    pool: PhrasePool | None = None
    head: FeatureDrafter | None = None

    def rng(self) -> random.Random:
        """A private generator, seeded by the run's seed."""
        return random.Random(self.sampler.sampling.seed)

    def chooser(self, evaluation: Evaluation, tree: TokenTree, root_position: int) -> Callable[[int], int]:
        return self.sampler.chooser(evaluation, tree, root_position)

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
    needs_draft_model: ClassVar[bool] = False
    needs_head: ClassVar[bool] = False
    learns_phrases: ClassVar[bool] = False
    proposes: ClassVar[bool] = True
    """Whether there is anything to accept; False for plain decoding."""
    writer: ClassVar[Source] = Source.TARGET
    """Whose text it is: the target's, exactly; or the draft's, for comparison."""
    Hyperparameters: ClassVar[type[hyperparameters.Hyperparameters]]

    def __init__(self, _: Any, resources: Resources) -> None:
        if self.needs_draft_model and resources.draft_model is None:
            raise InvalidInput(f"{self.id} needs a draft model: name one with --draft, or choose a method that needs none")
        if self.needs_head and resources.head is None:
            raise InvalidInput(
                f"{self.id} needs an EAGLE head trained for this target: name one with --head, train one (train eagle), "
                f"or choose another method"
            )
        self.resources = resources
        self.pool: PhrasePool | None = None

    @classmethod
    def needs(cls) -> list[str]:
        """What must be there besides the target, in words."""
        return ["draft model"] * cls.needs_draft_model + ["EAGLE head"] * cls.needs_head

    @property
    def drafter(self) -> LanguageModel | FeatureDrafter | None:
        """Whose passes a step counts beside the target's."""
        return self.resources.draft_model if self.needs_draft_model else self.resources.head if self.needs_head else None

    @property
    def head(self) -> FeatureDrafter:
        assert self.resources.head is not None
        return self.resources.head

    @property
    def draft_model(self) -> LanguageModel:
        assert self.resources.draft_model is not None
        return self.resources.draft_model

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:  # noqa: B027 - a method may have nothing to prepare
        """Begin a new text; may prefill a draft model. Nothing of an earlier text remains but a pool given for a warm start."""

    @abstractmethod
    def propose(self, context: Context) -> TokenTree:
        """A tree rooted at context.root."""

    def learn(self, verdict: Verdict) -> None:  # noqa: B027 - a method may have nothing to learn
        """Take note of what the target made of the last proposal."""

    def _start_draft_model(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        self.draft_model.forget()
        self.draft_model.reserve(len(prompt) + max_new_tokens)
        self.draft_model.prefill(prompt)

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
            pool.learn_text(prompt)
        return pool
