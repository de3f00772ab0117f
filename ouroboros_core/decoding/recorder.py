"""Records the predictions of both models at every judged position, outside the timed phases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ouroboros_core.arrays import np
from ouroboros_core.rules.parts.base import ALONE, Judgement
from ouroboros_core.sampling import Sampler, softmax
from ouroboros_core.trace.trace import Judged, Trial
from ouroboros_core.tree import Evaluation, Probabilities, TokenTree

TOP = 10
"""Likeliest tokens that are kept of each model, in addition to proposed and chosen tokens."""

DIGITS = 5


class Recorder:
    """Records a finished step from its outputs, without a pass and without changing anything."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def look(
        self,
        tree: TokenTree,
        evaluation: Evaluation,
        path: tuple[int, ...],
        target_token: int | None,
        length: int,
    ) -> tuple[Judged, ...]:
        """Record every node of the walk, the root first. length: tokens of the context."""
        draws = self._draws(tree, evaluation, length)
        chosen = [tree.tokens[node] for node in path] + (
            [] if target_token is None else [target_token]
        )
        return tuple(
            self._judged(tree, evaluation, node, token, length + tree.depths[node], draws)
            for node, token in zip((0, *path), chosen, strict=False)
        )

    def _judged(
        self,
        tree: TokenTree,
        evaluation: Evaluation,
        node: int,
        chosen: int,
        position: int,
        draws: _Draws,
    ) -> Judged:
        p = self._probabilities(evaluation, node)
        draft = tree.draft_output(node)
        q = self._probabilities(*draft) if draft else None
        proposed = [tree.tokens[child] for child in tree.children(node)]
        tokens = dict.fromkeys([*_top(p), *(_top(q) if q is not None else []), *proposed, chosen])
        rows = np.array([token for token in tokens if token < len(p)])
        noise = None
        if self.sampler.sampling.temperature and self.sampler.rule.repeats_plain_text:
            noise = self.sampler.noise(position)
        return Judged(
            node=node,
            tokens=tuple(rows.tolist()),
            target=_column(p, rows),
            draft=_column(q, rows),
            noise=_column(noise, rows),
            trials=tuple(draws.trials.get(node, ())),
            left=_column(draws.over.get(node), rows),
        )

    def _probabilities(self, evaluation: Evaluation, node: int) -> Probabilities:
        """Return the sampled probabilities [vocabulary]; greedy: at temperature 1."""
        if self.sampler.sampling.temperature:
            return self.sampler.probabilities(evaluation, node)
        return softmax(evaluation.logits(node).astype(np.float64))

    def _draws(self, tree: TokenTree, evaluation: Evaluation, length: int) -> _Draws:
        """Repeat the draws by which the tree was judged, with the same randomness."""
        draws = _Draws()
        if not self.sampler.rule.repeats_plain_text:
            self.sampler.judge(tree, evaluation, length - 1, draws)
        return draws


class _Draws:
    """Candidates that were judged after each node, and the p that remained if none was accepted."""

    def __init__(self) -> None:
        self.trials: dict[int, list[Trial]] = {}
        self.over: dict[int, Probabilities] = {}

    def judged(self, judgement: Judgement) -> None:
        q = None if judgement.q is None else round(judgement.q, DIGITS)
        u, p = round(judgement.u, DIGITS), round(judgement.p, DIGITS)
        trial = Trial(judgement.node, u, p, q, judgement.accepted)
        if judgement.rule != ALONE:
            chance = round(judgement.chance, DIGITS)
            trial = replace(trial, chance=chance, rule=judgement.rule)
        self.trials.setdefault(judgement.before, []).append(trial)

    def left(self, node: int, p: Probabilities) -> None:
        self.over[node] = p


def _top(p: Probabilities) -> list[int]:
    """Return the most probable tokens with a probability above 0, the most probable first."""
    count = min(TOP, len(p))
    best = np.argpartition(p, -count)[-count:]
    ordered: list[int] = best[np.argsort(-p[best], kind="stable")].tolist()
    return [token for token in ordered if p[token] > 0]


def _column(values: Any, rows: Any) -> tuple[float, ...]:
    """Return rounded values of some tokens, or (); 0 beyond a smaller vocabulary."""
    if values is None:
        return ()
    return tuple(round(float(values[row]), DIGITS) if row < len(values) else 0.0 for row in rows)
