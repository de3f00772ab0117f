"""A report about a GPU, in ten minutes: exactness, costs by rows, peers, memory, ZeroGPU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence

import torch

from ouroboros_core import methods
from ouroboros_core.adaptive.profiler import pass_seconds
from ouroboros_core.benchmark import doctor as checkup
from ouroboros_core.benchmark.doctor import Finding
from ouroboros_core.benchmark.entrants import BASELINE, Entrant, MethodEntrant, Outcome, parse
from ouroboros_core.benchmark.peers import peers
from ouroboros_core.benchmark.runner import MemoryPeak
from ouroboros_core.decoding.generation import lacking
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.sampling import Sampling

ROWS = (1, 2, 4, 8, 16, 32, 64)
METHODS = ("autoregressive", "speculative", "prompt_lookup", "eagle3", "union", "ouroboros")
PEERS = ("hf-greedy", "hf-assisted", "hf-prompt-lookup")


def report(pair: Pair, *, quick: bool = False) -> Iterator[Finding]:
    """All findings, one after the other as they are made.

    quick  two prompts of eight tokens and two methods, for a test of this script
    """
    count, tokens = (2, 8) if quick else (12, 64)
    prompts = checkup.own_texts(count)
    peak = MemoryPeak(pair.target.device.type)
    peak.reset()
    able = [
        method
        for method in (("autoregressive", "union") if quick else METHODS)
        if _runs(pair, method)
    ]
    yield from exactness(pair, prompts, tokens, able[1:])
    yield from costs(pair, ROWS[:3] if quick else ROWS, 2 if quick else 24)
    peers = PEERS[:1] if quick or pair.draft is None else PEERS
    yield from speeds(pair, prompts[: 1 if quick else 4], tokens, able, peers)
    whose = "of the accelerator" if pair.target.device.type == "cuda" else "of this process"
    yield Finding("memory", "peak", "ok", f"{peak.megabytes():,.0f} MB", whose)
    yield zero()


def _runs(pair: Pair, method: str) -> bool:
    kind = methods.get(method)
    return lacking(pair, kind, kind.Hyperparameters()) is None


def exactness(
    pair: Pair, prompts: Sequence[str], tokens: int, ids: Sequence[str]
) -> Iterator[Finding]:
    """Every method's greedy text beside plain decoding's, on every prompt."""
    plain = [checkup.run_raw(pair, run, BASELINE, tokens) for run in prompts]
    for method in ids:
        findings = [checkup.compared(pair, run, method, method) for run in plain]
        equal = sum(run.state == "ok" for run in findings)
        fact = f"{equal} of {len(findings)} texts equal plain decoding's"
        worst = next((run for run in findings if run.state == "broken"), None)
        worst = worst or next((run for run in findings if run.state == "note"), None)
        if worst is None:
            yield Finding("exactness", method, "ok", fact)
        else:
            yield Finding("exactness", method, worst.state, fact, worst.reason, worst.remedy)


def costs(pair: Pair, rows: Sequence[int], repeats: int) -> Iterator[Finding]:
    """Milliseconds of a pass by its rows, target and draft, the median of some repeats."""
    for role, model in {"target": pair.target, "draft": pair.draft}.items():
        if model is None:
            continue
        seconds = pass_seconds([(model, n) for n in rows], repeats)
        fact = ", ".join(f"{n}: {1000 * s:.2f}" for n, s in zip(rows, seconds, strict=True))
        ratio = seconds[-1] / seconds[0]
        why = f"{rows[-1]} rows cost {ratio:.2f} times what one does"
        yield Finding("costs", f"{role}, ms by rows", "ok", fact, why)


def speeds(
    pair: Pair, prompts: Sequence[str], tokens: int, ids: Sequence[str], others: Sequence[str]
) -> Iterator[Finding]:
    """Tokens per second without prefill, of methods and transformers in turn, warmed up."""
    sampling = Sampling()
    named = ",".join(ids)
    entrants: list[Entrant] = [MethodEntrant(pair, spec) for spec in parse(named, sampling)]
    entrants += peers(others, pair, sampling)
    done: dict[int, list[Outcome]] = {n: [] for n in range(len(entrants))}
    for prompt in (prompts[0], *prompts):  # the first time does not count
        for number, entrant in enumerate(entrants):
            done[number].append(entrant.run(prompt, (), tokens))
    for number, entrant in enumerate(entrants):
        counted = done[number][1:]
        written = sum(len(outcome.tokens) for outcome in counted)
        seconds = sum(outcome.seconds.decode for outcome in counted)
        passes = sum(outcome.passes for outcome in counted)
        setting = getattr(entrant, "setting", "")
        name = f"{entrant.label} ({setting})" if setting else entrant.label
        fact = f"{written / seconds:.1f} tokens/s" if seconds else "nothing was written"
        yield Finding("speed", name, "ok", fact, f"{written} tokens in {passes} target passes")


def zero() -> Finding:
    """Whether this machine lends its GPU by the minute, as Hugging Face's ZeroGPU does."""
    if importlib.util.find_spec("spaces") is None:
        why = "the package spaces is there only on Spaces: make space HARDWARE=zero writes one"
        return Finding("zerogpu", "spaces", "ok", "not installed", why)
    on_zero_gpu = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    where = "a GPU is lent by the minute" if on_zero_gpu else "installed, but no GPU is lent here"
    remark = "torch sees one outside of a loan" if torch.cuda.is_available() else ""
    return Finding("zerogpu", "spaces", "ok", where, remark)
