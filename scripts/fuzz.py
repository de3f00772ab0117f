"""Whatever one can send to the page's server, and what becomes of it: make fuzz.

python -m scripts.fuzz [--payloads 10000] [--seed 0] [--only NUMBER[,NUMBER]] [--json FILE]

A real server, real HTTP, one payload after the other, each followed to its end. Errors in this
project's code are failures, so is a server that hangs, dies, serves a file, answers 5xx without
words or does what it should refuse; the exit status is then 1. Errors in Gradio's own code that the
project's never sees are counted by kind. --only repeats payloads by number.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from scripts.payloads import API, TEXTS, Maker, Payload, dump, follow, junk, opened
from scripts.soak import Page, Refused, environment, process_of
from tests import ROOT
from tests.browser import server

PROGRAM = """import os, runpy
log = os.open(os.environ["FUZZ_LOG"], os.O_WRONLY | os.O_APPEND)
os.dup2(log, 1), os.dup2(log, 2)
runpy.run_path("app.py", run_name="__main__")"""
NAMES = "run settings shape event direct served upload file broken path"
FAMILIES = dict(zip(NAMES.split(), (30, 14, 6, 22, 7, 4, 3, 6, 4, 4), strict=True))
"""What is made, and how often in a hundred."""
PATIENCE, LEAVE = 60, 2
"""Seconds after which a payload without an outcome hangs; after which a run of the page's buttons,
which may be long, is left."""
EXPLAINED = r'^{"error":"[^"]'
"""A 5xx that says why: so Gradio passes on a refusal where its queue was gone past."""
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"\xff\xfe{",
    b"[" * 20_000,
    b'{"data": [' + b"9" * 5000 + b"]}",
    b"{}" * 9,
    b"\x00",
)
TYPES = (
    "application/json text/plain application/x-www-form-urlencoded multipart/form-data "
    "application/json;charset=utf-16 x"
)
POSTS = """call/generate call/v2/generate queue/join run/generate api/generate run/predict component_server cancel reset upload
stream/x stream/x/close process_recording vibe-edit vibe-code run-history/connect"""
GETS = (
    "/ /config /healthz /theme.css /robots.txt /manifest.json /monitoring /monitoring/x "
    "/login_check /pwa_icon/9"
)
MORE = """info openapi.json queue/status queue/data call/generate/x queue/data?session_hash=x upload_progress?upload_id=x token
user deep_link?session_hash=x startup-events dev/reload app_id runs heartbeat/x stream/a/b/1/playlist.m3u8"""
ROADS = """{}/file={} {}/file={} /file={1} {}/file/{} /static/{1} /assets/{1} /svelte/{1} /{1} {}/proxy=file://{}
{}/custom_component/x/component/{}/y {}/stream/x/y/1/{}"""
AWAY = "http://192.0.2.1/x http://127.0.0.1:1/x http://[::1]/ https://example.invalid/x http://169.254.169.254/"


class Envelopes(Maker):
    """All payloads; number n of a seed is the same each time."""

    def make(self, seed: int, number: int) -> Payload:
        rng = random.Random(f"{seed}:{number}")
        family = rng.choices(list(FAMILIES), list(FAMILIES.values()))[0]
        made: Payload = getattr(self, f"_{family}")(rng, f"fuzz-{seed}-{number}")
        return replace(made, family=family)

    def _file(self, rng: random.Random, session: str) -> Payload:
        """Files that are nobody's business, by every road there is to a file."""
        inside = [
            str(ROOT / name)
            for name in ("app.py", "pyproject.toml", "assets/prompts.jsonl", ".git/config")
        ]
        path = rng.choice(
            (self.secret, "/etc/passwd", "/proc/self/environ", "app.py", "pyproject.toml", *inside)
        )
        up = rng.choice(
            ("../", "..\\", "....//", "..%2f", "%2e%2e/", "%252e%252e%252f", "./")
        ) * rng.choice((1, 3, 9))
        path = rng.choice(
            (
                path,
                up + path.lstrip("/"),
                f"/proc/self/cwd/{path}",
                f"file://{path}",
                f"//{path}",
                f"{path}%00.x",
            )
        )
        target = rng.choice(ROADS.split()).format(API, path)
        if rng.random() < 0.15:
            target = f"{API}/{rng.choice(('file', 'proxy'))}={rng.choice(AWAY.split())}"
        return Payload(
            "", rng.choice(("GET", "GET", "HEAD")), quote(target, safe="/%:=?&.\\[]~"), private=True
        )

    def _broken(self, rng: random.Random, session: str) -> Payload:
        body = rng.choice((*BODIES, dump(junk(rng)), dump({"data": []})[: rng.randrange(12)]))
        kind = {"Content-Type": rng.choice(TYPES.split())} if rng.random() < 0.9 else {}
        return Payload("", "POST", f"{API}/{rng.choice(POSTS.split())}", body, kind)

    def _path(self, rng: random.Random, session: str) -> Payload:
        verb = rng.choice(
            ("GET", "GET", "GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")
        )
        target = rng.choice(
            (
                *GETS.split(),
                *(f"{API}/{one}" for one in f"{MORE} {POSTS} {session}".split()),
                f"/{session}",
            )
        )
        name = rng.choice(("page", "deep_link", "prompt", "__theme", "x"))
        query = (
            f"{'&' if '?' in target else '?'}{name}={rng.choice(TEXTS)}"
            if rng.random() < 0.3
            else ""
        )
        return Payload(
            "",
            verb,
            target + quote(query.encode(errors="surrogatepass"), safe="?&="),
            read="stream",
        )


@dataclass
class Sent:
    """A payload, where the server's log was when it was sent, and what became of it."""

    number: int
    payload: Payload
    mark: int
    outcome: str = ""
    said: str = ""
    seconds: float = 0.0

    @property
    def words(self) -> str:
        body = self.payload.body
        return (
            f"--only {self.number}: {self.payload.verb} {self.payload.target[:200]} {body[:300]!r} "
            f"({len(body)} bytes)"
        )


@dataclass(frozen=True)
class Fault:
    """A traceback: where in the log, of what kind, whether this project's code is in it."""

    at: int
    kind: str
    ours: bool
    text: str


HEADS = rb"(?m)^(?P<margin>[ |+]*)(Exception Group )?Traceback \(most recent call last\):\n|Traceback of a (?P<name>\w+):\n"
"""As Python writes a traceback, and as this project's own handler of unforeseen errors does."""
FRAME = rb'File "([^"]+)", line (\d+), in (\S+)(\n[ |]*await self\.(?:app|packed)\()?'
"""Path, line, function; and where something between network and page only hands a request on, as
each ASGI application does."""
CHAINS = b"During handling of the above", b"the direct cause of", b"+-+---"


def faults(log: bytes) -> list[Fault]:
    """The tracebacks of a log; those that belong together are one."""
    found: list[Fault] = []
    end = 0
    for start in re.finditer(HEADS, log):
        between = log[end : start.start()]
        margin = (start["margin"] or b"").replace(b"+", b"|")
        ending = re.compile(rb"(?m)^" + re.escape(margin) + rb"[^\s|].*$").search(log, start.end())
        frames = re.findall(FRAME, log[start.end() : ending.start() if ending else None])
        over = ending.end() if ending else len(log)
        end = start.end() if start["name"] else over
        what = start["name"] or (
            ending[0][len(margin) :].partition(b":")[0][:60] if ending else b"?"
        )
        stack = [
            (_relative(path.decode()), line.decode(), name.decode())
            for path, line, name, on in frames
            if not on
        ]
        mine = [
            ":".join(frame)
            for frame in stack
            if frame[0].startswith(("app.py", "ouroboros_core/", "visualize/"))
        ]
        innermost = " ".join(stack[-1][::2]) if stack else "?"
        last = mine[-1] if mine else innermost
        kind = f"{what.decode(errors='replace')} in {last}"
        text = log[start.start() : ending.end() if ending else None].decode(errors="replace")[
            -1500:
        ]
        if found and len(between) < 1000 and any(chain in between for chain in CHAINS):
            known = found.pop()
            kind = known.kind if known.ours and not mine else kind
            found.append(
                Fault(
                    known.at,
                    kind,
                    known.ours or bool(mine),
                    known.text + between.decode(errors="replace") + text,
                )
            )
        else:
            found.append(Fault(start.start(), kind, bool(mine) or bool(start["name"]), text))
    return found


def _relative(path: str) -> str:
    """A file's path without that of the machine."""
    return re.sub(r"^.*/(site-packages|python3\.\d+)/", "", path).removeprefix(f"{ROOT}/")


def send(url: str, payload: Payload, secret: bytes) -> tuple[str, str]:
    """The outcome, and words on it."""
    try:
        with opened(
            url, payload.verb, payload.target, payload.body, payload.headers, PATIENCE
        ) as answer:
            said = answer.readline(100_000) if payload.read == "stream" else answer.read()
        leaks = secret, b"root:x:0:0:", b"build-backend = ", b"models, tabs and flags put together"
        if any(leak in said for leak in leaks) or (payload.private and answer.status == 200):
            return "a file was served", said[:100].decode(errors="replace")
        if answer.status == 503 and b"queue is full" in said.lower():
            return "the queue is full", ""
        if answer.status != 200 or payload.read in ("answer", "stream"):
            return f"HTTP {answer.status // 100}xx", said[:1000].decode(errors="replace")
        return _followed(url, payload, json.loads(said)["event_id"])
    except TimeoutError:
        return "hang", f"no word for {PATIENCE} seconds"
    except ConnectionRefusedError as error:
        return "dead", str(error)
    except (OSError, HTTPException, ValueError) as error:
        return "cut", repr(error)[:300]


def _followed(url: str, payload: Payload, event: str) -> tuple[str, str]:
    begun = time.monotonic()
    with closing(follow(url, event, payload.session)) as messages:
        for stage, value in messages:
            if stage == "complete":
                # A draft model that writes alone writes its own text.
                other = (
                    isinstance(value, dict)
                    and value.get("identical") is False
                    and value["trace"]["method"] != "draft_only"
                )
                if "root:x:0:0:" in str(value):
                    return "a file was served", ""
                return "another text" if other else "complete", ""
            if stage == "error":
                said = value.get("error") if isinstance(value, dict) else value
                return (
                    ("error with words", str(said)[:300]) if said else ("error without words", "")
                )
            if (
                stage == "working"
                and time.monotonic() - begun > LEAVE
                and not payload.target.endswith("/generate")
            ):
                return "left while it computed", ""
            if time.monotonic() - begun > PATIENCE:
                return "hang", f"no end within {PATIENCE} seconds"
    return "cut", "the stream ended before the run"


def verdict(sent: Sent, its: Iterable[Fault]) -> str:
    """Why a payload's outcome is a failure of this project; empty if it is none."""
    mine = [fault for fault in its if fault.ours]
    if mine:
        return f"{mine[0].kind} [{sent.outcome}]\n{mine[0].text}"
    silent = sent.outcome in ("cut", "error without words") and not its
    if silent or sent.outcome in ("hang", "dead", "a file was served", "another text"):
        return f"{sent.outcome}: {sent.said}"
    if sent.payload.refuse and sent.outcome == "complete":
        return "it was not refused"
    return (
        sent.outcome
        if sent.outcome == "HTTP 5xx" and not its and not re.search(EXPLAINED, sent.said)
        else ""
    )


@contextmanager
def serving(*flags: str) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the file that it writes its log into."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.touch()
        where = {"FUZZ_LOG": str(log), "HF_HUB_OFFLINE": "1"}
        with server("--dtype", "float32", *flags, program=PROGRAM, environment=where) as url:
            yield url, log


def measure(
    url: str, log: Path, numbers: Sequence[int], seed: int = 0, told: bool = False
) -> dict[str, Any]:
    """Outcomes of the payloads of these numbers; `failures` is empty if all held."""
    few: dict[str, Any] = {"prompt": "Why is the sky blue?", "max_new_tokens": 4, "compare": False}
    begun = time.monotonic()
    sent = list[Sent]()
    failures = list[str]()
    page = Page(url)
    plain = page.ask(few | {"method": "autoregressive"})
    maker = Envelopes(page.config, page.defaults)
    maker.secret = str(log.with_name("secret.txt"))
    Path(maker.secret).write_text(random.Random().randbytes(16).hex(), encoding="utf-8")
    process = process_of(url)
    memory = [process.memory_info().rss / 2**20]
    for number in numbers:
        since = time.monotonic()
        one = Sent(number, maker.make(seed, number), log.stat().st_size)
        sent.append(one)
        one.outcome, one.said = send(url, one.payload, Path(maker.secret).read_bytes())
        one.seconds = time.monotonic() - since
        if told and len(sent) % 500 == 0:
            print(
                f"{len(sent)} payloads, {time.monotonic() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        if one.outcome in ("HTTP 5xx", "cut"):
            time.sleep(0.05)  # a server writes down why after it has answered
        if one.outcome == "dead":
            break
    try:
        memory.append(process.memory_info().rss / 2**20)
        last = page.ask(few | {"method": "union"})["text"]
        failures += (
            [] if last == plain["text"] else [f"the last run wrote {last!r}, not {plain['text']!r}"]
        )
    except (Refused, OSError, HTTPException, psutil.Error) as error:
        failures.append(f"after the last payload the server does not work: {error!r}")
    more = {
        "payloads": len(sent),
        "seed": seed,
        "seconds": time.monotonic() - begun,
        "memory MB": memory,
    }
    return {
        **more,
        **report(sent, log.read_bytes(), failures),
        "environment": environment(plain["trace"]),
    }


def report(sent: list[Sent], log: bytes, failures: list[str]) -> dict[str, Any]:
    """Counts of outcomes, and of errors by whose they are."""
    marks = [one.mark for one in sent]
    of = {one.number: list[Fault]() for one in sent}
    kinds: dict[bool, dict[str, list[int]]] = {True: {}, False: {}}
    for fault in faults(log):
        number = sent[max(0, bisect_right(marks, fault.at) - 1)].number
        of[number].append(fault)
        kinds[fault.ours].setdefault(fault.kind, []).append(number)
    for one in sent:
        wrong = verdict(one, of[one.number])
        failures += [f"{one.words}\n  {wrong}"] if wrong else []
        if one.outcome == "HTTP 5xx" and not of[one.number] and re.search(EXPLAINED, one.said):
            kinds[False].setdefault("5xx for a refusal, past the queue", []).append(one.number)
    tried = (
        sent[max(0, bisect_right(marks, one.start()) - 1)]
        for one in re.finditer(rb"refused: a connection to", log)
    )
    away = list(dict.fromkeys(one.words for one in tried))
    told = {
        mine: {kind: {"times": len(n), "first": n[0]} for kind, n in sorted(kinds[mine].items())}
        for mine in kinds
    }
    families = {
        family: [one for one in sent if one.payload.family == family] for family in FAMILIES
    }
    slow = [
        f"{one.seconds:.1f} s {one.words}" for one in sorted(sent, key=lambda one: -one.seconds)[:5]
    ]
    counts = {
        name: {**_counts(those), "seconds": sum(one.seconds for one in those)}
        for name, those in families.items()
    }
    whose = {"ours": told[True], "gradio": told[False], "away": away, "failures": failures}
    return {"outcomes": _counts(sent), "families": counts, "slowest": slow, **whose}


def _counts(sent: Iterable[Sent]) -> dict[str, int]:
    return dict(Counter(one.outcome for one in sent).most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--payloads", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="numbers of payloads to repeat")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    only = [int(number) for number in arguments.only.split(",") if number]
    with serving() as (url, log):
        figures = measure(url, log, only or range(arguments.payloads), arguments.seed, told=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(f"{figures['payloads']} payloads in {figures['seconds']:.0f} s")
    print(
        *(f"  {outcome:<50}{number:>6}" for outcome, number in figures["outcomes"].items()),
        sep="\n",
    )
    for whose in ("ours", "gradio"):
        print(f"errors, {whose}: {sum(found['times'] for found in figures[whose].values())}")
        for kind, found in figures[whose].items():
            print(f"  {found['times']:>5}  {kind} (as --only {found['first']})")
    print(
        f"connections elsewhere that the guard refused: {len(figures['away'])}",
        *figures["away"][:9],
        sep="\n  ",
    )
    print(
        *(f"FAILED {failure}" for failure in figures["failures"][:30]),
        f"{len(figures['failures'])} failures",
        sep="\n",
    )
    return bool(figures["failures"])


if __name__ == "__main__":
    sys.exit(main())
