"""Several processes, on one machine or on several, that do the work of one measurement.

All they have of each other is a folder beside the output, on a file system that all of them see: a
file of each process, whose time tells that it lives, and a file of each unit of work, which one of
them was the first to make. None waits in a collective operation of torch, so that one that is lost
stops nobody: what it had begun is taken over, what it had finished is in its own store.

Files are made with O_EXCL and replaced by a rename, which are atomic on local and network file
systems alike; times are compared as the file system itself writes them, whatever the machines'
clocks say.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from ouroboros_core.errors import InvalidInput

BEAT_S = 5.0
"""How often a process tells that it lives; outside of the main thread, and far less than a
millisecond."""
LOST_S = 90.0
"""A process of another machine that has said nothing for so long is lost. Network file systems may
keep a file's time back for a minute."""
JOIN_S = 600.0
"""So long the others wait for a process that has not come."""
POLL_S = 0.5
JOINED, OPENED, DONE, STOPPED = "joined", "opened", "done", "stopped"


@dataclass(frozen=True)
class Worker:
    """One process, as its file tells.

    token       of this start of it; one that was started anew has another
    place       the machine since it was booted, and the space of its process ids; empty where it
                cannot be known
    state       joined; opened when it has its store and can begin; done when it needs nothing more;
                stopped when it ended before that
    conditions  what it measures, and on what, once it has opened
    met         tokens of those that it has met
    """

    rank: int
    token: str
    host: str
    place: str
    pid: int
    state: str = JOINED
    conditions: dict[str, Any] | None = None
    met: tuple[str, ...] = ()


class Workers:
    """This process among the others."""

    def __init__(self, folder: Path, rank: int, count: int) -> None:
        """Joins the others in a folder, which the first of them makes."""
        self.folder, self.count = folder, count
        self.me = Worker(rank, uuid.uuid4().hex, socket.gethostname(), _place(), os.getpid())
        folder.mkdir(exist_ok=True)
        self._write()
        self._ended = threading.Event()
        threading.Thread(target=self._beat, name="ouroboros-alive", daemon=True).start()

    def _file(self, rank: int) -> Path:
        return self.folder / f"process-{rank}.json"

    def _write(self, **change: Any) -> None:
        self.me = replace(self.me, **change)
        scratch = self.folder / f"{self.me.token}.writing"
        scratch.write_text(json.dumps(asdict(self.me)), encoding="utf-8")
        scratch.replace(self._file(self.me.rank))

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            with contextlib.suppress(OSError):
                os.utime(self._file(self.me.rank))

    def there(self) -> list[Worker]:
        """The processes that live and are not done, this one among them, in the order of their
        ranks."""
        return [worker for worker in self._known() if worker.state != DONE]

    def _known(self) -> list[Worker]:
        """Those that live, and those that are done."""
        with contextlib.suppress(FileNotFoundError):
            now = self._now()
            read = (self._read(rank) for rank in range(self.count))
            return [one for one, at in filter(None, read) if self._lives(one, now - at)]
        return []

    def _now(self) -> float:
        """The time as the file system writes it, on this process's file; raises FileNotFoundError
        where that is gone."""
        own = self._file(self.me.rank)
        os.utime(own)
        return own.stat().st_mtime

    def _read(self, rank: int) -> tuple[Worker, float] | None:
        """A process's file and its time; None where there is none. Opened anew each time, so that a
        network file system asks its server."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._file(rank).open(encoding="utf-8") as file,
        ):
            return Worker(**json.load(file)), os.fstat(file.fileno()).st_mtime
        return None

    def _lives(self, worker: Worker, silent: float) -> bool:
        if worker.state in (DONE, STOPPED):
            return worker.state == DONE
        if worker.place and worker.place == self.me.place:
            return _runs(worker.pid)
        return silent < LOST_S

    def meet(self, conditions: dict[str, Any]) -> None:
        """Wait until all processes have opened their stores, so that a file of a fast one is not
        taken for one of an earlier measurement; raises InvalidInput where they measure under
        different conditions.

        One that has met this process is waited for no longer: it may be done with all there was to
        do, and gone, before this one looks again."""
        plain = json.loads(json.dumps(conditions))
        self._write(state=OPENED, conditions=plain)
        begun = time.monotonic()
        while not self.cleared():
            there = self.there()
            for other in there:
                if other.conditions is not None:
                    self._agree(plain, other)
            came = {one.rank for one in there} | self._have_met_this()
            late = len(came) < self.count and time.monotonic() - begun < JOIN_S
            if not late and all(one.state == OPENED for one in there):
                with contextlib.suppress(FileNotFoundError):  # all is done and cleared away
                    self._write(met=tuple(one.token for one in there))
                return
            time.sleep(POLL_S)

    def _have_met_this(self) -> set[int]:
        """Ranks of those that have met this process, whatever has become of them."""
        read = filter(None, (self._read(rank) for rank in range(self.count)))
        return {one.rank for one, _ in read if self.me.token in one.met}

    def _agree(self, mine: dict[str, Any], other: Worker) -> None:
        assert other.conditions is not None
        theirs = other.conditions
        for name, value in _flat(mine).items():
            found = _flat(theirs).get(name)
            if found != value:
                raise InvalidInput(
                    f"process {other.rank} on {other.host} has {name} {found}, process "
                    f"{self.me.rank} on {self.me.host} has {value}: numbers of different machines "
                    "or programs cannot stand in one table; take machines of one kind, or measure "
                    "on each into a file of its own"
                )

    def take(self, number: int) -> bool:
        """Whether a unit of work is this process's from now on: nobody has taken it before."""
        return self._make(self.folder / f"{number}.taken")

    def take_over(self, number: int, owner: str) -> bool:
        """Whether a unit of a process that is lost is this process's from now on."""
        return self._make(self.folder / f"{number}.after-{owner}")

    def _make(self, path: Path) -> bool:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(self.me.token)
        except (FileExistsError, FileNotFoundError):  # another's, or all is done and cleared away
            return False
        return True

    def lost(self) -> dict[int, str]:
        """Units whose process lives no longer, or has left: by number, its token."""
        found: dict[int, str] = {}
        with contextlib.suppress(FileNotFoundError):  # all is done and cleared away
            alive, now = {worker.token for worker in self.there()}, self._now()
            for path in list(self.folder.glob("*.taken")):
                number = int(path.stem)
                owner, since = self._owner(number, path)
                if owner not in alive and (owner or now - since > LOST_S):
                    found[number] = owner
        return found

    def _owner(self, number: int, path: Path) -> tuple[str, float]:
        """The token of the last process that took a unit, empty where it was lost between making
        the file and writing into it; and when that was, as the file system writes it. Raises
        FileNotFoundError where all is cleared away."""
        while True:
            owner = path.read_text(encoding="utf-8")
            later = self.folder / f"{number}.after-{owner}"
            if not later.exists():
                return owner, path.stat().st_mtime
            path = later

    def all_others_done(self) -> bool:
        """Whether every other process has said so; raises InvalidInput where one was lost, or
        stopped by an error or by Ctrl-C."""
        known = {worker.rank: worker for worker in self._known()}
        gone = [rank for rank in range(self.count) if rank not in known]
        if gone:
            raise InvalidInput(
                f"process {gone[0]} was lost or stopped: what is done is kept, and --resume goes "
                "on with the same number of processes (what is kept warm belongs to each of them, "
                "so that no other one may take its questions over)"
            )
        return all(one.state == DONE for rank, one in known.items() if rank != self.me.rank)

    def leave(self, *, done: bool) -> None:
        """Nothing more is to be expected of this process; done: whether nothing more is to be
        done by it, either."""
        if not self._ended.is_set():
            self._ended.set()
            if not self.cleared():
                with contextlib.suppress(OSError):
                    self._write(state=DONE if done else STOPPED)

    def cleared(self) -> bool:
        """Whether another process has brought all together and cleared up. A network file system
        may keep the folder, but this process's file is gone."""
        return not self._file(self.me.rank).exists()

    def clear(self) -> None:
        """All is done and kept elsewhere."""
        self._ended.set()
        shutil.rmtree(self.folder, ignore_errors=True)


def _place() -> str:
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{socket.gethostname()} {booted} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _flat(conditions: dict[str, Any]) -> dict[str, Any]:
    """Conditions by name, those of the environment by their own."""
    found = {name: value for name, value in conditions.items() if name != "environment"}
    found |= conditions.get("environment", {})
    return found
