"""Chooses how much to draft and to check, wherever a knob is 'auto': running chances priced at the running rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ouroboros_core.costs import Choice, Costs, Pace, PassCosts, Reason
from ouroboros_core.memory.chances import Chances, kind_of
from ouroboros_core.tree import Provenance, Source, TokenTree

USUAL = (200, 500), (0.5, 0.35)
"""Tokens of a prompt, and how often the token of a draft that has read it is right, in round numbers: on our prompts and
on Spec-Bench's 0.4 to 0.55 where they are short, 0.25 to 0.4 where they are long (`speculative[gamma=2]`, 32 tokens)."""

SURELY = 1.15
"""By what factor a draft pass must promise more than its price, because what it promises is an estimate."""

READING, GLANCE = 0.5, 0.15
"""The share of what a draft may save that its reading of the prompt may take: of the whole, or else of its end."""

UNREAD = 0.6
"""What is left of its mean chance beforehand, where a draft has not read the whole prompt."""


def usually_right(tokens: int) -> float:
    """How often a draft's token is right behind a prompt of so many `tokens`: USUAL, between its two points on a line."""
    return float(np.interp(tokens, *USUAL))


class Governor:
    """One run's. Where it is not `automatic` it lets everything pass and chooses nothing."""

    def __init__(
        self,
        costs: Costs,
        automatic: bool,
        *,
        size: int | None = None,
        drafts: bool = True,
        checks: bool = True,
        spares: frozenset[Source] = frozenset(),
    ) -> None:
        """Some knobs may be fixed.

        automatic  whether there is anything to choose
        size       how many nodes are checked, where that is fixed and only which ones is to be chosen
        drafts     whether it is to choose how much is drafted
        checks     whether it is to choose what is checked
        spares     sources whose nodes are always checked; with a node its parents have to be
        """
        self.automatic = automatic
        self.drafts, self.checks, self.spares = drafts, checks, spares
        self.fixed_size = size
        self.costs = costs
        self.pace = Pace(costs)
        self.chances = Chances()
        self.choice: Choice | None = None
        """What was chosen in this step."""
        self.window: int | None = None
        """Columns of the lookahead window, to be noted."""
        self._covers: dict[int, float] = {}
        self._drafting = 0.0
        self._tip = 1.0
        self._place: dict[int, int] | None = None

    @property
    def losing(self) -> bool:
        """Whether what this run chose by itself has been slower than plain decoding would have been."""
        return self.automatic and self.pace.behind

    def join(self, member: Governor) -> Governor:
        """This one, to be that of another method too: what the other's has noted before its first step is noted here."""
        self.chances.doubts |= member.chances.doubts
        self.window = self.window if member.window is None else member.window
        return self

    def cover(self, token: int, origin: Provenance) -> None:
        """Take note, before a draft is asked for, of a next token that is proposed in this step without one."""
        self._covers[token] = max(self.chances.of(kind_of(origin, 1)), self._covers.get(token, 0.0))

    def cover_all(self, tree: TokenTree) -> None:
        """Likewise of all next tokens of a tree."""
        for node in tree.children(0):
            self.cover(tree.tokens[node], tree.provenance[node])

    @property
    def covered(self) -> float:
        """The chance that the next token is proposed elsewhere already, so that a draft would add nothing."""
        return min(1.0, sum(self._covers.values()))

    def may_draft(self, costs: PassCosts | None, rows: int = 1, gain: float | None = None) -> bool:
        """Whether another draft pass, over `rows` rows, is worth its time and that of one more row in the target's pass.

        gain: the tokens it is expected to add; without it, the chance of one more token behind those that were `drafted`.
        """
        if not self.automatic:
            return True
        if gain is None:
            gain = self._tip * self.chances.mean(Source.DRAFT)
        context, target = self.pace.context, self.costs.target
        seconds = costs.of(rows, context) if costs else 0.0
        row = target.of(2, context) - target.of(1, context)
        trial = not self.drafts or (self.pace.on_trial and self._drafting == 0)
        if not trial and not self.pace.worth(gain * (1 - self.covered), SURELY * (seconds + row)):
            return False
        self._drafting += seconds
        return True

    def readable(self, costs: PassCosts | None, tokens: int, remaining: int) -> int:
        """How many of a prompt's `tokens`, its last, a draft should read before it drafts.

        All of them, unless that takes more than READING of the time that the draft may save in the `remaining` tokens, by one
        draft token a step. Then it reads only what takes GLANCE of that time, and less is expected of it.
        """
        if not (self.automatic and self.drafts and costs and costs.reading):
            return tokens
        target = self.costs.target
        saved = target.of(1, tokens) - (target.of(2, tokens) + costs.of(1, tokens)) / (1 + usually_right(tokens))
        worth = remaining * max(0.0, saved) / costs.reading
        if tokens <= READING * worth:
            return tokens
        self.chances.doubts[Source.DRAFT] = UNREAD
        return min(tokens, int(GLANCE * worth))

    def drafted(self, origin: Provenance, depth: int) -> None:
        """A token was drafted behind the last one, `depth` below the root."""
        self._tip *= self.chances.of(kind_of(origin, depth))

    def trim(self, tree: TokenTree) -> TokenTree:
        """The part of a proposal that is worth checking.

        Nodes that were drawn at random all stay: under rejection sampling it must not depend on the token that was drawn whether
        it is judged.
        """
        self._place = None
        if not self.automatic:
            return tree
        offered = tree.proposals - 1
        whole = self.chances.along(tree)
        origins, proposals = tree.provenance, range(1, tree.proposals)
        spared = {node for node in proposals if origins[node].source in self.spares or not self.checks}
        spared |= {node for node in proposals if tree.drawn_from(node) is not None}
        # Sorting is stable, so that of equals the parent comes first.
        nodes = sorted(proposals, key=lambda node: (node not in spared, 0 if node in spared else -whole[node]))
        trial = self.pace.on_trial and offered > 0
        size = self.fixed_size or self.pace.size([whole[node] for node in nodes], max(len(spared), int(trial)))
        size = max(len(spared), min(size, offered))
        reason: Reason = "worth it" if size else "plain is faster"
        if not offered:
            reason = "nothing proposed"
        elif self.fixed_size or not self.checks:
            reason = "fixed"
        elif trial:
            reason = "trial"
        kept = nodes[:size]
        expected = 1 + sum(whole[node] for node in kept)
        self.choice = Choice(offered, size, round(expected, 2), round(self.pace.rate, 1), reason, self.window)
        if size == offered:
            return tree
        kept.sort()
        window = range(tree.proposals, len(tree))
        self._place = {node: index for index, node in enumerate((0, *kept, *window))}
        return tree.only(kept)

    def places(self, nodes: Sequence[int]) -> list[int]:
        """Where nodes of the offered tree lie in the trimmed one; those that were cut are left out."""
        place = self._place
        return list(nodes) if place is None else [place[node] for node in nodes if node in place]

    def learn(self, tree: TokenTree, path: Sequence[int], emitted: int) -> None:
        """Take note of a step that checked `tree`, accepted `path` and emitted so many tokens."""
        if self.automatic:
            self.chances.learn(tree, path)
            self.pace.note(emitted, len(tree), self._drafting)
        self._drafting, self._tip = 0.0, 1.0
        self._covers.clear()
