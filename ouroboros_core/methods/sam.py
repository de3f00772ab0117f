"""SAM-Decoding: copy from wherever the longest end of the text occurred before, else draft otherwise (arXiv 2411.10666).

Three sources are looked into at every step: prompt and output (a suffix automaton that grows with them; section 3.1), a corpus,
and a text that is expected. The longest match decides how much is copied; where none is long enough an auxiliary method drafts
(section 3.3). With `merge`, the default here, copies and auxiliary draft are put into one tree instead, which one pass checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, upto
from ouroboros_core.memory.ngrams import copied, most_followed
from ouroboros_core.memory.prediction import Prediction
from ouroboros_core.memory.suffix_automaton import SuffixAutomaton
from ouroboros_core.methods.base import Context, Method, Need, Resources, Verdict
from ouroboros_core.models.language_model import Candidates, FeatureDrafter, LanguageModel, Output
from ouroboros_core.tree import Learned, Provenance, Source, TokenTree, TreeBuilder

FAR = 4
"""A prediction that was lost is found again far away by at least so many tokens."""

PLACES = 32
"""Places of a match in the corpus that are looked at; the chain follows what is most frequent there."""

LONGEST = 24
"""Tokens copied at most where the method chooses how many."""


@dataclass(frozen=True)
class _Copy:
    """Tokens that followed a match, each with where it comes from; `rank`, the match's length, is what the choice goes by."""

    rank: int
    nodes: Sequence[tuple[int, Provenance]]


class Sam(Method):
    """The longest match wins; nothing is padded, and a draft is as long as its match makes likely."""

    id = "sam"
    name = "SAM-Decoding"
    paper = "https://arxiv.org/abs/2411.10666"
    summary = "Copies what followed the longest match in text, corpus or expected text; without one, another method drafts."
    order = 27
    reads_corpus = True
    takes_prediction = True

    class Hyperparameters(hyperparameters.Hyperparameters):
        n_predicts: Annotated[int, Ge(1), Le(63)] | Auto = Field(AUTO, examples=[15], description="Most tokens copied in a step.")
        len_threshold: int = Field(1, ge=1, le=32, description="Shortest match that is followed.")
        len_bias: int = Field(
            2, ge=0, le=32, description="By how much a match in the corpus must be longer than one in the text."
        )
        alpha: float = Field(1.0, ge=0.0, le=16.0, allow_inf_nan=False, description="Copied tokens for each matched one.")
        auxiliary: Literal["token_recycling", "speculative", "ouroboros", "eagle2", "none"] = Field(
            "token_recycling", description="The method that drafts where no match is long enough, at its default knobs."
        )
        merge: bool = Field(True, description="Put all copies and the auxiliary's tree into one tree, instead of either or.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.knobs = hyperparameters
        self.longest = upto(hyperparameters.n_predicts, LONGEST)
        kind = _auxiliary(hyperparameters)
        self.auxiliary = kind(_knobs(kind, self._automatic), resources) if kind else None
        self._drafted = False

    @classmethod
    def needed(cls, hyperparameters: Any) -> frozenset[Need]:
        kind = _auxiliary(hyperparameters)
        return kind.needed(kind.Hyperparameters()) if kind else frozenset()

    @property
    def drafter(self) -> LanguageModel | FeatureDrafter | None:
        return self.auxiliary.drafter if self.auxiliary else None

    @property
    def prompt_candidates(self) -> int:
        return self.auxiliary.prompt_candidates if self.auxiliary else 0

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        self.text = SuffixAutomaton().extend(prompt)
        self.prediction = Prediction(self.resources.prediction, far=max(FAR, self.knobs.len_threshold))
        if self.auxiliary:
            self.auxiliary.start(prompt, max_new_tokens)
            self.auxiliary.governor = self.governor.join(self.auxiliary.governor)
            self.pool = self.auxiliary.pool

    def read_prompt(self, likeliest: Candidates) -> None:
        if self.auxiliary:
            self.auxiliary.read_prompt(likeliest)

    def asked(self) -> dict[int, Output]:
        return self.auxiliary.asked() if self.auxiliary and self._drafted else {}

    def offer(self, context: Context) -> TokenTree:
        written = context.tokens[len(self.text.tokens) :]
        self.prediction.extend(written)
        self.text.extend(written)
        copies = self._copies(context)
        self._drafted = self.auxiliary is not None and (self.knobs.merge or not copies)
        if self._drafted:
            assert self.auxiliary is not None
            for copy in copies:
                self.governor.cover(*copy.nodes[0])
            tree = self.auxiliary.offer(context)
            if not copies:
                return tree
            builder = TreeBuilder.onto(tree, max_depth=context.budget - 1)
        else:
            builder = TreeBuilder(context.root, max_depth=context.budget - 1)
        for copy in copies if self.knobs.merge else copies[:1]:
            builder.add_chain(copy.nodes, self.resources.stop_tokens)
        return builder.build()

    def _length(self, match: int, context: Context) -> int:
        return min(self.longest, 1 + int(self.knobs.alpha * match), context.budget - 1)

    def _copies(self, context: Context) -> list[_Copy]:
        """What may be copied, the longest match first; of equal ones the expected text before the text before the corpus."""
        found = [self._expected(context), self._earlier(context), self._retrieved(context)]
        return sorted((copy for copy in found if copy and copy.nodes), key=lambda copy: -copy.rank)

    def _expected(self, context: Context) -> _Copy | None:
        """From the text that is expected; a match below the threshold is followed where nothing else would draft."""
        prediction = self.prediction
        if self.auxiliary is not None and prediction.trust < self.knobs.len_threshold:
            return None
        tokens = prediction.expected(self._length(prediction.trust, context))
        origins = (Provenance(Source.COPY, Learned.PREDICTION, None, place, prediction.matched) for place in count(prediction.at))
        return _Copy(prediction.trust, [*zip(tokens, origins, strict=False)])

    def _earlier(self, context: Context) -> _Copy | None:
        """From the text itself."""
        match = self.text.recent
        if match is None or match.length < self.knobs.len_threshold:
            return None
        nodes = [
            (token, Provenance(Source.COPY, position=place, match=match.length))
            for place, token in copied(self.text.tokens, match.end, self._length(match.length, context))
        ]
        return _Copy(match.length, nodes)

    def _retrieved(self, context: Context) -> _Copy | None:
        """From the corpus: step by step the most frequent of what follows the match, at up to PLACES places."""
        corpus, shortest = self.resources.corpus, self.knobs.len_threshold + self.knobs.len_bias
        found = corpus.longest(context.tokens, shortest=shortest) if corpus else None
        if corpus is None or found is None:
            return None
        tokens = most_followed(corpus.continuations(found, self._length(found.length, context), PLACES))
        origin = Provenance(Source.CORPUS, step=context.step, match=found.length)
        return _Copy(found.length - self.knobs.len_bias, [(token, origin) for token in tokens])

    def learn(self, verdict: Verdict) -> None:
        if self.auxiliary:
            (self.auxiliary.learn if self._drafted else self.auxiliary.watch)(verdict)


def _knobs(kind: type[Method], automatic: bool) -> Any:
    """A method's default knobs, or fixed ones where nothing is to adapt."""
    return kind.Hyperparameters(**({} if automatic else kind.Hyperparameters.fixed()))


def _auxiliary(knobs: Any) -> type[Method] | None:
    from ouroboros_core import methods

    return None if knobs.auxiliary == "none" else methods.get(knobs.auxiliary)
