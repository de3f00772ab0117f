"""A method has three verbs - `start`, `propose`, `learn` - and no model bookkeeping. What it is
given for a run, what it may know and spend when it proposes, and what the target made of that."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ouroboros_core import hyperparameters
from ouroboros_core.interfaces import (
    CandidateGenerator,
    Candidates,
    Drafter,
    Evaluation,
    LanguageModel,
    MakesPasses,
    SelfDrafter,
)
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.memory import Memory, of_kind
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.adjustable import Adjustable, Decision, Sizing
from ouroboros_core.methods.parts.needs import ASSISTED, HEAD_KINDS, Need
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Probabilities, TokenTree


class StepBudget:
    """How much one step may spend on drafting; this class sets no limit. It may be asked in any
    order, any number of times."""

    def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
        """Whether another draft pass is worth its time.

        reach  the probability, by the draft's own account, that the text goes on through the nodes
               behind which the pass drafts; 1 behind the root
        rows   of the pass
        """
        return True


@dataclass(frozen=True)
class TokenizedPrompt:
    """What a text begins with.

    tokens     token ids, at least one
    candidates  gives the target's k likeliest next tokens after each of them but the last, see
                `LanguageModel.prefill`
    """

    tokens: tuple[int, ...]
    candidates: Callable[[int], Candidates] = lambda _: {}


@dataclass(frozen=True)
class Context:
    """What a method may know when it proposes.

    tokens     prompt and output so far, token ids; the last one is the root of the tree
    remaining  how many more tokens the text may get, at least 1
    step       index of this step, from 0
    budget     what the step may spend
    """

    tokens: tuple[int, ...]
    remaining: int
    step: int
    budget: StepBudget = field(default_factory=StepBudget)

    @property
    def root(self) -> int:
        return self.tokens[-1]

    @property
    def deepest(self) -> int:
        """The depth of the deepest node that is of use: the target itself adds the last token."""
        return self.remaining - 1


@dataclass(frozen=True)
class VerificationResult:
    """What the target made of a tree; nodes have the numbers that they have in `tree`, whatever of
    it was checked.

    evaluation    the target's outputs after the nodes that were checked, window nodes included
    path          accepted nodes in text order, without the root
    target_token  correction or bonus, or what another proposal has there; None if the
                  text ended inside the path
    emitted       the tokens that the text grew by, token ids; at least one
    whole         the result of everything that was checked in this step, by whoever proposed it;
                  None: this one is
    """

    context: Context
    tree: TokenTree
    evaluation: Evaluation
    path: tuple[int, ...]
    target_token: int | None
    emitted: tuple[int, ...]
    whole: VerificationResult | None = None

    @classmethod
    def whole_step(
        cls,
        context: Context,
        tree: TokenTree,
        evaluation: Evaluation,
        path: tuple[int, ...],
        target_token: int | None,
    ) -> VerificationResult:
        """The result of all that was checked in a step."""
        written = tuple(tree.tokens[node] for node in path)
        emitted = written if target_token is None else (*written, target_token)
        return cls(context, tree, evaluation, path, target_token, emitted)

    @property
    def checked(self) -> VerificationResult:
        """The result of everything that was checked in this step."""
        return self.whole or self

    def of(self, tree: TokenTree, numbers: Mapping[int, int]) -> VerificationResult:
        """The same for the one who proposed `tree`, whose nodes have the `numbers` here; what
        was not checked has none."""
        own = {number: node for node, number in numbers.items()}
        path: list[int] = []
        for number in self.path:
            if number not in own or tree.parents[own[number]] != (path[-1] if path else 0):
                break
            path.append(own[number])
        target_token = self.emitted[len(path)] if len(path) < len(self.emitted) else None
        evaluation = PartialEvaluation(self.evaluation, numbers, len(tree))
        return VerificationResult(
            self.context, tree, evaluation, tuple(path), target_token, self.emitted, self.checked
        )


class PartialEvaluation:
    """The outputs after some nodes of a tree, taken from the evaluation of another tree in which
    they have other numbers."""

    def __init__(self, evaluation: Evaluation, numbers: Mapping[int, int], size: int) -> None:
        """numbers: of the nodes there are, in the tree that was evaluated; size: nodes of this
        tree."""
        self._evaluation, self._numbers, self._size = evaluation, numbers, size

    @cached_property
    def _argmax(self) -> list[int]:
        best = self._evaluation.argmax()
        return [
            best[self._numbers[node]] if node in self._numbers else -1 for node in range(self._size)
        ]

    def argmax(self) -> list[int]:
        """The most probable token after each node; -1 after one that is silent or was not
        checked."""
        return self._argmax

    def likeliest(self, k: int) -> dict[int, list[int]]:
        found = self._evaluation.likeliest(k)
        return {node: found[number] for node, number in self._numbers.items() if number in found}

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        return self._evaluation.scored([self._numbers[node] for node in nodes], k)

    def confidence(self, node: int, token: int) -> float:
        return self._evaluation.confidence(self._numbers[node], token)

    def confidences(self, asked: Sequence[tuple[int, int]]) -> list[float]:
        return self._evaluation.confidences([(self._numbers[node], token) for node, token in asked])

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        return self._evaluation.logits(self._numbers[node])


@dataclass(frozen=True)
class Resources:
    """What a method is given for one run.

    sampler      how the target chooses; a draft model should choose alike
    draft_model  where the method needs one
    stop_tokens  after which the text ends, so that drafting further is useless
    memory       what the method has kept of earlier runs, for a warm start; None starts cold
    corpus       texts to look things up in, in the target's token ids
    prediction   the text that is expected, token ids; empty if nothing is
    sizing       what is cheap on this machine
    members      the methods whose proposals a combining method combines, by their role
    self_draft   the target with layers skipped; None where its layers cannot be
    heads        the heads that were trained for the target, by kind
    candidate_generators  transformers' own candidate generators, by kind
    foreign_draft  of a draft model with a vocabulary of its own how that differs from the target's,
                 in words; '' where there is no such draft
    """

    sampler: Sampler = field(default_factory=lambda: Sampler(Sampling(), 1))
    draft_model: LanguageModel | None = None
    stop_tokens: frozenset[int] = frozenset()
    memory: Memory | None = None
    corpus: Corpus | None = None
    prediction: tuple[int, ...] = ()
    sizing: Sizing = field(default_factory=Sizing)
    members: Mapping[str, Method] = field(default_factory=dict)
    self_draft: SelfDrafter | None = None
    heads: Mapping[str, Drafter] = field(default_factory=dict)
    candidate_generators: Mapping[str, CandidateGenerator] = field(default_factory=dict)
    foreign_draft: str = ""

    def has(self, need: Need) -> bool:
        """Whether a resource is present. Without a memory a run starts cold, and a predicted output
        may be empty, so neither is ever missing."""
        if need in HEAD_KINDS:
            return HEAD_KINDS[need] in self.heads
        if need in ASSISTED:
            return ASSISTED[need] in self.candidate_generators
        found = {
            Need.DRAFT_MODEL: self.draft_model,
            Need.CORPUS: self.corpus,
            Need.SELF_DRAFT: self.self_draft,
        }
        return found.get(need, True) is not None

    @property
    def pool(self) -> PhrasePool | None:
        """The memory of a method that keeps phrases; raises InvalidInput if it is another's."""
        return of_kind(self.memory, PhrasePool)

    def head(self, needs: Iterable[Need]) -> Drafter | None:
        """Return the first head that meets one of the needs, or None."""
        kinds = (HEAD_KINDS[need] for need in sorted(needs) if need in HEAD_KINDS)
        return next((self.heads[kind] for kind in kinds if kind in self.heads), None)

    def rng(self) -> random.Random:
        """A new generator, seeded by the run's seed."""
        return random.Random(self.sampler.sampling.seed)

    def chooser(
        self,
        evaluation: Evaluation,
        tree: TokenTree,
        root_position: int,
        step: int,
        candidate: int = 0,
    ) -> Callable[[int], int]:
        """How a draft chooses: by `match` with the target's own noise, but for a second `candidate`
        and further ones. For rejection sampling it draws again at every step: of a draft that was
        discarded there may be traces in a pool, and what is offered now must not know what will be
        drawn."""
        draw = self._draw(step, candidate)
        return self.sampler.chooser(evaluation, tree, root_position, draw)

    def ranker(
        self,
        evaluation: Evaluation,
        tree: TokenTree,
        root_position: int,
        step: int,
        k: int,
        least: float = 0.0,
    ) -> Callable[[int], list[int]]:
        """How a draft chooses k different tokens after a node, the first as by `chooser`; fewer
        where fewer are possible. For rejection sampling they are drawn without replacement. With
        `least`, sampled, tokens below this share of the likeliest one's probability are out."""
        return self.sampler.ranker(evaluation, tree, root_position, k, self._draw(step), least)

    def _draw(self, step: int, candidate: int = 0) -> int:
        """Which of the noises of a position a draft chooses with; 0 is the target's own."""
        return (candidate << 32) + (1 + step if self.sampler.rule.needs_probabilities else 0)

    def drawn_from(self, evaluation: Evaluation, node: int) -> Probabilities | None:
        """The probabilities from which the draft's token after a node is drawn, where the
        acceptance rule asks for them."""
        needed = self.sampler.rule.needs_probabilities
        return self.sampler.probabilities(evaluation, node) if needed else None


class Guesser(StrEnum):
    """Who guesses what comes next."""

    DRAFT_MODEL = "a draft model"
    HEAD = "a head on the target's states"
    TARGET = "the target itself"
    TEXT = "text and corpora"


class Shape(StrEnum):
    """The shape of what is guessed in a step."""

    CHAIN = "one chain"
    CHAINS = "several chains"
    PHRASES = "phrases"
    TREE = "a tree"
    GRAPH = "a graph, unrolled"


class Method(ABC):
    """A source of proposals. State lives in the object; `start` resets it for the next prompt."""

    id: ClassVar[str]
    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    order: ClassVar[int] = 100
    """Its rank in lists of methods, the simplest first."""
    on_map: ClassVar[tuple[Guesser, Shape] | None] = None
    """Where it stands on the map of the field; None: nowhere."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """Required; it cannot run without them."""
    uses: ClassVar[frozenset[Need]] = frozenset()
    """Optional; used if present."""
    proposes: ClassVar[bool] = True
    """Whether it proposes anything; False for plain decoding."""
    writer: ClassVar[Source] = Source.TARGET
    """Whose text it writes: exactly the target's, or for comparison the draft's."""
    Hyperparameters: ClassVar[type[hyperparameters.Hyperparameters]]
    published: ClassVar[Mapping[str, Any]] = {}
    """The settings of its paper, or of its authors' code; empty for a method without any."""

    def __init__(self, hyperparameters: Any, resources: Resources) -> None:
        self.resources = resources
        self.pool: PhrasePool | None = None
        """The method's phrase pool, if it has one."""
        self.columns: int | None = None
        """Columns of its lookahead window, 0 if it chose to have none; None for a method without
        one."""
        self.decision: Decision | None = None
        """What was decided about the last proposal; None if there was nothing to decide."""
        self.draft_rows_saved = 0
        """Nodes of the last proposal behind which the draft model did not compute a row, because
        they equal others."""

    @classmethod
    def members(
        cls, hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """The methods that are to be in `resources.members`: (id, settings) by role. The setting
        `fixed: True` stands for a value instead of every 'auto'; `extended` is for those that have
        it."""
        return {}

    @classmethod
    def new_memory(cls, hyperparameters: Any, fingerprint: str = "") -> Memory | None:
        """An empty memory for what it keeps from text to text with these settings, in ids of the
        tokenizer of that fingerprint; None for a method that keeps nothing. What is kept changes
        what is proposed, never the text, and a run learns in it as it goes."""
        return None

    @property
    def adjustable(self) -> Adjustable | None:
        """What a controller may decide; None if every amount is fixed."""
        return None

    @property
    def drafter(self) -> MakesPasses | None:
        """The model whose passes a step counts besides the target's."""
        if Need.DRAFT_MODEL in self.needs:
            return self.resources.draft_model
        if Need.SELF_DRAFT in self.needs:
            return self.resources.self_draft
        return self.resources.head(self.needs)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:  # noqa: B027 - there may be nothing to begin
        """Begin a new text; may prefill a draft model. Keeps nothing of an earlier text except in
        a memory given for a warm start."""

    @abstractmethod
    def propose(self, context: Context) -> TokenTree:
        """A tree rooted at context.root; what is not worth checking may be left out before the
        target sees it."""

    def learn(self, result: VerificationResult) -> None:  # noqa: B027 - there may be nothing to learn
        """Learn from the verification of the last proposal; nodes have the numbers of that
        proposal."""
