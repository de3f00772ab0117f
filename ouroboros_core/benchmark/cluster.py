"""Measure a benchmark or a sweep on the workers of a Ray cluster.

A worker is a process that holds the models: one for each GPU, or one for each node without a GPU.
A task is one prompt in one repeat with everything that is compared on it, so that no speedup
compares two machines. The calling process holds no model; it hands out tasks and stores results. A
lost worker stops nobody: another one gets its task.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ouroboros_core.benchmark.runner import Runner
from ouroboros_core.benchmark.store import LeftOut, Measurement, Settings, Store, Unit
from ouroboros_core.errors import InvalidInput

Progress = Callable[[str], None]


Build = Callable[[Path | None, bool], Runner]
"""Loads the models and checks the work; takes the file and whether to resume it."""


@dataclass(frozen=True)
class Opened:
    """A worker that holds its models, and the work that it sees."""

    host: str
    settings: Settings
    total: int
    left_out: list[LeftOut]
    notes: list[str]
    remarks: list[str]


@dataclass(frozen=True)
class Result:
    """The units of a task with their records, and the prompts that cannot be run."""

    units: list[Unit]
    records: list[Measurement]
    left_out: list[LeftOut]


class Worker:
    """A process that holds models; Ray runs it as an actor."""

    def open(self, build: Build) -> Opened:
        self.work = work = build(None, False)
        work.host = socket.gethostname()
        store = work.store
        return Opened(
            work.host, store.settings, work.total, store.left_out, work.notes, work.remarks
        )

    def resume(self, units: Sequence[Unit], left_out: Sequence[LeftOut]) -> list[int]:
        """Take note of earlier results; return the tasks that are left."""
        self.work.store.units = list(units)
        for skipped in left_out:
            self.work.store.leave_out(skipped.question, skipped.turn, skipped.reason)
        return self.work.tasks

    def measure(self, number: int) -> Result:
        store = self.work.store
        units, records = len(store.units), len(store.measurements)
        for _ in self.work.run_task(number):
            pass
        return Result(store.units[units:], store.measurements[records:], store.left_out)


class Cluster:
    """Work that the workers of a cluster share; a `Runner` for the command line."""

    def __init__(self, address: str, build: Build, path: Path | None, resume: bool) -> None:
        """Connect and let every worker load its models.

        address  of a Ray cluster; "auto" for the one that runs here, or for this machine alone

        Raises InvalidInput if Ray is missing or cannot be reached, or if workers differ in machine
        or program.
        """
        self._ray = ray = connect(address)
        self._workers = start_workers(ray)
        opening = [worker.open.remote(build) for worker in self._workers]
        opened: list[Opened] = [self._get(reference) for reference in opening]
        for other in opened[1:]:
            check_alike(opened[0], other)
        first = opened[0]
        self.count, self.total = len(opened), first.total
        self.notes, self.remarks = first.notes, first.remarks
        self.store = Store.open(first.settings, path, resume=resume)
        for skipped in first.left_out:
            self.store.leave_out(skipped.question, skipped.turn, skipped.reason)
        state = self.store.units, self.store.left_out
        resumed = [worker.resume.remote(*state) for worker in self._workers]
        self.tasks: list[int]
        self.tasks, *_ = [self._get(reference) for reference in resumed]

    @property
    def done(self) -> int:
        return len(self.store.units)

    def _get(self, reference: Any) -> Any:
        """Return a worker's answer; an error of a worker is raised as it was there."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayActorError as error:
            raise InvalidInput(f"a worker ended while it loaded its models: {error}") from None

    def run(self, progress: Progress = lambda _: None) -> Iterator[Unit]:
        """Hand out the tasks; each result is stored before its units are yielded. A lost worker's
        task goes to another one; raises InvalidInput if no worker is left."""
        ray, waiting, idle = self._ray, list(reversed(self.tasks)), list(self._workers)
        running: dict[Any, tuple[int, Any]] = {}
        while waiting or running:
            while waiting and idle:
                number, worker = waiting.pop(), idle.pop()
                running[worker.measure.remote(number)] = number, worker
            if not running:
                raise InvalidInput(
                    "all workers were lost: the results are kept, and --resume continues"
                )
            (ready, *_), _ = ray.wait(list(running))
            number, worker = running.pop(ready)
            try:
                result: Result = ray.get(ready)
            except ray.exceptions.RayActorError:
                progress("a worker was lost")
                waiting.append(number)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            idle.append(worker)
            self._keep(result)
            yield from result.units

    def _keep(self, result: Result) -> None:
        self.store.units += result.units
        self.store.measurements += result.records
        for skipped in result.left_out:
            self.store.leave_out(skipped.question, skipped.turn, skipped.reason)
        self.store.save({})

    def close(self) -> None:
        self._ray.shutdown()


def connect(address: str) -> Any:
    """Return the module of Ray, connected to a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # other work must not slow the measured one
    try:
        import ray
    except ImportError:
        raise InvalidInput("--cluster needs Ray: pip install 'ouroboros-core[cluster]'") from None
    try:
        ray.init(None if address == "auto" else address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"no Ray cluster answers at {address} ({error}): start one with `ray start --head`, or "
            "use --cluster auto"
        ) from None
    return ray


def start_workers(ray: Any) -> list[Any]:
    """Start a worker for each GPU of each node, or one for a node without a GPU."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    workers = []
    for node in ray.nodes():
        gpus, cpus = (int(node["Resources"].get(kind, 0)) for kind in ("GPU", "CPU"))
        if not node["Alive"] or not (gpus or cpus):
            continue
        actor = ray.remote(Worker).options(
            num_gpus=1 if gpus else 0,
            num_cpus=cpus // max(1, gpus),
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        )
        workers += [actor.remote() for _ in range(max(1, gpus))]
    if not workers:
        raise InvalidInput("the Ray cluster has no node with a CPU or a GPU")
    return workers


def check_alike(first: Opened, other: Opened) -> None:
    """Raise InvalidInput if two workers measure under different conditions."""
    expected, actual = (_flat(asdict(opened.settings)) for opened in (first, other))
    for name, value in expected.items():
        if actual.get(name) != value:
            raise InvalidInput(
                f"the worker on {other.host} has {name} {actual.get(name)}, the one on "
                f"{first.host} has {value}: numbers of different machines or programs cannot stand "
                "in one table; use machines of one kind, or measure on each into its own file"
            )


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings by name, the fields of the environment among them."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    plain.update(plain.pop("environment", {}))
    return plain
