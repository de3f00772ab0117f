"""A GPU that is lent by the minute: on Spaces with ZeroGPU, what computes runs in a worker process.

There the package `spaces` must be imported before torch, so launch.py imports this module first. A
worker is forked from this process: what it is given and what it yields is pickled, and what it
writes to an object of this process is lost. Source: the package `spaces` 0.51 (its
zero/wrappers.py); of an exception only the name of its class comes back, so a message to the
visitor is carried as a value.
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
"""Whether this process has no GPU of its own, but borrows one."""

if ZERO:
    import spaces  # type: ignore[import-not-found]  # installed if there is one to lend

LENT_SECONDS = 100.0
"""The longest time for which a worker may have the GPU."""

SERVER = os.getpid()
"""The process that serves; a worker is another one."""
P = ParamSpec("P")
Generating = Callable[P, Generator[Any, None, None]]


@dataclass(frozen=True)
class Refusal:
    """An error of ours on its way out of a worker."""

    message: str


def lent(task: Generating[P], seconds: Callable[..., float]) -> Generating[P]:
    """The same generator of plain data, run where the GPU is; `seconds` tells from its arguments
    how long it may take. Only where the GPU is lent, see `ZERO`."""

    @wraps(task)
    def carried(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, None]:
        if os.getpid() != SERVER:
            leave_connections()
        try:
            yield from task(*args, **kwargs)
        except OuroborosError as error:
            yield Refusal(str(error))

    borrowed: Generating[P] = spaces.GPU(carried, duration=seconds)

    @wraps(task)
    def here(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, None]:
        with closing(borrowed(*args, **kwargs)) as values:
            for value in values:
                if isinstance(value, Refusal):
                    raise InvalidInput(value.message)
                yield value

    return here


def seconds_for(tokens: int) -> float:
    """Return how long a worker may take for so many tokens: 0.1 s each is slow there."""
    return min(LENT_SECONDS, 15 + 0.1 * tokens)


def leave_connections() -> None:
    """Close what a worker inherited of the visitors' connections.

    A connection that the server closes stays open as long as a worker holds it: a browser then
    sends its next request, Stop for example, into a connection that nobody reads.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
        except OSError:  # the folder that was read
            continue
        with socket.socket(fileno=os.dup(number)) as inherited:
            if inherited.family in (socket.AF_INET, socket.AF_INET6):
                os.dup2(nothing, number)  # its owner here may still close it
    os.close(nothing)
