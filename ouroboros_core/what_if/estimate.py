"""What a run would take on another machine, with other models, in a batch: modelled, never
measured.

A trace holds what a run asked of its machine: rows, draft passes and tokens of every step. A cost
says how many seconds a pass takes; `price` adds them up, and does the same for plain decoding of
as many tokens. What it cannot know is whether other models would agree on the same tokens: it takes
the acceptance of the run as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Annotated, Protocol

from annotated_types import Ge, Gt, Le, MaxLen

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import PassCosts
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step, Trace

MOST_BATCH = 64

Name = Annotated[str, MaxLen(80)]
Share = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True)
class Machine:
    """What a machine can do, by its data sheet.

    bandwidth        of the memory that holds weights and KV cache, bytes per second
    flops            floating-point operations per second at the weights' precision, dense
    memory           bytes; 0 where it is not known
    bandwidth_share  part of the bandwidth that passes reach
    flops_share      part of the operations that passes reach
    layer_seconds    fixed cost of each layer of a pass: launches, and waiting between kernels
    pass_seconds     fixed cost of a pass beside that
    host             what the work beside the passes takes, as a multiple of what it took where the
                     run was made
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
    """What a pass of a model reads and multiplies.

    parameters           that a pass uses: all but the table of input embeddings
    output_parameters    of them, those of the output matrix
    layers, kv_heads, head_size  decide the KV cache; kv_heads 0: it has none
    bytes_per_parameter  2 in half precision, 0.5 in 4 bits
    kv_number_bytes      of a number in the KV cache: half precision, also where the weights are
                         quantized
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
        """Bytes that a pass reads of the weights."""
        return self.parameters * self.bytes_per_parameter

    @property
    def kv_bytes(self) -> float:
        """Bytes of the KV cache for every token of a context: keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.kv_number_bytes

    @property
    def head(self) -> ModelSize:
        """A head in the manner of EAGLE: one of the model's layers and its output matrix."""
        layer = (self.parameters - self.output_parameters) / self.layers
        return replace(
            self,
            name=f"head of {self.name}"[:80],
            parameters=layer + self.output_parameters,
            layers=1,
        )

    def part(self, share: float) -> ModelSize:
        """The model with only a share of its layers, at least one."""
        body = (self.parameters - self.output_parameters) * share
        return replace(
            self,
            name=f"part of {self.name}"[:80],
            parameters=body + self.output_parameters,
            layers=max(1, round(self.layers * share)),
        )


class PassPrice(Protocol):
    """Seconds of a model's passes."""

    def of(self, rows: float, context: float, batch: int) -> float:
        """Of a pass over `rows` rows of each text of a batch, behind `context` tokens."""
        ...

    def prefill(self, tokens: int, batch: int) -> float:
        """Of reading a prompt of so many tokens, once for each text of a batch."""
        ...


@dataclass(frozen=True)
class Roofline:
    """A pass by the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009).

    max(bytes / bandwidth, operations / FLOPS) + fixed cost. The larger of the two and not their
    sum: while one tile of the weights is multiplied, the next one is read, so the shorter of the
    two hides behind the longer. Where neither is much the longer, a real pass takes more than this,
    at most twice as much.

    bytes       weights, once for the whole batch, and the KV cache of every text
    operations  2 x parameters x rows x texts; those of attention itself are left out
    """

    machine: Machine
    model: ModelSize

    def of(self, rows: float, context: float, batch: int) -> float:
        machine, model = self.machine, self.model
        read = model.weight_bytes + model.kv_bytes * context * batch
        reading = read / (machine.bandwidth * machine.bandwidth_share)
        operations = 2 * model.parameters * rows * batch
        computing = operations / (machine.flops * machine.flops_share)
        return max(reading, computing) + self.fixed

    @property
    def fixed(self) -> float:
        """Seconds of a pass that do not depend on what it computes."""
        return self.machine.layer_seconds * self.model.layers + self.machine.pass_seconds

    def prefill(self, tokens: int, batch: int) -> float:
        """One pass over the whole prompt."""
        return self.of(tokens, 0, batch)


@dataclass(frozen=True)
class Measured:
    """A pass as it was measured on this machine; texts of a batch count as more rows.

    reading: seconds for every token of a prompt
    """

    costs: PassCosts
    reading: float = 0.0

    def of(self, rows: float, context: float, batch: int) -> float:
        return self.costs.of(round(rows * batch))

    def prefill(self, tokens: int, batch: int) -> float:
        return self.reading * tokens * batch


@dataclass(frozen=True)
class Work:
    """What one step, or the mean of several, asks of a machine.

    rows         of the target's pass; 0 where the draft model writes alone
    tokens       that it emits
    context      tokens before it
    draft_passes with draft_rows rows each
    host         seconds of what is computed beside the passes, as they were measured where the run
                 was made: looking up, learning, choosing
    """

    rows: float
    tokens: float
    context: float
    draft_passes: float = 0.0
    draft_rows: float = 1.0
    host: float = 0.0


@dataclass(frozen=True)
class PricedStep:
    """Seconds of a step, modelled, and the tokens it emits for each text."""

    tokens: float
    target: float
    draft: float
    host: float

    @property
    def seconds(self) -> float:
        return self.target + self.draft + self.host


@dataclass(frozen=True)
class Priced:
    """A run and plain decoding of as many tokens, modelled.

    prefill, plain_prefill  seconds for reading the prompt, apart from the steps; the run's includes
                            the draft model's
    """

    steps: tuple[PricedStep, ...]
    plain: tuple[PricedStep, ...]
    prefill: float
    plain_prefill: float
    batch: int

    @property
    def decode_seconds(self) -> float:
        """Of all steps, prefill left out."""
        return sum(step.seconds for step in self.steps)

    @property
    def plain_decode_seconds(self) -> float:
        return sum(step.seconds for step in self.plain)

    @property
    def seconds(self) -> float:
        """Of the run, prefill included."""
        return self.prefill + self.decode_seconds

    @property
    def plain_seconds(self) -> float:
        """Of plain decoding of as many tokens, prefill included."""
        return self.plain_prefill + self.plain_decode_seconds

    @property
    def speedup(self) -> float:
        """Plain decoding's seconds / the run's, prefill included."""
        return self.plain_seconds / self.seconds

    @property
    def decode_speedup(self) -> float:
        """The same without prefill."""
        return self.plain_decode_seconds / self.decode_seconds

    @property
    def tokens_per_second(self) -> float:
        """Of all texts of the batch together, prefill included."""
        return self.batch * sum(step.tokens for step in self.steps) / self.seconds

    def staircase(self) -> list[tuple[float, float]]:
        """(seconds, tokens of a text) at the end of prefill and of every step."""
        return _staircase(self.prefill, self.steps)

    def plain_staircase(self) -> list[tuple[float, float]]:
        """The same of plain decoding."""
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
    """Rows of a run's draft passes. Where a trace does not hold them, as before version 2.0.0, they
    follow from its trees: the tokens that the draft has not read yet, and every drafted token that
    was drafted on from, without the rows of a lookahead window of the draft's own."""

    def __init__(self, prompt: int) -> None:
        self.read = prompt - 1

    def of(self, step: Step, context: int) -> float:
        """Rows of each draft pass of the next step, the mean; 0 where it has none."""
        if not step.draft_passes:
            return 0.0
        if step.draft_rows:
            return step.draft_rows / step.draft_passes
        inner = _drafted_on(step)
        rows = max(1, context - self.read) + len(inner)
        kept = takewhile(inner.__contains__, step.path)
        self.read = context + sum(1 for _ in kept)
        return max(1.0, rows / step.draft_passes)


def work_of(trace: Trace) -> tuple[Work, ...]:
    """What each step of a run asks of a machine; raises InvalidInput for a run without steps."""
    if not trace.steps:
        raise InvalidInput("this run has no steps: there is nothing to price; choose another run")
    found, context = [], len(trace.prompt.tokens)
    drafting = _DraftRows(context)
    for step in trace.steps:
        alone = step.writer is not Source.TARGET
        host = step.seconds.learn + step.seconds.host
        host += 0.0 if step.draft_passes else step.seconds.draft
        found.append(
            Work(
                rows=0.0 if alone else step.width,
                tokens=len(step.tokens),
                context=context,
                draft_passes=1 if alone else step.draft_passes,
                draft_rows=step.width if alone else drafting.of(step, context),
                host=host,
            )
        )
        context += len(step.tokens)
    return tuple(found)


def price_work(
    work: Sequence[Work], prompt: int, target: PassPrice, draft: PassPrice | None, batch: int = 1
) -> Priced:
    """Work on a machine. Plain decoding's host seconds are taken to be none: what they are is far
    below those of a pass.

    prompt  tokens of the prompt; batch: texts that are written at once, all in step, each accepted
            alike
    Raises InvalidInput for a batch beyond MOST_BATCH, and for drafted work without a draft.
    """
    if not 1 <= batch <= MOST_BATCH:
        raise InvalidInput(f"the batch must be between 1 and {MOST_BATCH}, got {batch}")
    drafts = any(one.draft_passes for one in work)
    if drafts and draft is None:
        raise InvalidInput("this run has draft passes: choose a draft to price them with")
    steps = [_step(one, target, draft, batch) for one in work]
    count, start = round(sum(one.tokens for one in work)), work[0].context
    plain = [PricedStep(1, target.of(1, start + n, batch), 0.0, 0.0) for n in range(count)]
    reading = target.prefill(prompt, batch)
    alone = not any(one.rows for one in work)
    more = draft.prefill(prompt, batch) if drafts and draft is not None else 0.0
    mine = more if alone else reading + more
    return Priced(tuple(steps), tuple(plain), mine, reading, batch)


def _step(work: Work, target: PassPrice, draft: PassPrice | None, batch: int) -> PricedStep:
    verify = target.of(work.rows, work.context, batch) if work.rows else 0.0
    guess = 0.0
    if work.draft_passes and draft is not None:
        guess = work.draft_passes * draft.of(work.draft_rows, work.context, batch)
    return PricedStep(work.tokens, verify, guess, work.host)


def price(
    trace: Trace,
    target: PassPrice,
    draft: PassPrice | None = None,
    batch: int = 1,
    host: float = 1.0,
) -> Priced:
    """A run on another machine, with other models; see `price_work`.

    Lookups, and whatever else has no draft passes, cost their host seconds alone, which take
    `host` times as long as they did.
    """
    work = [replace(one, host=host * one.host) for one in work_of(trace)]
    return price_work(work, len(trace.prompt.tokens), target, draft, batch)


def by_head(trace: Trace) -> bool:
    """Whether what drafts in a run is trained on the target's own states: a head of it, not a model
    of its own."""
    needs = methods.get(trace.method).needs
    if needs & HEAD_KINDS.keys():
        return True
    return trace.method == "union" and (trace.draft or "").endswith("eagle")


def skipping(trace: Trace) -> bool:
    """Whether what drafts is the target itself with some of its layers skipped."""
    return trace.method == "draft_verify"


def sized(trace: Trace) -> str:
    """A sentence for a run whose amounts were chosen for the machine that it ran on; empty for one
    with fixed settings."""
    if "auto" not in trace.hyperparameters.values() and not any(s.choice for s in trace.steps):
        return ""
    return (
        "Some amounts of this run were auto: they were sized for the machine that it ran on, and "
        "would be others here."
    )


def too_large(machine: Machine, *models: ModelSize | None) -> str:
    """A sentence where the weights need more memory than there is; empty where they fit, or where
    it is not known."""
    needed = sum(model.weight_bytes for model in models if model)
    if not machine.memory or needed <= machine.memory:
        return ""
    return (
        f"The weights need {needed / 1e9:.0f} GB and {machine.name} has "
        f"{machine.memory / 1e9:.0f} GB: priced as if they fitted."
    )
