"""One step of a run, as a method sees it: what it may know and spend when it proposes, and what the
target made of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ouroboros_core.interfaces import Candidates, Evaluation
from ouroboros_core.tree import TokenTree


class StepBudget:
    """How much one step may spend on drafting; this class sets no limit. Its methods have no side
    effects and may be called in any order, any number of times."""

    def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
        """Whether another draft pass is worth its time.

        reach  the probability, by the draft's own account, that the text goes on through the nodes
               behind which the pass drafts; 1 behind the root
        rows   of the pass
        """
        return True

    def allows_rows(self, saved: float, rows: int, more: int) -> bool:
        """Whether a draft pass over `rows` rows is to have `more` of them, which can be expected to
        save `saved` draft passes."""
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
