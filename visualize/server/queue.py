"""The queue: one job computes, the others wait by rank, then in the order in which they came."""

from __future__ import annotations

import threading
from enum import IntEnum

from ouroboros_core.errors import InvalidInput


class Rank(IntEnum):
    """Who computes first. A job gives way to those of a lower rank, and goes on after them."""

    RUN = 0
    TIMING = 1
    SERIES = 2


class Ticket:
    """The place of a job in the queue."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank


class RunQueue:
    """A bounded queue, from which one ticket at a time is called to compute."""

    def __init__(self, waiting: int) -> None:
        """waiting: how many may wait while one computes."""
        self._capacity = waiting + 1
        self._waiting: list[Ticket] = []
        self._computing: Ticket | None = None
        self._changed = threading.Condition()

    def join(self, rank: Rank = Rank.RUN) -> Ticket:
        """Return a ticket behind all of its rank; raises InvalidInput if the queue is full."""
        with self._changed:
            if len(self._waiting) + (self._computing is not None) >= self._capacity:
                waiting = self._capacity - 1
                runs = "a run is" if waiting == 1 else f"{waiting} runs are"
                raise InvalidInput(
                    f"the queue is full: {runs} waiting already. Try again in a minute"
                )
            ticket = Ticket(rank)
            self._append(ticket)
            return ticket

    def rejoin(self, ticket: Ticket, rank: Rank) -> None:
        """Put a ticket that has left behind all of another rank, even if the queue is full."""
        with self._changed:
            ticket.rank = rank
            self._append(ticket)

    def _append(self, ticket: Ticket) -> None:
        self._waiting.append(ticket)
        self._waiting.sort(key=lambda each: each.rank)  # stable

    def before(self, ticket: Ticket) -> int:
        """Return how many come before a ticket; 0 if its turn has come, and it computes now."""
        with self._changed:
            if ticket is self._computing:
                return 0
            ahead = self._waiting.index(ticket) + (self._computing is not None)
            if not ahead:
                self._waiting.remove(ticket)
                self._computing = ticket
            return ahead

    def urged(self, ticket: Ticket) -> bool:
        """Return whether a job of a lower rank waits for a ticket that computes."""
        with self._changed:
            return bool(self._waiting) and self._waiting[0].rank < ticket.rank

    def give_way(self, ticket: Ticket) -> None:
        """Let others compute; the ticket waits in front of all of its rank."""
        with self._changed:
            self._computing = None
            place = sum(each.rank < ticket.rank for each in self._waiting)
            self._waiting.insert(place, ticket)
            self._changed.notify_all()

    def computes(self, ticket: Ticket) -> bool:
        return self._computing is ticket

    def pause(self, seconds: float) -> None:
        """Wait until a ticket leaves or gives way, at most `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def leave(self, ticket: Ticket) -> None:
        """Take a ticket out, whether it computes, waits, or has left before."""
        with self._changed:
            if self._computing is ticket:
                self._computing = None
            elif ticket in self._waiting:
                self._waiting.remove(ticket)
            self._changed.notify_all()
