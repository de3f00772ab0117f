"""Many visitors at once: python -m tests.journeys.load [--clients 8] [--runs 300] [--json FILE]

Locust drives the visitors of a real server. A third of the runs are stopped or left, one in ten has
bad input, and more come at once than the queue holds. Each text that ends must be the text of plain
decoding of the same inputs, asked for without other visitors. The exit status is 1 after a failure.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gevent
import psutil
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.needs import Need
from tests import ROOT
from tests.browser import server
from tests.calls import API, Page, Refused, follow, opened

COUNTS, STOPPED_COUNT = (8, 16, 32), 96
"""New tokens of a run; new tokens of a run that is stopped, enough that it does not end before."""
PROMPTS = (
    "Why is the sky blue?",
    "def fibonacci(n):\n",
    "Once upon a time, by the sea,",
    "猫 – Schön! 🐈 In Japanese:",
)
SAMPLINGS = [
    {"temperature": t, "seed": s, "top_k": k, "top_p": p}
    for t, s, k, p in ((0, 0, 0, 1), (0.7, 1, 40, 1), (1, 2, 0, 0.9))
]
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no such method": ({"method": "magic"}, "method must be one of"),
    "setting out of range": ({"method": "speculative", "knobs": {"gamma": 999}}, "gamma must be"),
    "no such setting": ({"method": "sam", "knobs": {"x": 1}}, "x is not a setting"),
    "settings of a wrong type": ({"method": "speculative", "knobs": [1, 2]}, "settings"),
    "empty prompt": ({"prompt": ""}, "prompt"),
    "prompt of a wrong type": ({"prompt": 17}, "prompt"),
    "too many tokens": ({"max_new_tokens": 5000}, "max_new_tokens must be"),
    "temperature out of range": ({"temperature": 9.0}, "temperature must be"),
}
"""Wrong inputs, and words that the answer must have."""
FULL = "the queue is full"
LOST = 300
"""Seconds after which a run without an end is lost."""
MAX_GROWTH = 150
"""Megabytes by which the server may grow after the warm-up: remembered runs and the allocator."""


@dataclass(frozen=True)
class Run:
    """end: `finish`, `stop`, `close` or a key of BAD; patience: updates until it is stopped."""

    end: str
    inputs: dict[str, Any]
    patience: int = 0

    @property
    def plain(self) -> dict[str, Any]:
        """Inputs of plain decoding, which must give the same text."""
        plain = {"method": "autoregressive", "knobs": {}, "compare": False, "record": False}
        return self.inputs | plain | {"prediction": ""}

    @property
    def key(self) -> str:
        return json.dumps(self.plain, sort_keys=True)


def settings_of(method: Any, rng: random.Random) -> dict[str, Any]:
    """Return some cheap settings of a method, or none if the drawn ones exclude each other."""
    drawn: dict[str, Any] = {}
    for name, setting in method.Hyperparameters.settings().items():
        if rng.random() < 0.4:
            low, high = setting.low, setting.high or 0
            numbers = () if low is None else (low, min(high, low + 5), setting.default)
            texts = setting.choices or (setting.grammar.samples if setting.grammar else ())
            drawn[name] = rng.choice(numbers or texts or (True, False))
    try:
        method.Hyperparameters.parse(drawn)
    except InvalidInput:
        return {}
    return drawn


def plan(runs: int, seed: int, counts: Sequence[int] = COUNTS) -> list[Run]:
    """Return runs of all methods that write the target's text: a third to be stopped or closed, a
    tenth with bad inputs."""
    rng = random.Random(seed)
    left_out = {"draft_only", "hf_candidates"}
    able = [method for name, method in methods.available().items() if name not in left_out]
    ends = [*(["stop", "close"] * runs)[: runs // 3], *([*BAD] * runs)[seed:][: runs // 10]]
    ends += ["finish"] * (runs - len(ends))
    rng.shuffle(ends)
    planned = []
    for number, end in enumerate(ends):
        method = able[number % len(able)]
        count = STOPPED_COUNT if end in ("stop", "close") else rng.choice(counts)
        inputs: dict[str, Any] = {"prompt": rng.choice(PROMPTS), "max_new_tokens": count}
        inputs |= {"acceptance": "match", "chat": rng.random() < 0.5, **rng.choice(SAMPLINGS)}
        inputs |= {"method": method.id, "knobs": settings_of(method, rng)}
        inputs |= {name: rng.random() < 0.3 for name in ("compare", "record")}
        if Need.PREDICTED_OUTPUT in method.uses and rng.random() < 0.3:
            inputs["prediction"] = "The sky is blue because"
        inputs |= BAD[end][0] if end in BAD else {}
        planned.append(Run(end, inputs, rng.choice((0, 1, 1, 2, 4))))
    return planned


def judge(run: Run, value: Any, text: str) -> str:
    """Return `finished` if the last value of a run is right, else `failed: ` and the reason."""
    trace, inputs = value["trace"], run.inputs
    settings = {name: trace["hyperparameters"].get(name) for name in inputs["knobs"]}
    compared = inputs["compare"] and inputs["method"] != "autoregressive"
    facts = {
        "text": (value["text"], text),
        "prompt": (trace["prompt"]["text"], inputs["prompt"]),
        "method": (trace["method"], inputs["method"]),
        "settings": (settings, inputs["knobs"]),
        "identical": (value["identical"], True if compared else None),
    }
    wrong = [f"{name} is {a!r}, not {b!r}" for name, (a, b) in facts.items() if a != b]
    return f"failed: {'; '.join(wrong)}" if wrong else "finished"


@dataclass
class Visits:
    """The runs that are left, and the ends of the others; all visitors share it."""

    page: Page
    left: list[Run]
    texts: dict[str, str]
    """Texts of plain decoding by `Run.key`."""
    ends: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: list[tuple[int, float]] = field(default_factory=list)
    """Runs that have ended, and the server's megabytes then."""

    def visit(self, run: Run, session: str) -> str:
        """Carry out one run; a run that finds the queue full is repeated."""
        try:
            end = self._perform(run, session)
            while FULL in end:
                self.page.times_full += 1
                time.sleep(0.25)
                end = self._perform(run, session)
        except (Refused, OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            end = f"failed: {type(error).__name__}: {str(error)[:300]}"
        if end.startswith("failed"):
            self.failures.append(f"{end} ({run})")
        self.ends.append("failed" if end.startswith("failed") else end)
        return end

    def _perform(self, run: Run, session: str) -> str:
        """Return how a run ended: finished, stopped, closed, refused; or failed, and why."""
        event = self.page.join(run.inputs, session)
        updates, stopped, deadline = 0, False, time.monotonic() + LOST
        with closing(follow(self.page.url, event, session)) as messages:
            for stage, value in messages:
                updates += stage == "working"
                if run.end == "close" and updates >= run.patience:
                    return "closed"
                if run.end == "stop" and updates >= run.patience and not stopped:
                    cancelled = {"session_hash": session or event, "event_id": event}
                    cancelled |= {"fn_index": self.page.index}
                    stopped = bool(self.page.send("POST", f"{API}/cancel", cancelled))
                if stage == "complete":
                    return "stopped" if stopped and not value else self._ended(run, value)
                if stage == "error":
                    words = str(value.get("error") if isinstance(value, dict) else value)
                    as_planned = run.end in BAD and BAD[run.end][1] in words
                    return f"refused: {run.end}" if as_planned else f"failed: {words}"
                if time.monotonic() > deadline:
                    return f"failed: no end within {LOST} seconds"
        return "failed: the stream ended before the run"

    def _ended(self, run: Run, value: Any) -> str:
        if run.end in BAD:
            return "failed: it was not refused"
        if run.key not in self.texts:  # it ended before it was stopped
            self.texts[run.key] = self.page.ask(run.plain)["text"]
        return judge(run, value, self.texts[run.key])


def visitor(visits: Visits) -> type[User]:
    """Return the class of a visitor; every other one is a browser and has a session."""

    class Visitor(User):
        count = 0

        def on_start(self) -> None:
            type(self).count += 1
            self.session = f"visitor-{self.count}" if self.count % 2 else ""

        @task
        def ask(self) -> None:
            if not visits.left:
                raise StopUser
            end = visits.visit(visits.left.pop(), self.session)
            if end == "closed" and self.session:
                self.session += "."

    return Visitor


def watch(visits: Visits, process: psutil.Process, environment: Environment) -> None:
    """Ask for two pages each second, and note the server's memory."""
    while True:
        for target in ("/", "/healthz"):
            start = time.monotonic()
            error = None
            try:
                with opened(visits.page.url, "GET", target) as answer:
                    answer.read()
                if answer.status != 200:
                    error = f"GET {target}: {answer.status}"
            except (OSError, HTTPException) as exception:
                error = f"GET {target}: {exception!r}"
            visits.failures += [error] if error else []
            took = 1000 * (time.monotonic() - start)
            told: dict[str, Any] = {"request_type": "GET", "name": target, "response_time": took}
            told |= {"response_length": 0, "exception": None, "context": {}}
            environment.events.request.fire(**told)  # type: ignore[no-untyped-call]
        visits.memory.append((len(visits.ends), process.memory_info().rss / 2**20))
        gevent.sleep(1)


def memory_figures(visits: Visits, warm: int) -> dict[str, float]:
    """Return megabytes after the first `warm` runs and after each 50, and the growth since."""
    sizes = {
        mark: statistics.median([size for done, size in visits.memory if done >= mark][:5])
        for mark in sorted({warm, *range(50, len(visits.ends), 50)})
    }
    end = statistics.median([size for _, size in visits.memory][-5:])
    growth = end - sizes[warm]
    if growth > MAX_GROWTH:
        visits.failures.append(f"the server grew by {growth:.0f} MB, more than {MAX_GROWTH}")
    marks = {f"after {mark} runs": size for mark, size in sizes.items()}
    return marks | {"at the end": end, "growth": growth}


def facts(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment of the figures."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    described = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    more = {"gradio": version("gradio"), "cores": psutil.cpu_count()}
    return {**trace["environment"], **more, "commit": described.stdout.strip()}


def process_of(url: str) -> psutil.Process:
    """Return the server of that address, a child of this process."""
    port, children = url.rpartition(":")[2], psutil.Process().children(recursive=True)
    return next(child for child in children if port in child.cmdline())


def measure(url: str, clients: int, runs: list[Run]) -> dict[str, Any]:
    """Carry out the runs on a server whose queue is shorter than the number of clients."""
    page = Page(url)
    finishing = {run.key: run.plain for run in runs if run.end == "finish"}
    last = next(run for run in runs if run.end == "finish")
    texts = {key: page.ask(inputs)["text"] for key, inputs in finishing.items()}
    visits = Visits(page, runs[::-1], texts)
    environment = Environment(user_classes=[visitor(visits)])
    runner = environment.create_local_runner()
    watcher = gevent.spawn(watch, visits, process_of(url), environment)
    start = time.monotonic()
    runner.start(clients, spawn_rate=clients)
    while len(visits.ends) < len(runs) and time.monotonic() - start < LOST * len(runs):
        gevent.sleep(0.1)
    seconds = time.monotonic() - start
    runner.quit()
    watcher.kill()
    value = page.ask(last.inputs)
    end = judge(last, value, visits.texts[last.key])
    visits.failures += [f"the click after the last {end}"] if end != "finished" else []
    pages = {}
    for entry in environment.stats.entries.values():
        seen = {"times": entry.num_requests, "median": entry.median_response_time}
        seen |= {"p95": entry.get_response_time_percentile(0.95), "max": entry.max_response_time}
        pages[entry.name] = seen
    ends = dict(sorted(Counter(visits.ends).items()))
    found = {"clients": clients, "runs": len(runs), "seconds": seconds, "ends": ends}
    found |= {FULL: page.times_full, "memory MB": memory_figures(visits, min(40, len(runs) // 4))}
    found |= {"page milliseconds": pages, "failures": visits.failures}
    return {**found, "environment": facts(value["trace"])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, number in (("clients", 8), ("runs", 300), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)), help="new tokens of runs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.counts.split(",")]
    figures: dict[str, Any] = {}
    try:
        with server("--dtype", "float32", "--max-queue", str(max(1, arguments.clients - 3))) as url:
            runs = plan(arguments.runs, arguments.seed, counts)
            figures = measure(url, arguments.clients, runs)
    except AssertionError as error:  # of a traceback in the server's log
        if not figures:
            raise
        figures["failures"].append(f"the server's log: {error}"[:3000])
    text = json.dumps(figures, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    return bool(figures["failures"])


if __name__ == "__main__":
    sys.exit(main())
