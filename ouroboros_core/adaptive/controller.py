"""The controller: around a method it decides how much is drafted and checked, wherever an amount is
'auto'.

Decoding is a fraction to be maximised: tokens over seconds. At the best rate there is, every part
of a step stands for itself: it is worth having exactly if the tokens it can be expected to add
exceed that rate times the seconds it takes (Dinkelbach 1967, "On nonlinear fractional
programming"). So one number, the throughput, prices everything: another draft pass, a wider tree,
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ouroboros_core.adaptive.acceptance import Acceptance
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.interfaces import MakesPasses
from ouroboros_core.methods.parts.base import (
    Adjustable,
    Context,
    Decision,
    Method,
    Reason,
    StepBudget,
    StepNotes,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.tree import TokenTree

PRIOR_STEPS = 8
"""Weight of autoregressive decoding's rate, in steps, before a run has a rate of its own."""

TRIAL = 16
"""After so many steps without a proposal checked, the likeliest node is checked whatever it
costs."""


class Throughput:
    """Tokens per second of one run, in the seconds of the cost model."""

    def __init__(self, target: PassCosts) -> None:
        self.target, self._known = target, list[float]()
        self._tokens, self._seconds = float(PRIOR_STEPS), PRIOR_STEPS * target.of(1)

    @property
    def rate(self) -> float:
        """Never below autoregressive decoding's, which is always to be had."""
        return max(self._tokens / self._seconds, 1 / self.target.of(1))

    def note(self, tokens: int, rows: int, drafting: float) -> None:
        """A step emitted `tokens` after a target pass over `rows` rows and `drafting` seconds
        before it."""
        self._tokens += tokens
        self._seconds += self.target.of(rows) + drafting

    def best_size(self, chances: Sequence[float], least: int = 0, window: int = 0) -> int:
        """How many nodes to check, the likeliest first: the most tokens beyond what their time is
        worth.

        chances: that each node's whole path is accepted, falling. At least `least` of them are
        taken, beside `window` rows of a lookahead window.
        """
        rate, first = self.rate, 1 + window
        worth = [
            gain - rate * self._of(first + count)
            for count, gain in enumerate(accumulate(chances, initial=0.0))
        ][least:]
        return least + worth.index(max(worth))

    def _of(self, rows: int) -> float:
        """Seconds of a pass of the target, looked up."""
        while len(self._known) <= rows:
            self._known.append(self.target.of(len(self._known)))
        return self._known[rows]


@dataclass(frozen=True)
class PricedBudget(StepBudget):
    """What one step may spend: draft passes that promise more tokens than the throughput makes of
    their seconds."""

    throughput: Throughput
    acceptance: Acceptance
    draft_costs: PassCosts | None

    def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
        target = self.throughput.target
        seconds = target.of(2) - target.of(1)
        if self.draft_costs is not None:
            seconds += self.draft_costs.of(rows)
        return min(1.0, reach) * self.acceptance.hit > self.throughput.rate * seconds


class Controller(Method):
    """Makes a method whose amounts are 'auto' one that the loop can run like any other.

    Its member proposes; the part of that which is worth checking goes on to the target, and the
    member is told what became of it in the numbers that its nodes had.
    """

    def __init__(self, member: Method, costs: Costs) -> None:
        assert member.adjustable is not None
        super().__init__(None, member.resources)
        self.member, self._target = member, costs.target
        self._plan: Adjustable = member.adjustable
        self._draft_costs = self._costs_of_drafter(costs)
        self._begin()

    def _begin(self) -> None:
        self.throughput, self.acceptance = Throughput(self._target), Acceptance()
        self._idle = self._passes = self._rows = 0
        self._proposed: tuple[TokenTree, tuple[int, ...]] | None = None
        self._decision: Decision | None = None

    @property
    def drafter(self) -> MakesPasses | None:
        return self.member.drafter

    @property
    def notes(self) -> StepNotes:
        return replace(self.member.notes, decision=self._decision)

    def _costs_of_drafter(self, costs: Costs) -> PassCosts | None:
        own, heads = self.resources.self_draft, self.resources.heads
        if own is not None and self.drafter is own:
            return costs.target.part(own.share)
        if kind := next((kind for kind in heads if heads[kind] is self.drafter), None):
            return costs.of_head(kind)
        return costs.draft

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self._begin()
        self.member.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        if self.drafter:
            self._passes, self._rows = self.drafter.passes, self.drafter.rows
        if self._plan.drafting:
            budget = PricedBudget(self.throughput, self.acceptance, self._draft_costs)
            context = replace(context, budget=budget)
        tree = self.member.propose(context)
        may_ask = self._plan.drafting and context.deepest > 0 and self.drafter
        kept = self._choose(tree, self._made()[0] > 0 if may_ask else None)
        self._proposed = tree, tree.nodes_of(kept)
        return tree if len(kept) == len(tree.proposals) else tree.only(kept)

    def _made(self) -> tuple[int, int]:
        """Draft passes of the last proposal, and their rows."""
        drafter = self.drafter
        return (drafter.passes - self._passes, drafter.rows - self._rows) if drafter else (0, 0)

    def _choose(self, tree: TokenTree, asked: bool | None) -> list[int]:
        """The nodes that are worth checking, ascending; notes what was decided, and why.

        So is everything that was drawn at random: under rejection sampling it must not depend on
        the token that was drawn whether it is judged.
        """
        plan, proposals = self._plan, tree.proposals
        # Each node's prior (`Provenance.prior`), corrected by what the run has shown, multiplied
        # along its path.
        whole = self.acceptance.path_chances(tree)
        required = [
            node
            for node in proposals
            if not plan.checking
            or tree.provenance[node].source in plan.always
            or tree.drawn_from(node) is not None
        ]
        always = {above for node in required for above in tree.path_to(node)}
        # The likeliest first; sorting is stable, so that of equals the parent comes first.
        nodes = sorted(proposals, key=lambda node: (node not in always, -whole[node]))
        trial = self._idle >= TRIAL and bool(nodes)
        least = max(len(always), int(trial))
        window = len(tree) - tree.proposals.stop
        size = plan.size or self.throughput.best_size([whole[n] for n in nodes], least, window)
        kept = sorted(nodes[: max(least, size)])
        reason: Reason = "worth it" if kept else "plain is faster"
        if not nodes:
            reason = "nothing proposed"
        elif plan.size or not plan.checking:
            reason = "fixed"
        elif trial:
            reason = "trial"
        expected = round(1 + sum(whole[node] for node in kept), 2)
        rate = round(self.throughput.rate, 1)
        columns = self.member.notes.columns
        self._decision = Decision(len(nodes), len(kept), expected, rate, reason, columns, asked)
        return kept

    def learn(self, result: VerificationResult) -> None:
        assert self._proposed is not None
        tree, nodes = self._proposed
        passes, rows = self._made()
        drafting = 0.0
        if self._draft_costs and passes:
            drafting = passes * self._draft_costs.of(rows / passes)
        self.throughput.note(len(result.emitted), len(result.tree), drafting)
        self.acceptance.learn(tree, [nodes[node] for node in result.path], nodes)
        self._idle = self._idle + 1 if not result.tree.proposals else 0
        if result.tree is not tree:
            result = result.of(tree, {node: number for number, node in enumerate(nodes)})
        self.member.learn(result)


def controlled(method: Method, costs: Costs) -> Method:
    """The method with a controller around it where an amount is 'auto'; otherwise itself."""
    return method if method.adjustable is None else Controller(method, costs)
