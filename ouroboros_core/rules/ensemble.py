"""Ensemble verification (DIVERSE, arXiv 2604.07622), the `assistant_ensemble_weight` of
transformers. NOT lossless: the text follows a mixture of both models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ouroboros_core.rules.parts.base import ALONE, Judgement, Target, Witness
from ouroboros_core.rules.parts.candidates import aligned
from ouroboros_core.rules.rejection import Rejection
from ouroboros_core.tree import Probabilities, TokenTree

WEIGHT = 0.5
"""Weight of p in the mixture w p + (1 - w) q."""

ENSEMBLE = "ensemble"
"""Name of the rule, and of the test of a token by the mixture."""


def explain_mixture(token: str, u: float, chance: float, accepted: bool) -> str:
    """Return the words for the trial of a token by the mixture."""
    sign = "<" if accepted else "≥"
    return (
        f"judged by the mean of both models' probabilities, {token} is kept with chance "
        f"{chance:.3g}: u = {u:.3g} {sign} that"
    )


class Ensemble(Rejection):
    """Rejection sampling with a mixture of p and q in place of p, where the draft has drawn a
    token.

    The text follows the mixture there, and p everywhere else: after copies, chosen tokens, and at
    the end of a draft. Of several drawn candidates the first one's q counts, since later ones lack
    the tokens that were drawn before.
    """

    id = ENSEMBLE
    name = "ensemble verification"
    explanation = "judges a drawn token by the mean of p and q"
    papers = ("2604.07622",)
    order = 5
    lossless = False
    joint_tests = MappingProxyType({**Rejection.joint_tests, ENSEMBLE: explain_mixture})

    def judge(
        self, tree: TokenTree, target: Target, witness: Witness | None = None
    ) -> tuple[tuple[int, ...], int]:
        def mixture(node: int) -> Probabilities:
            p, q = target.probabilities(node), _first_q(tree, node)
            return p if q is None else WEIGHT * p + (1 - WEIGHT) * aligned(q, len(p))

        named = _NamesTest(tree, witness) if witness else None
        return super().judge(tree, replace(target, probabilities=mixture), named)


def _first_q(tree: TokenTree, node: int) -> Probabilities | None:
    """Return the q of the first drawn child of a node."""
    drawn_from = (tree.drawn_from(child) for child in tree.children(node))
    return next((q for q in drawn_from if q is not None), None)


@dataclass(frozen=True)
class _NamesTest:
    """Tells a witness which trials are by the mixture."""

    tree: TokenTree
    witness: Witness

    def judged(self, judgement: Judgement) -> None:
        alone = judgement.rule == ALONE
        mixed = alone and _first_q(self.tree, judgement.before) is not None
        self.witness.judged(replace(judgement, rule=ENSEMBLE) if mixed else judgement)

    def left(self, node: int, p: Probabilities) -> None:
        self.witness.left(node, p)
