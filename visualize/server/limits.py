"""The limits of a run and, on a public page, of a visitor per hour; and checks of single values
that a visitor sends."""

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
VISITORS = 10_000
"""How many visitors' spending is remembered; the one seen longest ago is forgotten first."""


@dataclass(frozen=True)
class Limits:
    """new_tokens: of one answer; sweep_minutes: of one sweep; tokens, sweep_seconds: of a visitor
    in an hour, None: any number; own_models: whether a visitor may name models by path or Hub
    id; round_seconds: in which a run or a race must end with all its rounds, so that a long answer
    has fewer of them."""

    new_tokens: int = 1024
    sweep_minutes: float = 30
    tokens: int | None = None
    sweep_seconds: int | None = None
    own_models: bool = True
    round_seconds: float = 90


PUBLIC = Limits(
    new_tokens=256,
    sweep_minutes=3,
    tokens=8192,
    sweep_seconds=600,
    own_models=False,
    round_seconds=40,
)


class Budget:
    """What each visitor has had of one thing in the last hour."""

    def __init__(
        self, most: int | None, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """what: the thing of which a visitor may have `most` in an hour, as a message names it."""
        self.most, self._what, self._clock = most, what, clock
        self._spent: OrderedDict[str, deque[tuple[float, float]]] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, visitor: str, wanted: float) -> None:
        """Raise InvalidInput, saying when there will be enough, if a visitor has less than `wanted`
        left."""
        if self.most is None:
            return
        with self._lock:
            spent = list(self._of(visitor))
        total = sum(amount for _, amount in spent)
        if total + wanted <= self.most:
            return
        now, back = self._clock(), 0.0
        for when, amount in spent:
            total -= amount
            back = when + WINDOW - now
            if total + wanted <= self.most:
                break
        had = sum(amount for _, amount in spent)
        allowed = f"on this public page everybody may have {self.most:,} {self._what} in an hour"
        if wanted > self.most:
            raise InvalidInput(
                f"{allowed}, and this would be {wanted:,.0f}: ask for less, or run the page on "
                "your own machine with make run"
            )
        minutes = max(1, math.ceil(back / 60))
        raise InvalidInput(
            f"{allowed}; you have had {had:,.0f}, and this would be {wanted:,.0f} more: ask for "
            f"less, come back in {minutes} minutes, or run the page on your own machine with make "
            "run"
        )

    def spend(self, visitor: str, amount: float) -> None:
        if self.most is None or not amount:
            return
        with self._lock:
            self._of(visitor).append((self._clock(), amount))
            self._spent.move_to_end(visitor)
            while len(self._spent) > VISITORS:
                self._spent.popitem(last=False)

    def _of(self, visitor: str) -> deque[tuple[float, float]]:
        spent = self._spent.setdefault(visitor, deque())
        while spent and spent[0][0] < self._clock() - WINDOW:
            spent.popleft()
        return spent


PROXIED = bool(os.environ.get("SPACE_ID"))
"""Behind a proxy that names a visitor's address in X-Forwarded-For, as on Spaces. Whoever speaks to
it may add to that line, so a budget is a courtesy to the others; what holds against everybody is
that one run computes at a time, and the bounded queue."""
_SALT = secrets.token_bytes(16)


def who(request: Any, *, proxied: bool = PROXIED) -> str:
    """Who asks, as a hash of the address that holds for this process only; '' where nobody can
    tell."""
    client = getattr(request, "client", None)
    address = getattr(client, "host", None) or ""
    if proxied:
        address = (request.headers.get("x-forwarded-for") or address).split(",")[0].strip()
    return hashlib.sha256(_SALT + address.encode()).hexdigest()[:16] if address else ""


def whole(name: str, count: Any, most: int) -> int:
    """A whole number between 1 and `most`, or InvalidInput."""
    if (
        not isinstance(count, int | float)
        or isinstance(count, bool)
        or not 1 <= count <= most
        or count % 1
    ):
        given = str(count)[:40]
        raise InvalidInput(f"{name} must be a whole number between 1 and {most}, got {given}")
    return int(count)


def flag(name: str, value: Any) -> bool:
    """True or false, or InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, got {str(value)[:40]}")
    return value
