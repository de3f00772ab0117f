"""Models that a test knows by heart: probabilities of a few tokens, given the last two."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ouroboros_core.decoding.loop import decode
from ouroboros_core.interfaces import MIXED, Mixture
from ouroboros_core.rules.parts.base import Target
from ouroboros_core.sampling import Sampler, Sampling, softmax
from ouroboros_core.sources import Source
from ouroboros_core.tree import Probabilities, Provenance, TokenTree

CHI_SQUARE = {1: 19.5, 2: 23.0, 3: 25.9, 4: 28.5, 5: 30.9, 8: 37.3, 29: 73.9}
"""The 99.999% point by degrees of freedom; draws are seeded, verdicts repeat."""


class ToldModel:
    """A language model whose logits are random numbers, keyed by seed and last two tokens.

    noise  how far it is off the model with the same seed and noise 0
    """

    name, max_length = "told", 10**9

    def __init__(self, seed: int, vocabulary: int = 6, noise: float = 0.0) -> None:
        self.vocabulary, self.passes, self.rows = vocabulary, 0, 0
        self._seed, self._noise = seed, noise
        self._after = cache(self._logits)

    def _logits(self, last: tuple[int, ...]) -> Any:
        own = np.random.default_rng([self._seed, *last]).normal(0, 1.2, self.vocabulary)
        other = np.random.default_rng([self._seed, 999, *last]).normal(0, 1.0, self.vocabulary)
        return own + self._noise * other

    def after(self, text: Sequence[int]) -> Any:
        """Logits [vocabulary] after a text."""
        return self._after(tuple(text[-2:]))

    def forget(self) -> None: ...

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Any:
        return {}

    def plain(self, context: Sequence[int]) -> Any:
        return self.after(context)

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Any:
        self.passes += 1
        return Told(self, tuple(context), tree)

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        assert tree.begins_with(evaluation.tree)
        return self.evaluate(evaluation.context, tree)

    def superpose(self, evaluation: Any, mixture: Mixture) -> Any:
        """After a mixture, the weighted mean of the logits after its tokens."""
        self.passes += 1
        known: TokenTree = evaluation.tree
        tokens, parents = (*known.tokens, MIXED), (*known.parents, len(known) - 1)
        tree = TokenTree(tokens, parents, (*known.provenance, Provenance(Source.DRAFT)))
        return Told(self, evaluation.context, tree, (*evaluation.mixtures, mixture))


class Told:
    """The outputs of such a model after the nodes of a tree."""

    def __init__(
        self,
        model: ToldModel,
        context: tuple[int, ...],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...] = (),
    ) -> None:
        self.model, self.context, self.tree, self.mixtures = model, context, tree, mixtures

    def logits(self, node: int) -> Any:
        path = [self.tree.tokens[one] for one in self.tree.path_to(node)]
        if MIXED not in path:
            return self.model.after((*self.context, *path))
        both = [{token: 1.0} for token in self.context] + list(self.mixtures[: len(path)])
        pairs = itertools.product(both[-2].items(), both[-1].items())
        return sum(one * other * self.model.after((a, b)) for (a, one), (b, other) in pairs)

    def argmax(self) -> list[int]:
        return [int(self.logits(node).argmax()) for node in range(len(self.tree))]

    def likeliest(self, k: int) -> dict[int, list[int]]:
        return {node: np.argsort(-self.logits(node))[:k].tolist() for node in range(len(self.tree))}

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        best = self.likeliest(k)
        return [
            [(token, float(np.log(self.confidence(node, token)))) for token in best[node]]
            for node in nodes
        ]

    def confidence(self, node: int, token: int) -> float:
        return float(softmax(self.logits(node))[token])

    def confidences(self, asked: Sequence[tuple[int, int]]) -> list[float]:
        return [self.confidence(node, token) for node, token in asked]


class Numbers:
    """Stands for a generator: gives the numbers it was told, and then one half."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self, size: int | None = None) -> Any:
        if size is None:
            return self._numbers.pop(0) if self._numbers else 0.5
        return np.array([self.random() for _ in range(size)])


def fixed(*numbers: float) -> Any:
    """The generator of every position, each giving these numbers."""
    return lambda _: Numbers(*numbers)


def target(probabilities: Callable[[int], Probabilities], generator: Any) -> Target:
    """Return the target's answers by node, for a rule that does not ask for its choice."""

    def choose(node: int) -> int:
        raise AssertionError("the rule asks for the target's choice")

    return Target(choose, probabilities, generator)


def keyed(seed: int) -> Any:
    """The generator of every position, a function of the seed and of the node."""
    return lambda node: np.random.default_rng([seed, node])


@lru_cache(100_000)
def distribution(seed: tuple[int, ...], size: int) -> Probabilities:
    """Random probabilities [size], a function of the seed; not to be changed."""
    found: Probabilities = np.random.default_rng(list(seed)).dirichlet(np.ones(size))
    found.setflags(write=False)
    return found


def chi_square(counts: Sequence[float], expected: Sequence[float]) -> float:
    found, wanted = np.asarray(counts, float), np.asarray(expected, float)
    return float(((found - wanted) ** 2 / wanted).sum())


class ToldHeads(ToldModel):
    """Heads whose outputs after a node depend on the last token of the text and on its depth."""

    accuracies, group = ((0.5, 0.3, 0.1), (0.4, 0.2, 0.1), (0.3, 0.2)), 3

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Any:
        self.passes += 1
        return ToldDepths(self, tuple(context), tree)

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        return ToldDepths(self, evaluation.context, tree)


class ToldDepths(Told):
    """The outputs of such heads."""

    def logits(self, node: int) -> Any:
        return self.model.after((self.context[-1], 100 + self.tree.depths[node]))


def check_places(method: Any, sampling: Sampling, count: int = 8_000, size: int = 6) -> None:
    """Counts of drafted, corrected and bonus tokens, by place in the step and by the two tokens
    before, which are all that the target's probabilities depend on, against those probabilities.

    The target is ToldModel(5) over `size` tokens.
    """
    target, sampler, text = ToldModel(5, size), Sampler(sampling, size), [0, 1]
    counts: dict[tuple[str, tuple[int, ...]], Counter[int]] = {}
    steps = decode(target, method, text, max_new_tokens=count, sampler=sampler)
    for step in steps:
        for place, token in enumerate(step.tokens):
            name = "bonus" if place >= step.tested else ("first", "later")[min(place, 1)]
            counts.setdefault((name, tuple(text[-2:])), Counter())[token] += 1
            text.append(token)
    held: Counter[str] = Counter()
    limit = CHI_SQUARE[size - 1]
    for (name, last), seen in counts.items():
        p = softmax(target.after(last))
        if seen.total() * p.min() > 3:
            assert chi_square([seen[t] for t in range(size)], list(seen.total() * p)) < limit
            held[name] += 1
    assert min(held[name] for name in ("first", "later", "bonus")) > 0, held
