"""The base of transformers' assisted modes: a candidate generator writes a chain, which is checked
like any other."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.interfaces import CandidateGenerator
from ouroboros_core.methods.parts.base import (
    Context,
    Method,
    Resources,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder


class DraftSettings(settings.Hyperparameters):
    """How long the chain is that a model writes for `generate`."""

    num_tokens: int = Field(20, ge=1, le=64, description="Draft tokens of the first step.")
    schedule: Literal["constant", "heuristic"] = Field(
        "constant",
        description="heuristic: two more after a step that is accepted whole, else one fewer.",
    )
    confidence: float = Field(
        0.4,
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
        description="The draft ends after a token with a lower probability.",
    )


class Assisted(Method):
    """Candidates of the generator `kind`; its settings are the method's."""

    kind: ClassVar[str]
    source: ClassVar[Source] = Source.DRAFT

    def __init__(self, hyperparameters: Any, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.generator: CandidateGenerator = resources.candidate_generators[self.kind]
        self._settings = hyperparameters.model_dump()

    @property
    def drafter(self) -> CandidateGenerator | None:
        return self.generator if self.source is Source.DRAFT else None

    @property
    def failures(self) -> int:
        """Steps of this text that were plain because the generator could write nothing."""
        return self.generator.failures

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        stops = sorted(self.resources.stop_tokens)
        self.generator.start(prompt.tokens, max_new_tokens, stops, **self._settings)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        if not context.deepest:  # the target writes the last token
            return builder.build()
        candidates = self.generator.candidates(context.tokens)
        self._proposed = len(candidates)
        nodes = []
        for token, share in candidates:
            if not 0 <= token < self.resources.sampler.vocabulary:
                break
            sure = None if share is None else round(share, 2)
            nodes.append((token, Provenance(self.source, step=context.step, confidence=sure)))
        builder.add_chain(nodes, self.resources.stop_tokens)
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        if not result.context.deepest:
            return
        text = (*result.context.tokens, *result.emitted)
        self.generator.report(text, self._proposed, len(result.path))
