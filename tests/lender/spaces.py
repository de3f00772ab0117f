"""A stand-in for the package `spaces` on ZeroGPU, in what matters to us: a call is carried out in a
worker process.

The worker is forked from the process that serves, what goes in and comes out is pickled, what it
changes is lost, and of an error only the name of its class comes back. Written after the behaviour
of spaces 0.51 (zero/wrappers.py); it lends no GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Generator
from typing import Any

assert "torch" not in sys.modules, "spaces must be imported before torch"

LOG = os.environ.get("LENDER_LOG", "")


def GPU(task: Callable[..., Any], duration: Any = None) -> Callable[..., Any]:
    """The decorator."""

    def call(*args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        seconds = duration(*args, **kwargs) if callable(duration) else duration or 60
        here, there = multiprocessing.get_context("fork").Pipe()
        given = pickle.dumps((args, kwargs))
        worker = multiprocessing.get_context("fork").Process(
            target=work, args=(task, given, there), daemon=True
        )
        worker.start()
        there.close()
        try:
            while True:
                kind, value = here.recv()
                if kind == "end":
                    return
                if kind == "error":
                    raise RuntimeError(f"ZeroGPU worker error: {value}")
                yield pickle.loads(value)
        finally:
            worker.terminate()
            worker.join()
            with open(LOG, "a", encoding="utf-8") as log:
                log.write(f"{os.getpid()} lent {worker.pid} for {seconds}\n")

    return call


def work(task: Callable[..., Any], given: bytes, there: Any) -> None:
    """In the worker."""
    args, kwargs = pickle.loads(given)
    try:
        for value in task(*args, **kwargs):
            there.send(("value", pickle.dumps(value)))
    except Exception as error:
        there.send(("error", type(error).__name__))
    else:
        there.send(("end", None))
