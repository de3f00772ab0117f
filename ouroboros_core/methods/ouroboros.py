"""Ouroboros: drafting phrase by phrase, and lengthening drafts with candidate suffixes (arXiv 2402.13720).

The draft model is itself decoded by lookahead, so one draft pass may write several tokens (section 3.1). Behind the finished
draft hang the K newest phrases of its last token, candidate suffixes that cost no draft pass (section 3.2), and, where K is
'auto', those of the text's last token beside it; the target checks all in one pass. The pool they come from learns from the draft
model's lookahead window, from verification - fragments of the discarded draft that the target agrees with, and suffixes as the
target corrects them (section 3.3) - from prompt and text, and from history, when it outlives the call (section 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, upto
from ouroboros_core.memory.governor import Governor
from ouroboros_core.memory.window import LookaheadWindow
from ouroboros_core.methods.base import Context, Method, Need, Resources, Verdict
from ouroboros_core.models.language_model import Output
from ouroboros_core.tree import Law, Learned, Provenance, Source, TokenTree, TreeBuilder
from ouroboros_core.verify import verify


@dataclass
class _Proposal:
    """Where the parts of the last tree lie: the chain's nodes from the root to its tip, and each suffix with its nodes."""

    chain: list[int] = field(default_factory=list)
    suffixes: list[tuple[tuple[int, ...], list[int]]] = field(default_factory=list)


LONGEST = 16
"""Draft tokens at most where the method chooses how many."""

MOST_SUFFIXES = 8
"""Candidate suffixes offered where the method chooses how many."""

DEARER = 1.1
"""What a draft pass with phrases and window may cost of one over a single row."""

_Drafted = tuple[int, Provenance, Law | None, Output]
"""A draft token, where it comes from, the law it was drawn from, and the output that it is part of."""


class Ouroboros(Method):
    """Phrases make drafts cheaper; suffixes make them longer; the target's corrections make phrases better."""

    id = "ouroboros"
    name = "Ouroboros"
    paper = "https://arxiv.org/abs/2402.13720"
    summary = "A draft model that writes phrase by phrase, and candidate suffixes behind its draft, checked in the same pass."
    order = 30
    needs = frozenset({Need.DRAFT_MODEL})
    learns_phrases = True

    class Hyperparameters(hyperparameters.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(AUTO, examples=[2], description="Draft tokens per step.")
        window_size: Annotated[int, Ge(1), Le(60)] | Auto = Field(
            AUTO, examples=[4], description="Columns of the draft model's lookahead window (W)."
        )
        ngram_size: int = Field(5, ge=3, le=10, description="Key token and phrase together (N).")
        guess_set_size: int = Field(4, ge=1, le=60, description="Phrases kept per key (G).")
        top_k_suffixes: Annotated[int, Ge(0), Le(20)] | Auto = Field(
            AUTO, examples=[3], description="Candidate suffixes behind the draft (K)."
        )
        lookahead_phrases: bool = Field(True, description="Learn phrases from the draft model's lookahead window.")
        verification_phrases: bool = Field(True, description="Learn phrases from what the target says of a draft.")
        prompt_phrases: bool = Field(True, description="Fill the pool with the prompt's own n-grams first.")
        text_phrases: bool = Field(True, description="Add the n-grams of the text as it is written.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        self.knobs = hyperparameters
        super().__init__(hyperparameters, resources)
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        self.suffixes = upto(hyperparameters.top_k_suffixes, MOST_SUFFIXES)
        self.width = self._widest() if hyperparameters.window_size == AUTO else hyperparameters.window_size
        self._proposal = _Proposal()
        self._rows = 1

    def _new_governor(self) -> Governor:
        gamma, suffixes = self.knobs.gamma == AUTO, self.knobs.top_k_suffixes == AUTO
        spares = frozenset({Source.DRAFT, Source.SUFFIX} if not suffixes else {Source.DRAFT} if not gamma else ())
        return Governor(self.resources.costs, gamma or suffixes, drafts=gamma, spares=spares)

    def _widest(self) -> int:
        """Of 1 to 8 columns the most with which a draft pass is no more than DEARER, at least one; 4 where costs are unknown."""
        costs, knobs = self.resources.costs.draft, self.knobs
        if costs is None:
            return 4
        phrases = knobs.guess_set_size * (knobs.ngram_size - 1)
        rows = {width: 1 + phrases + width * (knobs.ngram_size - 2) for width in range(1, 9)}
        return max((width for width in rows if costs.of(rows[width]) <= DEARER * costs.of(1)), default=1)

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        knobs = self.knobs
        self.pool = self._make_pool(knobs.ngram_size, knobs.guess_set_size, prompt, knobs.prompt_phrases)
        self.window = LookaheadWindow(self.width, knobs.ngram_size, prompt, self.resources.rng())
        self.governor.window = self.width if knobs.lookahead_phrases else 0
        self._start_draft_model(prompt, max_new_tokens)

    def offer(self, context: Context) -> TokenTree:
        assert self.pool is not None
        builder = TreeBuilder(context.root, max_depth=context.budget - 1)
        if self.knobs.top_k_suffixes == AUTO:
            beside = TreeBuilder(context.root, max_depth=context.budget - 1)
            self.pool.hang(beside, 0, self.suffixes, Source.SUFFIX)
            self.governor.cover_all(beside.build())
        chain = [0]
        self._asked = {}
        for token, origin, law, said in self._draft(context, min(self.gamma, context.budget - 1)):
            self._asked[chain[-1]] = said
            node = builder.add(token, chain[-1], origin, law)
            assert node is not None
            chain.append(node)
        self._proposal = _Proposal(chain)
        if len(chain) == 1 or token not in self.resources.stop_tokens:
            self._proposal.suffixes = self.pool.hang(builder, chain[-1], self.suffixes, Source.SUFFIX)
        if len(chain) > 1 and self.knobs.top_k_suffixes == AUTO:
            self.pool.hang(builder, 0, self.suffixes, Source.SUFFIX)  # beside the draft, where they cost a row and no draft pass
        return builder.build()

    def _draft(self, context: Context, limit: int) -> list[_Drafted]:
        """Up to `limit` draft tokens; each draft pass checks phrases, moves the window, and writes one token or several."""
        draft: list[_Drafted] = []
        while len(draft) < limit and self.governor.may_draft(self.resources.costs.draft, self._rows):
            written = self._draft_pass(context, (*context.tokens, *(token for token, *_ in draft)))[: limit - len(draft)]
            for drafted in written:
                draft.append(drafted)
                self.governor.drafted(drafted[1], len(draft))
                if drafted[0] in self.resources.stop_tokens:
                    return draft
        return draft

    def _draft_pass(self, context: Context, text: tuple[int, ...]) -> list[_Drafted]:
        """The draft tokens of one pass, each with the law it was drawn from where rejection sampling needs it."""
        assert self.pool is not None
        builder = TreeBuilder(text[-1])
        self.pool.hang(builder, 0, self.knobs.guess_set_size, Source.PHRASE)
        last_level = self.window.attach(builder) if self.knobs.lookahead_phrases else []
        tree = builder.build()
        evaluation = self._ask(text, tree)
        path, token = verify(tree, self.resources.chooser(evaluation, tree, len(text) - 1, context.step))
        if last_level:
            outputs = evaluation.argmax()
            for key, phrase_ in self.window.advance(text[-1], [outputs[node] for node in last_level]):
                self.pool.insert(key, phrase_, Learned.LOOKAHEAD, context.step)
        self._rows = len(tree)
        tokens = (*(tree.tokens[node] for node in path), token)
        drafted = []
        for written, node in zip(tokens, (0, *path), strict=True):
            origin = Provenance(Source.DRAFT, step=context.step, confidence=round(evaluation.confidence(node, written), 2))
            drafted.append((written, origin, self.resources.law(evaluation, node), (evaluation, node)))
        return drafted

    def learn(self, verdict: Verdict) -> None:
        if self.knobs.text_phrases:
            self._learn_written(verdict)
        if self.knobs.verification_phrases:
            said = verdict.evaluation.argmax()
            self._learn_fragments(verdict, said)
            self._correct_suffixes(verdict, said)

    def watch(self, verdict: Verdict) -> None:
        if self.knobs.text_phrases:
            self._learn_written(verdict)

    def _learn_fragments(self, verdict: Verdict, said: list[int]) -> None:
        """Of the discarded draft, keep fragments that the target would have continued in the same way.

        At a discarded token d_i whose N - 2 successors are what the target says after each predecessor, the phrase is what the
        target says from d_i on: those N - 2 tokens and one more.
        """
        assert self.pool is not None
        chain = self.governor.places(self._proposal.chain)
        accepted = len(set(chain).intersection(verdict.path))
        size = self.knobs.ngram_size - 1
        discarded = chain[accepted + 1 :]
        for i in range(len(discarded) - size + 1):
            part = discarded[i : i + size]
            phrase = tuple(said[node] for node in part)
            if all(verdict.tree.tokens[after] == wanted for after, wanted in zip(part[1:], phrase, strict=False)):
                self.pool.insert(verdict.tree.tokens[part[0]], phrase, Learned.VERIFICATION, verdict.context.step)

    def _correct_suffixes(self, verdict: Verdict, said: list[int]) -> None:
        """Replace every checked suffix by what the target says in its place."""
        assert self.pool is not None
        places = self.governor.places
        whole = places(self._proposal.chain)
        if len(whole) < len(self._proposal.chain):
            return  # the draft's end was not checked, nor what hung behind it
        tip = whole[-1]
        key = verdict.tree.tokens[tip]
        for tokens, offered in self._proposal.suffixes:
            nodes = places(offered)
            if len(nodes) == len(tokens):
                corrected = (said[tip], *(said[node] for node in nodes[:-1]))
                self.pool.replace(key, tokens, corrected, Learned.VERIFICATION, verdict.context.step)
