"""Traces to test with: of a run of tiny models, and one written by hand."""

from functools import cache

from ouroboros_core.environment import Environment
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Prompt, Seconds, Step, Trace
from ouroboros_core.tree import Learned, Provenance, TreeBuilder, chain
from tests import tiny

DRAFT = Provenance(Source.DRAFT, step=0, confidence=0.64)
PLACE = Environment("cpu", "float64", 2, "a processor", "3.11", "2.13", "5.23", "0.1")


def make_trace(
    steps: list[Step], method: str = "ouroboros", sampling: Sampling | None = None
) -> Trace:
    prompt = Prompt("once", False, tuple(tiny.prompt()))
    texts = tuple(f"t{token} " for step in steps for token in step.tokens)
    return Trace(
        method=method,
        hyperparameters={"gamma": 4, "prompt_phrases": False},
        sampling=(sampling or Sampling()).model_dump(),
        target="T",
        draft="D",
        environment=PLACE,
        created="2026-01-01T00:00:00",
        prompt=prompt,
        max_new_tokens=60,
        ending="budget",
        steps=tuple(steps),
        texts=texts,
        pieces={5: "x"},
    )


@cache
def real_trace() -> Trace:
    return make_trace(
        tiny.run(tiny.pair("llama", "sdpa"), "ouroboros", tiny.prompt(), 60, gamma=3, ngram_size=3)
    )


def typed_trace() -> Trace:
    """Three steps by hand: draft 10 11 rejected at 11; draft 20 accepted with suffix 21 and a
    bonus; the end inside a path."""
    draft, suffix = Provenance(Source.DRAFT, step=0), Provenance(Source.SUFFIX, Learned.HISTORY)
    builder = TreeBuilder(12)
    builder.add_path([21], builder.add(20, 0, draft) or 0, suffix)
    steps = [
        Step(
            0,
            chain(2, [10, 11], draft),
            (1,),
            12,
            3,
            Seconds(prefill=0.5, draft=0.2, verify=0.1, learn=0.05, host=0.05),
            2,
            7,
        ),
        Step(1, builder.build(), (1, 2), 22, 3, Seconds(draft=0.1, verify=0.1), 1, 9),
        Step(2, chain(22, [30, 31], draft), (1, 2), None, 3, Seconds(verify=0.2), 2, 9),
    ]
    return make_trace(steps)


def plain_trace() -> Trace:
    """Ten steps of plain decoding by hand, each of a tenth of a second."""
    steps = [
        Step(n, chain(n, [], DRAFT), (), n + 1, 1, Seconds(prefill=0.5 * (n == 0), verify=0.1))
        for n in range(10)
    ]
    return make_trace(steps, "autoregressive")
