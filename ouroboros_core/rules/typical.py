"""Typical acceptance (Medusa, arXiv 2401.10774, section 3.3.1). NOT lossless: the text follows no
distribution of the target's."""

from __future__ import annotations

import math

from ouroboros_core.arrays import np
from ouroboros_core.rules.parts.base import Rule, Target, Witness
from ouroboros_core.tree import Probabilities, TokenTree

EPSILON, DELTA = 0.09, 0.3
"""Constants of the authors' code; delta is the square root of epsilon."""


def typical_threshold(p: Probabilities) -> float:
    """Return the probability above which a token is kept, given p [vocabulary]: min(EPSILON, DELTA
    * exp(-H(p))), where H is the entropy in nats. The surer the target, the higher it is."""
    possible = p[p > 0]
    entropy = -float((possible * np.log(possible)).sum())
    return min(EPSILON, DELTA * math.exp(-entropy))


class Typical(Rule):
    """A node is accepted if its parent is and its p is above `typical_threshold`.

    The path is the longest accepted branch; among equally long branches it is the most probable
    one. The target token is the likeliest. Nothing is drawn, so there are no trials to report.
    """

    id = "typical"
    name = "typical acceptance"
    explanation = "keeps the longest branch that the target finds likely enough"
    papers = ("2401.10774",)
    order = 4
    lossless = False

    def judge(
        self, tree: TokenTree, target: Target, witness: Witness | None = None
    ) -> tuple[tuple[int, ...], int]:
        scores, probabilities = {0: 0.0}, {0: target.probabilities(0)}
        for node in tree.proposals:
            parent = tree.parents[node]
            if parent not in scores:
                continue
            if parent not in probabilities:
                probabilities[parent] = target.probabilities(parent)
            p = probabilities[parent]
            chance = float(p[tree.tokens[node]])
            if chance > typical_threshold(p):
                scores[node] = scores[parent] + math.log(chance)
        last = max(scores, key=lambda node: (tree.depths[node], scores[node]))
        p = probabilities[last] if last in probabilities else target.probabilities(last)
        return tuple(tree.path_to(last)), int(np.argmax(p))
