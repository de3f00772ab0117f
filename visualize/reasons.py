"""Why a token stands where it stands, in words: from what a step records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ouroboros_core.decoding.trace import Judged, Step, Trial
from ouroboros_core.methods.base import Decision
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance
from ouroboros_core.words import known, say, several
from visualize.palette import LOOKS, key_of

Piece = Callable[[int], str]
"""The text of a token id."""

LEARNED = {learned: say(f"learned.{learned.value}") for learned in Learned}
NEVER_JUDGED = say("reason.never")
NOT_RECORDED = say("reason.unrecorded")


def share(chance: float) -> str:
    """A probability as people read it."""
    if chance < 0.001:
        return say("reason.under")
    return f"{chance:.1%}" if chance < 0.1 or chance > 0.99 else f"{chance:.0%}"


def origin(provenance: Provenance) -> str:
    """Where a proposal comes from, a sentence; empty where there is nothing to say."""
    parts = []
    if provenance.learned is not None and provenance.source is not Source.COPY:
        when = say("origin.step", n=provenance.step + 1) if provenance.step is not None else ""
        parts.append(say("origin.phrase", where=LEARNED[provenance.learned], when=when))
    if provenance.position is not None:
        text = say("origin.expected" if provenance.learned is Learned.PREDICTION else "origin.text")
        parts.append(say("origin.copied", n=provenance.position + 1, text=text))
    if provenance.match:
        parts.append(several("origin.match", provenance.match))
    if provenance.rank:
        parts.append(say("origin.rank", n=provenance.rank + 1))
    if provenance.confidence is not None:
        parts.append(say("origin.confidence", share=share(provenance.confidence)))
    if provenance.also is not None:
        parts.append(say("origin.also", label=LOOKS[key_of(provenance.also)].label))
    return "; ".join(parts)


def reason_of(choice: Decision) -> str:
    """Why a method chose as it did, in a word or two."""
    return known(f"choice.{choice.reason}", choice.reason)


class Reasons:
    """The sentences of one step."""

    def __init__(self, step: Step, sampling: Sampling, piece: Piece) -> None:
        self.step, self.sampling = step, sampling
        self._piece = piece
        self._judged: Mapping[int, Judged] = {judged.node: judged for judged in step.judged}
        self._of: dict[int, str] = {}
        self._rejected: set[int] = set()

    def quoted(self, token: int) -> str:
        """A token's text, its spaces and line ends to be seen."""
        text = self._piece(token).replace("\n", "↵").replace("\t", "⇥")
        return f"‘{text}’"

    def of_token(self, place: int) -> str:
        """Why the token at a place of this step, 0 being the first, is what it is."""
        step = self.step
        before = (0, *step.path)[place]
        accepted = place < len(step.path)
        token = step.tokens[place]
        if step.writer is not Source.TARGET:
            return say("reason.alone")
        if accepted:
            return self._accepted(before, step.path[place], token)
        candidates = step.tree.children(before)
        if candidates:
            return self._corrected(before, candidates, token)
        if step.path:
            whole = say("reason.all" if len(step.tree) - 1 == len(step.path) else "reason.branch")
            return say("reason.bonus", whole=whole, choice=self._choice(before, token))
        why = f" ({reason_of(step.choice)})" if step.choice else ""
        return say("reason.unchecked", why=why, choice=self._choice(before, token))

    def of_node(self, node: int) -> str:
        """What became of a proposed node, and why."""
        if node not in self._of:
            self._of[node] = self._of_node(node)
        return self._of[node]

    def _of_node(self, node: int) -> str:
        tree, path = self.step.tree, self.step.path
        if node in path:
            return self.of_token(path.index(node))
        above = tree.parents[node]
        if above != 0 and above not in path:
            why = self.of_node(above)
            return NEVER_JUDGED if above in self._rejected else why
        place = path.index(above) + 1 if above else 0
        if place >= len(self.step.tokens):
            return say("reason.ended")
        return self._refused(node, above, self.step.tokens[place])

    def _who(self, node: int) -> str:
        return LOOKS[key_of(self.step.tree.provenance[node].source)].who

    def _accepted(self, before: int, node: int, token: int) -> str:
        judged = self._judged.get(before)
        if judged is not None and judged.trials:
            return say("reason.accepted.trial", trial=self._trial(judged, node))
        if self.sampling.rejects:
            return say("reason.accepted.unrecorded", rule=self._rule, unrecorded=NOT_RECORDED)
        return say("reason.accepted", who=self._who(node), choice=self._choice(before, token))

    def _corrected(self, before: int, candidates: list[int], token: int) -> str:
        judged = self._judged.get(before)
        first = candidates[0]
        said = say("reason.said", who=self._who(first), said=self._said(judged, first))
        if len(candidates) > 1:
            said = say(
                "reason.none", n=len(candidates), first=self.quoted(self.step.tree.tokens[first])
            )
        if judged is not None and judged.trials:
            left = self._value(judged, judged.left, token)
            drawn = say("reason.left", share=share(left)) if left else say("reason.anew")
            trial = self._trial(judged, judged.trials[-1].node)
            return say("reason.corrected.trial", trial=trial, token=self.quoted(token), drawn=drawn)
        if self.sampling.rejects:
            return say("reason.corrected.unrecorded", rule=self._rule, unrecorded=NOT_RECORDED)
        how = say("reason.argmax" if self.sampling.temperature == 0 else "reason.draws")
        return say("reason.corrected", how=how, choice=self._choice(before, token), said=said)

    def _refused(self, node: int, above: int, chosen: int) -> str:
        judged = self._judged.get(above)
        token = self.step.tree.tokens[node]
        if judged is not None and any(trial.node == node for trial in judged.trials):
            self._rejected.add(node)
            return say("reason.rejected.trial", trial=self._trial(judged, node))
        if judged is not None and judged.trials:
            return say("reason.before")
        if self.sampling.rejects:
            return say("reason.rejected.unrecorded", rule=self._rule, unrecorded=NOT_RECORDED)
        wanted, said = self._choice(above, chosen), self._said(judged, node, token)
        self._rejected.add(node)
        return say("reason.rejected", wanted=wanted, who=self._who(node), said=said)

    @property
    def _rule(self) -> str:
        """What the rule of acceptance is called."""
        return say(f"reason.rule.{self.sampling.acceptance}")

    def _choice(self, before: int, token: int) -> str:
        """The token that the target chose, with what made it the choice."""
        judged = self._judged.get(before)
        if judged is None:
            return self.quoted(token)
        chance = self._value(judged, judged.target, token)
        if judged.noise and chance > 0:
            noise = self._value(judged, judged.noise, token)
            return say(
                "reason.choice.noise", token=self.quoted(token), log=math.log(chance), noise=noise
            )
        return say("reason.choice", token=self.quoted(token), share=share(chance))

    def _said(self, judged: Judged | None, node: int, token: int | None = None) -> str:
        token = self.step.tree.tokens[node] if token is None else token
        if judged is None:
            return self.quoted(token)
        chance = say("reason.gives", share=share(self._value(judged, judged.target, token)))
        if judged.noise:
            noise = self._value(judged, judged.noise, token)
            value = self._value(judged, judged.target, token)
            chance += say("reason.noise", sum=math.log(value) + noise) if value > 0 else ""
        return f"{self.quoted(token)} ({chance})"

    def _trial(self, judged: Judged, node: int) -> str:
        # Of a node that was drawn several times the last draw tells: only it may be accepted.
        trial = next(trial for trial in reversed(judged.trials) if trial.node == node)
        name = self.quoted(self.step.tree.tokens[node])
        sign = "<" if trial.accepted else "≥"
        if trial.chance is not None:
            return self._other_trial(trial, name, trial.chance)
        if trial.q is None:
            return say("reason.trial.looked", token=name, u=trial.u, sign=sign, p=trial.p)
        if not trial.q:
            return say("reason.trial.tiny", token=name, u=trial.u, sign=sign)
        ratio = min(1.0, trial.p / trial.q)
        return say(
            "reason.trial", token=name, u=trial.u, sign=sign, p=trial.p, q=trial.q, ratio=ratio
        )

    @staticmethod
    def _other_trial(trial: Trial, token: str, chance: float) -> str:
        """A candidate that was not judged by min(1, p/q)."""
        if trial.rule == "k-seq":
            sign = "<" if trial.accepted else "≥"
            return say("reason.trial.draws", token=token, u=trial.u, sign=sign, chance=chance)
        if trial.accepted and trial.u >= chance:
            return say("reason.trial.later", token=token)
        sign = "<" if trial.accepted else "≥"
        return say("reason.trial.block", token=token, u=trial.u, sign=sign, chance=chance)

    @staticmethod
    def _value(judged: Judged, column: tuple[float, ...], token: int) -> float:
        return column[judged.tokens.index(token)] if column and token in judged.tokens else 0.0
