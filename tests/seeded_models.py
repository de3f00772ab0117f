"""Models with seeded random probabilities, given the last two tokens, that tests can recompute."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.interfaces import MIXED, Mixture
from ouroboros_core.methods.parts.base import Resources, TokenizedPrompt
from ouroboros_core.rules.parts.base import Judgement, Target
from ouroboros_core.rules.rejection import Rejection
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Probabilities, Provenance, TokenTree

CHI_SQUARE = {1: 19.5, 2: 23.0, 3: 25.9, 4: 28.5, 5: 30.9, 8: 37.3, 29: 73.9}
"""Degrees of freedom -> 99.999% point. Draws are seeded, so that results repeat."""


class SeededModel:
    """A language model whose logits are random numbers, keyed by seed and last two tokens.

    noise  standard deviation of its difference from the model with the same seed
    """

    name, max_length = "seeded", 10**9

    def __init__(self, seed: int, vocabulary: int = 6, noise: float = 0.0) -> None:
        self.vocabulary, self.passes, self.rows = vocabulary, 0, 0
        self._seed, self._noise = seed, noise
        self._after = cache(self._logits)

    def _logits(self, last: tuple[int, ...]) -> Any:
        logits = np.random.default_rng([self._seed, *last]).normal(0, 1.2, self.vocabulary)
        noise = np.random.default_rng([self._seed, 999, *last]).normal(0, 1.0, self.vocabulary)
        return logits + self._noise * noise

    def after(self, text: Sequence[int]) -> Any:
        """Return the logits [vocabulary] after a text."""
        return self._after(tuple(text[-2:]))

    def forget(self) -> None: ...

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Sequence[int], candidates: int = 0) -> Any:
        return {}

    def plain(self, context: Sequence[int]) -> Any:
        return self.after(context)

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Any:
        self.passes += 1
        return SeededEvaluation(self, tuple(context), tree)

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        assert tree.begins_with(evaluation.tree)
        return self.evaluate(evaluation.context, tree)

    def superpose(self, evaluation: Any, mixture: Mixture) -> Any:
        """Add a node for a mixture: its logits are the weighted mean of those after its tokens."""
        self.passes += 1
        before: TokenTree = evaluation.tree
        tokens, parents = (*before.tokens, MIXED), (*before.parents, len(before) - 1)
        tree = TokenTree(tokens, parents, (*before.provenance, Provenance(Source.DRAFT)))
        return SeededEvaluation(self, evaluation.context, tree, (*evaluation.mixtures, mixture))


class SeededEvaluation:
    """The outputs of a SeededModel after each node of a tree."""

    def __init__(
        self,
        model: SeededModel,
        context: tuple[int, ...],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...] = (),
    ) -> None:
        self.model, self.context, self.tree, self.mixtures = model, context, tree, mixtures

    def logits(self, node: int) -> Any:
        path = self.tree.tokens_to(node)
        if MIXED not in path:
            return self.model.after((*self.context, *path))
        weights = [{token: 1.0} for token in self.context] + list(self.mixtures[: len(path)])
        pairs = itertools.product(weights[-2].items(), weights[-1].items())
        return sum(p * q * self.model.after((a, b)) for (a, p), (b, q) in pairs)

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

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [self.confidence(node, token) for node, token in pairs]


class Numbers:
    """A stand-in for a random generator: it returns the listed numbers, and then 0.5."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self, size: int | None = None) -> Any:
        if size is None:
            return self._numbers.pop(0) if self._numbers else 0.5
        return np.array([self.random() for _ in range(size)])


def fixed(*numbers: float) -> Any:
    """Return a function that gives each position a generator of these numbers."""
    return lambda _: Numbers(*numbers)


def target(probabilities: Callable[[int], Probabilities], generator: Any) -> Target:
    """Return the target's answers by node, for a rule that does not ask for its choice."""

    def choose(node: int) -> int:
        raise AssertionError("the rule asks for the target's choice")

    return Target(choose, probabilities, generator)


HIGH = float(np.nextafter(1.0, 0.0))
"""The largest random number: only what is certain passes."""


class Trials:
    """A witness that records what a rule judges, and the probabilities that are left after it."""

    def __init__(self) -> None:
        self.judgements: list[Judgement] = []
        self.left_after: dict[int, Probabilities] = {}

    def judged(self, judgement: Judgement) -> None:
        self.judgements.append(judgement)

    def left(self, node: int, p: Probabilities) -> None:
        self.left_after[node] = p


def law_of_first(tree: TokenTree, p: Probabilities) -> tuple[Probabilities, float]:
    """Return the law of the token that rejection sampling emits first behind the root of a tree,
    and the chance that it is a drafted one; the target's probabilities are p."""
    trials, emitted, chance = Trials(), np.zeros(len(p)), 1.0
    numbers = [HIGH] * (len(tree) + len(tree.draws(0)))
    Rejection().judge(tree, target(lambda _: p, fixed(*numbers)), trials)
    for judgement in trials.judgements:
        emitted[tree.tokens[judgement.node]] += chance * judgement.chance
        chance *= 1 - judgement.chance
    drafted = float(emitted.sum())
    if 0 in trials.left_after:
        emitted += chance * trials.left_after[0]
    return emitted, drafted


def keyed(seed: int) -> Any:
    """Return a function that gives each node a generator seeded with `seed` and the node."""
    return lambda node: np.random.default_rng([seed, node])


@lru_cache(100_000)
def distribution(seed: tuple[int, ...], size: int) -> Probabilities:
    """Return random probabilities [size] for a seed; the array is read-only."""
    probabilities: Probabilities = np.random.default_rng(list(seed)).dirichlet(np.ones(size))
    probabilities.setflags(write=False)
    return probabilities


def chi_square(counts: Sequence[float], expected: Sequence[float]) -> float:
    observed, mean = np.asarray(counts, float), np.asarray(expected, float)
    return float(((observed - mean) ** 2 / mean).sum())


class SeededHeads(SeededModel):
    """Heads whose outputs after a node depend on the text's last token and the node's depth."""

    accuracies, group = ((0.5, 0.3, 0.1), (0.4, 0.2, 0.1), (0.3, 0.2)), 3

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Any:
        self.passes += 1
        return SeededDepths(self, tuple(context), tree)

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        return SeededDepths(self, evaluation.context, tree)


class SeededDepths(SeededEvaluation):
    """The outputs of SeededHeads."""

    def logits(self, node: int) -> Any:
        return self.model.after((self.context[-1], 100 + self.tree.depths[node]))


REJECTING = Sampling(temperature=1.0, seed=4, acceptance="rejection")


def started(
    method: str,
    settings: Mapping[str, Any],
    sampling: Sampling | None = None,
    size: int = 6,
    text: Sequence[int] = (0, 1),
    **resources: Any,
) -> Any:
    """A method that has read a text over `size` tokens; its draft model is a noisy SeededModel(5)
    unless the resources name another."""
    kind, sampler = methods.get(method), Sampler(sampling or Sampling(), size)
    given = {"draft_model": SeededModel(5, size, noise=0.7), **resources}
    made = kind(kind.Hyperparameters.parse(dict(settings)), Resources(sampler, **given))
    made.start(TokenizedPrompt(tuple(text)), 50)
    return made


def check_choice(
    tree: TokenTree, node: int, logits: Any, sampling: Sampling, position: int
) -> None:
    """Check a drafted token against the drafter's logits: greedy it is the likeliest one; sampled
    by `match` the one that the noise of its position makes of them; q where it is judged by it."""
    token, q = tree.tokens[node], tree.drawn_from(node)
    if sampling.rule.needs_probabilities and sampling.temperature:
        assert q is not None and np.allclose(q, softmax(process(logits, sampling)))
        return
    noise = Sampler(sampling, len(logits)).noise(position) if sampling.temperature else 0
    chosen = process(logits, sampling) if sampling.temperature else logits
    assert token == (chosen + noise).argmax() and q is None


def place(step: Step, position: int) -> str:
    """Which kind of token of its step a token is."""
    return "bonus" if position >= step.tested else ("first", "later")[min(position, 1)]


def check_places(
    method: Any,
    sampling: Sampling,
    count: int = 8_000,
    size: int = 6,
    kinds: Sequence[str] = ("first", "later", "bonus"),
    kind_of: Callable[[Step, int], str] = place,
) -> None:
    """Compare counts of emitted tokens with the target's probabilities by a chi-square test.

    Tokens are counted by their kind and by the two tokens before, on which alone the target's
    probabilities depend. The target is SeededModel(5) over `size` tokens.
    """
    target, sampler, text = SeededModel(5, size), Sampler(sampling, size), [0, 1]
    counts: dict[tuple[str, tuple[int, ...]], Counter[int]] = {}
    for step in decode(target, method, text, max_new_tokens=count, sampler=sampler):
        for position, token in enumerate(step.tokens):
            name = kind_of(step, position)
            counts.setdefault((name, tuple(text[-2:])), Counter())[token] += 1
            text.append(token)
    checked: Counter[str] = Counter()
    limit = CHI_SQUARE[size - 1]
    for (name, last), drawn in counts.items():
        p = softmax(target.after(last))
        if drawn.total() * p.min() > 3:
            assert chi_square([drawn[t] for t in range(size)], list(drawn.total() * p)) < limit
            checked[name] += 1
    assert min(checked[name] for name in kinds) > 0, checked
