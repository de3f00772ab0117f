"""Does the text equal that of plain decoding? If not, does rounding explain the difference?

In float32 and float64 the text is equal. In bfloat16 and float16 a pass over many rows rounds
differently from a pass over one, so that a near tie can fall either way. Such a difference is no
error, but it is shown, not hidden."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ouroboros_core.arrays import np, npt
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.messages import isolated
from ouroboros_core.sampling import Sampler, Sampling, process
from ouroboros_core.trace.metrics import first_difference
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import TreeBuilder

MANTISSA_BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
TIE_ULPS = 2.0
"""A gap of at most this many units in the last place is a tie."""

BEST = 10
"""The best tokens that are compared to measure how two passes differ."""


def _quoted(text: str) -> str:
    """Return a token's text between quotation marks, its line ends and blanks to be seen."""
    quoted = repr(text)
    return f"{quoted[0]}{isolated(quoted[1:-1])}{quoted[-1]}"


@dataclass(frozen=True)
class Divergence:
    """The first position at which two texts differ.

    position     index among the new tokens, from 0
    token, other the method's token and plain decoding's there; None if a text had ended
    gap          how far the method's token lies below the best one, in logits of a plain pass
                 (noise added where sampled)
    ulps         the same in units in the last place of the best logit, in the model's dtype
    moved        the most by which a logit of the ten best differs between that plain pass and the
                 model's own pass over one token behind the same text; measured where the gap is
                 more than a few units, else 0
    """

    position: int
    token: int | None
    other: int | None
    gap: float
    ulps: float
    dtype: str
    moved: float = 0.0

    @property
    def tie(self) -> bool:
        """Whether rounding explains it: a few units in the last place, or no more than two passes
        over one text differ by, each of the two tokens in its own direction."""
        return self.ulps <= TIE_ULPS or self.gap <= 2 * self.moved

    def sentence(self, pieces: Mapping[int, str]) -> str:
        """Say where, which two tokens, how far apart, and what that means."""
        method_text, plain_text = (
            _quoted(pieces.get(t, str(t))) if t is not None else "the end"
            for t in (self.token, self.other)
        )
        where = (
            f"It differs from plain decoding from token {self.position + 1} on: {method_text} "
            f"here, {plain_text} there"
        )
        if self.token is None or self.other is None:
            return (
                f"{where}. One text ends where the other goes on, which rounding does not explain."
            )
        size = f"{self.gap:.3g} logits, {self.ulps:.3g} ulp of {self.dtype}"
        if self.moved:
            size += f"; two passes over the same text differ there by up to {self.moved:.3g} logits"
        if not self.tie:
            return f"{where}, {size} below the best: more than rounding explains."
        advice = " In float32 such ties are far rarer." if self.dtype.endswith("16") else ""
        return (
            f"{where}. The two tie ({size}), and a pass over many tokens rounds otherwise "
            f"than one over one token.{advice}"
        )


def ulp(value: float, dtype: str) -> float:
    """The distance between neighbouring numbers of a dtype at the magnitude of `value`."""
    return float(2.0 ** (math.floor(math.log2(max(abs(value), 2.0**-126))) - MANTISSA_BITS[dtype]))


def divergence(model: LanguageModel, trace: Trace, baseline: Trace) -> Divergence | None:
    """Return the first difference of two runs, judged by a plain pass; None if equal."""
    sampling = Sampling.model_validate(trace.sampling)
    return compare(
        model, trace.prompt.tokens, trace.tokens, baseline.tokens, trace.environment.dtype, sampling
    )


def compare(
    model: LanguageModel,
    prompt: Sequence[int],
    tokens: Sequence[int],
    plain: Sequence[int],
    dtype: str,
    sampling: Sampling,
) -> Divergence | None:
    """Return the first difference of two texts, judged by a plain pass; None if equal."""
    position = first_difference(tokens, plain)
    if position is None:
        return None
    token = tokens[position] if position < len(tokens) else None
    other = plain[position] if position < len(plain) else None
    if token is None or other is None:
        return Divergence(position, token, other, math.inf, math.inf, dtype)
    text = (*prompt, *tokens[:position])
    logits = model.plain(text).astype(np.float64)
    scores, scale = logits, 1.0
    if sampling.temperature > 0:
        sampler = Sampler(sampling, model.vocabulary)
        sampler.begin(prompt)
        scores = process(logits, sampling) + sampler.noise(len(text))
        scale = sampling.temperature
    best = int(scores.argmax())
    gap = float(scores[best] - scores[token]) * scale
    ulps = gap / ulp(float(logits[best]), dtype)
    moved = _moved(model, text, logits) if ulps > TIE_ULPS else 0.0
    return Divergence(position, token, other, gap, ulps, dtype, moved)


def _moved(model: LanguageModel, text: Sequence[int], logits: npt.NDArray[np.float64]) -> float:
    """Return how far the best logits differ from the model's pass over the last token."""
    pass_logits = model.evaluate(text, TreeBuilder(text[-1]).build()).logits(0)
    best = np.argsort(-logits)[:BEST]
    best = best[np.isfinite(logits[best])]  # a rule may forbid all but a few
    return float(np.abs(logits[best] - pass_logits[best]).max())
