"""A language model whose scores are changed by rules, such as a penalty on repetition, forbidden
words or a shortest length.

A rule computes the scores of the next token from the text before it only. So a model with rules is
a language model like any other, and the loop, the acceptance rules and the trace need not know
them. For a node the rules see the context and the tokens on the path from the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, overload

from ouroboros_core.arrays import np, npt
from ouroboros_core.interfaces import Candidates, LanguageModel, Mixture, Superposing
from ouroboros_core.tree import Evaluation, TokenTree

Rules: TypeAlias = "Callable[[Sequence[int], npt.NDArray[np.floating]], npt.NDArray[np.floating]]"
"""Compute the scores [vocabulary] for the next token from a text, token ids, and the logits
[vocabulary] after it. It must not write into the logits. If it depends on anything else, it must be
called `in_turn`."""


def in_order(first: Rules | None, second: Rules) -> Rules:
    """Return rules that apply two rules, one after the other."""
    if first is None:
        return second
    before = first
    return lambda text, logits: second(text, before(text, logits))


def for_vocabulary(rules: Rules, size: int) -> Rules:
    """Return rules of a target with `size` token ids for a draft that may have fewer: missing ids
    have probability 0. If no other id is allowed, the draft's own logits stay: its guess is
    refused."""

    def applied(text: Sequence[int], logits: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        missing = size - len(logits)
        if not missing:
            return rules(text, logits)
        changed = rules(text, np.pad(logits, (0, missing), constant_values=-np.inf))[: len(logits)]
        return changed if np.isfinite(changed).any() else logits

    return applied


class ProcessedEvaluation:
    """Outputs after the nodes of a tree with the rules applied: `argmax`, `confidence` and `logits`
    use the changed scores, which are computed on demand.

    `likeliest` and `scored`, from which methods learn candidates, use the model's logits.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        context: tuple[int, ...],
        tree: TokenTree,
        rules: Rules,
        in_turn: bool = False,
    ) -> None:
        """context: the whole text before the tree, for the rules"""
        self.plain = evaluation
        self.likeliest, self.scored = evaluation.likeliest, evaluation.scored
        self.context, self._tree, self._rules = context, tree, rules
        self._in_turn, self._judged = in_turn, False
        self._rows: dict[int, npt.NDArray[np.floating]] = {}

    def close(self) -> None:
        """Mark the tree as judged. Nodes that are used afterwards are not part of the text: rules
        with a state are not called for them, and the scores are the model's."""
        self._judged = True

    def argmax(self) -> Sequence[int]:
        return _Choices(self, self._tree)

    def confidence(self, node: int, token: int) -> float:
        scores = self.logits(node).astype(np.float64)
        if token >= len(scores):
            return 0.0
        weights = np.exp(scores - scores.max())
        return float(weights[token] / weights.sum())

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [self.confidence(node, token) for node, token in pairs]

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        if node not in self._rows:
            if self._in_turn and self._judged:
                return self.plain.logits(node)
            text = (*self.context, *self._tree.tokens_to(node))
            self._rows[node] = self._rules(text, self.plain.logits(node))
        return self._rows[node]


class _Choices(Sequence[int]):
    """The token with the largest score after each node, -1 after a silent one."""

    def __init__(self, evaluation: ProcessedEvaluation, tree: TokenTree) -> None:
        self._evaluation, self._tree = evaluation, tree

    @overload
    def __getitem__(self, node: int) -> int: ...
    @overload
    def __getitem__(self, node: slice) -> list[int]: ...
    def __getitem__(self, node: int | slice) -> int | list[int]:
        if isinstance(node, slice):
            return [self[n] for n in range(*node.indices(len(self)))]
        if node in self._tree.silent:
            return -1
        return int(self._evaluation.logits(node).argmax())

    def __len__(self) -> int:
        return len(self._tree)

    def __iter__(self) -> Iterator[int]:
        return (self[node] for node in range(len(self)))


class ProcessedModel:
    """A LanguageModel with rules (see the module); everything else is forwarded to the model."""

    def __init__(self, model: LanguageModel, rules: Rules, *, in_turn: bool = False) -> None:
        """in_turn: the rules may have a state, so they are called once after each token of the
        text, in order; only for the model that writes, under the rule `match`."""
        self.model = model
        self.rules, self.in_turn = rules, in_turn
        self.name, self.max_length = model.name, model.max_length
        self.forget, self.reserve = model.forget, model.reserve
        self.skipped: tuple[int, ...] = ()
        """Tokens before every context, which the rules see and the model does not read."""
        self.last: ProcessedEvaluation | None = None
        """The outputs of the last pass."""

    @property
    def passes(self) -> int:
        return self.model.passes

    @passes.setter
    def passes(self, count: int) -> None:
        self.model.passes = count

    @property
    def rows(self) -> int:
        return self.model.rows

    @rows.setter
    def rows(self, count: int) -> None:
        self.model.rows = count

    @property
    def vocabulary(self) -> int:
        return self.model.vocabulary

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        return self.model.prefill(context, candidates)

    def plain(self, context: Sequence[int]) -> npt.NDArray[np.floating]:
        return self.rules((*self.skipped, *context), self.model.plain(context))

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> ProcessedEvaluation:
        plain = self.model.evaluate(context, tree)
        text = *self.skipped, *context
        self.last = ProcessedEvaluation(plain, text, tree, self.rules, self.in_turn)
        return self.last

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> ProcessedEvaluation:
        assert isinstance(evaluation, ProcessedEvaluation)
        plain = self.model.extend(evaluation.plain, tree)
        self.last = ProcessedEvaluation(plain, evaluation.context, tree, self.rules, self.in_turn)
        return self.last

    def superpose(self, evaluation: Evaluation, mixture: Mixture) -> Evaluation:
        """Return the model's outputs: after a mixture there is no text for the rules."""
        assert isinstance(self.model, Superposing)
        plain = evaluation.plain if isinstance(evaluation, ProcessedEvaluation) else evaluation
        return self.model.superpose(plain, mixture)
