"""The controller: it wraps a method and chooses the amounts to draft and check that are 'auto'.

Decoding maximises a fraction: tokens over seconds. At the optimal rate each part of a step can be
judged separately: it pays exactly if the tokens that it is expected to add exceed the rate times
its seconds (Dinkelbach 1967, "On nonlinear fractional programming"). So one number, the throughput,
prices every choice: another draft pass, a wider tree, or no proposal.
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
"""Weight of autoregressive decoding's rate at the beginning of a run, in steps."""

TRIAL = 16
"""Steps without a checked proposal after which the likeliest node is checked at any cost."""


class Throughput:
    """Tokens per second of one run, in the seconds of the cost model."""

    def __init__(self, target: PassCosts) -> None:
        self.target, self._seconds_by_rows = target, list[float]()
        self._tokens, self._seconds = float(PRIOR_STEPS), PRIOR_STEPS * target.of(1)

    @property
    def rate(self) -> float:
        """The rate, at least autoregressive decoding's, which is always available."""
        return max(self._tokens / self._seconds, 1 / self.target.of(1))

    def note(self, tokens: int, rows: int, drafting: float) -> None:
        """Record a step: emitted tokens, rows of the target's pass, seconds of drafting."""
        self._tokens += tokens
        self._seconds += self.target.of(rows) + drafting

    def best_size(self, chances: Sequence[float], least: int = 0, window: int = 0) -> int:
        """Return the number of nodes to check, the likeliest first, that maximises expected tokens
        minus the rate times seconds.

        chances  probabilities that each node's whole path is accepted, in descending order
        least    smallest number of nodes
        window   rows of a lookahead window in the same pass
        """
        rate, first = self.rate, 1 + window
        worth = [
            gain - rate * self._of(first + count)
            for count, gain in enumerate(accumulate(chances, initial=0.0))
        ][least:]
        return least + worth.index(max(worth))

    def _of(self, rows: int) -> float:
        """Return the seconds of a target pass from a table."""
        while len(self._seconds_by_rows) <= rows:
            self._seconds_by_rows.append(self.target.of(len(self._seconds_by_rows)))
        return self._seconds_by_rows[rows]


@dataclass(frozen=True)
class PricedBudget(StepBudget):
    """The budget of one step: a draft pass is allowed if it is expected to add more tokens than
    plain progress at the current throughput in the same seconds."""

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
    """A wrapper that lets the loop run a method with 'auto' amounts like any other method.

    The member proposes. The controller passes the nodes that are worth checking to the target, and
    reports the result to the member in the member's node numbers.
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
        self_draft, heads = self.resources.self_draft, self.resources.heads
        if self_draft is not None and self.drafter is self_draft:
            return costs.target.scaled(self_draft.share)
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
        checked = self._choose(tree, self._draft_passes()[0] > 0 if may_ask else None)
        self._proposed = tree, tree.nodes_of(checked)
        return tree if len(checked) == len(tree.proposals) else tree.only(checked)

    def _draft_passes(self) -> tuple[int, int]:
        """Return the number of draft passes of the last proposal, and of their rows."""
        drafter = self.drafter
        return (drafter.passes - self._passes, drafter.rows - self._rows) if drafter else (0, 0)

    def _choose(self, tree: TokenTree, drafted: bool | None) -> list[int]:
        """Return the nodes to check, ascending, and record the decision with its reason.

        Nodes drawn at random are always checked: under rejection sampling the choice whether to
        judge a token must not depend on the token.
        """
        plan, proposals = self._plan, tree.proposals
        # The prior of each node (`Provenance.prior`), corrected by the run and multiplied along its
        # path.
        chances = self.acceptance.path_chances(tree)
        required = [
            node
            for node in proposals
            if not plan.checking
            or tree.provenance[node].source in plan.always
            or tree.drawn_from(node) is not None
        ]
        always = {above for node in required for above in tree.path_to(node)}
        # The likeliest first. Sorting is stable, so on a tie the parent comes first.
        nodes = sorted(proposals, key=lambda node: (node not in always, -chances[node]))
        trial = self._idle >= TRIAL and bool(nodes)
        least = max(len(always), int(trial))
        window = len(tree) - tree.proposals.stop
        size = plan.size or self.throughput.best_size([chances[n] for n in nodes], least, window)
        checked = sorted(nodes[: max(least, size)])
        reason: Reason = "worth it" if checked else "plain is faster"
        if not nodes:
            reason = "nothing proposed"
        elif plan.size or not plan.checking:
            reason = "fixed"
        elif trial:
            reason = "trial"
        expected = round(1 + sum(chances[node] for node in checked), 2)
        rate = round(self.throughput.rate, 1)
        columns = self.member.notes.columns
        self._decision = Decision(
            len(nodes), len(checked), expected, rate, reason, columns, drafted
        )
        return checked

    def learn(self, result: VerificationResult) -> None:
        assert self._proposed is not None
        tree, nodes = self._proposed
        passes, rows = self._draft_passes()
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
    """Return the method, in a controller if an amount is 'auto'."""
    return method if method.adjustable is None else Controller(method, costs)
