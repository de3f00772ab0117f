"""Many visitors at once, for a while: make soak.

python -m scripts.soak [--clients 8] [--runs 300] [--seed 0] [--json FILE]

A real server, real HTTP. A third of the runs are stopped or left, one in ten is asked with bad
input, more come at once than the queue holds. Every text that ends must be that of plain decoding
of the same inputs, asked for alone. The exit status tells.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from ouroboros_core import methods
from ouroboros_core.methods.parts.needs import Need
from scripts.payloads import API, PROMPTS, SAMPLINGS, follow, opened, settings_of
from tests import ROOT
from tests.browser import server

COUNTS, STOPPED_COUNT = (8, 16, 32), 96
"""New tokens of a run; of one that is stopped so many that it is not over before."""
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no such method": ({"method": "magic"}, "method must be one of"),
    "setting out of range": ({"method": "speculative", "knobs": {"gamma": 999}}, "gamma must be"),
    "no such setting": (
        {"method": "speculative", "knobs": {"nonsense": 1}},
        "nonsense is not a setting",
    ),
    "settings of a wrong type": ({"method": "speculative", "knobs": [1, 2]}, "settings"),
    "empty prompt": ({"prompt": ""}, "prompt"),
    "prompt of a wrong type": ({"prompt": 17}, "prompt"),
    "too many tokens": ({"max_new_tokens": 5000}, "max_new_tokens must be"),
    "temperature out of range": ({"temperature": 9.0}, "temperature must be"),
}
"""What is wrong, and the words that the answer must have."""
FULL, FULL_WORDS = "told that the queue is full", "the queue is full"
LOST = 300
"""Seconds after which a run that has not ended is lost."""
MOST_GROWTH = 150
"""Megabytes of the server after the warm-up, for remembered plain runs and the allocator's."""


class Refused(Exception):
    """An answer that is no 200: (status, what it says)."""


class Page:
    """The server as a program sees it. Without a session runs are asked for as curl does, with one
    as a browser does."""

    def __init__(self, url: str) -> None:
        self.url, self.full = url, list[Any]()
        while self.send("GET", "/healthz")["status"] == "loading":
            time.sleep(0.2)
        self.config = self.send("GET", "/config")
        parameters = self.send("GET", f"{API}/info")["named_endpoints"]["/generate"]["parameters"]
        self.defaults = {one["parameter_name"]: one.get("parameter_default") for one in parameters}
        self.index = next(
            one["id"] for one in self.config["dependencies"] if one["api_name"] == "generate"
        )

    def send(self, verb: str, target: str, content: Any = None) -> Any:
        """The JSON that is answered; raises Refused."""
        with opened(
            self.url, verb, target, b"" if content is None else json.dumps(content).encode()
        ) as answer:
            said = answer.read()
        if answer.status != 200:
            raise Refused(answer.status, said.decode(errors="replace"))
        return json.loads(said)

    def join(self, inputs: Mapping[str, Any], session: str = "") -> str:
        """The id of a new run; where the queue is full, it is asked for again a little later.
        Raises Refused."""
        content: dict[str, Any] = {
            "data": [inputs.get(name, default) for name, default in self.defaults.items()]
        }
        content |= {"fn_index": self.index, "session_hash": session} if session else {}
        while True:
            try:
                return str(
                    self.send(
                        "POST", f"{API}/{'queue/join' if session else 'call/generate'}", content
                    )["event_id"]
                )
            except Refused as error:
                if error.args[0] != 503 or "queue is full" not in error.args[1].lower():
                    raise
            self.full.append(content)
            time.sleep(0.5)

    def ask(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The last value of a run; raises Refused."""
        *_, (stage, value) = follow(self.url, self.join(inputs), "")
        if stage != "complete":
            raise Refused(200, str(value))
        result: dict[str, Any] = value
        return result


@dataclass(frozen=True)
class Run:
    """end: `finish`, `stop`, `close`, or what is wrong with the inputs; patience: updates until it
    is stopped."""

    end: str
    inputs: dict[str, Any]
    patience: int = 0

    @property
    def plain(self) -> dict[str, Any]:
        """Inputs of the run whose text must be the same."""
        return self.inputs | {
            "method": "autoregressive",
            "knobs": {},
            "compare": False,
            "record": False,
            "prediction": "",
        }

    @property
    def key(self) -> str:
        return json.dumps(self.plain, sort_keys=True)


def plan(runs: int, seed: int, counts: Sequence[int] = COUNTS) -> list[Run]:
    """Runs of all methods that write the target's text, a third of them to be stopped and a tenth
    wrong."""
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
        planned.append(
            Run(end, inputs | (BAD[end][0] if end in BAD else {}), rng.choice((0, 1, 1, 2, 4)))
        )
    return planned


def judge(run: Run, value: Any, text: str) -> str:
    """Finished, if the last value of a run is what it ought to be; else failed, and why."""
    trace, inputs = value["trace"], run.inputs
    facts = {
        "text": (value["text"], text),
        "prompt": (trace["prompt"]["text"], inputs["prompt"]),
        "method": (trace["method"], inputs["method"]),
        "knobs": (
            {name: trace["hyperparameters"].get(name) for name in inputs["knobs"]},
            inputs["knobs"],
        ),
        "identical": (
            value["identical"],
            True if inputs["compare"] and inputs["method"] != "autoregressive" else None,
        ),
    }
    wrong = "; ".join(
        f"{name} is {is_!r}, not {ought!r}" for name, (is_, ought) in facts.items() if is_ != ought
    )
    return f"failed: {wrong}" if wrong else "finished"


@dataclass
class Soak:
    """What becomes of the runs, and what is seen meanwhile; all visitors share it. A visitor is a
    thread."""

    page: Page
    texts: dict[str, str]
    ended: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    sessions: dict[int, str] = field(default_factory=dict)
    seen: list[tuple[int, float]] = field(default_factory=list)
    waits: dict[str, list[float]] = field(default_factory=lambda: {"/": [], "/healthz": []})
    over: threading.Event = field(default_factory=threading.Event)

    def visit(self, run: Run) -> None:
        """One run of the visitor that is free: every other one is a browser, which has a session
        until it is closed."""
        me = threading.get_ident()
        session = self.sessions.setdefault(me, f"{me}" if len(self.sessions) % 2 else "")
        try:
            end = self._perform(run, session)
            while FULL_WORDS in end:
                self.page.full.append(end)
                time.sleep(0.25)
                end = self._perform(run, session)
        except (Refused, OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            end = f"failed: {type(error).__name__}: {str(error)[:300]}"
        if end == "closed":
            self.sessions[me] = session and f"{session}."
        self.failures += [f"{end} ({run})"] if end.startswith("failed") else []
        self.ended.append("failed" if end.startswith("failed") else end)

    def _perform(self, run: Run, session: str) -> str:
        """How a run ended: finished, stopped, closed, refused; or failed, and why."""
        event = self.page.join(run.inputs, session)
        updates = 0
        due = time.monotonic() + LOST
        asked = False
        with closing(follow(self.page.url, event, session)) as messages:
            for stage, value in messages:
                updates += stage == "working"
                if run.end == "close" and updates >= run.patience:
                    return "closed"
                if run.end == "stop" and updates >= run.patience and not asked:
                    which_one = {
                        "session_hash": session or event,
                        "fn_index": self.page.index,
                        "event_id": event,
                    }
                    asked = bool(self.page.send("POST", f"{API}/cancel", which_one))
                if stage == "complete":
                    if asked and not value:
                        return "stopped"
                    if run.end in BAD:
                        return "failed: it was not refused"
                    if run.key not in self.texts:  # it was to be stopped, and was over before
                        self.texts[run.key] = self.page.ask(run.plain)["text"]
                    return judge(run, value, self.texts[run.key])
                if stage == "error":
                    said = str(value.get("error") if isinstance(value, dict) else value)
                    return (
                        f"refused: {run.end}"
                        if run.end in BAD and BAD[run.end][1] in said
                        else f"failed: {said}"
                    )
                if time.monotonic() > due:
                    return f"failed: no end within {LOST} seconds"
        return "failed: the stream ended before the run"

    def watch(self, process: psutil.Process) -> None:
        """Each second: the server's memory, and what two pages take."""
        while not self.over.is_set():
            for target, waits in self.waits.items():
                begun = time.monotonic()
                try:
                    with opened(self.page.url, "GET", target) as answer:
                        answer.read()
                    waits.append(time.monotonic() - begun)
                    self.failures += (
                        [f"GET {target}: {answer.status}"] if answer.status != 200 else []
                    )
                except (OSError, HTTPException) as error:
                    self.failures.append(f"GET {target}: {type(error).__name__}: {error}")
            self.seen.append((len(self.ended), process.memory_info().rss / 2**20))
            self.over.wait(1)

    def figures(self, warm: int) -> dict[str, Any]:
        """Numbers of all that was seen; warm: runs after which memory ought to stay as it is."""
        marks = sorted({warm, *range(50, len(self.ended), 50)})
        sizes = {
            mark: statistics.median([size for done, size in self.seen if done >= mark][:5])
            for mark in marks
        }
        before = sizes[warm]
        after = statistics.median([size for _, size in self.seen][-5:])
        memory = {f"after {mark} runs": size for mark, size in sizes.items()} | {
            "at the end": after,
            "growth": after - before,
        }
        if memory["growth"] > MOST_GROWTH:
            self.failures.append(
                f"the server grew by {memory['growth']:.0f} MB, more than {MOST_GROWTH}"
            )
        told = {}
        for target, waits in self.waits.items():
            median, p95 = (sorted(waits)[int(part * (len(waits) - 1))] for part in (0.5, 0.95))
            told[target] = {"times": len(waits), "median": median, "p95": p95, "max": max(waits)}
        ended = {**dict(sorted(Counter(self.ended).items())), FULL: len(self.page.full)}
        return {
            "ended": ended,
            "memory MB": memory,
            "page seconds": told,
            "failures": self.failures,
        }


def environment(trace: Mapping[str, Any]) -> dict[str, Any]:
    status, commit = subprocess.getstatusoutput(f"git -C '{ROOT}' describe --always --dirty")
    return {
        **trace["environment"],
        "gradio": version("gradio"),
        "cores": psutil.cpu_count(),
        "commit": "" if status else commit,
    }


def process_of(url: str) -> psutil.Process:
    """The server of that address, a child of this process."""
    port = url.rpartition(":")[2]
    return next(
        child for child in psutil.Process().children(recursive=True) if port in child.cmdline()
    )


def measure(clients: int, runs: int, seed: int = 0) -> dict[str, Any]:
    """Figures of so many runs; `failures` is empty if all held."""
    figures: dict[str, Any] = {}
    try:
        with server("--dtype", "float32", "--max-queue", str(max(1, clients - 3))) as url:
            figures = {
                "clients": clients,
                "runs": runs,
                "seed": seed,
                **measured(Page(url), clients, plan(runs, seed)),
            }
    except AssertionError as error:  # of what the server has written into its log
        if not figures:
            raise
        figures["failures"].append(
            f"the server's log: {str(error)[str(error).find('Traceback') :][:3000]}"
        )
    return figures


def measured(page: Page, clients: int, planned: list[Run]) -> dict[str, Any]:
    """Figures of these runs, on a server whose queue is shorter than there are clients."""
    wanted = {run.key: run.plain for run in planned if run.end == "finish"}
    soak = Soak(page, {key: page.ask(plain)["text"] for key, plain in wanted.items()})
    watcher = threading.Thread(target=soak.watch, args=(process_of(page.url),))
    watcher.start()
    begun = time.monotonic()
    with ThreadPoolExecutor(clients) as visitors:
        list(visitors.map(soak.visit, planned))
    figures = {"seconds": time.monotonic() - begun, "references": len(soak.texts)}
    soak.over.set()
    watcher.join()
    last = next(run for run in planned if run.end == "finish")
    value = page.ask(last.inputs)
    end = judge(last, value, soak.texts[last.key])
    soak.failures += [f"the click after the last {end}"] if end != "finished" else []
    return {
        **figures,
        **soak.figures(min(40, len(planned) // 4)),
        "environment": environment(value["trace"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, number in (("clients", 8), ("runs", 300), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.clients, arguments.runs, arguments.seed)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(
        f"{figures['runs']} runs of {figures['clients']} visitors at once in "
        f"{figures['seconds']:.0f} s"
    )
    for what, count in (
        figures["ended"] | {f"MB {when}": size for when, size in figures["memory MB"].items()}
    ).items():
        print(f"  {what:<40}{count:>8.0f}")
    for target, waits in figures["page seconds"].items():
        print(
            f"  GET {target:<9}"
            + ", ".join(f"{what} {waits[what]:.3f} s" for what in ("median", "p95", "max"))
        )
    print(*(f"FAILED {failure}" for failure in figures["failures"]), sep="\n")
    return bool(figures["failures"])


if __name__ == "__main__":
    sys.exit(main())
