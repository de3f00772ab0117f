"""Ouroboros: drafts phrase by phrase, and lengthens drafts with candidate suffixes (arXiv
2402.13720).

The draft model is decoded by lookahead, so one draft pass may write several tokens (section 3.1).
The K newest phrases of its last token are appended to the finished draft: candidate suffixes, which
cost no draft pass (section 3.2). The target checks all in one pass. The phrases come from a pool
with three sources: the draft model's lookahead window; verification, which gives fragments of the
discarded draft that the target agrees with, and suffixes as the target corrects them (section 3.3);
and history, in a warm run (section 3.4). With `extended`, which the paper does not have, the pool
also learns from prompt and text, and phrases of the text's last token are siblings of the draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.lookahead_window import LookaheadWindow, columns_within
from ouroboros_core.lookup.phrase_pool import PhrasePool, open_pool
from ouroboros_core.methods.parts.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    StepNotes,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.drafting import DraftModel
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.rules.match import verify
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Output, Probabilities, Provenance, TokenTree, TreeBuilder

LONGEST = 16
"""Draft tokens at most if their number is 'auto'."""

MOST_SUFFIXES = 8
"""Candidate suffixes proposed if their number is 'auto'."""


@dataclass
class _Proposal:
    """Nodes of a step's tree: the chain from the root to its tip, and each suffix."""

    step: int = -1
    chain: list[int] = field(default_factory=list)
    suffixes: list[tuple[tuple[int, ...], list[int]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Drafted:
    """A draft token with its provenance, the probabilities it was drawn from, and the output of the
    draft pass."""

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
        "A draft model writes phrase by phrase; candidate suffixes appended to its draft are "
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
    """Settings of the example in the authors' repository."""

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[4], description="Draft tokens per step."
        )
        window_size: Annotated[int, Ge(1), Le(60)] | Auto = Field(
            AUTO, examples=[4], description="Columns of the draft model's lookahead window (W)."
        )
        ngram_size: int = Field(4, ge=3, le=10, description="Key token and phrase together (N).")
        guess_set_size: int = Field(4, ge=1, le=60, description="Phrases kept per key (G).")
        top_k_suffixes: Annotated[int, Ge(0), Le(20)] | Auto = Field(
            AUTO, examples=[3], description="Candidate suffixes after the draft (K)."
        )
        lookahead_phrases: bool = Field(
            True, description="Learn phrases from the draft model's lookahead window."
        )
        verification_phrases: bool = Field(
            True, description="Learn phrases from the target's verdict on a draft."
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

    @property
    def notes(self) -> StepNotes:
        return StepNotes(len(self.pool), self.columns)

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
        depth = context.deepest
        builder = TreeBuilder(context.root, max_depth=depth)

        # The draft, a chain.
        chain, ended = [0], False
        for drafted in self._draft(context, min(self.gamma, depth)):
            builder.note_output(chain[-1], drafted.output)
            node = builder.add(drafted.token, chain[-1], drafted.origin, drafted.drawn_from)
            assert node is not None
            chain.append(node)
            ended = drafted.token in self.resources.stop_tokens
        self._proposal = _Proposal(context.step, chain)

        # The candidate suffixes after it, unless the draft was not asked. Extended, also suffixes
        # of the root, which cost a row and no draft pass.
        has_draft = len(chain) > 1
        if not ended and (has_draft or self.settings.extended):
            self._proposal.suffixes = self.pool.attach(
                builder, chain[-1], self.suffixes, Source.SUFFIX
            )
        if has_draft and self.settings.extended:
            self.pool.attach(builder, 0, self.suffixes, Source.SUFFIX)
        return builder.build()

    def _draft(self, context: Context, limit: int) -> list[_Drafted]:
        """Return up to `limit` draft tokens. Each draft pass checks phrases, moves the window, and
        writes one or more tokens."""
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
        """Return the tree of a draft pass, of phrases of the last token and the window, and the
        nodes of the window's last level."""
        builder = TreeBuilder(root)
        self.pool.attach(builder, 0, self.settings.guess_set_size, Source.PHRASE)
        window = self.window.attach(builder) if self.columns else []
        return builder.build(), window

    def _draft_pass(
        self, context: Context, text: tuple[int, ...], tree: TokenTree, last_level: list[int]
    ) -> list[_Drafted]:
        """Return the draft tokens of one pass."""
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
        pairs = [*zip((0, *path), written, strict=True)]
        drafted = []
        for (node, choice), share in zip(pairs, evaluation.confidences(pairs), strict=True):
            origin = Provenance(Source.DRAFT, step=context.step, confidence=round(share, 2))
            drafted.append(
                _Drafted(
                    choice, origin, self.resources.drawn_from(evaluation, node), (evaluation, node)
                )
            )
        return drafted

    def learn(self, result: VerificationResult) -> None:
        if self.settings.extended:
            self.pool.learn_written(result.context.tokens, result.emitted, result.context.step)
        proposed = self._proposal.step == result.context.step
        if self.settings.verification_phrases and proposed:
            choices = result.evaluation.argmax()
            self._learn_fragments(result, choices)
            self._correct_suffixes(result, choices)

    def _learn_fragments(self, result: VerificationResult, choices: Sequence[int]) -> None:
        """Learn fragments of the discarded draft that the target would have written as well.

        If the N - 2 tokens after a discarded token d_i are the target's choices after their
        predecessors, the phrase of d_i is the target's choices from d_i on: these N - 2 tokens and
        one more. `choices` is -1 for a node that was not checked.
        """
        tokens, chain = result.tree.tokens, self._proposal.chain
        accepted = len(set(chain).intersection(result.path))
        size = self.settings.ngram_size - 1
        discarded = chain[accepted + 1 :]
        for i in range(len(discarded) - size + 1):
            fragment = discarded[i : i + size]
            phrase = tuple(choices[node] for node in fragment)
            agrees = all(
                tokens[node] == choice for node, choice in zip(fragment[1:], phrase, strict=False)
            )
            if agrees and -1 not in phrase:
                self.pool.insert(
                    tokens[fragment[0]], phrase, Learned.VERIFICATION, result.context.step
                )

    def _correct_suffixes(self, result: VerificationResult, choices: Sequence[int]) -> None:
        """Replace every suffix that was checked by the target's choices."""
        tip = self._proposal.chain[-1]
        key = result.tree.tokens[tip]
        for tokens, nodes in self._proposal.suffixes:
            corrected = (choices[tip], *(choices[node] for node in nodes[:-1]))
            complete = len(nodes) == len(tokens) and choices[nodes[-1]] != -1
            if complete and -1 not in corrected:
                self.pool.replace(key, tokens, corrected, Learned.VERIFICATION, result.context.step)
