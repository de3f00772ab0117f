"""The runs of one visitor: every browser session has its own."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task, check_kept
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import Memory, of_kind, read_memory
from ouroboros_core.messages import counted
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.file import MAX_BYTES
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Step, Trace
from visualize.server.jobs import Update, Waiting
from visualize.watch.job import Compared, Finished, Progress, Started, Written

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

NOTHING = (
    "There is nothing yet that this method has learned with these settings: switch warm start on, "
    "and generate."
)
RUNNING = "A run is under way, and learns: wait until it has ended."
WRITING = "Your run is under way, and stays: stop it in Watch, or wait until its text is complete."


@dataclass
class Order:
    """A run that a visitor asked for.

    warm     whether it starts with what earlier runs have left
    run      name of the run on the screen; empty until it is there
    written  whether its text is complete
    failed   whether an error ended it
    """

    task: Task
    pair: str = ""
    warm: bool = False
    run: str = ""
    written: bool = False
    failed: bool = False


@dataclass
class Session:
    """The runs of one visitor.

    memories    for a warm start, by method, shape and tokenizer
    order       the run under way
    timing      the updates that are still to come of the run that is shown
    last_order  the last run that began
    made        the order of the run in Watch; None if Watch shows another run
    begun, steps, texts, pieces           of a run that has not ended
    trace, baseline, difference, speedup  what Watch shows
    previewing  whether Watch shows a recorded run
    recorded    name of the recorded run in Watch; empty for another run
    fault       why the last run that was asked for has failed
    """

    memories: dict[Any, Memory] = field(default_factory=dict)
    order: Order | None = None
    last_order: Order | None = None
    made: Order | None = None
    begun: Trace | None = None
    steps: list[Step] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pieces: dict[int, str] = field(default_factory=dict)
    trace: Trace | None = None
    baseline: Trace | None = None
    difference: Divergence | None = None
    speedup: Speedup | None = None
    previewing: bool = False
    timing: Generator[Update, None, None] | None = None
    recorded: str = ""
    fault: str = ""

    def begin(self, begun: Trace) -> None:
        self.show(None, None)
        self.begun = begun

    def grow(self, steps: Sequence[Step], texts: Sequence[str], pieces: Mapping[int, str]) -> None:
        self.steps += steps
        self.texts += texts
        self.pieces |= pieces

    @property
    def writing(self) -> bool:
        """Whether the text of a run that was asked for is not complete."""
        return self.order is not None and not self.order.written

    def place(self, order: Order) -> None:
        """Ask for a run; from now on updates of any other run are ignored."""
        self.order, self.timing = order, None

    def take(self, update: Update, order: Order) -> None:
        """Take over an update of a run, unless the visitor has left the run."""
        if self.order is not order:
            return
        match update:
            case Waiting(name=name):
                order.run = name
            case Started():
                order.run, self.last_order = update.name, order
                self.begin(update.trace)
                self._learn(update.trace.method, update.memory)
            case Progress():
                self.grow(update.new_steps, update.new_texts, update.pieces)
            case Written():
                order.written = True
                self.show(update.trace, None)
                self._learn(update.trace.method, update.memory)
            case Compared():
                self.show(update.trace, update.baseline, update.difference, update.speedup)
            case Finished():
                self.order = self.timing = None
                self.show(update.trace, update.baseline, update.difference, update.speedup)
                self._learn(update.trace.method, update.memory)
        if not isinstance(update, Waiting):
            self.made = order

    def _learn(self, method: str, memory: Memory | None) -> None:
        if memory is not None:
            self.memories[self._memory_key(method, memory)] = memory

    def leave(self) -> Order | None:
        """Leave the run under way, which was stopped or has failed; its text so far stays."""
        order, self.order = self.order, None
        return order

    def fail(self, message: str) -> None:
        self.fault = message
        if self.order is not None:
            self.order.failed = True

    def memory(self, task: Task, pair: Pair) -> Memory | None:
        """Return the memory of earlier runs with these settings and tokenizer, or a new one.

        None for a method without memory.
        """
        fresh = methods.get(task.method).new_memory(task.hyperparameters, pair.fingerprint)
        if fresh is None:
            return None
        return self.memories.get(self._memory_key(task.method, fresh), fresh)

    def memory_file(self, task: Task, pair: Pair) -> dict[str, Any]:
        """Return name, type and text of the file of the memory of these settings, which `--memory`
        loads as well, and what to say of it; raises InvalidInput."""
        self._check_idle(task)
        memory = self.memory(task, pair)
        if memory is None or not memory.runs:
            raise InvalidInput(NOTHING)
        return {
            "said": f"{memory.holds} after {counted(memory.runs, 'run')}",
            "name": f"{task.method}-memory.json",
            "type": "application/json",
            "text": memory.to_json(),
        }

    def open_memory(self, task: Task, pair: Pair, text: str) -> str:
        """Remember the text of a file, and return what to say; raises InvalidInput."""
        if len(text) > MAX_BYTES:
            raise InvalidInput(f"the file has {len(text):,} characters, allowed are {MAX_BYTES:,}")
        memory = read_memory(text, pair.fingerprint)
        self._check_idle(task)
        self.remember(task, pair, memory)
        runs = counted(memory.runs, "run")
        return f"{memory.holds} after {runs}. The next run begins with it."

    def _check_idle(self, task: Task) -> None:
        """Raise InvalidInput if a run learns now, or the method never does."""
        if Need.MEMORY not in methods.get(task.method).uses:
            raise InvalidInput(
                f"{task.method} keeps nothing from run to run: choose another method."
            )
        if self.order is not None:
            raise InvalidInput(RUNNING)

    def remember(self, task: Task, pair: Pair, memory: Memory) -> None:
        """Start the next warm runs of such a task with a memory.

        Raises InvalidInput if it is of another kind, other settings or another tokenizer.
        """
        fresh = methods.get(task.method).new_memory(task.hyperparameters, pair.fingerprint)
        assert fresh is not None, "the method has a memory"
        of_kind(memory, type(fresh))
        check_kept(memory, pair)
        if memory.shape != fresh.shape:
            raise InvalidInput(
                f"the {memory.holds} was made with other settings: n-grams of {memory.shape} "
                f"tokens, but these settings have {fresh.shape}"
            )
        self._learn(task.method, memory)

    @staticmethod
    def _memory_key(method: str, memory: Memory) -> tuple[str, Hashable, str]:
        return method, memory.shape, memory.fingerprint

    def open(
        self,
        trace: Trace,
        baseline: Trace | None,
        speedup: Speedup | None = None,
        recorded: str = "",
    ) -> None:
        """Show another run than the last one that was asked for; raises InvalidInput as long as the
        text of that one is not complete."""
        if self.writing:
            raise InvalidInput(WRITING)
        self.order = self.timing = None
        self.show(trace, baseline, speedup=speedup, recorded=recorded)

    def show(
        self,
        trace: Trace | None,
        baseline: Trace | None,
        difference: Divergence | None = None,
        speedup: Speedup | None = None,
        *,
        recorded: str = "",
    ) -> None:
        """Show a finished run, or nothing; recorded: its name, if it is a recorded one."""
        self.recorded = recorded
        self.made = None
        self.previewing = False
        self.begun, self.steps, self.texts, self.pieces = None, [], [], {}
        self.trace, self.baseline, self.difference = trace, baseline, difference
        self.speedup = speedup

    def preview(self, name: str, trace: Trace, baseline: Trace | None) -> bool:
        """Show a recorded run, unless the visitor has made or opened one; return whether."""
        if self.order or self.last_order or (self.shown and not self.previewing):
            return False
        self.show(trace, baseline, recorded=name)
        self.previewing = True
        return True

    @property
    def shown(self) -> tuple[Trace, Trace | None] | None:
        """Return the run in Watch and its plain run; None while Watch shows the first one."""
        if self.trace is not None:
            return self.trace, self.baseline
        if self.begun is None:
            return None
        pieces = dict(sorted(self.pieces.items()))
        return replace(
            self.begun, steps=tuple(self.steps), texts=tuple(self.texts), pieces=pieces
        ), None
