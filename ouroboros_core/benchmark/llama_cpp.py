"""llama.cpp on the target's GGUF file, through the prebuilt wheel `xllamacpp`: a peer that computes
another function.

Its products of quantized weights round the activations to 8 bits, so that its text is its own, and
only its speed can be compared. It is given the same prompt's token ids, the same threads and no
stop token: it writes at least as many tokens as plain decoding, and those beyond do not count.

It runs in a process of its own. In PyTorch's process its threads count with PyTorch's: together
they are more than the processors, so that OpenMP lets idle threads sleep, which slows transformers
by a third.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.benchmark.entrants import BASELINE, Outcome, Request, Spent
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import embedded
from ouroboros_core.trace.trace import Seconds

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling

NAME = "llama.cpp"
WHEEL = "xllamacpp"
FILE = "file"
CONTEXT = 4096
"""Positions that its cache has room for, at most."""
REST_S = 0.25
"""Seconds of waiting around a run, outside its clock, until idle threads sleep."""
QUIET = -1
"""Of its log's levels."""
_SERVERS: list[Any] = []
"""The server of this process, where one has begun."""


class LlamaCpp:
    """One server in a process of its own, asked for one completion at a time."""

    setting = ""
    repeats_plain_text, separate = False, True
    lossless, plain = True, BASELINE

    def __init__(self, name: str, pair: Pair, sampling: Sampling) -> None:
        """name: `llama.cpp` or `llama.cpp[file=TARGET.gguf]`. Raises InvalidInput."""
        self.label = NAME
        if sampling.temperature > 0:
            raise InvalidInput(
                f"{NAME} is measured greedily: leave --temperature out, or leave the peer out"
            )
        if pair.target.device.type != "cpu":
            raise InvalidInput(
                f"{NAME} runs on the CPU here, the pair on {pair.target.device}: add --device cpu, "
                "or leave the peer out"
            )
        if importlib.util.find_spec(WHEEL) is None:
            raise InvalidInput(
                f"{NAME} needs the package {WHEEL}: install it into this environment with `python "
                f"-m pip install {WHEEL}`, or leave the peer out"
            )
        path = _file(name, pair)
        context = min(
            CONTEXT, getattr(pair.target.model.config, "max_position_embeddings", CONTEXT)
        )
        self._pair = pair
        self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            begun = self._process.submit(_begin, os.fspath(path), context, pair.environment.threads)
            compiler, flags = begun.result()
        except Exception as error:  # whatever the bindings make of an error in C++
            self._process.shutdown()
            raise InvalidInput(f"{NAME} cannot load {path}: {error}") from None
        version = importlib.metadata.version(WHEEL)
        self.remark = (
            f"{NAME}: {WHEEL} {version} ({compiler}; {flags}) on {path.name}. It computes another "
            "function: it keeps the file's quantized weights and rounds activations to 8 bits, so "
            "its text is its own. It writes as many tokens as plain decoding."
        )

    def run(self, request: Request) -> Outcome:
        count, tokens = request.max_new_tokens, request.ids(self._pair)
        body = {"prompt": tokens, "n_predict": count, "temperature": 0.0, "cache_prompt": False}
        body |= dict.fromkeys(("ignore_eos", "stream", "timings_per_token"), True)
        time.sleep(REST_S)
        chunks = self._process.submit(_complete, body).result()
        time.sleep(REST_S)
        return Outcome((), tuple(steps(chunks)))


def steps(chunks: Sequence[dict[str, Any]]) -> list[Spent]:
    """Return the seconds of each token by its own clock; raises InvalidInput for its error.

    A chunk may bring several tokens, where the first ones are no whole letter.
    """
    tokens_spent: list[Spent] = []
    count, spent = 0, 0.0
    for chunk in chunks:
        error = chunk.get("error") or ("code" in chunk and chunk)
        if error:
            raise InvalidInput(
                f"{NAME} refuses the prompt: {error.get('message', error)}. A prompt and its new "
                f"tokens may have {CONTEXT} positions at most, and no more than the model has: "
                "lower max_new_tokens, leave longer prompts out, or leave the peer out"
            )
        timings = chunk.get("timings", {})
        new = timings.get("predicted_n", 0) - count
        if new > 0:
            prefill = 0.0 if tokens_spent else timings["prompt_ms"] / 1000
            seconds = timings["predicted_ms"] / 1000
            tokens_spent.append(
                Spent(new, new, new, 0, Seconds(prefill=prefill, verify=seconds - spent))
            )
            count, spent = count + new, seconds
    if not tokens_spent:
        raise InvalidInput(f"{NAME} wrote nothing for a prompt: leave the peer out")
    return tokens_spent


def _file(name: str, pair: Pair) -> Path:
    """The GGUF file that a name gives, or that of the embedded target."""
    setting, _, value = name.partition("[")[2].removesuffix("]").partition("=")
    if setting and (setting != FILE or not value):
        raise InvalidInput(f"{name}: expected {NAME}[{FILE}=TARGET.gguf]")
    if value:
        path = Path(value).expanduser()
        if not path.is_file():
            raise InvalidInput(f"{name}: there is no file {path}")
        return path
    if pair.target.name != embedded.FOLDER:
        raise InvalidInput(
            f"{NAME} reads a GGUF file of {pair.target.name}: name it, as in "
            f"{NAME}[{FILE}=TARGET.gguf], or leave the peer out"
        )
    return embedded.ensure_gguf()


def _begin(path: str, context: int, threads: int) -> tuple[str, str]:
    """Start the server in this process; return its compiler, and what of the processor it uses."""
    library: Any = importlib.import_module(WHEEL)
    parameters = library.CommonParams()
    parameters.model.path, parameters.n_ctx = path, context
    parameters.n_parallel, parameters.n_gpu_layers, parameters.verbosity = 1, 0, QUIET
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    _SERVERS.append(library.Server(parameters))
    flags = " ".join(str(library.get_system_info()).split()).removesuffix(" |")
    return library.BUILD_INFO["compiler"], flags


def _complete(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chunks of a completion."""
    chunks: list[Any] = []
    _SERVERS[0].handle_completions(request, chunks.append)
    return [chunk for chunk in chunks if isinstance(chunk, dict)]
