"""The queue: one job computes, the others wait in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque

from ouroboros_core.errors import InvalidInput


class RunQueue:
    """A bounded queue; the first ticket may compute."""

    def __init__(self, waiting: int) -> None:
        """waiting: how many may wait while one computes."""
        self._capacity = waiting + 1
        self._tickets: deque[object] = deque()
        self._changed = threading.Condition()

    def join(self) -> object:
        """Return a ticket at the end of the queue; raises InvalidInput if the queue is full."""
        with self._changed:
            if len(self._tickets) >= self._capacity:
                waiting = self._capacity - 1
                runs = "a run is" if waiting == 1 else f"{waiting} runs are"
                raise InvalidInput(
                    f"the queue is full: {runs} waiting already. Try again in a minute"
                )
            ticket = object()
            self._tickets.append(ticket)
            return ticket

    def before(self, ticket: object) -> int:
        """Return how many come before a ticket; 0 if its turn has come."""
        with self._changed:
            return self._tickets.index(ticket)

    def pause(self, seconds: float) -> None:
        """Wait until a ticket leaves, at most `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def leave(self, ticket: object) -> None:
        """Take a ticket out, whether it has computed or not."""
        with self._changed:
            self._tickets.remove(ticket)
            self._changed.notify_all()
