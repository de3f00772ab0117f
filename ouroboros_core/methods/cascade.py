"""Cascade speculative drafting: counts under a draft model under the target (arXiv 2312.11462).

At the bottom stands Max-Gram, which copies on from the first earlier occurrence of the longest end
of the text (section 3.2). Where its last token is new to the text, it falls back on bigrams: those
of Wikipedia in the paper, here those of the corpus; without one the draft model writes alone.
*Vertical cascade*: the draft model never writes a draft
token by token; each of its passes reviews a copy, keeps what it would have written and adds a token
of its own. *Horizontal cascade*: only the first tokens are worth its passes, since later ones are
seldom reached; those come from Max-Gram alone.

The review may be lenient: a copied token to which the draft model gives more than 1/leniency is
kept, whatever the draft model would have written. The target's check never is, so that the text is
the target's. For rejection sampling a token is told apart by how it came about: one that the draft
model has chosen is a draw from its q, also where a copy had it already; one that was kept by
leniency is no draw, and neither is one of the horizontal cascade: all its mass lies on itself.
Which of the two it is follows from q and the copy, before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.methods.parts.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.drafting import DraftModel
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, Grammar, fixed_values
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

PUBLISHED = fixed_values(k_matrix="13,10;0,10", leniency=3.0)
"""The settings of the authors' code for one draft model and Max-Gram under Llama 7B
(github.com/lfsszd/CS-Drafting); `auto` drafts these amounts as far as they pay."""

LONGEST_MATCH = 8
"""Tokens that Max-Gram compares at most."""

Guess = tuple[int, Provenance]
"""A token, and where it comes from."""


@dataclass(frozen=True)
class KMatrix(Grammar):
    """Rule for a setting that is a matrix of two rows of two whole numbers in a text, such as
    `13,10;0,10`, with 0 below the diagonal. `13x10;0x10` is read, too, where commas separate other
    things.

    most  each of them is at most this, and the first of a row in the diagonal at least 1
    """

    most: int

    @property
    def allowed(self) -> str:
        """The allowed texts in words."""
        return (
            f"two rows of two numbers up to {self.most}, on the diagonal at least 1 and below it "
            "0, as in 13,10;0,10"
        )

    @property
    def samples(self) -> tuple[str, ...]:
        """Some texts that are allowed."""
        return "13,10;0,10", "2,0;0,1"

    @staticmethod
    def read(text: str) -> tuple[tuple[int, ...], ...]:
        """The rows of a valid text."""
        return tuple(tuple(int(part) for part in row.split(",")) for row in text.split(";"))

    def check(self, text: str) -> str:
        """The text with commas; raises ValueError."""
        rows = [
            [part.strip() for part in row.replace("x", ",").split(",")] for row in text.split(";")
        ]
        if [len(row) for row in rows] != [2, 2]:
            raise ValueError("not two rows of two numbers")
        if not all(p.isascii() and p.isdigit() and len(p) < 4 for row in rows for p in row):
            raise ValueError("not a matrix of whole numbers")
        (first, beside), (below, last) = (map(int, row) for row in rows)
        if below or not (1 <= first <= self.most and 1 <= last <= self.most):
            raise ValueError("a number that is too large or too small")
        if beside > self.most:
            raise ValueError("a number that is too large")
        return f"{first},{beside};{below},{last}"


class Cascade(Method):
    """A chain: its first k11 tokens reviewed or written by the draft model, the next k12 copied."""

    id = "cascade"
    name = "Cascade speculative drafting"
    paper = "https://arxiv.org/abs/2312.11462"
    summary = (
        "A small draft model checks copies from the text and extends them; the target checks the "
        "result, with one more copy behind it."
    )
    order = 24
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.DRAFT_MODEL})
    uses = frozenset({Need.CORPUS})

    published = PUBLISHED

    class Hyperparameters(settings.Hyperparameters):
        k_matrix: Annotated[str, KMatrix(32)] | Auto = Field(
            AUTO,
            examples=["3,1;0,2"],
            description=(
                "k11,k12;0,k22: tokens by the draft model, tokens copied behind them, tokens "
                "copied for each of the draft model's passes."
            ),
        )
        leniency: float = Field(
            3.0,
            ge=1.0,
            le=10.0,
            allow_inf_nan=False,
            description=(
                "The draft model keeps a copied token to which it gives more than one part in so "
                "many; 1: only what it writes itself."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        matrix = hyperparameters.k_matrix
        text = PUBLISHED["k_matrix"] if matrix == AUTO else matrix
        (self.reviewed, self.beside), (_, self.below) = KMatrix.read(text)
        self.draft = DraftModel(resources, adjustable=matrix == AUTO)

    @property
    def adjustable(self) -> Adjustable | None:
        return Adjustable() if self.settings.k_matrix == AUTO else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.text = Occurrences(LONGEST_MATCH)
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        self.text.extend(context.tokens[len(self.text.tokens) :])
        builder, text, reach = TreeBuilder(context.root), context.tokens, 1.0
        most = context.deepest
        while len(builder) <= min(self.reviewed, most):
            left = most + 1 - len(builder)
            guesses = self._max_gram(text, min(self.below, left - 1))
            if not context.budget.allows_pass(reach, 1 + len(guesses)):
                break
            text, reach = self._review(builder, context, text, guesses, reach)
            if text[-1] in self.resources.stop_tokens:
                return builder.build()
        written = len(builder) - 1
        count = min(self.beside, self.reviewed + self.beside - written, most - written)
        for token, origin in self._max_gram(text, count):
            builder.add(token, len(builder) - 1, origin)
        return builder.build()

    def _max_gram(self, text: Sequence[int], count: int) -> list[Guess]:
        """Up to `count` tokens that may follow a text, which may go on beyond the one that is
        known: copied from behind the first occurrence of its longest end, and where that copy ends
        with the known text, from the next; behind a token that is new to it, what follows in the
        corpus."""
        known, written = self.text.tokens, list(text[-LONGEST_MATCH:])
        guesses: list[Guess] = []
        while len(guesses) < count:
            found = self.text.first(written)
            if found is None:
                successor = self._successor(written[-1])
                if successor is None:
                    break
                guesses.append((successor, Provenance(Source.CORPUS, match=1)))
                written.append(successor)
                if successor in self.resources.stop_tokens:
                    break
                continue
            match, end = found
            for position in range(end, min(end + count - len(guesses), len(known))):
                token = known[position]
                guesses.append((token, Provenance(Source.COPY, position=position, match=match)))
                written.append(token)
                if token in self.resources.stop_tokens:
                    return guesses
        return guesses

    def _successor(self, token: int) -> int | None:
        """The second token of the corpus's most frequent bigram that begins so."""
        corpus = self.resources.corpus
        return corpus.successor(token) if corpus else None

    def _review(
        self,
        builder: TreeBuilder,
        context: Context,
        text: tuple[int, ...],
        guesses: Sequence[Guess],
        reach: float,
    ) -> tuple[tuple[int, ...], float]:
        """One draft pass over some guesses: adds those that are kept and one token of the draft
        model's own. The text with them, and the probability of its path by the draft's account."""
        branch = TreeBuilder(text[-1])
        for token, origin in guesses:
            branch.add(token, len(branch) - 1, origin)
        tree = branch.build()
        evaluation = self.draft.evaluate(text, tree)
        choose = self.resources.chooser(evaluation, tree, len(text) - 1, context.step)
        chosen = [choose(node) for node in range(len(tree))]
        # All at once: on a GPU each question waits for the pass.
        asked = [*enumerate(chosen), *((node, token) for node, (token, _) in enumerate(guesses))]
        shares = evaluation.confidences(asked)
        of_chosen, of_guesses = shares[: len(tree)], shares[len(tree) :]
        for node, own in enumerate(chosen):
            lenient = node < len(guesses) and self._leniently(of_guesses[node])
            if lenient:
                token, copied = guesses[node]
                origin = replace(copied, confidence=round(of_guesses[node], 2))
            else:
                token, share = own, round(of_chosen[node], 2)
                origin = Provenance(Source.DRAFT, step=context.step, confidence=share)
            drawn_from = None if lenient else self.resources.drawn_from(evaluation, node)
            tip = len(builder) - 1
            builder.note_output(tip, (evaluation, node))
            builder.add(token, tip, origin, drawn_from)
            text, reach = (*text, token), reach * (origin.confidence or 0.0)
            guessed = node < len(guesses) and token == guesses[node][0]
            if not guessed or token in self.resources.stop_tokens:
                break
        return text, reach

    def _leniently(self, share: float) -> bool:
        """Whether the draft model keeps a copied token that it gives this share, whatever it would
        have written."""
        return self.settings.leniency > 1 and share * self.settings.leniency > 1
