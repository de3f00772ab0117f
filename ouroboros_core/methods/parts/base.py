"""The interface of a method: three verbs - `start`, `propose`, `learn` - and no model bookkeeping.

A run gives a method its `Resources`. For a proposal it gets a `Context` and a `StepBudget`, for
learning a `VerificationResult`. `Sizing`, `Adjustable` and `Decision` pass between a method with
amounts that are 'auto' and the controller around it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Literal

from ouroboros_core import settings
from ouroboros_core.arrays import np, npt
from ouroboros_core.bounds import Count, Estimate
from ouroboros_core.interfaces import (
    CandidateGenerator,
    Candidates,
    Drafter,
    LanguageModel,
    MakesPasses,
    SelfDrafter,
)
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.memory import Memory, of_kind
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.methods.parts.needs import ASSISTED, HEAD_KINDS, Need
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Probabilities, TokenTree


@dataclass(frozen=True)
class Sizing:
    """Amounts that are cheap on this machine, for settings that are 'auto'; `adaptive.cost_model`
    computes them.

    target_rows  rows that a pass may have for the sake of a lookahead window; 1: every row costs
    draft_rows   rows over which a draft pass takes little longer than over one
    """

    target_rows: int = 1
    draft_rows: int = 1


@dataclass(frozen=True)
class Adjustable:
    """Decisions about a method's proposals that a controller may make.

    drafting  whether it decides the number of draft passes of a step
    checking  whether it decides which proposed nodes are checked
    always    sources whose nodes, with all their parents, are checked in any case
    size      number of nodes to check, if the controller chooses only which ones
    """

    drafting: bool = True
    checking: bool = True
    always: frozenset[Source] = frozenset()
    size: int | None = None


NO_WINDOW = "no window: it does not pay here"
"""Said of a lookahead window that is 'auto' and has no columns."""

NO_DRAFT = "no draft: its passes cost too much here"
"""Said of a draft that is 'auto' and was not asked, if nothing else was proposed."""

Reason = Literal["worth it", "plain is faster", "nothing proposed", "trial", "fixed"]


@dataclass(frozen=True)
class Decision:
    """A controller's decision about a step, and its reason.

    offered   nodes to choose from, without the root
    size      nodes that were checked
    expected  tokens that the step was expected to emit
    rate      tokens per second; a second of the step cost this number of tokens
    reason    'worth it': these nodes add more tokens than their time costs; 'plain is faster': no
              node does; 'nothing proposed'; 'fixed': the method fixes the number of nodes; 'trial':
              checked to learn whether it pays
    window    columns of the lookahead window, 0 if no window pays; None without a decision on it
    asked     whether the draft was asked; None without a decision on it
    """

    offered: Count
    size: Count
    expected: Estimate
    rate: Estimate
    reason: Reason
    window: Count | None = None
    asked: bool | None = None

    @property
    def why(self) -> str:
        """Return the reason, and the parts that were left out."""
        without = [NO_WINDOW] if self.window == 0 else []
        without += [NO_DRAFT] if self.asked is False and not self.offered else []
        return "; ".join((self.reason, *without))


class StepBudget:
    """A step's budget for drafting; this class sets no limit. Its answers depend on the arguments
    only."""

    def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
        """Return whether another draft pass is worth its time.

        reach  probability, estimated by the draft, that the text continues through the nodes after
               which the pass drafts; 1 after the root
        rows   rows of the pass
        """
        return True


@dataclass(frozen=True)
class TokenizedPrompt:
    """The beginning of a text.

    tokens      token ids, at least one
    candidates  returns the target's k likeliest next tokens after each token but the last, see
                `LanguageModel.prefill`
    """

    tokens: tuple[int, ...]
    candidates: Callable[[int], Candidates] = lambda _: {}


@dataclass(frozen=True)
class Context:
    """Facts that a method may use for a proposal.

    tokens     prompt and output so far, token ids; the last one is the root of the tree
    remaining  tokens that the text may still get, at least 1
    step       index of this step, from 0
    budget     limit on drafting in this step
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
        """Return the largest useful depth of a node: the target adds the last token."""
        return self.remaining - 1


@dataclass(frozen=True)
class VerificationResult:
    """The target's verification of a tree, in the node numbers of `tree`.

    evaluation    the target's outputs after the nodes that were checked, window nodes included
    path          accepted nodes in text order, without the root
    target_token  correction or bonus, or another proposal's token there; None if the text ended
                  inside the path
    emitted       token ids that were added to the text, at least one
    whole         the result of all proposals of this step together; None: this result is
    unchecked     nodes of `tree` that were left out of what the target checked
    """

    context: Context
    tree: TokenTree
    evaluation: Evaluation
    path: tuple[int, ...]
    target_token: int | None
    emitted: tuple[int, ...]
    whole: VerificationResult | None = None
    unchecked: frozenset[int] = frozenset()

    @classmethod
    def whole_step(
        cls,
        context: Context,
        tree: TokenTree,
        evaluation: Evaluation,
        path: tuple[int, ...],
        target_token: int | None,
    ) -> VerificationResult:
        """Return the result of a step in which only this tree was checked."""
        written = tuple(tree.tokens[node] for node in path)
        emitted = written if target_token is None else (*written, target_token)
        return cls(context, tree, evaluation, path, target_token, emitted)

    @property
    def checked(self) -> VerificationResult:
        """Return the result of all proposals of this step together."""
        return self.whole or self

    def of(self, tree: TokenTree, numbers: Mapping[int, int]) -> VerificationResult:
        """Return the same result in the node numbers of another tree.

        numbers  node of `tree` -> node here; a node that was not checked is missing
        """
        nodes = {number: node for node, number in numbers.items()}
        path: list[int] = []
        for number in self.path:
            if number not in nodes or tree.parents[nodes[number]] != (path[-1] if path else 0):
                break
            path.append(nodes[number])
        target_token = self.emitted[len(path)] if len(path) < len(self.emitted) else None
        evaluation = PartialEvaluation(self.evaluation, numbers, len(tree))
        checked = {node for node, number in numbers.items() if number not in self.unchecked}
        return VerificationResult(
            self.context,
            tree,
            evaluation,
            tuple(path),
            target_token,
            self.emitted,
            self.checked,
            frozenset(range(len(tree))) - checked,
        )


class PartialEvaluation:
    """Outputs after some nodes of a tree, read from the evaluation of another tree."""

    def __init__(self, evaluation: Evaluation, numbers: Mapping[int, int], size: int) -> None:
        """numbers: node of this tree -> node of the evaluated one; size: nodes of this tree."""
        self._evaluation, self._numbers, self._size = evaluation, numbers, size

    @cached_property
    def _argmax(self) -> list[int]:
        best = self._evaluation.argmax()
        return [
            best[self._numbers[node]] if node in self._numbers else -1 for node in range(self._size)
        ]

    def argmax(self) -> list[int]:
        """Return the most probable token after each node; -1 if it is silent or was not checked."""
        return self._argmax

    def likeliest(self, k: int) -> dict[int, list[int]]:
        tokens = self._evaluation.likeliest(k)
        return {node: tokens[number] for node, number in self._numbers.items() if number in tokens}

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        return self._evaluation.scored([self._numbers[node] for node in nodes], k)

    def confidence(self, node: int, token: int) -> float:
        return self._evaluation.confidence(self._numbers[node], token)

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        return self._evaluation.confidences([(self._numbers[node], token) for node, token in pairs])

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        return self._evaluation.logits(self._numbers[node])


@dataclass(frozen=True)
class Resources:
    """Resources of a method for one run.

    sampler      the target's sampler; a draft model should use the same
    draft_model  None without one
    stop_tokens  tokens that end the text, so drafting after them is useless
    memory       the method's memory of earlier runs, for a warm start; None starts cold
    corpus       texts for lookups, in the target's token ids
    prediction   the predicted output, token ids; may be empty
    sizing       amounts that are cheap on this machine
    members      the methods that a combining method combines, by role
    self_draft   the target with layers skipped; None if they cannot be skipped
    heads        the heads that were trained for the target, by kind
    candidate_generators  transformers' own candidate generators, by kind
    foreign_draft  for a draft model with a different vocabulary the difference in words; '' without
                 such a draft
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
        """Return whether a resource is present. A memory and a predicted output are never missing:
        without a memory a run starts cold, and a predicted output may be empty."""
        if need in HEAD_KINDS:
            return HEAD_KINDS[need] in self.heads
        if need in ASSISTED:
            return ASSISTED[need] in self.candidate_generators
        optional = {
            Need.DRAFT_MODEL: self.draft_model,
            Need.CORPUS: self.corpus,
            Need.SELF_DRAFT: self.self_draft,
        }
        return optional.get(need, True) is not None

    @property
    def pool(self) -> PhrasePool | None:
        """Return the memory of a method that keeps phrases; raise InvalidInput for another kind."""
        return of_kind(self.memory, PhrasePool)

    def head(self, needs: Iterable[Need]) -> Drafter | None:
        """Return the first head that meets one of the needs, or None."""
        kinds = (HEAD_KINDS[need] for need in sorted(needs) if need in HEAD_KINDS)
        return next((self.heads[kind] for kind in kinds if kind in self.heads), None)

    def rng(self) -> random.Random:
        """Return a new generator with the run's seed."""
        return random.Random(self.sampler.sampling.seed)

    def chooser(
        self,
        evaluation: Evaluation,
        tree: TokenTree,
        root_position: int,
        step: int,
        candidate: int = 0,
    ) -> Callable[[int], int]:
        """Return a function that chooses the draft's token after a node.

        Under `match` the first `candidate` is chosen with the target's noise, further ones with
        other noise. Under rejection sampling every step draws anew: a pool may hold traces of a
        discarded draft, and a proposal must not depend on the token that will be drawn.
        """
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
        """Return a function that chooses up to k different tokens after a node, the first one as
        `chooser` does. Under rejection sampling they are drawn without replacement. If sampling,
        tokens below `least` times the largest probability are left out."""
        return self.sampler.ranker(evaluation, tree, root_position, k, self._draw(step), least)

    def _draw(self, step: int, candidate: int = 0) -> int:
        """Return the number of the draft's noise at a position; 0 is the target's noise."""
        return (candidate << 32) + (1 + step if self.sampler.rule.needs_probabilities else 0)

    def drawn_from(self, evaluation: Evaluation, node: int) -> Probabilities | None:
        """Return the probabilities from which the draft's token after a node is drawn, if the
        acceptance rule needs them."""
        needed = self.sampler.rule.needs_probabilities
        return self.sampler.probabilities(evaluation, node) if needed else None


class Guesser(StrEnum):
    """The part of a system that guesses the next tokens."""

    DRAFT_MODEL = "a draft model"
    HEAD = "a head on the target's states"
    TARGET = "the target itself"
    TEXT = "text and corpora"


class Shape(StrEnum):
    """The shape of a step's proposal."""

    CHAIN = "one chain"
    CHAINS = "several chains"
    PHRASES = "phrases"
    TREE = "a tree"
    GRAPH = "a graph, unrolled"


@dataclass(frozen=True)
class StepNotes:
    """Facts that a method reports about its last proposal.

    pool_size  phrases in its pool; None without a pool
    columns    columns of its lookahead window, 0 if it chose to have none; None without a window
    decision   the controller's decision; None if there was nothing to decide
    draft_rows_saved  nodes whose row the draft model did not compute, because they equal others
    """

    pool_size: int | None = None
    columns: int | None = None
    decision: Decision | None = None
    draft_rows_saved: int = 0


class Method(ABC):
    """A source of proposals. State lives in the object; `start` resets it for the next prompt."""

    id: ClassVar[str]
    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    order: ClassVar[int] = 100
    """Rank in lists of methods, the simplest first."""
    superseded: ClassVar[str] = ""
    """Why nobody would choose it today, as a sentence; the page lists it under "More". Empty for a
    method that somebody would choose, or that teaches something."""
    on_map: ClassVar[tuple[Guesser, Shape] | None] = None
    """Position on the map of the field; None: not on it."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """Required resources."""
    uses: ClassVar[frozenset[Need]] = frozenset()
    """Optional resources, used if present."""
    proposes: ClassVar[bool] = True
    """False for plain decoding, which proposes nothing."""
    chain_of_passes: ClassVar[bool] = False
    """Whether each draft pass adds one token to a chain, so that a run with one length of the chain
    predicts other lengths."""
    reads_distributions: ClassVar[bool] = False
    """Whether it reads whole distributions or mixes embeddings, also without sampling; a pass that
    returns only the likeliest tokens does not serve it."""
    writer: ClassVar[Source] = Source.TARGET
    """The model that writes the text: the target, or for comparison the draft model."""
    Hyperparameters: ClassVar[type[settings.Hyperparameters]]
    published: ClassVar[Mapping[str, Any]] = {}
    """Settings of the paper or of its authors' code; empty if there are none."""
    auto_setting: ClassVar[str] = ""
    """The setting whose value 'auto' leaves to a controller how much to draft and to check."""

    def __init__(self, hyperparameters: Any, resources: Resources) -> None:
        self.hyperparameters, self.resources = hyperparameters, resources

    @classmethod
    def drafts_by_head(cls, draft: str | None) -> bool:
        """Return whether a run drafted with a head of the target; `draft`: the name of the drafter
        in its trace."""
        return not cls.needs.isdisjoint(HEAD_KINDS)

    @classmethod
    def members(
        cls, hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the methods that this one combines, as (id, settings) by role; `create` puts them
        into `resources.members`. The setting `fixed: True` replaces every 'auto' by a value;
        `extended` is dropped for a method without it."""
        return {}

    @classmethod
    def new_memory(cls, hyperparameters: Any, fingerprint: str = "") -> Memory | None:
        """Return an empty memory for a warm start with these settings; None for a method without
        memory. A run learns in it. A memory changes proposals, never the text.

        fingerprint  of the tokenizer whose token ids it will hold
        """
        return None

    @property
    def adjustable(self) -> Adjustable | None:
        """Return the decisions left to a controller; None if every amount is fixed."""
        is_auto = getattr(self.hyperparameters, self.auto_setting, None) == settings.AUTO
        return Adjustable() if is_auto else None

    @property
    def notes(self) -> StepNotes:
        """Facts about the last proposal for the trace."""
        return StepNotes()

    @property
    def drafter(self) -> MakesPasses | None:
        """Return the model whose passes a step counts in addition to the target's."""
        if Need.DRAFT_MODEL in self.needs:
            return self.resources.draft_model
        if Need.SELF_DRAFT in self.needs:
            return self.resources.self_draft
        return self.resources.head(self.needs)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:  # noqa: B027 - there may be nothing to begin
        """Begin a new text; may prefill a draft model. Forgets earlier texts, except in the memory
        of a warm start."""

    @abstractmethod
    def propose(self, context: Context) -> TokenTree:
        """Return a tree rooted at context.root; a controller may leave out nodes that are not worth
        checking before the target sees it."""

    def learn(self, result: VerificationResult) -> None:  # noqa: B027 - there may be nothing to learn
        """Learn from the verification of the last proposal, in its node numbers."""
