"""The pairs of models that the page offers; each is loaded in the background on first use."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation, Task, lacking
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.loading import download
from ouroboros_core.loading.allowed import PairChoice, typed
from ouroboros_core.sampling import Sampling
from visualize.server.log import describe
from visualize.server.zero_gpu import ZERO

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

log = logging.getLogger(__name__)

WARM_UP_TOKENS = 8
EMBEDDED = "SmolLM2-135M and its draft"
"""The name of the pair that ships with the project."""
TOO_LARGE = "these models do not fit into the memory of this machine: choose smaller ones"


class Models:
    """Loads pairs and keeps them in memory; of pairs that a visitor typed, only the last one."""

    def __init__(
        self,
        load: Callable[[PairChoice], Pair],
        choices: Sequence[PairChoice] = (),
        *,
        own: bool = True,
    ) -> None:
        """
        load     returns the pair of a choice
        choices  the first is loaded at the start; none: the embedded pair
        own      whether a visitor may name other models, by path or Hub id
        """
        self._load = load
        self.choices = {choice.name: choice for choice in choices or [PairChoice(name=EMBEDDED)]}
        self.own = own
        self._loading: dict[str, Future[Pair]] = {}
        self._lock = threading.Lock()

    @property
    def first(self) -> str:
        return next(iter(self.choices))

    def choice(self, name: object) -> PairChoice:
        """Return the choice of that name, '' for the first; raises InvalidInput."""
        if not name:
            return self.choices[self.first]
        if isinstance(name, str) and name in self.choices:
            return self.choices[name]
        if self.own and isinstance(name, str):
            return typed(name)
        raise InvalidInput(
            f"{str(name)[:80]} is not offered here; choose one of: {', '.join(self.choices)}"
        )

    def missing(self, name: str) -> list[str]:
        """Return the models of a pair to download; raises InvalidInput if it is not offered."""
        choice = self.choice(name)
        return download.missing(choice.target, choice.draft)

    def start(self) -> None:
        """Load the first pair in the background; with a lent GPU load all, and wait for them."""
        for name in self.choices if ZERO else (self.first,):
            loading = self.ask(name)
            if ZERO:
                loading.exception()

    def ask(self, name: str) -> Future[Pair]:
        """Return the pair of that name as a future; a pair that failed to load is tried again."""
        choice = self.choice(name)
        with self._lock:
            loading = self._loading.get(choice.name)
            if loading is not None and not (loading.done() and loading.exception()):
                return loading
            for typed_name in set(self._loading) - set(self.choices):
                del self._loading[typed_name]
            loading = self._loading[choice.name] = Future()
        threading.Thread(
            target=self._run, args=(choice, loading), name="load-models", daemon=True
        ).start()
        return loading

    def _run(self, choice: PairChoice, loading: Future[Pair]) -> None:
        try:
            pair = self._load(choice)
            if not ZERO:
                _warm_up(pair)
            loading.set_result(pair)
        except OuroborosError as error:
            log.error("the models could not be loaded: %s", error)
            loading.set_exception(error)
        except BaseException as error:
            reason = (
                describe(error, TOO_LARGE) if isinstance(error, Exception) else type(error).__name__
            )
            loading.set_exception(InvalidInput(reason))

    def if_loaded(self, name: str = "") -> Pair | None:
        loading = self._loading.get(self.choice(name).name)
        if loading is None or not loading.done() or loading.exception():
            return None
        return loading.result()

    def lacking(self, name: str = "") -> dict[str, str]:
        """Return by method what the pair lacks for it; nothing is known before it is loaded."""
        pair = self.if_loaded(name)
        if pair is None:
            return {}
        needs = {
            kind.id: lacking(pair, kind, kind.Hyperparameters())
            for kind in methods.available().values()
        }
        return {method: need.value for method, need in needs.items() if need}

    def loaded(self, name: str) -> Pair:
        pair = self.if_loaded(name)
        assert pair is not None, "a pair is loaded before it is used"
        return pair

    @property
    def ready(self) -> bool:
        """Whether the first pair is no longer loading."""
        loading = self._loading.get(self.first)
        return loading is not None and loading.done()

    @property
    def health(self) -> str:
        if not self.ready:
            return "loading"
        return "ready" if self.if_loaded() else "failed"

    async def until_ready(self) -> None:
        """Wait for the first pair. It polls, because a thread a visitor would be too many."""
        while not self.ready:
            await asyncio.sleep(0.5)

    def state(self, name: str = "") -> str:
        """Return in a sentence whether the pair loads, is ready, or has failed."""
        try:
            pair_name = self.choice(name).name
        except InvalidInput as error:
            return str(error)
        loading = self._loading.get(pair_name)
        if loading is None and pair_name != self.first:
            return "These models will be loaded when you first run something with them."
        if loading is None or not loading.done():
            return "Loading the models; meanwhile, this run was recorded earlier."
        if loading.exception() is not None:
            return f"The models could not be loaded: {loading.exception()}"
        pair = loading.result()
        words = f"Ready: {pair.target.name}"
        if pair.small:
            return f"{words}. It is small: expect mistakes."
        return f"{words}, on {pair.environment.where}."


def _warm_up(pair: Pair) -> None:
    """Generate a few tokens, so that no first call is timed; none if the tokenizer cannot."""
    for method in methods.available().values():
        settings = method.Hyperparameters()
        if lacking(pair, method, settings) is None:
            task = Task("Hello", method.id, settings, Sampling(), WARM_UP_TOKENS, chat=False)
            with contextlib.suppress(InvalidInput):
                Generation(pair, task).run()
