"""Where two texts first differ, and whether rounding explains it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.equality import compare, divergence, ulp
from tests import tiny
from tests.traces import make_trace


def test_a_divergence_is_measured_in_units_in_the_last_place() -> None:
    assert ulp(17.5, "bfloat16") == 0.125
    assert ulp(15.9, "bfloat16") == 0.0625
    assert ulp(17.5, "float32") == 2**-19
    models = tiny.pair("llama", "sdpa")
    for sampling in (Sampling(), Sampling(temperature=0.8, seed=3)):
        run, plain = (
            make_trace(tiny.run(models, method, tiny.prompt(), 20, sampling), sampling=sampling)
            for method in ("ouroboros", "autoregressive")
        )
        assert divergence(models[0], run, plain) is None
        wrong = plain.steps[3]
        token = (plain.tokens[3] + 1) % tiny.VOCABULARY
        changed = replace(run, steps=(*plain.steps[:3], replace(wrong, target_token=token)))
        first = divergence(models[0], changed, plain)
        assert first is not None
        assert (first.position, first.token, first.other) == (3, token, plain.tokens[3])
        assert not first.tie and first.gap > 0


class Wobbly:
    """A model whose own pass is off by up to `wobble` from its plain one."""

    vocabulary = 3

    def __init__(self, logits: list[float], wobble: float) -> None:
        self.known, self.wobble = np.array(logits), wobble

    def plain(self, _: Any) -> Any:
        return self.known

    def evaluate(self, *_: Any) -> Any:
        return self

    def logits(self, _: int) -> Any:
        return self.known + np.array([self.wobble, -self.wobble, 0.0])


@pytest.mark.parametrize(("wobble", "tie"), [(0.3, True), (0.2, False), (0.0, False)])
def test_what_two_passes_over_one_text_differ_by_is_a_tie_and_more_is_not(
    wobble: float, tie: bool
) -> None:
    """The gap of half a logit is eight units of bfloat16 at 14, far more than rounding of a single
    number."""
    model: Any = Wobbly([14.0, 13.5, 1.0], wobble)
    first = compare(model, (1, 2), (0, 1), (0, 0), "bfloat16", Sampling())
    assert first is not None and first.gap == 0.5 and first.ulps == 8
    assert first.tie is tie and first.moved == pytest.approx(wobble)
    assert ("more than rounding explains" in first.sentence({})) is not tie
    assert (f"differ there by up to {wobble:.3g} logits" in first.sentence({})) is bool(wobble)
