"""The interface of an acceptance rule: its declaration, its inputs, and a record of its trials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

from ouroboros_core.arrays import np
from ouroboros_core.tree import Probabilities, TokenTree

ALONE = "token"
"""Name of the test that judges one candidate without the others."""

Explain = Callable[[str, float, float, bool], str]
"""Words for one trial: (token text, u, chance, accepted) -> a clause of a reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target's answers after the nodes of one tree.

    choose         node -> the token that plain decoding writes there
    probabilities  node -> p [vocabulary], after temperature, top-k and top-p; only for sampled text
    generator      node -> random numbers of the text position after the node, independent of the
                   numbers that the draft was drawn with
    """

    choose: Callable[[int], int]
    probabilities: Callable[[int], Probabilities]
    generator: Callable[[int], np.random.Generator]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One trial of a candidate.

    before    the parent of the candidate
    node      the candidate
    u         the random number in [0, 1)
    p         its probability under the remaining p of the target
    q         its probability under the q that it was drawn from; None if it was not drawn
    chance    the probability that u is compared with: min(1, p/q), or p if it was not drawn; by
              K-SEQ min(1, p / (rho q)); in a block the probability that the block ends here unless
              it ends later
    accepted  whether the candidate enters the text; in a block also if a later token does
    rule      the test: `token`, or one of the rule's `joint_tests`
    """

    before: int
    node: int
    u: float
    p: float
    q: float | None
    chance: float
    accepted: bool
    rule: str = ALONE


class Witness(Protocol):
    """A listener to the trials of one tree."""

    def judged(self, judgement: Judgement) -> None:
        """Receive a trial. The candidates of one node come in the order of their trials."""
        ...

    def left(self, node: int, p: Probabilities) -> None:
        """Receive the remaining p [vocabulary] after a node without an accepted candidate; the
        next token is drawn from it."""
        ...


class Rule(ABC):
    """An acceptance rule. Its class attributes declare everything that others say about it.

    id                  its name in options, traces and files
    name                its name in a sentence
    explanation         a predicate without a full stop: "keeps each token by min(1, p/q)"
    papers              arXiv numbers of its sources
    order               its rank in menus
    lossless            the text follows the target's probabilities
    repeats_plain_text  the text is that of plain decoding with the same seed, token by token
    needs_probabilities the rule reads the probabilities that a draft token was drawn from
    joint_tests         words for each of its tests besides `token`, such as one that judges several
                        candidates together, by its name in a trace
    """

    id: ClassVar[str]
    name: ClassVar[str]
    explanation: ClassVar[str]
    papers: ClassVar[tuple[str, ...]] = ()
    order: ClassVar[int] = 100
    lossless: ClassVar[bool] = True
    repeats_plain_text: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False
    joint_tests: ClassVar[Mapping[str, Explain]] = MappingProxyType({})

    @abstractmethod
    def judge(
        self, tree: TokenTree, target: Target, witness: Witness | None = None
    ) -> tuple[tuple[int, ...], int]:
        """Return the accepted path, as node indices without the root, and the target token that
        follows it. Report every random trial to `witness`."""

    @property
    def title(self) -> str:
        """The name as the beginning of a sentence, or as a label."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def described(self) -> str:
        """The name inside a sentence, with a warning if the rule is not lossless."""
        return self.name if self.lossless else f"{self.name}, which is not lossless"

    def clause(self, subject: str) -> str:
        """Return the explanation with a subject, as in `block judges a drafted chain`."""
        warning = "" if self.lossless else ", which is not lossless,"
        return f"{subject}{warning} {self.explanation}"
