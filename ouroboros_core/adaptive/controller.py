"""The controller: around a method it decides how much is drafted and checked, wherever an amount is
'auto'.

Decoding is a fraction to be maximised: tokens over seconds. At the best rate there is, every part
of a step stands for itself: it is worth having exactly if the tokens it can be expected to add
exceed that rate times the seconds it takes (Dinkelbach 1967, "On nonlinear fractional
programming"). So one number, the throughput, prices everything: another draft pass, a wider tree,
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ouroboros_core.adaptive.acceptance import Acceptance
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.adaptive.pace import Pace, Rates
from ouroboros_core.interfaces import Counted
from ouroboros_core.methods.adjustable import Adjustable, Decision, Reason
from ouroboros_core.methods.base import (
    Context,
    Method,
    StepBudget,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.tree import TokenTree

PRIOR_STEPS = 8
"""Weight of autoregressive decoding's rate, in steps, before a run has a rate of its own."""

TRIAL = 16
"""After so many steps without a proposal checked, the likeliest node is checked whatever it
costs."""


MEASURED = Rates()


class Throughput:
    """Tokens per second of one run, in the seconds of the cost model at some rates."""

    def __init__(self, costs: Costs, rates: Rates = MEASURED) -> None:
        self.costs, self.rates = costs, rates
        self.context = 0
        """Tokens of the text so far."""
        self._tokens = float(PRIOR_STEPS)
        self._seconds = PRIOR_STEPS * rates.of(costs.target, 1)

    def of(self, rows: float) -> float:
        """Seconds of a pass of the target over so many rows."""
        return self.rates.of(self.costs.target, rows, self.context)

    @property
    def rate(self) -> float:
        """Never below autoregressive decoding's, which is always to be had."""
        return max(self._tokens / self._seconds, 1 / self.of(1))

    def note(self, tokens: int, rows: int, drafting: float) -> None:
        """A step emitted `tokens` after a target pass over `rows` rows and `drafting` seconds
        before it."""
        self._tokens += tokens
        self._seconds += self.of(rows) + drafting

    def best_size(self, chances: Sequence[float], least: int = 0, window: int = 0) -> int:
        """How many nodes to check, the likeliest first: the most tokens beyond what their time is
        worth.

        chances: that each node's whole path is accepted, falling. At least `least` of them are
        taken, beside `window` rows of a lookahead window.
        """
        rate = self.rate
        alone = 1 + window
        best, gain = least, sum(chances[:least])
        best_value = gain - rate * self.of(alone + least)
        for count in range(least + 1, len(chances) + 1):
            gain += chances[count - 1]
            value = gain - rate * self.of(alone + count)
            if value > best_value:
                best, best_value = count, value
        return best


class PricedBudget(StepBudget):
    """What one step may spend: draft passes that promise more tokens than the throughput makes of
    their seconds."""

    def __init__(
        self,
        throughput: Throughput,
        acceptance: Acceptance,
        drafter: PassCosts | None,
        drafted: Callable[[], bool] = lambda: False,
    ) -> None:
        """drafted: whether the step has made a draft pass."""
        self._throughput, self._acceptance, self._drafter = throughput, acceptance, drafter
        self._drafted = drafted

    def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
        throughput = self._throughput
        seconds = throughput.of(2) - throughput.of(1)
        if self._drafter is not None:
            drafting = self._drafter.of(rows, throughput.context)
            drafting += 0.0 if self._drafted() else self._drafter.behind
            seconds += throughput.rates.drafting * drafting
        return min(1.0, reach) * self._acceptance.hit > throughput.rate * seconds

    def allows_rows(self, saved: float, rows: int, more: int) -> bool:
        if self._drafter is None:
            return True
        costs, context = self._drafter, self._throughput.context
        added = costs.of(rows + more, context) - costs.of(rows, context)
        return saved * costs.of(1, context) > added


class Controller(Method):
    """Makes a method whose amounts are 'auto' one that the loop can run like any other.

    Its member proposes; the part of that which is worth checking goes on to the target, and the
    member is told what became of it in the numbers that its nodes had.
    """

    def __init__(
        self, member: Method, costs: Costs, rates: Rates = MEASURED, pace: Pace | None = None
    ) -> None:
        """rates: what to decide by, beside the costs. pace: is told how long drafting takes."""
        assert member.adjustable is not None
        super().__init__(None, member.resources)
        self.member, self.costs, self.rates, self.pace = member, costs, rates, pace
        self._plan: Adjustable = member.adjustable
        self._begin()

    def _begin(self) -> None:
        self.throughput, self.acceptance = Throughput(self.costs, self.rates), Acceptance()
        self._idle = 0
        self._proposing, self._undrafted, self._drafted = 0.0, 0.0, False
        self._passes = self._rows = 0
        self._may_ask = False
        self._proposed: tuple[TokenTree, tuple[int, ...]] | None = None

    @property
    def drafter(self) -> Counted | None:
        return self.member.drafter

    @property
    def _drafter_costs(self) -> PassCosts | None:
        own = self.resources.self_draft
        if own is not None and self.drafter is own:
            return self.costs.target.part(own.share)
        heads = self.resources.heads
        kind = next((kind for kind in heads if heads[kind] is self.drafter), None)
        if kind is not None:
            return self.costs.heads.get(kind, self.costs.head)
        return self.costs.head if self.drafter is self.resources.head else self.costs.draft

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self._begin()
        self.member.start(prompt, max_new_tokens)
        self.pool, self.columns, self.decision = self.member.pool, self.member.columns, None

    def propose(self, context: Context) -> TokenTree:
        self.throughput.context = len(context.tokens)
        if self.drafter:
            self._passes, self._rows = self.drafter.passes, self.drafter.rows
        if self._plan.drafting:
            costs = self._drafter_costs
            budget = PricedBudget(self.throughput, self.acceptance, costs, self._has_drafted)
            context = replace(context, budget=budget)
        self._may_ask = self._plan.drafting and context.deepest > 0
        began = time.perf_counter()
        tree = self.member.propose(context)
        self._proposing = time.perf_counter() - began
        self.draft_rows_saved = self.member.draft_rows_saved
        kept = self._choose(tree)
        checked = tree if len(kept) == tree.proposals - 1 else tree.only(kept)
        self._proposed = tree, tree.nodes_of(kept)
        return checked

    def _choose(self, tree: TokenTree) -> list[int]:
        """The nodes that are worth checking, ascending.

        So is everything that was drawn at random: under rejection sampling it must not depend on
        the token that was drawn whether it is judged.
        """
        fixed = self._plan
        proposals = range(1, tree.proposals)
        whole = self.acceptance.path_chances(tree)
        always = {
            node
            for node in proposals
            if not fixed.checking or tree.provenance[node].source in fixed.always
        }
        always |= {node for node in proposals if tree.drawn_from(node) is not None}
        always |= {above for node in always for above in tree.path_to(node)}
        # The likeliest first; sorting is stable, so that of equals the parent comes first.
        nodes = sorted(
            proposals, key=lambda node: (node not in always, 0 if node in always else -whole[node])
        )
        trial = self._idle >= TRIAL and bool(nodes)
        least = max(len(always), int(trial))
        window = len(tree) - tree.proposals
        chances = [whole[node] for node in nodes]
        size = fixed.size or self.throughput.best_size(chances, least, window)
        kept = sorted(nodes[: max(least, size)])
        self._decide(kept, nodes, whole, trial)
        return kept

    def _decide(
        self, kept: Sequence[int], nodes: Sequence[int], whole: Sequence[float], trial: bool
    ) -> None:
        """Note what was decided, and why."""
        reason: Reason = "worth it" if kept else "plain is faster"
        if not nodes:
            reason = "nothing proposed"
        elif self._plan.size or not self._plan.checking:
            reason = "fixed"
        elif trial:
            reason = "trial"
        expected = round(1 + sum(whole[node] for node in kept), 2)
        rate = round(self.throughput.rate, 1)
        asked = self._has_drafted() if self._may_ask and self.drafter else None
        self.decision = Decision(len(nodes), len(kept), expected, rate, reason, self.columns, asked)

    def learn(self, result: VerificationResult) -> None:
        assert self._proposed is not None
        tree, nodes = self._proposed
        rows = len(result.tree)
        drafting = self._drafting_seconds()
        self._note_drafting(drafting)
        self.throughput.note(len(result.emitted), rows, self.rates.drafting * drafting)
        proposed = tree, [nodes[node] for node in result.path]
        self.acceptance.learn(result.tree, result.path, proposed)
        self._idle = self._idle + 1 if result.tree.proposals == 1 else 0
        whole = result.tree is tree
        self.member.learn(
            result
            if whole
            else result.of(tree, {node: number for number, node in enumerate(nodes)})
        )

    def _note_drafting(self, expected: float) -> None:
        """Note how long drafting took, beyond what proposing takes without; where the step before
        drafted, too: otherwise the draft has read a part of the text first."""
        sampler = self.resources.sampler
        greedy = sampler is None or sampler.sampling.temperature == 0
        if self.pace is not None and expected and self._drafted and greedy:
            taken = self._proposing - self._undrafted
            self.pace.note_drafting(self.member.id, expected, max(0.0, taken))
        if not expected:
            self._undrafted = self._proposing
        self._drafted = expected > 0

    def _has_drafted(self) -> bool:
        """Whether the last proposal has made a draft pass."""
        return self.drafter is not None and self.drafter.passes > self._passes

    def _drafting_seconds(self) -> float:
        """What the draft passes of the last proposal were measured to cost."""
        costs = self._drafter_costs
        if self.drafter is None or costs is None or not self._has_drafted():
            return 0.0
        passes = self.drafter.passes - self._passes
        rows = (self.drafter.rows - self._rows) / passes
        return costs.drafting(passes, rows, self.throughput.context)


def controlled(
    method: Method, costs: Costs, rates: Rates = MEASURED, pace: Pace | None = None
) -> Method:
    """The method with a controller around it where an amount is 'auto'; otherwise itself."""
    return method if method.adjustable is None else Controller(method, costs, rates, pace)
