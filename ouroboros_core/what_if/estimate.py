"""Estimates of a run on another machine, with other models, or in a batch: modelled, not measured.

A trace holds the work of a run: rows, draft passes and tokens of every step. A `Roofline` gives
the seconds of a pass; `price` adds them up, also for plain decoding of the same number of tokens.
Whether other models would agree on the same tokens is unknown: the acceptance of the recorded run
is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Annotated

from annotated_types import Ge, Gt, Le, MaxLen

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step, Trace

MOST_BATCH = 64

Name = Annotated[str, MaxLen(80)]
Share = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True)
class Machine:
    """A machine by its data sheet.

    bandwidth        of the memory that holds weights and KV cache, bytes per second
    flops            floating-point operations per second at the weights' precision, dense
    memory           bytes; 0 if unknown
    bandwidth_share  share of the bandwidth that passes reach
    flops_share      share of the operations that passes reach
    layer_seconds    fixed cost of each layer of a pass: launches, and waiting between kernels
    pass_seconds     further fixed cost of a pass
    host             time of the work outside the passes, relative to the machine of the run
    """

    name: Name
    bandwidth: Annotated[float, Gt(0), Le(1e16)]
    flops: Annotated[float, Gt(0), Le(1e19)]
    memory: Annotated[float, Ge(0), Le(1e16)] = 0.0
    bandwidth_share: Share = 1.0
    flops_share: Share = 1.0
    layer_seconds: Annotated[float, Ge(0), Le(1)] = 0.0
    pass_seconds: Annotated[float, Ge(0), Le(10)] = 0.0
    host: Annotated[float, Ge(0), Le(1000)] = 1.0


@dataclass(frozen=True)
class ModelSize:
    """The size of a model, as its passes read and multiply it.

    parameters           parameters that a pass uses: all but the table of input embeddings
    output_parameters    parameters of the output matrix, included in `parameters`
    layers, kv_heads, head_size  size of the KV cache; kv_heads 0: no cache
    bytes_per_parameter  2 in half precision, 0.5 in 4 bits
    kv_number_bytes      bytes of a number in the KV cache: half precision, even with quantized
                         weights
    """

    name: Name
    parameters: Annotated[float, Gt(0), Le(1e14)]
    layers: Annotated[int, Ge(1), Le(1000)]
    kv_heads: Annotated[int, Ge(0), Le(1000)]
    head_size: Annotated[int, Ge(1), Le(10000)]
    output_parameters: Annotated[float, Ge(0), Le(1e13)] = 0.0
    bytes_per_parameter: Annotated[float, Gt(0), Le(8)] = 2.0
    kv_number_bytes: Annotated[float, Gt(0), Le(8)] = 2.0

    @property
    def weight_bytes(self) -> float:
        return self.parameters * self.bytes_per_parameter

    @property
    def kv_bytes(self) -> float:
        """Return the bytes of keys and values of all layers for a token of the context."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.kv_number_bytes

    @property
    def head(self) -> ModelSize:
        """Return the size of a head like EAGLE's: one layer of the model and its output matrix."""
        layer = (self.parameters - self.output_parameters) / self.layers
        small = replace(self, parameters=layer + self.output_parameters, layers=1)
        return replace(small, name=f"head of {self.name}"[:80])

    def part(self, share: float) -> ModelSize:
        """Return the size of the model with a share of its layers, at least one."""
        body, layers = (self.parameters - self.output_parameters) * share, self.layers * share
        small = replace(
            self, parameters=body + self.output_parameters, layers=max(1, round(layers))
        )
        return replace(small, name=f"part of {self.name}"[:80])


@dataclass(frozen=True)
class Roofline:
    """A pass by the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009).

    max(bytes / bandwidth, operations / FLOPS) + fixed cost. It is the maximum and not the sum,
    because the next tile of the weights is read while one is multiplied. If both take about the
    same time, a real pass takes longer, at most twice as long.

    bytes       weights, once for the whole batch, and the KV cache of every text
    operations  2 x parameters x rows x texts, without the operations of attention
    """

    machine: Machine
    model: ModelSize

    def of(self, rows: float, context: float, batch: int) -> float:
        """Return the seconds of a pass over `rows` rows of each text, after `context` tokens."""
        machine, model = self.machine, self.model
        read = model.weight_bytes + model.kv_bytes * context * batch
        reading = read / (machine.bandwidth * machine.bandwidth_share)
        operations = 2 * model.parameters * rows * batch
        computing = operations / (machine.flops * machine.flops_share)
        return max(reading, computing) + self.fixed

    @property
    def fixed(self) -> float:
        return self.machine.layer_seconds * self.model.layers + self.machine.pass_seconds

    def prefill(self, tokens: int, batch: int) -> float:
        """Return the seconds of one pass over the whole prompt."""
        return self.of(tokens, 0, batch)


@dataclass(frozen=True)
class Work:
    """Work of a step, or the mean of several steps.

    rows         rows of the target's pass; 0 if the draft model writes alone
    tokens       tokens that the step emits
    context      tokens before the step
    draft_passes draft passes, with draft_rows rows each
    host         seconds outside the passes (looking up, learning, choosing), as measured on the
                 machine of the run
    """

    rows: float
    tokens: float
    context: float
    draft_passes: float = 0.0
    draft_rows: float = 1.0
    host: float = 0.0


@dataclass(frozen=True)
class PricedStep:
    """Modelled seconds of a step, and the tokens that it emits for each text."""

    tokens: float
    target: float
    draft: float
    host: float

    @property
    def seconds(self) -> float:
        return self.target + self.draft + self.host


@dataclass(frozen=True)
class Priced:
    """A modelled run, and plain decoding of the same number of tokens.

    prefill, plain_prefill  seconds for reading the prompt, outside the steps; `prefill` includes
                            the draft model's
    """

    steps: tuple[PricedStep, ...]
    plain: tuple[PricedStep, ...]
    prefill: float
    plain_prefill: float
    batch: int

    @property
    def decode_seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def plain_decode_seconds(self) -> float:
        return sum(step.seconds for step in self.plain)

    @property
    def seconds(self) -> float:
        return self.prefill + self.decode_seconds

    @property
    def plain_seconds(self) -> float:
        """Return the seconds of plain decoding of the same number of tokens, with prefill."""
        return self.plain_prefill + self.plain_decode_seconds

    @property
    def speedup(self) -> float:
        """Return plain decoding's seconds / the run's, with prefill."""
        return self.plain_seconds / self.seconds

    @property
    def decode_speedup(self) -> float:
        return self.plain_decode_seconds / self.decode_seconds

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens per second of all texts of the batch, with prefill."""
        return self.batch * sum(step.tokens for step in self.steps) / self.seconds

    def staircase(self) -> list[tuple[float, float]]:
        """Return (seconds, tokens of a text) at the end of prefill and of every step."""
        return _staircase(self.prefill, self.steps)

    def plain_staircase(self) -> list[tuple[float, float]]:
        return _staircase(self.plain_prefill, self.plain)


def _staircase(prefill: float, steps: Sequence[PricedStep]) -> list[tuple[float, float]]:
    seconds = accumulate((step.seconds for step in steps), initial=prefill)
    tokens = accumulate((step.tokens for step in steps), initial=0.0)
    return list(zip(seconds, tokens, strict=True))


def _drafted_on(step: Step) -> set[int]:
    """The drafted nodes that were drafted on from: the draft computed a row for each."""
    drafted = {
        node
        for node, origin in enumerate(step.tree.provenance)
        if node and origin.source is Source.DRAFT
    }
    return {step.tree.parents[node] for node in drafted} & drafted


class _DraftRows:
    """Rows of a run's draft passes.

    Traces before version 2.0.0 do not hold them. They are computed from the trees then: the tokens
    that the draft has not read yet, and every drafted token with a drafted child, without the rows
    of a lookahead window of the draft.
    """

    def __init__(self, prompt: int) -> None:
        self.read = prompt - 1

    def of(self, step: Step, context: int) -> float:
        """Return the mean rows of a draft pass of the next step; 0 without draft passes."""
        if not step.draft_passes:
            return 0.0
        if step.draft_rows:
            return step.draft_rows / step.draft_passes
        inner = _drafted_on(step)
        rows = max(1, context - self.read) + len(inner)
        accepted = takewhile(inner.__contains__, step.path)
        self.read = context + sum(1 for _ in accepted)
        return max(1.0, rows / step.draft_passes)


def work_of(trace: Trace) -> tuple[Work, ...]:
    """Return the work of each step of a run; raise InvalidInput for a run without steps."""
    if not trace.steps:
        raise InvalidInput("this run has no steps: there is nothing to price; choose another run")
    work, context = [], len(trace.prompt.tokens)
    drafting = _DraftRows(context)
    for step in trace.steps:
        by_draft = step.writer is not Source.TARGET
        host = step.seconds.learn + step.seconds.host
        host += 0.0 if step.draft_passes else step.seconds.draft
        work.append(
            Work(
                rows=0.0 if by_draft else step.width,
                tokens=len(step.tokens),
                context=context,
                draft_passes=1 if by_draft else step.draft_passes,
                draft_rows=step.width if by_draft else drafting.of(step, context),
                host=host,
            )
        )
        context += len(step.tokens)
    return tuple(work)


def price_work(
    work: Sequence[Work], prompt: int, target: Roofline, draft: Roofline | None, batch: int = 1
) -> Priced:
    """Price work on a machine. Plain decoding is priced without host seconds, which are far below
    the seconds of a pass.

    prompt  tokens of the prompt
    batch   texts that are written at once, in step and with equal acceptance
    Raises InvalidInput for a batch beyond MOST_BATCH, and for drafted work without a draft.
    """
    if not 1 <= batch <= MOST_BATCH:
        raise InvalidInput(f"the batch must be between 1 and {MOST_BATCH}, got {batch}")
    drafts = any(step.draft_passes for step in work)
    if drafts and draft is None:
        raise InvalidInput("this run has draft passes: choose a draft to price them with")
    steps = [_step(step, target, draft, batch) for step in work]
    count, start = round(sum(step.tokens for step in work)), work[0].context
    plain = [PricedStep(1, target.of(1, start + n, batch), 0.0, 0.0) for n in range(count)]
    reading = target.prefill(prompt, batch)
    prefill = reading if any(step.rows for step in work) else 0.0
    prefill += draft.prefill(prompt, batch) if drafts and draft is not None else 0.0
    return Priced(tuple(steps), tuple(plain), prefill, reading, batch)


def _step(work: Work, target: Roofline, draft: Roofline | None, batch: int) -> PricedStep:
    verify = target.of(work.rows, work.context, batch) if work.rows else 0.0
    guess = 0.0
    if work.draft_passes and draft is not None:
        guess = work.draft_passes * draft.of(work.draft_rows, work.context, batch)
    return PricedStep(work.tokens, verify, guess, work.host)


def price(
    trace: Trace,
    target: Roofline,
    draft: Roofline | None = None,
    batch: int = 1,
    host: float = 1.0,
) -> Priced:
    """Price a run on another machine, with other models; see `price_work`.

    Work without draft passes, such as lookups, costs its host seconds times `host`.
    """
    work = [replace(step, host=host * step.host) for step in work_of(trace)]
    return price_work(work, len(trace.prompt.tokens), target, draft, batch)


def by_head(trace: Trace) -> bool:
    """Return whether the drafter of a run is a head on the target's states."""
    return methods.get(trace.method).drafts_by_head(trace.draft)


def skipping(trace: Trace) -> bool:
    """Return whether the drafter of a run is the target with some of its layers skipped."""
    return Need.SELF_DRAFT in methods.get(trace.method).needs


def sized(trace: Trace) -> str:
    """Say if a run's amounts were chosen for its machine; '' with fixed settings."""
    if "auto" not in trace.hyperparameters.values() and not any(s.choice for s in trace.steps):
        return ""
    return (
        "Some amounts of this run were auto: they were sized for the machine that it ran on, and "
        "would be others here."
    )


def too_large(machine: Machine, *models: ModelSize | None) -> str:
    """Say if the weights exceed the machine's memory; '' if not, or if it is unknown."""
    needed = sum(model.weight_bytes for model in models if model)
    if not machine.memory or needed <= machine.memory:
        return ""
    return (
        f"The weights need {needed / 1e9:.0f} GB and {machine.name} has "
        f"{machine.memory / 1e9:.0f} GB: priced as if they fitted."
    )
