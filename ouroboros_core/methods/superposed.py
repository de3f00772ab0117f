"""Superposed decoding: several drafts from one draft pass per position (arXiv 2405.18400).

The draft model reads the mean of the embeddings of the last tokens of all drafts, weighted with the
drafts' probabilities. Its output is shared by all drafts; n-gram models, which read the words of
each draft, decide which of the likeliest tokens fits which draft, and the best continuations become
the new drafts. The paper shows them to a person. Here the target checks them, so the text is the
target's.

The paper counts its n-grams over 200,000 documents; here they come from the prompt, the text so far
and the corpus, if there is one. So few tokens contain few contexts: the weight of unknown n-grams
is given to the draft model's probability, while the paper rules such a token out. The drafts are
not drawn at random: rejection sampling keeps them with the target's probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import Mixture, Superposing
from ouroboros_core.lookup.interpolation import Interpolation
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.drafting import DraftModel
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Output, Provenance, TokenTree, TreeBuilder

LONGEST = 16
"""Draft tokens at most if their number is 'auto'."""

WEIGHTS = (0.01, 0.04, 0.15, 0.18, 0.12)
"""Weights of the n-gram models with contexts of one to five tokens, from the authors' code."""

CANDIDATES = 3
"""The draft model's likeliest tokens that are considered for each draft, as in the authors'
settings."""

TINY = 1e-300
"""A probability whose logarithm exists."""


@dataclass(frozen=True)
class _Draft:
    """Tokens of a draft, the draft model's probability of each, and the score of the draft."""

    tokens: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    score: float = 0.0

    @property
    def reach(self) -> float:
        """Return the draft model's probability of all tokens."""
        return math.prod(self.shares)


class Superposed(Method):
    """A beam search in which all drafts share the draft model's passes."""

    id = "superposed"
    name = "Superposed decoding"
    paper = "https://arxiv.org/abs/2405.18400"
    summary = (
        "A small draft model writes several drafts at once: each pass reads the mean of their last "
        "tokens, n-gram counts separate them again, and the target checks them all."
    )
    order = 24
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAINS)
    needs = frozenset({Need.DRAFT_MODEL})
    uses = frozenset({Need.CORPUS})
    reads_distributions = True

    published = fixed_values(gamma=10, drafts=3, alpha=0.54, draft_temperature=0.06)
    """Settings of the authors' code (github.com/RAIVNLab/SuperposedDecoding) for three drafts of 10
    tokens after 15."""
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[2], description="Draft tokens per step."
        )
        drafts: int = Field(3, ge=1, le=8, description="Drafts that are superposed (k).")
        alpha: float = Field(
            0.54, ge=0.0, le=1.0, description="Weight of the n-gram counts beside the draft model."
        )
        draft_temperature: float = Field(
            0.06,
            ge=0.01,
            le=2.0,
            description="Of the draft model's probabilities that the drafts are ranked by.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        self.draft = DraftModel(resources, adjustable=hyperparameters.gamma == AUTO)
        model = resources.draft_model
        assert model is not None
        if not isinstance(model, Superposing):
            raise InvalidInput(
                f"{self.id} needs a draft model that can read mixed embeddings, which {model.name} "
                "cannot: name a causal language model of transformers with --draft, or choose "
                "another method"
            )
        self.model: Superposing = model

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.ngrams = Interpolation(WEIGHTS, self.resources.corpus)
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        self.ngrams.extend(context.tokens[len(self.ngrams) :])
        drafts, ended = [_Draft()], list[_Draft]()
        outputs: list[Output] = []
        for level in range(min(self.gamma, context.deepest)):
            reach = min(1.0, sum(draft.reach for draft in drafts))
            if not drafts or not context.budget.allows_pass(reach):
                break
            evaluation = self._evaluated(context, drafts, outputs)
            outputs.append((evaluation, level))
            best = self._continued(context.tokens, drafts, outputs[-1])
            best = best[: self.settings.drafts - len(ended)]
            stop = self.resources.stop_tokens
            ended += [draft for draft in best if draft.tokens[-1] in stop]
            drafts = [draft for draft in best if draft.tokens[-1] not in stop]
        ranked = sorted([*ended, *drafts], key=lambda draft: -draft.score)
        return _tree(context, ranked, outputs)

    def _evaluated(
        self, context: Context, drafts: Sequence[_Draft], outputs: Sequence[Output]
    ) -> Evaluation:
        """Return the draft model's outputs after all drafts together."""
        if outputs:
            return self.model.superpose(outputs[-1][0], superposed(drafts))
        return self.draft.evaluate(context.tokens, TreeBuilder(context.root).build())

    def _continued(
        self, text: tuple[int, ...], drafts: Sequence[_Draft], output: Output
    ) -> list[_Draft]:
        """Return every draft extended by each of the likeliest tokens, the best first.

        A token's score is (1 - alpha) log p + alpha log r. p is the draft model's probability, r
        the n-gram models' (section 3.2).
        """
        alpha, (evaluation, node) = self.settings.alpha, output
        (likeliest,) = evaluation.scored([node], CANDIDATES * self.settings.drafts)
        tokens = [token for token, _ in likeliest]
        p = sharpened([score for _, score in likeliest], self.settings.draft_temperature)
        longer = []
        for draft in drafts:
            before = (*text[-len(WEIGHTS) :], *draft.tokens)[-len(WEIGHTS) :]
            r = self.ngrams.of(before, tokens, p)
            for (token, score), p_token, r_token in zip(likeliest, p, r, strict=True):
                gain = (1 - alpha) * _log(p_token) + alpha * _log(r_token)
                shares = (*draft.shares, math.exp(score))
                longer.append(_Draft((*draft.tokens, token), shares, draft.score + gain))
        return sorted(longer, key=lambda draft: -draft.score)


def _log(chance: float) -> float:
    return math.log(max(chance, TINY))


def sharpened(scores: Sequence[float], temperature: float) -> list[float]:
    """Return probabilities at a temperature among some tokens only.

    scores: their log-probabilities, the largest first.
    """
    weights = [math.exp((score - scores[0]) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def superposed(drafts: Sequence[_Draft]) -> Mixture:
    """Return the last tokens of drafts, the best first, weighted with the drafts' probabilities."""
    mixture: dict[int, float] = {}
    weights = sharpened([draft.score for draft in drafts], 1.0)
    for draft, weight in zip(drafts, weights, strict=True):
        mixture[draft.tokens[-1]] = mixture.get(draft.tokens[-1], 0.0) + weight
    return mixture


def _tree(context: Context, drafts: Sequence[_Draft], outputs: Sequence[Output]) -> TokenTree:
    """Return the drafts as chains, the best first; equal beginnings share nodes."""
    builder = TreeBuilder(context.root)
    for rank, draft in enumerate(drafts):
        tip: int | None = 0
        for token, share, output in zip(draft.tokens, draft.shares, outputs, strict=False):
            assert tip is not None
            builder.note_output(tip, output)
            origin = Provenance(
                Source.DRAFT, step=context.step, rank=rank, confidence=round(share, 2)
            )
            tip = builder.add(token, tip, origin)
    return builder.build()
