"""The queue of those who want to compute: one does, the others wait in the order in which they
came."""

from __future__ import annotations

import threading
from collections import deque

from ouroboros_core.errors import InvalidInput


class RunQueue:
    """A bounded queue; whoever stands first may compute."""

    def __init__(self, waiting: int) -> None:
        """waiting: how many may stand behind the one who computes."""
        self._most = waiting + 1
        self._line: deque[object] = deque()
        self._changed = threading.Condition()

    def join(self) -> object:
        """A ticket at the end of the queue, to leave later; raises InvalidInput if the queue is
        full."""
        with self._changed:
            if len(self._line) >= self._most:
                waiting = self._most - 1
                runs = "a run is" if waiting == 1 else f"{waiting} runs are"
                raise InvalidInput(
                    f"the queue is full: {runs} waiting already. Try again in a minute"
                )
            ticket = object()
            self._line.append(ticket)
            return ticket

    def before(self, ticket: object) -> int:
        """How many are before this one; 0 means its turn has come."""
        with self._changed:
            return self._line.index(ticket)

    def pause(self, seconds: float) -> None:
        """Wait until somebody leaves, at most `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def leave(self, ticket: object) -> None:
        with self._changed:
            self._line.remove(ticket)
            self._changed.notify_all()
