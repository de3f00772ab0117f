"""Cascade speculative drafting: counts under a draft model under the target (arXiv 2312.11462).

Max-Gram, the lowest level, copies from the first earlier occurrence of the longest suffix of the
text (section 3.2). If the last token is new to the text, it uses bigrams: of Wikipedia in the
paper, of the corpus here; without a corpus the draft model writes alone. *Vertical cascade*: the
draft model does not write token by token. Each of its passes reviews a copy, keeps the tokens that
it would have written and adds one token. *Horizontal cascade*: only the first tokens are worth its
passes, since later ones are seldom reached; later tokens come from Max-Gram.

The review may be lenient: the draft model keeps a copied token to which it gives more than
1/leniency, even if it would have written another one. The target's check is never lenient, so the
text is the target's. Rejection sampling distinguishes two kinds of token. A token that the draft
model chose is a draw from its q, even if a copy had the same token. A token that leniency kept, or
that the horizontal cascade copied, is no draw: its q is 1. The kind follows from q and the copy,
before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.ngrams import Occurrences
from ouroboros_core.methods.parts.base import (
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
"""A token and its provenance."""


@dataclass(frozen=True)
class KMatrix(Grammar):
    """Grammar of a matrix of two rows of two whole numbers, such as `13,10;0,10`, with 0 below the
    diagonal. `13x10;0x10` is read as well, for places where commas separate other things.

    largest  largest number; on the diagonal the smallest is 1
    """

    largest: int

    @property
    def allowed(self) -> str:
        """The allowed texts in words."""
        return (
            f"two rows of two numbers up to {self.largest}, on the diagonal at least 1 and below "
            "it 0, as in 13,10;0,10"
        )

    @property
    def samples(self) -> tuple[str, ...]:
        """Some texts that are allowed."""
        return "13,10;0,10", "2,0;0,1"

    @staticmethod
    def read(text: str) -> tuple[tuple[int, ...], ...]:
        """Return the rows of a valid text."""
        return tuple(tuple(map(int, row.split(","))) for row in text.split(";"))

    def check(self, text: str) -> str:
        """Return the text with commas; raise ValueError for a text that is no such matrix."""
        rows = [
            [number.strip() for number in row.replace("x", ",").split(",")]
            for row in text.split(";")
        ]
        if [len(row) for row in rows] != [2, 2]:
            raise ValueError("not two rows of two numbers")
        if not all(n.isascii() and n.isdigit() and len(n) < 4 for row in rows for n in row):
            raise ValueError("not a matrix of whole numbers")
        (k11, k12), (k21, k22) = (map(int, row) for row in rows)
        if k21 or not (1 <= k11 <= self.largest and 1 <= k22 <= self.largest):
            raise ValueError("a number that is too large or too small")
        if k12 > self.largest:
            raise ValueError("a number that is too large")
        return f"{k11},{k12};{k21},{k22}"


class Cascade(Method):
    """A chain: its first k11 tokens reviewed or written by the draft model, the next k12 copied."""

    id = "cascade"
    name = "Cascade speculative drafting"
    paper = "https://arxiv.org/abs/2312.11462"
    summary = (
        "A small draft model checks copies from the text and extends them; the target checks the "
        "result, with one more copy appended."
    )
    order = 24
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.DRAFT_MODEL})
    uses = frozenset({Need.CORPUS})

    published = PUBLISHED
    auto_setting = "k_matrix"

    class Hyperparameters(settings.Hyperparameters):
        k_matrix: Annotated[str, KMatrix(32)] | Auto = Field(
            AUTO,
            examples=["3,1;0,2"],
            description=(
                "k11,k12;0,k22: tokens by the draft model, tokens copied after them, tokens "
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

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.text = Occurrences(LONGEST_MATCH)
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        self.text.extend(context.tokens[len(self.text.tokens) :])
        builder, text, reach = TreeBuilder(context.root), context.tokens, 1.0
        deepest = context.deepest
        while len(builder) <= min(self.reviewed, deepest):
            left = deepest + 1 - len(builder)
            guesses = self._max_gram(text, min(self.below, left - 1))
            if not context.budget.allows_pass(reach, 1 + len(guesses)):
                break
            text, reach = self._review(builder, context, text, guesses, reach)
            if text[-1] in self.resources.stop_tokens:
                return builder.build()
        written = len(builder) - 1
        count = min(self.beside, self.reviewed + self.beside - written, deepest - written)
        for token, origin in self._max_gram(text, count):
            builder.add(token, len(builder) - 1, origin)
        return builder.build()

    def _max_gram(self, text: Sequence[int], count: int) -> list[Guess]:
        """Return up to `count` tokens that may follow `text`, which may be longer than the context.

        They are copied after the first occurrence of its longest suffix. At the end of the context
        the copy continues after another occurrence. After a token that is new to the context, the
        corpus gives the next one.
        """
        tokens, written = self.text.tokens, list(text[-LONGEST_MATCH:])
        guesses: list[Guess] = []
        while len(guesses) < count:
            occurrence = self.text.first(written)
            if occurrence is None:
                successor = self._successor(written[-1])
                if successor is None:
                    break
                guesses.append((successor, Provenance(Source.CORPUS, match=1)))
                written.append(successor)
                if successor in self.resources.stop_tokens:
                    break
                continue
            match, end = occurrence
            for position in range(end, min(end + count - len(guesses), len(tokens))):
                token = tokens[position]
                guesses.append((token, Provenance(Source.COPY, position=position, match=match)))
                written.append(token)
                if token in self.resources.stop_tokens:
                    return guesses
        return guesses

    def _successor(self, token: int) -> int | None:
        """Return the token that most often follows `token` in the corpus."""
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
        """Review guesses by one draft pass: add those that the draft model keeps, and one token
        that it chooses. Return the text with them, and the draft's probability of its path."""
        branch = TreeBuilder(text[-1])
        for token, origin in guesses:
            branch.add(token, len(branch) - 1, origin)
        tree = branch.build()
        evaluation = self.draft.evaluate(text, tree)
        choose = self.resources.chooser(evaluation, tree, len(text) - 1, context.step)
        chosen = [choose(node) for node in range(len(tree))]
        # All in one call: on a GPU each call waits for the pass.
        pairs = [*enumerate(chosen), *((node, token) for node, (token, _) in enumerate(guesses))]
        shares = evaluation.confidences(pairs)
        of_chosen, of_guesses = shares[: len(tree)], shares[len(tree) :]
        for node, choice in enumerate(chosen):
            lenient = node < len(guesses) and self._leniently(of_guesses[node])
            if lenient:
                token, copied = guesses[node]
                origin = replace(copied, confidence=round(of_guesses[node], 2))
            else:
                token, share = choice, round(of_chosen[node], 2)
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
        """Return whether the draft model keeps a copied token of this probability in any case."""
        return self.settings.leniency > 1 and share * self.settings.leniency > 1
