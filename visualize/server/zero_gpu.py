"""A GPU that is lent by the minute: on Spaces with ZeroGPU, jobs compute in worker processes.

There the package `spaces` must be imported before torch, as it is here: nothing of the page imports
torch before it serves. A worker is forked from this process. Its arguments and the values that it
yields are pickled; changes of objects are lost. Of an exception only the name of the class comes
back, so a message to the visitor travels as a value. Source: `spaces` 0.51, zero/wrappers.py.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

from ouroboros_core.errors import InvalidInput, OuroborosError

ZERO = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
"""Whether this process has no GPU, but borrows one."""

if ZERO:
    import spaces  # type: ignore[import-not-found]  # installed on such a Space

LENT_SECONDS = 100.0
"""The longest time for which a worker may have the GPU."""

SERVER = os.getpid()
"""The serving process; a worker is another one."""
P = ParamSpec("P")
Generating = Callable[P, Generator[Any, None, None]]


@dataclass(frozen=True)
class Refusal:
    """An error for the visitor on its way out of a worker."""

    message: str


def on_lent_gpu(compute: Generating[P], seconds: Callable[..., float]) -> Generating[P]:
    """Return a generator function that runs `compute` on a lent GPU; only if `ZERO`.

    compute  yields values that can be pickled
    seconds  returns, for the same arguments, how long it may take
    """

    @wraps(compute)
    def in_worker(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, None]:
        if os.getpid() != SERVER:
            leave_connections()
        try:
            yield from compute(*args, **kwargs)
        except OuroborosError as error:
            yield Refusal(str(error))

    borrowed: Generating[P] = spaces.GPU(in_worker, duration=seconds)

    @wraps(compute)
    def in_server(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, None]:
        with closing(borrowed(*args, **kwargs)) as values:
            for value in values:
                if isinstance(value, Refusal):
                    raise InvalidInput(value.message)
                yield value

    return in_server


def seconds_for(tokens: int) -> float:
    """Return how long a worker may take for `tokens` tokens: 0.1 s each is slow there."""
    return min(LENT_SECONDS, 15 + 0.1 * tokens)


def leave_connections() -> None:
    """Close the visitors' connections that a worker inherited.

    A connection that the server closes stays open while a worker holds it. A browser would send
    its next request, Stop for example, into a connection that nobody reads.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
        except OSError:  # the listed folder
            continue
        with socket.socket(fileno=os.dup(number)) as inherited:
            if inherited.family in (socket.AF_INET, socket.AF_INET6):
                os.dup2(nothing, number)  # its owner here may still close it
    os.close(nothing)
