"""Models whose passes take as long as a test says, on a clock of their own."""

from typing import Any

import pytest

from ouroboros_core.tree import TokenTree


class Clock:
    """A model whose passes take as long as they should, on a clock of its own."""

    name, vocabulary, max_length, passes, rows = "clock", 1000, 10_000, 0, 0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Any) -> None:
        self.now, self.seconds, self.made = 0.0, seconds, 0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def evaluate(self, context: Any, tree: TokenTree) -> Any:
        self.now += self.seconds(len(tree)) * (5 if self.made % 7 == 0 else 1)
        self.made += 1
        return _Nothing

    def forget(self) -> None:
        pass

    def prefill(self, context: Any, candidates: int = 0) -> None:
        self.now += 0.002 * len(context)


class _Nothing:
    @staticmethod
    def argmax() -> list[int]:
        return []


class Follower(_Nothing):
    """A draft or a head on the clock of a target. A pass takes twice as long right behind one of
    the target; one that reads a text takes longer than a level behind it. All of them take `slower`
    times as long."""

    name, vocabulary, max_length, passes, rows = "follower", 1000, 10_000, 0, 0

    def __init__(self, clock: Clock, slower: float = 1.0) -> None:
        self.clock, self.slower, self.made = clock, slower, -1

    def evaluate(self, context: Any, tree: TokenTree) -> Any:
        behind = self.made != self.clock.made
        self.made = self.clock.made
        self.clock.now += self.slower * (0.004 if behind else 0.002)
        return self

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        self.clock.now += self.slower * (0.001 + 0.0001 * (len(tree) - 1))
        return self

    def scored(self, nodes: Any, k: int) -> list[Any]:
        return []

    def prefill(self, context: Any) -> None:
        pass

    forget = Clock.forget
