"""Reasons in words: why a token stands where it stands, from the record of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ouroboros_core import rules
from ouroboros_core.messages import counted, isolated
from ouroboros_core.rules.parts.base import ALONE
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import LOOKS, Source, key_of
from ouroboros_core.trace.trace import Judged, Step
from ouroboros_core.tree import Learned, Provenance

Piece = Callable[[int], str]
"""The text of a token id."""

LEARNED = {
    Learned.LOOKAHEAD: "from the lookahead window",
    Learned.JACOBI: "the target's output in the pass before",
    Learned.VERIFICATION: "from what the target said of an earlier draft",
    Learned.HISTORY: "in an earlier run",
    Learned.PROMPT: "from the prompt",
    Learned.TEXT: "from the text as it was written",
    Learned.PREDICTION: "from the predicted output",
}
"""Where a phrase was learned, in words."""
NEVER_JUDGED = "Never judged: a token before it was rejected."
NOT_RECORDED = "its draws were not recorded"


def share(chance: float) -> str:
    """A probability as people read it."""
    if chance < 0.001:
        return "under 0.1%"
    return f"{chance:.1%}" if chance < 0.1 or chance > 0.99 else f"{chance:.0%}"


def origin(provenance: Provenance) -> str:
    """Where a proposal comes from, a sentence; empty if there is nothing to say."""
    clauses = []
    learned, earlier = provenance.learned, provenance.learned is Learned.HISTORY
    if provenance.source is Source.GRAMMAR:
        clauses.append("the grammar allows no other token here")
    elif provenance.source is Source.COPY and earlier:
        clauses.append("copied from the text of an earlier run")
    elif provenance.source is Source.RECYCLED and earlier:
        clauses.append("kept from an earlier run")
    elif learned is not None and provenance.source is not Source.COPY:
        when = f" at step {provenance.step + 1}" if provenance.step is not None else ""
        clauses.append(f"phrase learned {LEARNED[learned]}{when}")
    if provenance.position is not None:
        expected = provenance.learned is Learned.PREDICTION
        text = "the predicted output" if expected else "prompt and output"
        clauses.append(f"copied from token {provenance.position + 1} of {text}")
    if provenance.match and provenance.source is Source.DRAFT:
        same = counted(provenance.match, "token")
        clauses.append(f"drafted behind the same {same} in another branch, copied from there")
    elif provenance.match:
        clauses.append(f"behind a match of {counted(provenance.match, 'token')}")
    if provenance.rank:
        clauses.append(f"candidate number {provenance.rank + 1}")
    if provenance.confidence is not None:
        clauses.append(f"the draft gave it about {provenance.confidence:.0%}")
    if provenance.also is not None:
        clauses.append(f"also proposed as: {LOOKS[key_of(provenance.also)].label}")
    return "; ".join(clauses)


class Reasons:
    """The sentences of one step."""

    def __init__(self, step: Step, sampling: Sampling, piece: Piece) -> None:
        self.step, self.sampling, self.rule = step, sampling, sampling.rule
        self._piece = piece
        self._judged: Mapping[int, Judged] = {judged.node: judged for judged in step.judged}
        self._of: dict[int, str] = {}
        self._rejected: set[int] = set()

    def quoted(self, token: int) -> str:
        """A token's text, its spaces and line ends to be seen."""
        text = self._piece(token).replace("\n", "↵").replace("\t", "⇥")
        return f"‘{isolated(text)}’"

    def of_token(self, index: int) -> str:
        """Return the reason of the token at an index of this step; 0 is the first."""
        step = self.step
        before = (0, *step.path)[index]
        accepted = index < len(step.path)
        token = step.tokens[index]
        if step.writer is not Source.TARGET:
            return "The draft model wrote it alone; nobody checked it."
        if accepted:
            return self._accepted(before, step.path[index], token)
        candidates = step.tree.children(before)
        if candidates:
            return self._corrected(before, candidates, token)
        if step.path:
            scope = (
                "All that was checked"
                if len(step.tree) - 1 == len(step.path)
                else "This branch, to its end,"
            )
            return (
                f"{scope} was accepted, and the same pass says what comes next: "
                f"{self._choice(before, token)}."
            )
        why = f" ({step.choice.why})" if step.choice else ""
        return (
            f"Nothing was checked in this step{why}: the target's own token, "
            f"{self._choice(before, token)}."
        )

    def of_node(self, node: int) -> str:
        """Return the fate of a proposed node, and its reason."""
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
        index = path.index(above) + 1 if above else 0
        if index >= len(self.step.tokens):
            return "The text ended before it."
        return self._refused(node, above, self.step.tokens[index])

    def _who(self, node: int) -> str:
        return LOOKS[key_of(self.step.tree.provenance[node].source)].proposer

    def _accepted(self, before: int, node: int, token: int) -> str:
        judged = self._judged.get(before)
        if judged is not None and judged.trials:
            return f"Accepted: {self._trial(judged, node)}."
        if self.rule.needs_probabilities:
            return f"Accepted by {self.rule.described}; {NOT_RECORDED}."
        if not self.rule.repeats_plain_text:
            return f"Accepted by {self.rule.described}: {self._said(judged, node)}."
        return (
            f"Accepted: {self._who(node)} proposed it, and it is the target's own choice, "
            f"{self._choice(before, token)}."
        )

    def _corrected(self, before: int, candidates: list[int], token: int) -> str:
        judged = self._judged.get(before)
        first = candidates[0]
        proposal = f"{self._who(first)} proposed {self._said(judged, first)}"
        if len(candidates) > 1:
            proposal = (
                f"none of {len(candidates)} candidates is it, first of them "
                f"{self.quoted(self.step.tree.tokens[first])}"
            )
        if judged is not None and judged.trials:
            left = self._value(judged, judged.left, token)
            drawn = "drawn anew"
            if left:
                drawn = (
                    "drawn from what is left of the target's probabilities, where it has "
                    f"{share(left)}"
                )
            trial = self._trial(judged, judged.trials[-1].node)
            return f"Corrected: {trial}; then {self.quoted(token)} was {drawn}."
        if self.rule.needs_probabilities:
            return f"Corrected by {self.rule.described}; {NOT_RECORDED}."
        if not self.rule.repeats_plain_text:
            return (
                f"Corrected, no candidate passed: {self.rule.clause(self.rule.name)}; the target's "
                f"token is {self._choice(before, token)}."
            )
        greedy = self.sampling.temperature == 0
        chosen = "the target's likeliest token is" if greedy else "the target drew"
        return f"Corrected: {chosen} {self._choice(before, token)}; {proposal}."

    def _refused(self, node: int, above: int, chosen: int) -> str:
        judged = self._judged.get(above)
        token = self.step.tree.tokens[node]
        if judged is not None and any(trial.node == node for trial in judged.trials):
            self._rejected.add(node)
            return f"Rejected: {self._trial(judged, node)}."
        if judged is not None and judged.trials:
            return "Not judged: a candidate before it was accepted."
        if self.rule.needs_probabilities:
            return f"Not accepted by {self.rule.described}; {NOT_RECORDED}."
        if not self.rule.repeats_plain_text:
            self._rejected.add(node)
            return f"Not kept: {self.rule.clause(self.rule.name)}; {self._said(judged, node)}."
        choice, proposal = self._choice(above, chosen), self._said(judged, node, token)
        self._rejected.add(node)
        return f"Rejected: the target wanted {choice}; {self._who(node)} proposed {proposal}."

    def _choice(self, before: int, token: int) -> str:
        """The token that the target chose, with what made it the choice."""
        judged = self._judged.get(before)
        if judged is None:
            return self.quoted(token)
        chance = self._value(judged, judged.target, token)
        if judged.noise and chance > 0:
            noise = self._value(judged, judged.noise, token)
            return (
                f"{self.quoted(token)} (log p {math.log(chance):.2f} + noise {noise:.2f}, the "
                "largest sum)"
            )
        return f"{self.quoted(token)} ({share(chance)})"

    def _said(self, judged: Judged | None, node: int, token: int | None = None) -> str:
        token = self.step.tree.tokens[node] if token is None else token
        if judged is None:
            return self.quoted(token)
        chance = f"the target gives it {share(self._value(judged, judged.target, token))}"
        if judged.noise:
            noise = self._value(judged, judged.noise, token)
            value = self._value(judged, judged.target, token)
            chance += f", with its noise {math.log(value) + noise:.2f}" if value > 0 else ""
        return f"{self.quoted(token)} ({chance})"

    def _trial(self, judged: Judged, node: int) -> str:
        # If a node was drawn several times, only the last draw may be accepted.
        trial = next(trial for trial in reversed(judged.trials) if trial.node == node)
        name = self.quoted(self.step.tree.tokens[node])
        sign = "<" if trial.accepted else "≥"
        if trial.rule != ALONE and trial.chance is not None:
            explain = rules.joint_tests()[trial.rule]
            return explain(name, trial.u, trial.chance, trial.accepted)
        if trial.q is None:
            proposed = self.step.tree.provenance[node]
            origin_of_token = "looked up"
            if proposed.source is Source.DRAFT:
                origin_of_token = (
                    "copied from another branch" if proposed.match else "chosen by the draft"
                )
            return (
                f"{name} was {origin_of_token}, not drawn, so it is kept with chance p: u = "
                f"{trial.u:.3g} {sign} p = {trial.p:.3g}"
            )
        if not trial.q:
            return (
                f"u = {trial.u:.3g} {sign} min(1, p/q) for {name}, where p and q are under 0.00001"
            )
        ratio = min(1.0, trial.p / trial.q)
        return (
            f"u = {trial.u:.3g} {sign} min(1, p/q) = min(1, {trial.p:.3g}/{trial.q:.3g}) = "
            f"{ratio:.3g} for {name}"
        )

    @staticmethod
    def _value(judged: Judged, column: tuple[float, ...], token: int) -> float:
        return column[judged.tokens.index(token)] if column and token in judged.tokens else 0.0
