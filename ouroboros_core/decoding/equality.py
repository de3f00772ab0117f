"""Is the text that of plain decoding? And if not, was it rounding?

In float32 and float64 the text is equal. In bfloat16 and float16 a pass over many rows rounds otherwise than a pass over one, so
that a near tie can fall either way; the difference is then no error, but it must be shown, not hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ouroboros_core.decoding.metrics import first_difference
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.models.language_model import LanguageModel
from ouroboros_core.sampling import Sampler, Sampling, process
from ouroboros_core.tree import TreeBuilder

MANTISSA_BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
TIE_ULPS = 2.0
"""A gap of at most this many units in the last place is a tie."""


@dataclass(frozen=True)
class Divergence:
    """The first place at which two texts differ.

    position     index among the new tokens, from 0
    token, other the method's token and plain decoding's there; None where a text had ended
    gap          how far the method's token lies below the best one, in logits of a plain pass (noise added where sampled)
    ulps         the same in units in the last place of the best logit, in the model's dtype
    """

    position: int
    token: int | None
    other: int | None
    gap: float
    ulps: float
    dtype: str

    @property
    def reason(self) -> str:
        """Why a tie is no error, in words."""
        return (
            f"where two choices tie in {self.dtype} (gap {self.gap:.3g}, {self.ulps:.2g} ulp) and a pass over many tokens rounds "
            f"otherwise than a pass over one" + ("; in float32 the two write one text" if self.dtype.endswith("16") else "")
        )

    @property
    def tie(self) -> bool:
        return self.ulps <= TIE_ULPS


def ulp(value: float, dtype: str) -> float:
    """The distance between neighbouring numbers of a dtype at the magnitude of `value`."""
    return float(2.0 ** (math.floor(math.log2(max(abs(value), 2.0**-126))) - MANTISSA_BITS[dtype]))


def divergence(model: LanguageModel, trace: Trace, baseline: Trace) -> Divergence | None:
    """The first difference of two runs of the same task, judged by one plain pass of the model; None if there is none."""
    tokens, plain = trace.tokens, baseline.tokens
    position = first_difference(tokens, plain)
    if position is None:
        return None
    dtype = trace.environment.dtype
    token = tokens[position] if position < len(tokens) else None
    other = plain[position] if position < len(plain) else None
    if token is None or other is None:
        return Divergence(position, token, other, math.inf, math.inf, dtype)
    text = (*trace.prompt.tokens, *tokens[:position])
    model.forget()
    logits = model.evaluate(text, TreeBuilder(text[-1]).build()).logits(0).astype(np.float64)
    scores, scale = logits, 1.0
    sampling = Sampling.model_validate(trace.sampling)
    if sampling.temperature > 0:
        noise = Sampler(sampling, model.vocabulary).noise(len(text))
        scores = process(logits, sampling) + noise
        scale = sampling.temperature
    best = int(scores.argmax())
    gap = float(scores[best] - scores[token]) * scale
    return Divergence(position, token, other, gap, gap / ulp(float(logits[best]), dtype), dtype)
