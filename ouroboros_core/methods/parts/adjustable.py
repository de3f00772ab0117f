"""What a method with amounts that are 'auto' and the controller around it tell each other: what is
cheap here, what may be decided, and what was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ouroboros_core.bounds import Count, Estimate
from ouroboros_core.sources import Source


@dataclass(frozen=True)
class Sizing:
    """What is cheap on this machine, for amounts that are 'auto'; the numbers are those of
    `adaptive.cost_model`.

    target_rows  rows that a pass may have for the sake of a lookahead window; 1: every row costs
    draft_rows   rows over which a draft pass takes little longer than over one
    """

    target_rows: int = 1
    draft_rows: int = 1


@dataclass(frozen=True)
class Adjustable:
    """What a controller may decide about a method's proposals.

    drafting  whether it decides how many draft passes a step makes
    checking  whether it decides which of the proposed nodes are checked
    always    sources whose nodes are checked in any case; with a node its parents have to be
    size      how many nodes are checked, where only which ones is to be chosen
    """

    drafting: bool = True
    checking: bool = True
    always: frozenset[Source] = frozenset()
    size: int | None = None


NO_WINDOW = "no window: it does not pay here"
"""What is said where a lookahead window that is 'auto' has no columns."""

NO_DRAFT = "no draft: its passes cost too much here"
"""What is said where a draft that is 'auto' was not asked, and nothing else was proposed."""

Reason = Literal["worth it", "plain is faster", "nothing proposed", "trial", "fixed"]


@dataclass(frozen=True)
class Decision:
    """What was decided about a step where an amount is 'auto', and why.

    offered   nodes there were to choose from, without the root
    size      nodes that were checked
    expected  tokens the step was expected to emit
    rate      tokens per second that its time was priced at
    reason    'worth it': these nodes add more tokens than their time costs; 'plain is faster': none
              does; 'nothing proposed'; 'fixed': the number of nodes was not to be chosen; 'trial':
              checked to learn whether it pays
    window    columns of the lookahead window; 0 where none pays, None where there is nothing to
              decide about one
    asked     whether the draft was asked; None where there is nothing to decide about it
    """

    offered: Count
    size: Count
    expected: Estimate
    rate: Estimate
    reason: Reason
    window: Count | None = None
    asked: bool | None = None

    @property
    def why(self) -> str:
        """The reason, and what is done without."""
        without = [NO_WINDOW] if self.window == 0 else []
        without += [NO_DRAFT] if self.asked is False and not self.offered else []
        return "; ".join((self.reason, *without))
