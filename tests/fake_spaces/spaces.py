"""A stand-in for the package `spaces` on ZeroGPU that runs each call in a worker process.

The worker is forked from the serving process. Arguments and results are pickled, its changes are
lost, and of an error only the class name returns. It follows spaces 0.51 (zero/wrappers.py) and
provides no GPU.
"""

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Generator
from typing import Any

assert "torch" not in sys.modules, "spaces must be imported before torch"

LOG = os.environ.get("FAKE_SPACES_LOG", "")


def GPU(task: Callable[..., Any], duration: Any = None) -> Callable[..., Any]:
    """The decorator."""

    def call(*args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        seconds = duration(*args, **kwargs) if callable(duration) else duration or 60
        receiver, sender = multiprocessing.get_context("fork").Pipe()
        arguments = pickle.dumps((args, kwargs))
        worker = multiprocessing.get_context("fork").Process(
            target=work, args=(task, arguments, sender), daemon=True
        )
        worker.start()
        sender.close()
        try:
            while True:
                kind, value = receiver.recv()
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


def work(task: Callable[..., Any], arguments: bytes, sender: Any) -> None:
    """Run a task in the worker and send its results."""
    args, kwargs = pickle.loads(arguments)
    try:
        for value in task(*args, **kwargs):
            sender.send(("value", pickle.dumps(value)))
    except Exception as error:
        sender.send(("error", type(error).__name__))
    else:
        sender.send(("end", None))
