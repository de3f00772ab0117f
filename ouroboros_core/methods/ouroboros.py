"""Ouroboros: drafting phrase by phrase, and lengthening drafts with candidate suffixes (arXiv
2402.13720).

The draft model is itself decoded by lookahead, so one draft pass may write several tokens (section
3.1). Behind the finished draft hang the K newest phrases of its last token, candidate suffixes that
cost no draft pass (section 3.2); the target checks all in one pass. The pool they come from learns
from the draft model's lookahead window, from verification - fragments of the discarded draft that
the target agrees with, and suffixes as the target corrects them (section 3.3) - and from history,
when it outlives the call (section 3.4). With `extended`, which the paper does not have, it learns
from prompt and text, too, and phrases of the text's last token stand beside the draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, fixed_values, upto
from ouroboros_core.interfaces import Output
from ouroboros_core.lookup.lookahead_window import LookaheadWindow, columns_within
from ouroboros_core.lookup.phrase_pool import PhrasePool, open_pool
from ouroboros_core.methods.parts.adjustable import Adjustable
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.drafting import DraftModel
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Probabilities, Provenance, TokenTree, TreeBuilder
from ouroboros_core.verify import verify

LONGEST = 16
"""Draft tokens at most where that is 'auto'."""

MOST_SUFFIXES = 8
"""Candidate suffixes proposed where their number is 'auto'."""


@dataclass
class _Proposal:
    """Where the parts of a step's tree lie: the chain's nodes from the root to its tip, and each
    suffix with its nodes."""

    step: int = -1
    chain: list[int] = field(default_factory=list)
    suffixes: list[tuple[tuple[int, ...], list[int]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Drafted:
    """A draft token, where it comes from, the probabilities it was drawn from, and the output that
    it is part of."""

    token: int
    origin: Provenance
    drawn_from: Probabilities | None
    output: Output


class Ouroboros(Method):
    """Phrases make drafts cheaper; suffixes make them longer; the target's corrections make phrases
    better."""

    id = "ouroboros"
    name = "Ouroboros"
    paper = "https://arxiv.org/abs/2402.13720"
    summary = (
        "A draft model that writes phrase by phrase, and candidate suffixes behind its draft, "
        "checked in the same pass."
    )
    order = 30
    on_map = (Guesser.DRAFT_MODEL, Shape.PHRASES)
    needs = frozenset({Need.DRAFT_MODEL})
    uses = frozenset({Need.MEMORY})

    published = fixed_values(
        gamma=12,
        window_size=20,
        ngram_size=7,
        guess_set_size=20,
        top_k_suffixes=3,
        lookahead_phrases=True,
        verification_phrases=True,
        extended=False,
    )
    """Those of the example in the authors' repository."""

    class Hyperparameters(hyperparameters.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[4], description="Draft tokens per step."
        )
        window_size: Annotated[int, Ge(1), Le(60)] | Auto = Field(
            AUTO, examples=[4], description="Columns of the draft model's lookahead window (W)."
        )
        ngram_size: int = Field(4, ge=3, le=10, description="Key token and phrase together (N).")
        guess_set_size: int = Field(4, ge=1, le=60, description="Phrases kept per key (G).")
        top_k_suffixes: Annotated[int, Ge(0), Le(20)] | Auto = Field(
            AUTO, examples=[3], description="Candidate suffixes behind the draft (K)."
        )
        lookahead_phrases: bool = Field(
            True, description="Learn phrases from the draft model's lookahead window."
        )
        verification_phrases: bool = Field(
            True, description="Learn phrases from what the target says of a draft."
        )
        extended: bool = Field(
            False,
            description=(
                "Beyond the paper: phrases of prompt and text, too, and phrases beside the draft."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        self.suffixes = upto(hyperparameters.top_k_suffixes, MOST_SUFFIXES)
        self.draft = DraftModel(resources, adjustable=hyperparameters.gamma == AUTO)
        self._proposal = _Proposal()

    @property
    def adjustable(self) -> Adjustable | None:
        gamma, suffixes = self.settings.gamma == AUTO, self.settings.top_k_suffixes == AUTO
        if not gamma and not suffixes:
            return None
        always: set[Source] = set() if gamma else {Source.DRAFT}
        always |= set() if suffixes else {Source.DRAFT, Source.SUFFIX}
        return Adjustable(drafting=gamma, always=frozenset(always))

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> PhrasePool:
        sizes = hyperparameters.ngram_size, hyperparameters.guess_set_size
        return PhrasePool(*sizes, fingerprint=fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        settings, sizing = self.settings, self.resources.sizing
        text = prompt.tokens if settings.extended else ()
        self.pool = open_pool(
            self.resources.pool, settings.ngram_size, settings.guess_set_size, text
        )
        fitting = max(1, columns_within(sizing.draft_rows, settings.ngram_size))
        width: int = fitting if settings.window_size == AUTO else settings.window_size
        self.window = LookaheadWindow(
            width, settings.ngram_size, prompt.tokens, self.resources.rng()
        )
        self.columns = width if settings.lookahead_phrases else None
        self._proposal = _Proposal()
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        assert self.pool is not None
        depth = context.deepest
        builder = TreeBuilder(context.root, max_depth=depth)

        # The draft, a chain.
        chain, ended = [0], False
        for one in self._draft(context, min(self.gamma, depth)):
            builder.note_output(chain[-1], one.output)
            node = builder.add(one.token, chain[-1], one.origin, one.drawn_from)
            assert node is not None
            chain.append(node)
            ended = one.token in self.resources.stop_tokens
        self._proposal = _Proposal(context.step, chain)

        # Behind it the candidate suffixes, none where the draft was not asked; extended, those of
        # the root as well, which cost a row and no draft pass.
        drafted = len(chain) > 1
        if not ended and (drafted or self.settings.extended):
            self._proposal.suffixes = self.pool.attach(
                builder, chain[-1], self.suffixes, Source.SUFFIX
            )
        if drafted and self.settings.extended:
            self.pool.attach(builder, 0, self.suffixes, Source.SUFFIX)
        return builder.build()

    def _draft(self, context: Context, limit: int) -> list[_Drafted]:
        """Up to `limit` draft tokens; each draft pass checks phrases, moves the window, and writes
        one token or several."""
        draft: list[_Drafted] = []
        reach = 1.0
        while len(draft) < limit:
            text = (*context.tokens, *(drafted.token for drafted in draft))
            tree, last_level = self._draft_tree(text[-1])
            if not context.budget.allows_pass(reach, len(tree)):
                break
            written = self._draft_pass(context, text, tree, last_level)
            for drafted in written[: limit - len(draft)]:
                draft.append(drafted)
                reach *= drafted.origin.confidence or 0.0
                if drafted.token in self.resources.stop_tokens:
                    return draft
        return draft

    def _draft_tree(self, root: int) -> tuple[TokenTree, list[int]]:
        """What a draft pass checks: phrases of the last token and the window; with the nodes of the
        window's last level."""
        assert self.pool is not None
        builder = TreeBuilder(root)
        self.pool.attach(builder, 0, self.settings.guess_set_size, Source.PHRASE)
        window = self.window.attach(builder) if self.columns else []
        return builder.build(), window

    def _draft_pass(
        self, context: Context, text: tuple[int, ...], tree: TokenTree, last_level: list[int]
    ) -> list[_Drafted]:
        """The draft tokens that one pass yields."""
        assert self.pool is not None
        evaluation = self.draft.evaluate(text, tree)
        path, token = verify(
            tree, self.resources.chooser(evaluation, tree, len(text) - 1, context.step)
        )
        if last_level:
            outputs = evaluation.argmax()
            for key, phrase in self.window.advance(
                text[-1], [outputs[node] for node in last_level]
            ):
                self.pool.insert(key, phrase, Learned.LOOKAHEAD, context.step)
        written = (*(tree.tokens[node] for node in path), token)
        asked = [*zip((0, *path), written, strict=True)]
        drafted = []
        for (node, one), share in zip(asked, evaluation.confidences(asked), strict=True):
            origin = Provenance(Source.DRAFT, step=context.step, confidence=round(share, 2))
            drafted.append(
                _Drafted(
                    one, origin, self.resources.drawn_from(evaluation, node), (evaluation, node)
                )
            )
        return drafted

    def learn(self, result: VerificationResult) -> None:
        assert self.pool is not None
        if self.settings.extended:
            self.pool.learn_written(result.context.tokens, result.emitted, result.context.step)
        asked = self._proposal.step == result.context.step
        if self.settings.verification_phrases and asked:
            said = result.evaluation.argmax()
            self._learn_fragments(result, said)
            self._correct_suffixes(result, said)

    def _learn_fragments(self, result: VerificationResult, said: Sequence[int]) -> None:
        """Of the discarded draft, keep fragments that the target would have continued in the same
        way.

        At a discarded token d_i whose N - 2 successors are what the target says after each
        predecessor, the phrase is what the target says from d_i on: those N - 2 tokens and one
        more. `said` is -1 where a node was not checked.
        """
        assert self.pool is not None
        tokens, chain = result.tree.tokens, self._proposal.chain
        accepted = len(set(chain).intersection(result.path))
        size = self.settings.ngram_size - 1
        discarded = chain[accepted + 1 :]
        for i in range(len(discarded) - size + 1):
            part = discarded[i : i + size]
            phrase = tuple(said[node] for node in part)
            agrees = all(
                tokens[after] == wanted for after, wanted in zip(part[1:], phrase, strict=False)
            )
            if agrees and -1 not in phrase:
                self.pool.insert(tokens[part[0]], phrase, Learned.VERIFICATION, result.context.step)

    def _correct_suffixes(self, result: VerificationResult, said: Sequence[int]) -> None:
        """Replace every suffix that was checked by what the target says instead."""
        assert self.pool is not None
        tip = self._proposal.chain[-1]
        key = result.tree.tokens[tip]
        for tokens, nodes in self._proposal.suffixes:
            corrected = (said[tip], *(said[node] for node in nodes[:-1]))
            whole = len(nodes) == len(tokens) and -1 not in corrected and said[nodes[-1]] != -1
            if whole:
                self.pool.replace(key, tokens, corrected, Learned.VERIFICATION, result.context.step)
