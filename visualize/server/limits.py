"""Limits of a job and, on a public page, of a visitor per hour; checks of single values."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ouroboros_core.errors import InvalidInput

WINDOW = 3600.0
"""Seconds after which spending is forgotten."""
VISITORS = 10_000
"""Visitors whose spending is remembered; the one not seen for longest is forgotten first."""


@dataclass(frozen=True)
class Limits:
    """
    new_tokens     of one answer
    sweep_minutes  of one long job
    tokens         that a visitor may have in an hour; None: any number
    sweep_seconds  of long jobs that a visitor may have in an hour; None: any number
    own_models     whether a visitor may name models by path or Hub id
    """

    new_tokens: int = 1024
    sweep_minutes: float = 30
    tokens: int | None = None
    sweep_seconds: int | None = None
    own_models: bool = True


PUBLIC = Limits(new_tokens=256, sweep_minutes=3, tokens=8192, sweep_seconds=600, own_models=False)


class Budget:
    """The spending of each visitor in the last hour."""

    def __init__(
        self, allowance: int | None, unit: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """
        allowance  of a visitor in an hour; None: any number
        unit       of the spending, in messages
        """
        self.allowance, self._unit, self._clock = allowance, unit, clock
        self._spent: OrderedDict[str, deque[tuple[float, float]]] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, visitor: str, cost: float) -> None:
        """Raise InvalidInput, with the time to wait, if a visitor has less than `cost` left."""
        if self.allowance is None:
            return
        with self._lock:
            spent = list(self._recent(visitor))
        total = sum(amount for _, amount in spent)
        if total + cost <= self.allowance:
            return
        now, wait = self._clock(), 0.0
        for when, amount in spent:
            total -= amount
            wait = when + WINDOW - now
            if total + cost <= self.allowance:
                break
        so_far = sum(amount for _, amount in spent)
        rule = f"on this public page everybody may have {self.allowance:,} {self._unit} in an hour"
        if cost > self.allowance:
            raise InvalidInput(
                f"{rule}, and this would be {cost:,.0f}: ask for less, or run the page on "
                "your own machine with make run"
            )
        minutes = max(1, math.ceil(wait / 60))
        raise InvalidInput(
            f"{rule}; you have had {so_far:,.0f}, and this would be {cost:,.0f} more: ask for "
            f"less, come back in {minutes} minutes, or run the page on your own machine with make "
            "run"
        )

    def spend(self, visitor: str, amount: float) -> None:
        """Charge a visitor now."""
        if self.allowance is None or not amount:
            return
        with self._lock:
            self._recent(visitor).append((self._clock(), amount))
            self._spent.move_to_end(visitor)
            while len(self._spent) > VISITORS:
                self._spent.popitem(last=False)

    def _recent(self, visitor: str) -> deque[tuple[float, float]]:
        spent = self._spent.setdefault(visitor, deque())
        while spent and spent[0][0] < self._clock() - WINDOW:
            spent.popleft()
        return spent


PROXIED = bool(os.environ.get("SPACE_ID"))
"""Whether a proxy names a visitor's address in X-Forwarded-For, as on Spaces. Anybody may add to
that line, so a budget protects only against honest visitors. The queue protects against all."""
_SALT = secrets.token_bytes(16)


def visitor_id(request: Any, *, proxied: bool = PROXIED) -> str:
    """Return the visitor as a hash of the address, valid in this process; '' if unknown."""
    client = getattr(request, "client", None)
    address = getattr(client, "host", None) or ""
    if proxied:
        address = (request.headers.get("x-forwarded-for") or address).split(",")[0].strip()
    return hashlib.sha256(_SALT + address.encode()).hexdigest()[:16] if address else ""


def whole_number(name: str, count: Any, limit: int) -> int:
    """Return a whole number between 1 and `limit`; raises InvalidInput."""
    if (
        not isinstance(count, int | float)
        or isinstance(count, bool)
        or not 1 <= count <= limit
        or count % 1
    ):
        actual = str(count)[:40]
        raise InvalidInput(f"{name} must be a whole number between 1 and {limit}, got {actual}")
    return int(count)


def flag(name: str, value: Any) -> bool:
    """Return a boolean; raises InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, got {str(value)[:40]}")
    return value
