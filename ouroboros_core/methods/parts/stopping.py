"""Rules that say when a drafted chain ends, as papers and engines have them.

A rule decides before a token from the distribution alone, or behind it. A drawn token is never
dropped because of what it is: that would change the distribution of the text. Example: with
p = (0.7, 0.3) and q = (0.5, 0.5), leaving out the second token whenever it is drawn writes the
first one with probability 0.85.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from math import exp, log, sqrt
from typing import Annotated, Literal, cast

from pydantic import Field

from ouroboros_core.arrays import installed, np
from ouroboros_core.interfaces import EstimatesAcceptance
from ouroboros_core.sampling import softmax
from ouroboros_core.settings import Auto, upto
from ouroboros_core.tree import Evaluation

StopRule = Annotated[
    Literal["fixed", "p_min", "entropy", "adaedl", "hf_constant", "hf_heuristic", "ema"],
    Field(
        description=(
            "When a draft ends. fixed: after gamma tokens, or as auto chooses; p_min: before a "
            "token below 0.75; entropy, adaedl: at high entropy; hf_constant: after one below 0.4; "
            "hf_heuristic, ema: by earlier success."
        )
    ),
]
"""The setting `stop` of a method that drafts a chain."""


class Stop:
    """Ends a chain after `longest` tokens; `MOST` are drafted if gamma is 'auto'."""

    MOST = 16

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def length(self) -> int:
        """Return the largest number of tokens of the next draft."""
        return self.longest

    def before(self, evaluation: Evaluation, node: int) -> bool:
        """Return whether the chain ends at a node, before its next token is known."""
        return False

    def behind(self, evaluation: Evaluation, node: int, confidence: float) -> bool:
        """Return whether the chain ends behind the token that was drafted after a node.

        confidence  the draft's probability of that token
        """
        return False

    def learn(self, drafted: int, accepted: int) -> None:
        """Note how many tokens of the last draft were accepted."""


class LeastProbability(Stop):
    """llama.cpp's `p_min` (`common/speculative.cpp`): the share of the likeliest token in the
    probability of the ten likeliest."""

    TOP, LEAST = 10, 0.75

    def before(self, evaluation: Evaluation, node: int) -> bool:
        logits = evaluation.logits(node)
        if not installed():
            first, *others = nlargest(self.TOP, logits)
            return 1 / (1 + sum(exp(other - first) for other in others)) < self.LEAST
        top = logits if len(logits) < self.TOP else np.partition(logits, -self.TOP)[-self.TOP :]
        return bool(softmax(np.asarray(top, np.float64)).max() < self.LEAST)


def entropy(evaluation: Evaluation, node: int) -> float:
    """Return the entropy in nats of the draft's distribution after a node, at temperature 1."""
    logits = evaluation.logits(node)
    if not installed():
        largest = max(logits)
        weights = [exp(score - largest) for score in logits]
        total = sum(weights)
        return log(total) - sum(w * log(w) for w in weights if w) / total
    p = softmax(np.asarray(logits, np.float64))
    return float(-(p * np.log(np.maximum(p, 1e-30))).sum())


class Entropy(Stop):
    """SVIP (arXiv 2411.18462, equation 7, with the numbers of the authors' code): a bound of the
    acceptance rate by the draft's entropy H, 1 - sqrt(c H)."""

    MOST, FACTOR, LARGEST = 32, 0.15, 0.3

    def behind(self, evaluation: Evaluation, node: int, confidence: float) -> bool:
        return sqrt(self.FACTOR * entropy(evaluation, node)) > self.LARGEST


class AcceptanceThreshold:
    """A threshold that follows the acceptance rate (Draft & Verify, arXiv 2309.08168, section 3.4,
    with the numbers of the paper)."""

    STEP = 0.01
    RATE_MEMORY, MEMORY = 0.5, 0.9
    """Weights of the past in the moving averages of acceptance rate and threshold (beta)."""

    def __init__(self, start: float, goal: float) -> None:
        """goal: the acceptance rate below which the threshold rises, and above which it falls."""
        self.value, self.goal, self.rate = start, goal, 0.0

    def learn(self, drafted: int, accepted: int, is_whole: bool) -> None:
        """Note a draft. The threshold falls only if the draft was shorter than it may be."""
        if not drafted:
            return
        share = accepted / drafted
        self.rate = self.RATE_MEMORY * self.rate + (1 - self.RATE_MEMORY) * share
        target = self.value
        if self.rate < self.goal:
            target += self.STEP
        elif not is_whole:
            target -= self.STEP
        self.value = self.MEMORY * self.value + (1 - self.MEMORY) * target


class AdaptiveEntropy(Stop):
    """AdaEDL (arXiv 2410.18351): the same bound with a threshold that follows the acceptance rate,
    by the update of Draft & Verify."""

    FACTOR, START, GOAL = 0.2, 0.6, 0.9

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self.threshold = AcceptanceThreshold(self.START, self.GOAL)

    def behind(self, evaluation: Evaluation, node: int, confidence: float) -> bool:
        bound = 1 - sqrt(self.FACTOR * entropy(evaluation, node))
        return bound < self.threshold.value

    def learn(self, drafted: int, accepted: int) -> None:
        self.threshold.learn(drafted, accepted, drafted == self.longest)


class LeastConfidence(Stop):
    """transformers' `assistant_confidence_threshold`: the draft ends behind an unsure token."""

    MOST = 20

    def __init__(self, longest: int, least: float = 0.4) -> None:
        super().__init__(longest)
        self.least = least

    def behind(self, evaluation: Evaluation, node: int, confidence: float) -> bool:
        return confidence < self.least


class Heuristic(Stop):
    """transformers' `num_assistant_tokens_schedule="heuristic"`, which begins at 20 tokens."""

    MOST = 32

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self.next = min(20, longest)

    def length(self) -> int:
        return self.next

    def learn(self, drafted: int, accepted: int) -> None:
        whole = drafted > 0 and accepted == drafted
        self.next = min(self.longest, self.next + 2) if whole else max(1, self.next - 1)


class MovingAverage(Stop):
    """SGLang's adaptive tiers (`adaptive_spec_params.py`): a moving average of accepted tokens
    chooses the length, every fifth step after ten."""

    TIERS, DECAY, WARM_UP, EVERY = (1, 3, 5, 7), 0.8, 10, 5
    DOWN, UP = 0.75, -0.5
    """Distance of the average from the lower tier, and from the present one, at which it moves."""

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self.tiers = [tier for tier in self.TIERS if tier <= longest]
        self.tier, self.average, self.steps = min(1, len(self.tiers) - 1), 0.0, 0

    def length(self) -> int:
        return self.tiers[self.tier]

    def learn(self, drafted: int, accepted: int) -> None:
        self.average = self.DECAY * self.average + (1 - self.DECAY) * accepted
        self.steps += 1
        if self.steps > self.WARM_UP and self.steps % self.EVERY == 0:
            self._move()

    def _move(self) -> None:
        before = self.tier
        while self.tier and self.average <= self.tiers[self.tier - 1] - self.DOWN:
            self.tier -= 1
        last = len(self.tiers) - 1
        while self.tier >= before and self.tier < last and self.average > self.length() + self.UP:
            self.tier += 1


class LeastAcceptance(Stop):
    """Ends a chain where another rule ends it, and before a token whose chance of acceptance, which
    the drafter estimates itself, is too small (DSpark, arXiv 2607.05147)."""

    def __init__(self, rule: Stop, least: float) -> None:
        super().__init__(rule.longest)
        self.rule, self.least = rule, least

    def length(self) -> int:
        return self.rule.length()

    def before(self, evaluation: Evaluation, node: int) -> bool:
        if self.least and cast(EstimatesAcceptance, evaluation).acceptance(node) < self.least:
            return True
        return self.rule.before(evaluation, node)

    def behind(self, evaluation: Evaluation, node: int, confidence: float) -> bool:
        return self.rule.behind(evaluation, node, confidence)

    def learn(self, drafted: int, accepted: int) -> None:
        self.rule.learn(drafted, accepted)


RULES: Mapping[str, type[Stop]] = {
    "fixed": Stop,
    "p_min": LeastProbability,
    "entropy": Entropy,
    "adaedl": AdaptiveEntropy,
    "hf_constant": LeastConfidence,
    "hf_heuristic": Heuristic,
    "ema": MovingAverage,
}
"""The class of each value of `stop`."""


def new_stop(rule: str, gamma: int | Auto) -> Stop:
    """Return the rule of the setting `stop` for a new text."""
    kind = RULES[rule]
    return kind(upto(gamma, kind.MOST))
