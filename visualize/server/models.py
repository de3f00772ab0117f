"""The pairs of models that the page offers, each loaded in the background when it is first
wanted."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.loading.allowed import PairChoice, typed
from ouroboros_core.sampling import Sampling
from visualize.server.errors import describe
from visualize.server.zero_gpu import ZERO

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

log = logging.getLogger(__name__)

WARM_UP_TOKENS = 8
EMBEDDED = "SmolLM2-135M with its own draft"
"""The name of the pair that ships with the project."""
TOO_LARGE = "these models do not fit into the memory of this machine: choose smaller ones"


class Models:
    """A pair stays in memory once it is loaded; of those that a visitor typed, only the last one
    does."""

    def __init__(
        self,
        load: Callable[[PairChoice], Pair],
        choices: Sequence[PairChoice] = (),
        *,
        own: bool = True,
    ) -> None:
        """
        choices  the first is there from the beginning; none: the embedded pair
        own      whether others may be named, by path or Hub id
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
        """The pair of that name, '' for the first; raises InvalidInput for one that is not
        offered."""
        if not name:
            return self.choices[self.first]
        if isinstance(name, str) and name in self.choices:
            return self.choices[name]
        if self.own and isinstance(name, str):
            return typed(name)
        raise InvalidInput(
            f"{str(name)[:80]} is not offered here; choose one of: {', '.join(self.choices)}"
        )

    def start(self) -> None:
        """Load the first pair in the background; all of them, and at once, where the GPU is lent to
        other processes only."""
        for name in self.choices if ZERO else (self.first,):
            wanted = self.ask(name)
            if ZERO:
                wanted.exception()

    def ask(self, name: str) -> Future[Pair]:
        """The pair of that name, or what will be it; one that failed to load is tried again."""
        choice = self.choice(name)
        with self._lock:
            known = self._loading.get(choice.name)
            if known is not None and not (known.done() and known.exception()):
                return known
            for other in set(self._loading) - set(self.choices):
                del self._loading[other]
            wanted = self._loading[choice.name] = Future()
        threading.Thread(
            target=self._run, args=(choice, wanted), name="load-models", daemon=True
        ).start()
        return wanted

    def _run(self, choice: PairChoice, wanted: Future[Pair]) -> None:
        try:
            import_core()
            pair = self._load(choice)
            if not ZERO:
                _warm_up(pair)
            wanted.set_result(pair)
        except OuroborosError as error:
            log.error("the models could not be loaded: %s", error)
            wanted.set_exception(error)
        except BaseException as error:
            reason = (
                describe(error, TOO_LARGE) if isinstance(error, Exception) else type(error).__name__
            )
            wanted.set_exception(InvalidInput(reason))

    def there(self, name: str = "") -> Pair | None:
        """The pair, if it is in memory."""
        known = self._loading.get(self.choice(name).name)
        return (
            known.result() if known is not None and known.done() and not known.exception() else None
        )

    def loaded(self, name: str) -> Pair:
        """The pair that is in memory."""
        pair = self.there(name)
        assert pair is not None, "a pair is loaded before it is used"
        return pair

    @property
    def ready(self) -> bool:
        """Whether the first pair is no longer loading."""
        known = self._loading.get(self.first)
        return known is not None and known.done()

    @property
    def health(self) -> str:
        """loading, ready, or failed."""
        if not self.ready:
            return "loading"
        return "ready" if self.there() else "failed"

    async def until_ready(self) -> None:
        """Polls, because a thread a visitor would be too many."""
        while not self.ready:
            await asyncio.sleep(0.5)

    def state(self, name: str = "") -> str:
        """Loading, ready, or what went wrong, in a sentence."""
        try:
            wanted = self.choice(name).name
        except InvalidInput as error:
            return str(error)
        known = self._loading.get(wanted)
        if known is None and wanted != self.first:
            return "These models will be loaded when you first run something with them."
        if known is None or not known.done():
            return "Loading the models; meanwhile, this run was recorded earlier."
        if known.exception() is not None:
            return f"The models could not be loaded: {known.exception()}"
        pair = known.result()
        beside = ", ".join(pair.beside) or "no draft model"
        return f"Ready: {pair.target.name} with {beside}, on {pair.environment.where}."

    def check_draft(self, pair: str, draft: str) -> None:
        """Raise InvalidInput for a draft, by path or Hub id, that a sweep with this pair may not
        load."""
        target = self.choice(pair).target
        offered = {
            "none",
            *(
                choice.draft
                for choice in self.choices.values()
                if choice.target == target and choice.draft
            ),
        }
        there = self.there(pair)
        if there is not None and there.draft_name is not None:
            offered.add(there.draft_name)
        if not self.own and draft not in offered:
            raise InvalidInput(
                f"the draft {draft[:80]} is not offered here; choose one of: "
                + ", ".join(sorted(offered))
            )


_IMPORTING = threading.Lock()


def import_core() -> None:
    """Import what computes, in one thread at a time: a visitor may ask while the models' thread
    imports transformers, whose lazy modules fail where two threads import them at once."""
    with _IMPORTING:
        importlib.import_module("ouroboros_core.decoding.generation")


def _warm_up(pair: Pair) -> None:
    """A few tokens, so that the first visitor's clock measures no first calls; none with a
    tokenizer that cannot read the word."""
    from ouroboros_core.decoding.generation import Generation, Task, lacking

    for method in methods.available().values():
        settings = method.Hyperparameters()
        if lacking(pair, method, settings) is None:
            task = Task("Hello", method.id, settings, Sampling(), WARM_UP_TOKENS, chat=False)
            with contextlib.suppress(InvalidInput):
                Generation(pair, task).run()
