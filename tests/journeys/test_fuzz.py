"""Arbitrary payloads to a real server: `make fuzz` sends ten thousand, `make check` a few.

A payload may not hang, end the server, be served a file, reach another machine, get an error
without words, or raise in this project's code. Errors that only Gradio's code raises are allowed.
"""

import json
import math
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ouroboros_core import methods
from ouroboros_core.locations import assets
from ouroboros_core.sampling import Sampling
from tests import ROOT
from tests.browser import server
from tests.calls import API, JSON, Page, follow, opened
from visualize.watch.settings_view import declaration

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

PAYLOADS = int(os.environ.get("PAYLOADS", "150"))
PROGRAM = """import os, runpy
log = os.open(os.environ["FUZZ_LOG"], os.O_WRONLY | os.O_APPEND)
os.dup2(log, 1), os.dup2(log, 2)
runpy.run_path("app.py", run_name="__main__")"""
PATIENCE, LEAVE = 60, 2
"""Seconds after which a payload hangs; seconds after which a run of the page's buttons is left."""
EXPLAINED = r'^{"error":"[^"]'
"""A 5xx with a reason: Gradio passes on a refusal so where its queue was passed by."""
FEW: dict[str, Any] = {"prompt": "Why is the sky blue?", "max_new_tokens": 4, "compare": False}
HTML = "<img src=x onerror=alert(1)><script>alert(1)</script>"
TEXTS = (
    "¦ ¦0¦-1¦NaN¦true¦null¦auto¦match¦greedy¦union¦sam¦none¦\x00¦a\x00b\x1b[31m\r\n\t\x7f¦\ud800¦"
    f"x\udfffy¦\u202egnp.exe¦🐈¦{HTML}¦javascript:alert(1)¦{{{{7*7}}}}${{7*7}}<%=7*7%>¦"
    f"{{0.__class__.__mro__}}¦%s%n%x¦'; DROP TABLE runs¦{'é' * 99}¦gamma¦../../../etc/passwd¦"
    "/etc/passwd¦file:///etc/passwd¦__class__¦constructor¦<|im_start|>system\n<|im_end|>¦"
    "<|endoftext|>¦1,2,3¦1:99999999¦0:1:1e-9¦gamma=1=2¦1e9999¦٣¦draft=/etc/passwd¦no/such-model¦"
    "draft¦a,b\nc¦autoregressive¦\u200b\ufeff"
).split("¦")
POWERS = (2**31, 2**32, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30, 10**400, -(10**400))
NUMBERS = (0, -1, 1.5, 0.0, -0.0, 1e-320, 1e308, math.nan, math.inf, -math.inf, *POWERS)
FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}, "url": "http://192.0.2.1/x"}
OTHERS: list[Any] = [FILE, [FILE], None, True, False, [], {}, [[]], [None], [1, 2], [["a", 1]]]
TEXT = st.sampled_from(TEXTS) | st.text(max_size=20)
SCALAR = TEXT | st.sampled_from(NUMBERS)
JUNK: st.SearchStrategy[Any] = st.one_of(
    SCALAR,
    st.sampled_from(OTHERS),
    st.recursive(
        SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=4
    ),
    st.builds(lambda text, times: text * times, TEXT, st.sampled_from((50_000, 200_000))),
    st.builds(lambda depth: json.loads("[" * depth + "]" * depth), st.sampled_from((30, 300))),
)
"""Anything that JSON or Python's JSON can hold; no value asks for more than a few tokens."""
BODIES = (b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe{", b"[" * 20_000, b"{}" * 9, b"\x00")
HUGE = b'{"data": [' + b"9" * 5000 + b"]}"


def listed(text: str) -> list[str]:
    return text.split()


TYPES = listed("application/json text/plain multipart/form-data application/json;charset=utf-16 x")
POSTS = listed(
    """call/generate call/v2/generate queue/join run/generate api/generate run/predict upload
    component_server cancel reset stream/x stream/x/close process_recording vibe-edit vibe-code
    run-history/connect"""
)
GETS = listed(
    """/ /config /healthz /theme.css /robots.txt /manifest.json /monitoring /monitoring/x
    /login_check /pwa_icon/9"""
)
MORE_GETS = listed(
    """info openapi.json queue/status queue/data call/generate/x queue/data?session_hash=x
    upload_progress?upload_id=x token user deep_link?session_hash=x startup-events dev/reload
    app_id runs heartbeat/x stream/a/b/1/playlist.m3u8"""
)
ROADS = listed(
    """{}/file={} {}/file={} /file={1} {}/file/{} /static/{1} /assets/{1} /svelte/{1} /{1}
    {}/proxy=file://{} {}/custom_component/x/component/{}/y {}/stream/x/y/1/{}"""
)
UPS = ("../", "..\\", "....//", "..%2f", "%2e%2e/", "%252e%252e%252f", "./")
ELSEWHERE = listed("http://192.0.2.1/x http://127.0.0.1:1/x http://[::1]/ http://169.254.169.254/")
NAMES = ("a.txt", "../../../x", "x" * 5000, "", "a\\..\\b", "CON", "é\x00.html", '";x="')

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Payload:
    """A request, and how its outcome is read.

    read     `answer`: no more than that; `run`: the run is followed to its end; `stream`: the first
             line alone
    refuse   whether a run that ends well is a fault
    private  whether an answer of 200 gives away a file
    """

    verb: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    read: str = "answer"
    session: str = ""
    refuse: bool = False
    private: bool = False


def dump(content: Any) -> bytes:
    return json.dumps(content, default=str).encode()


class Maker:
    """Draws payloads for one page. A content that must stay secret is at the path `secret`."""

    def __init__(self, page: Page, secret: Path) -> None:
        self.defaults, self.secret = page.defaults, secret
        self.components = {one["id"]: one for one in page.config["components"]}
        self.events = [event for event in page.config["dependencies"] if event["backend_fn"]]
        in_browser = (event["inputs"] for event in page.config["dependencies"] if event["js"])
        self.gathered: list[int] = max(in_browser, key=len, default=[])
        self.names = [event["api_name"] for event in self.events if event["api_name"]]
        self.trace = (assets() / "traces" / "java-speculative.json").read_text(encoding="utf-8")

    def make(self, draw: Draw) -> Payload:
        frequent = (self.run, self.run, self.run, self.setting, self.event, self.event)
        rare = (self.shape, self.direct, self.component, self.upload, self.file, self.broken)
        payload: Payload = draw(st.sampled_from((*frequent, *rare, self.path)))(draw)
        return payload

    def arguments(self, draw: Draw) -> dict[str, Any]:
        """Return the arguments of a short run that ends well."""
        drawn = {
            "prompt": st.sampled_from(("Hello", "1 2 3")),
            "max_new_tokens": st.integers(1, 2),
            "method": st.sampled_from(list(methods.available())),
            "compare": st.booleans(),
            "seed": st.integers(0, 8),
            "temperature": st.sampled_from((0, 0.8)),
            "acceptance": st.sampled_from(("match", "rejection", "block")),
        }
        run: dict[str, Any] = draw(st.fixed_dictionaries(drawn))
        return {**self.defaults, **run, "chat": False, "knobs": {}}

    def call(self, content: Any, name: str = "generate", refuse: bool = False) -> Payload:
        target = f"{API}/call/{quote(name, safe='')}"
        return Payload("POST", target, dump(content), read="run", refuse=refuse)

    def run(self, draw: Draw) -> Payload:
        values = self.arguments(draw)
        for name in draw(st.lists(st.sampled_from(list(values)), max_size=3, unique=True)):
            values[name] = draw(JUNK)
        if draw(st.integers(0, 9)) == 0:
            return Payload("POST", f"{API}/call/v2/generate", dump(values), read="run")
        return self.call({"data": list(values.values())})

    def setting(self, draw: Draw) -> Payload:
        """A setting at, beside or beyond its bounds."""
        method = draw(st.sampled_from(list(methods.available().values())))
        values, refuse = self.arguments(draw) | {"method": method.id}, False
        all_settings = {**method.Hyperparameters.settings(), **Sampling.settings()}
        setting = draw(st.sampled_from(list(all_settings.values())))
        value = draw(JUNK)
        if setting.low is not None and setting.high is not None:
            low, high = setting.low, setting.high
            inside = [(low, setting.low_is_open), (high, False), (True, False), (str(high), False)]
            outside = [(low - 1, True), (high + 1, True), (None, True), ([low], True)]
            auto = ("auto", setting.fixed is None)
            value, refuse = draw(st.sampled_from([*inside, *outside, auto]))
        if setting.name in Sampling.settings():
            values[setting.name] = value
        else:
            values["knobs"] = {setting.name: value}
        if draw(st.integers(0, 4)) == 0:
            values["knobs"], refuse = draw(st.dictionaries(TEXT, JUNK, max_size=2) | JUNK), False
        return self.call({"data": list(values.values())}, refuse=refuse)

    def shape(self, draw: Draw) -> Payload:
        """Arguments that are too few, too many, or no list."""
        data = list(self.arguments(draw).values())
        keys = st.sampled_from(("session_hash", "fn_index", "event_data", "batched", "x"))
        shapes = st.one_of(
            st.just({"data": data[: draw(st.integers(0, len(data) - 1))]}),
            JUNK.map(lambda value: {"data": [*data, value]}),
            st.builds(lambda key, value: {"data": data, key: value}, keys, JUNK),
            JUNK,
        )
        name = draw(st.sampled_from(("generate", *self.names, "x", "_", "generate/x")))
        return self.call(draw(shapes), name)

    def event(self, draw: Draw) -> Payload:
        """An event of the page, as the page's script sends it or nearly so."""
        body = self.body(draw)
        used = body.get("session_hash")
        session = used if isinstance(used, str) else ""
        return Payload("POST", f"{API}/queue/join", dump(body), read="run", session=session)

    def body(self, draw: Draw) -> dict[str, Any]:
        event = draw(st.sampled_from(self.events))
        triggers = [target for target, _ in event["targets"]]
        body = {
            "fn_index": event["id"],
            "data": self.inputs(event, draw),
            "session_hash": f"fuzz-{draw(st.integers(0, 10**9))}",
            "event_data": self.event_data({name for _, name in event["targets"]}, draw),
            "trigger_id": draw(st.sampled_from([*triggers, None, *self.components])),
        }
        if draw(st.integers(0, 3)) == 0:
            body[draw(st.sampled_from(list(body)))] = draw(JUNK)
        return body

    def inputs(self, event: Mapping[str, Any], draw: Draw) -> list[Any]:
        values = [self.value(self.components[one], draw) for one in event["inputs"]]
        shorter_or_longer = st.sampled_from((values, values, values, values[:-1], [*values, 1], []))
        return list(draw(shorter_or_longer))

    def value(self, component: Mapping[str, Any], draw: Draw) -> Any:
        """Return a value of an input, mostly one that the page can send."""
        kind, props = component["type"], component["props"]
        if draw(st.integers(0, 9)) == 0:
            return draw(JUNK)
        if props.get("elem_id") == "ask-view":
            return dump([self.value(self.components[one], draw) for one in self.gathered]).decode()
        if props.get("elem_id") == "method-settings":
            return self.method_settings(draw)
        if kind == "state":
            return draw(st.sampled_from((None, {"pools": {}}, {"trace": 1}, [1], "x")))
        if kind == "slider":
            return self.bounded(props["minimum"], props["maximum"], props.get("value"), draw)
        if kind == "checkbox":
            return draw(st.booleans())
        if kind == "dropdown" and props.get("choices"):
            return draw(st.sampled_from(props["choices"]))[1]
        return draw(TEXT) if kind == "textbox" and draw(st.booleans()) else props.get("value")

    def bounded(self, low: float, high: float, usual: Any, draw: Draw) -> Any:
        """Return a number at its bounds; a large one is the least, so that no run takes long."""
        return low if low >= 8 else draw(st.sampled_from((low, usual, low - 1, high + 1)))

    def method_settings(self, draw: Draw) -> str:
        """Return the changed settings of a method, as the page's own view sends them."""
        method = draw(st.sampled_from(list(methods.available().values())))
        values = {one["name"]: self.declared(one, draw) for one in declaration(method)["settings"]}
        state = {"predicted": draw(TEXT), "values": values}
        return dump({"method": method.id, "of": {method.id: state}}).decode()

    def declared(self, setting: Mapping[str, Any], draw: Draw) -> Any:
        if "choices" in setting:
            return draw(st.sampled_from(setting["choices"]))
        if "low" not in setting:
            return draw(st.just(setting["value"]) | TEXT)
        return self.bounded(setting["low"], setting["high"], setting["value"], draw)

    def event_data(self, names: set[str], draw: Draw) -> Any:
        if "open_file" in names:
            return {"name": draw(TEXT), "text": self.changed_trace(draw)}
        keys = {"save_run": "kind", "open_recorded": "name", "open_cell": "cell"}
        key = next((keys[name] for name in names if name in keys), "value")
        known = st.sampled_from(("json", "csv", "html", "link", "java-ouroboros", 0, 1))
        return draw(st.one_of(known.map(lambda value: {key: value}), JUNK))

    def changed_trace(self, draw: Draw) -> str:
        """Return a recorded run with one value changed."""
        container = content = json.loads(self.trace)
        while True:
            keys = list(container) if isinstance(container, dict) else range(len(container))
            key = draw(st.sampled_from(keys))
            inner = container[key]
            if not inner or not isinstance(inner, dict | list) or draw(st.integers(0, 6)) == 0:
                break
            container = inner
        container[key] = draw(JUNK)
        return dump(content).decode()

    def direct(self, draw: Draw) -> Payload:
        """A run past the queue, which Gradio allows."""
        name = draw(st.sampled_from(("generate", "predict", "x", *self.names)))
        run = {"data": list(self.arguments(draw).values())}
        content = run if name == "generate" else self.body(draw)
        road = draw(st.sampled_from(("run", "api")))
        return Payload("POST", f"{API}/{road}/{quote(name)}", dump(content))

    def component(self, draw: Draw) -> Payload:
        """A call of a server function of a component."""
        functions = st.sampled_from(("run", "run", "preprocess", "__init__", "get_config", "", "x"))
        content = {
            "component_id": draw(st.sampled_from(list(self.components)) | JUNK),
            "fn_name": draw(functions),
            "session_hash": "fuzz",
            "data": draw(JUNK | JUNK.map(lambda name: {"name": name})),
        }
        return Payload("POST", f"{API}/component_server", dump(content))

    def upload(self, draw: Draw) -> Payload:
        name = draw(st.sampled_from((*NAMES, str(self.secret))))
        head = f'Content-Disposition: form-data; name="files"; filename="{name}"'
        part = f"--B\r\n{head}\r\n\r\nx\r\n".encode()
        bodies = (part + b"--B--\r\n", part * 30 + b"--B--\r\n", part, b"--B--\r\n", b"", part[:60])
        kinds = ("multipart/form-data; boundary=B", "multipart/form-data", "application/json")
        kind, body = draw(st.sampled_from(kinds)), draw(st.sampled_from(bodies))
        road = draw(st.sampled_from(("upload", "upload/", "process_recording")))
        return Payload("POST", f"{API}/{road}", body, {"Content-Type": kind})

    def file(self, draw: Draw) -> Payload:
        """A private file, by every road there is to a file."""
        inside = [str(ROOT / name) for name in ("app.py", "assets/prompts.jsonl", ".git/config")]
        system = ("/etc/passwd", "/proc/self/environ", "app.py", "pyproject.toml")
        path = draw(st.sampled_from((str(self.secret), *system, *inside)))
        up = draw(st.sampled_from(UPS)) * draw(st.sampled_from((1, 3, 9)))
        forms = (path, up + path.lstrip("/"), f"/proc/self/cwd/{path}", f"file://{path}")
        path = draw(st.sampled_from((*forms, f"//{path}", f"{path}%00.x")))
        target = draw(st.sampled_from(ROADS)).format(API, path)
        proxies = [f"{API}/{road}={away}" for road in ("file", "proxy") for away in ELSEWHERE]
        if draw(st.integers(0, 6)) == 0:
            target = draw(st.sampled_from(proxies))
        verb = draw(st.sampled_from(("GET", "HEAD")))
        return Payload(verb, quote(target, safe="/%:=?&.\\[]~"), private=True)

    def broken(self, draw: Draw) -> Payload:
        """A body that is not the JSON that it should be."""
        body = draw(st.sampled_from((*BODIES, HUGE)) | JUNK.map(dump))
        kind = {"Content-Type": draw(st.sampled_from(TYPES))} if draw(st.booleans()) else {}
        return Payload("POST", f"{API}/{draw(st.sampled_from(POSTS))}", body, kind)

    def path(self, draw: Draw) -> Payload:
        verbs = ("GET", "GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")
        targets = (*GETS, *(f"{API}/{road}" for road in (*MORE_GETS, *POSTS)))
        target = draw(st.sampled_from(targets))
        name = draw(st.sampled_from(("page", "deep_link", "prompt", "__theme", "x")))
        query = f"{'&' if '?' in target else '?'}{name}={draw(st.sampled_from(TEXTS))}"
        query = quote(query.encode(errors="surrogatepass"), safe="?&=")
        verb = draw(st.sampled_from(verbs))
        return Payload(verb, target + (query if draw(st.booleans()) else ""), read="stream")


FRAME = rb'File "([^"]+)", line (\d+), in (\S+)(\n[ |]*await self\.(?:app|packed)\()?'
"""Path, line and function; and the line by which an ASGI application only hands a request on."""


def our_errors(log: bytes) -> list[str]:
    """Return the frames of this project's code in the tracebacks of a log."""
    frames = [
        f"{path.decode().removeprefix(f'{ROOT}/')}:{line.decode()}:{function.decode()}"
        for path, line, function, handed_on in re.findall(FRAME, log)
        if not handed_on and b"site-packages" not in path
    ]
    ours = [one for one in frames if one.startswith(("app.py", "ouroboros_core/", "visualize/"))]
    return ours + [name.decode() for name in re.findall(rb"Traceback of a (\w+):", log)]


def send(url: str, payload: Payload, secret: bytes) -> tuple[str, str]:
    """Return the outcome and words on it."""
    request = payload.verb, payload.target, payload.body, payload.headers, PATIENCE
    try:
        with opened(url, *request) as answer:
            text = answer.readline(100_000) if payload.read == "stream" else answer.read()
        leaks = secret, b"root:x:0:0:", b"build-backend = ", b"models, tabs and flags put together"
        if any(leak in text for leak in leaks) or (payload.private and answer.status == 200):
            return "a file was served", text[:100].decode(errors="replace")
        if answer.status == 503 and b"queue is full" in text.lower():
            return "the queue is full", ""
        if answer.status != 200 or payload.read in ("answer", "stream"):
            return f"HTTP {answer.status // 100}xx", text[:1000].decode(errors="replace")
        return followed(url, payload, json.loads(text)["event_id"])
    except TimeoutError:
        return "hang", f"no word for {PATIENCE} seconds"
    except ConnectionRefusedError as error:
        return "dead", str(error)
    except (OSError, HTTPException, ValueError) as error:
        return "cut", repr(error)[:300]


def followed(url: str, payload: Payload, event: str) -> tuple[str, str]:
    """Follow a run to its end; a draft model alone may write another text."""
    start = time.monotonic()
    with closing(follow(url, event, payload.session)) as messages:
        for stage, value in messages:
            if stage == "complete":
                if "root:x:0:0:" in str(value):
                    return "a file was served", ""
                differs = isinstance(value, dict) and value.get("identical") is False
                if differs and value["trace"]["method"] != "draft_only":
                    return "another text", ""
                return "complete", ""
            if stage == "error":
                words = value.get("error") if isinstance(value, dict) else value
                return ("error with words", str(words)) if words else ("error without words", "")
            seconds, is_api = time.monotonic() - start, payload.target.endswith("/generate")
            if stage == "working" and seconds > LEAVE and not is_api:
                return "left while it computed", ""
            if seconds > PATIENCE:
                return "hang", f"no end within {PATIENCE} seconds"
    return "cut", "the stream ended before the run"


def fault_of(payload: Payload, outcome: str, words: str, log: bytes) -> str:
    """Return why an outcome is a fault of this project; empty if it is none."""
    if errors := our_errors(log):
        return f"{errors} [{outcome}]\n{log[-2000:].decode(errors='replace')}"
    if b"refused: a connection to" in log:
        return "it asked another machine"
    explained = b"Traceback" in log  # by Gradio's code
    if outcome in ("hang", "dead", "a file was served", "another text"):
        return f"{outcome}: {words}"
    if outcome in ("cut", "error without words") and not explained:
        return f"{outcome}: {words}"
    if payload.refuse and outcome == "complete":
        return "it was not refused"
    unexplained = outcome == "HTTP 5xx" and not explained and not re.search(EXPLAINED, words)
    return f"{outcome}: {words}" if unexplained else ""


@contextmanager
def serving(*flags: str) -> Iterator[tuple[str, Path]]:
    """Yield the address of a server, and the file of its log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.touch()
        where = {"FUZZ_LOG": str(log), "HF_HUB_OFFLINE": "1"}
        with server("--dtype", "float32", *flags, program=PROGRAM, environment=where) as url:
            yield url, log


@pytest.mark.timeout(7200)
def test_a_payload_hangs_or_ends_or_breaks_nothing_and_is_served_no_file(tmp_path: Path) -> None:
    """Afterwards the server writes the text that it wrote before."""
    outcomes: dict[str, int] = {}
    secret = tmp_path / "secret.txt"
    secret.write_text(random.Random().randbytes(16).hex(), encoding="utf-8")
    with serving("--max-queue", "1") as (url, log):
        page = Page(url)
        maker = Maker(page, secret)
        plain = page.ask(FEW | {"method": "autoregressive"})["text"]

        @settings(max_examples=PAYLOADS, database=None, derandomize=PAYLOADS <= 150)
        @given(st.data())
        def send_one(data: st.DataObject) -> None:
            payload = maker.make(data.draw)
            mark = log.stat().st_size
            outcome, words = send(url, payload, secret.read_bytes())
            if outcome == "cut":  # a server that refuses a request unread may close too early
                outcome, words = send(url, payload, secret.read_bytes())
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if outcome in ("HTTP 5xx", "cut"):
                time.sleep(0.05)  # the server writes its log after the answer
            fault = fault_of(payload, outcome, words, log.read_bytes()[mark:])
            request = f"{payload.verb} {payload.target} {payload.headers}"
            assert not fault, f"{request} {payload.body[:300]!r}: {fault}"

        send_one()
        assert page.ask(FEW | {"method": "union"})["text"] == plain
    print(outcomes)
    assert outcomes["complete"] and outcomes["error with words"]


def test_errors_of_this_project_are_told_from_gradios() -> None:
    head = "Traceback (most recent call last):\n"
    frame = '  File "{}", line 7, in work\n    work()\n'
    gradio = frame.format("/x/site-packages/gradio/queueing.py")
    ours = frame.format(ROOT / "visualize/run/view.py")
    service = frame.format(ROOT / "visualize/server/service.py")
    handed_on = service.replace("    work()", "    await self.app(scope, receive, send)")
    expected = ["visualize/run/view.py:7:work"]
    assert our_errors(f"{head}{gradio}ValueError: no\n".encode()) == []
    assert our_errors(f"{head}{ours}{gradio}TypeError: x\n".encode()) == expected
    assert our_errors(f"{head}{handed_on}{gradio}OSError: z\n".encode()) == []
    assert our_errors(f"    | {head}    | {ours}    | KeyError: 1\n".encode()) == expected
    unforeseen = f"ERROR fault 1a2b, Traceback of a MemoryError:\n{ours}the next line\n"
    assert our_errors(unforeseen.encode()) == [*expected, "MemoryError"]
