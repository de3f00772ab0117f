"""What is sent to the page's server over HTTP, well-formed or not, and how what it answers is
read."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.sampling import Sampling
from visualize.kit.settings_view import declaration

API = "/gradio_api"
JSON = {"Content-Type": "application/json"}
STAGES = {"process_generating": "working", "generating": "working", "unexpected_error": "error"}


@contextmanager
def opened(
    url: str,
    verb: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] = JSON,
    timeout: float = 60,
) -> Iterator[HTTPResponse]:
    """The answer to a request, to be read; leaving early closes the connection. The target is sent
    as it is, dots and all."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=timeout)
    try:
        connection.request(verb, target, body or None, dict(headers))
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def follow(url: str, event: str, session: str) -> Generator[tuple[str, Any], None, None]:
    """(stage, value) of a run until `complete` or `error`; closing it closes the connection. The
    first stage is `open`.

    A session is a browser's, which is told of all its runs in one stream; without one it is curl's.
    """
    name = quote(session.encode(errors="surrogatepass"))
    target = f"{API}/queue/data?session_hash={name}" if session else f"{API}/call/generate/{event}"
    with opened(url, "GET", target) as answer:
        yield "open", answer.status
        said = ""
        for line in answer:
            if line.startswith(b"event:"):
                said = line[6:].strip().decode()
            elif line.startswith(b"data:"):
                stage, value = _read(said, json.loads(line[5:]), event)
                yield stage, value
                if stage in ("complete", "error"):
                    return


def _read(name: str, content: Any, event: str) -> tuple[str, Any]:
    """Stage and value of a message, in the form of either stream."""
    if name:
        value = content[0] if isinstance(content, list) and content else content
        return STAGES.get(name, name), value
    if content.get("event_id") not in (event, None):
        return "another's", None
    output = content.get("output") or {}
    if content["msg"] == "process_completed":
        data = output.get("data") or [None]
        return ("complete", data[0]) if content["success"] else ("error", output)
    return STAGES.get(content["msg"], content["msg"]), content.get("message")


@dataclass(frozen=True)
class Payload:
    """A request, and how its outcome is read.

    read     `answer`: that is all; `call` and `join`: the run is followed to its end; `stream`: the
             first line is read
    refuse   whether a run that ends well would be wrong
    private  whether an answer of 200 would give away a file
    """

    family: str
    verb: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    read: str = "answer"
    session: str = ""
    refuse: bool = False
    private: bool = False


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
HTML = "<img src=x onerror=alert(1)><script>alert(1)</script>"
TEXTS = (
    f"¦ ¦0¦-1¦NaN¦true¦null¦auto¦match¦greedy¦union¦sam¦none¦\x00¦a\x00b\x1b[31m\r\n\t\x7f¦\ud800¦x\udfffy¦\u202egnp.exe¦🐈¦"
    f"{HTML}¦javascript:alert(1)¦{{{{7*7}}}}${{7*7}}<%=7*7%>¦{{0.__class__.__mro__}}¦%s%n%x¦'; "
    f"DROP TABLE runs¦{'é' * 99}¦gamma¦"
    "../../../etc/passwd¦/etc/passwd¦file:///etc/passwd¦__class__¦constructor¦<|im_start|>system\n<|im_end|>¦<|endoftext|>¦1,2,3¦"
    "1:99999999¦0:1:1e-9¦gamma=1=2¦1e9999¦٣¦draft=/etc/passwd¦no/such-model¦draft¦a,b\nc¦autoregressive¦\u200b\ufeff"
).split("¦")
NUMBERS = (
    0,
    -1,
    1.5,
    0.0,
    -0.0,
    1e-320,
    2**31,
    2**32,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
    -(10**400),
)
FLOATS = (math.nan, math.inf, -math.inf, 1e308)
FILE = {
    "path": "/etc/passwd",
    "meta": {"_type": "gradio.FileData"},
    "orig_name": "../x",
    "url": "http://192.0.2.1/x",
}
OTHERS = [
    FILE,
    [FILE],
    *json.loads(
        '[null,true,false,[],{},[[]],[null],[1,2],[["a",1]],{"a":{"b":[]}},{"__type__":"update"}]'
    ),
]
"""None of them asks for more than a few tokens, wherever it stands."""
FEW_TOKENS = 2


def junk(rng: random.Random) -> Any:
    """Whatever JSON can hold, and what Python takes for JSON."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(TEXTS)
    if kind < 0.6:
        return rng.choice(NUMBERS)
    if kind < 0.67:
        return rng.choice(FLOATS)
    if kind < 0.9:
        return rng.choice(OTHERS)
    if kind < 0.95:
        kinds = rng.choices((0, 32, 0x3000, 0xD800), k=20)
        return "".join(chr(kind + rng.randrange(999)) for kind in kinds)
    if kind < 0.96:
        return rng.choice((HTML, "a ", "\x00", "🐈")) * rng.choice((50_000, 200_000))
    value: Any = rng.choice(TEXTS)
    for _ in range(rng.choice((3, 30, 300))):
        value = [value] if rng.random() < 0.5 else {rng.choice(TEXTS): value}
    return value


def settings_of(method: Any, rng: random.Random) -> dict[str, Any]:
    """Some of a method's settings, in range and not expensive; none where those drawn do not go
    together."""
    drawn: dict[str, Any] = {}
    for name, setting in method.Hyperparameters.settings().items():
        if rng.random() < 0.4:
            numbers = (
                ()
                if setting.low is None
                else (setting.low, min(setting.high or 0, setting.low + 5), setting.default)
            )
            texts = setting.choices or (setting.grammar.samples if setting.grammar else ())
            drawn[name] = rng.choice(numbers or texts or (True, False))
    try:
        method.Hyperparameters.parse(drawn)
    except InvalidInput:
        return {}
    return drawn


def dump(content: Any) -> bytes:
    return json.dumps(content).encode()


class Maker:
    """Questions about runs and events of the page.

    config: what it is made of; defaults: of the endpoint's arguments; secret: a path whose content
    no answer may hold.
    """

    secret = ""

    def __init__(self, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = defaults
        self.components = {one["id"]: one for one in config["components"]}
        self.events = [one for one in config["dependencies"] if one["backend_fn"]]
        in_browser = (one["inputs"] for one in config["dependencies"] if one["js"])
        self.gathered: list[int] = max(in_browser, key=len, default=[])
        self.names = [one["api_name"] for one in self.events if one["api_name"]]
        self.serving = [n for n, one in self.components.items() if one["props"].get("server_fns")]
        self.trace = (assets() / "traces" / "java-speculative.json").read_text(encoding="utf-8")

    def _arguments(self, rng: random.Random) -> dict[str, Any]:
        """Those of a short run that ends well."""
        few = {
            "prompt": rng.choice(("Hello", "1 2 3")),
            "max_new_tokens": rng.randint(1, FEW_TOKENS),
            "chat": False,
        }
        more = {
            "method": rng.choice(list(methods.available())),
            "compare": rng.random() < 0.1,
            "seed": rng.randrange(9),
        }
        how = {
            "temperature": rng.choice((0, 0, 0.8)),
            "acceptance": rng.choice(("match", "rejection", "block")),
        }
        return {**self.defaults, **few, **more, **how, "knobs": {}}

    def _run(self, rng: random.Random, _: str) -> Payload:
        given = self._arguments(rng)
        for name in rng.sample(list(given), rng.choice((0, 1, 1, 1, 2, 3))):
            given[name] = junk(rng)
        if rng.random() < 0.1:
            return Payload("", "POST", f"{API}/call/v2/generate", dump(given), read="call")
        return self._call({"data": list(given.values())})

    @staticmethod
    def _call(content: Any, name: str = "generate", refuse: bool = False) -> Payload:
        return Payload(
            "",
            "POST",
            f"{API}/call/{quote(name, safe='')}",
            dump(content),
            read="call",
            refuse=refuse,
        )

    def _settings(self, rng: random.Random, _: str) -> Payload:
        method = rng.choice(list(methods.available().values()))
        given, refuse = self._arguments(rng) | {"method": method.id}, False
        settings = list({**method.Hyperparameters.settings(), **Sampling.settings()}.values())
        setting = rng.choice(settings)
        value: Any = junk(rng)
        if setting.low is not None and setting.high is not None and rng.random() < 0.8:
            low, high = setting.low, setting.high
            inside = [
                (low, setting.low_is_open),
                (high, False),
                (True, False),
                (str(high), False),
                ("auto", setting.fixed is None),
            ]
            value, refuse = rng.choice(
                [*inside, (low - 1, True), (high + 1, True), (None, True), ([low], True)]
            )
        if setting.name in Sampling.settings():
            given[setting.name] = value
        else:
            given["knobs"] = {setting.name: value}
        if rng.random() < 0.2:
            given["knobs"] = rng.choice(
                ({rng.choice(TEXTS): junk(rng)}, junk(rng), [[setting.name, value]])
            )
            refuse = False
        return self._call({"data": list(given.values())}, refuse=refuse)

    def _shape(self, rng: random.Random, session: str) -> Payload:
        data = list(self._arguments(rng).values())
        event = rng.choice(self.events)
        content: Any = {
            "data": data,
            rng.choice(("session_hash", "fn_index", "event_data", "batched", "x")): junk(rng),
        }
        name = "generate"
        contents = (
            {"data": data[: rng.randrange(len(data))]},
            {"data": [*data, junk(rng)]},
            content,
        )
        content = rng.choice((*contents, {"data": junk(rng)}, junk(rng)))
        if rng.random() < 0.3:
            name = rng.choice((*self.names, "x", "_", "generate/x"))
            content = {"data": self._inputs(event, rng)}
        return self._call(content, name)

    def _event(self, rng: random.Random, session: str) -> Payload:
        content = self._body(rng, session)
        asked = {
            rng.choice(("prompt", "method", "tokens", "chat", "gamma", "seed")): rng.choice(TEXTS)
            for _ in range(3)
        }
        query = (
            "?" + urlencode({"prompt": "x", **asked}, errors="surrogatepass")
            if rng.random() < 0.1
            else ""
        )
        used = content.get("session_hash")
        session = used if isinstance(used, str) else ""
        return Payload(
            "", "POST", f"{API}/queue/join{query}", dump(content), read="join", session=session
        )

    def _body(self, rng: random.Random, session: str) -> dict[str, Any]:
        """Any event of the page, asked for about as the page's own script does."""
        event = rng.choice(self.events)
        told = self._told(rng, {name for _, name in event["targets"]})
        trigger = rng.choice(
            [*(one for one, _ in event["targets"]), None, rng.choice(list(self.components))]
        )
        content = {
            "fn_index": event["id"],
            "data": self._inputs(event, rng),
            "session_hash": session,
        }
        content |= {"event_data": told, "trigger_id": trigger}
        if rng.random() < 0.25:
            content[rng.choice(list(content))] = junk(rng)
        return content

    def _inputs(self, event: Mapping[str, Any], rng: random.Random) -> list[Any]:
        """Values of an event's inputs: most of them as they should be, or all; at times too few or
        too many."""
        wrong = rng.choice((0, 0, 0.1, 0.5, 1))
        given = [
            junk(rng) if rng.random() < wrong else self._right(self.components[one], rng)
            for one in event["inputs"]
        ]
        return given if rng.random() < 0.85 else rng.choice((given[:-1], [*given, junk(rng)], []))

    def _gathered(self, rng: random.Random) -> str:
        """The inputs of a run as the browser gathers them in one value, most of them right."""
        wrong = rng.choice((0, 0, 0.02, 0.2))
        values = [
            junk(rng) if rng.random() < wrong else self._right(self.components[one], rng)
            for one in self.gathered
        ]
        return json.dumps(values, default=str)

    def _right(self, component: Mapping[str, Any], rng: random.Random) -> Any:
        kind, props = component["type"], component["props"]
        if props.get("elem_id") == "ask-view" and rng.random() < 0.9:
            return self._gathered(rng)
        if props.get("elem_id") == "method-settings" and rng.random() < 0.95:
            return self._method_settings(rng)
        if kind == "state":
            return rng.choice((None, None, {"pools": {}}, {"trace": 1}, [1], "x"))
        if kind == "slider":
            low, high = props["minimum"], props["maximum"]
            return (
                low if low >= 8 else rng.choice((low, high, props.get("value"), low - 1, high + 1))
            )
        if kind == "checkbox":
            return rng.random() < 0.5
        if kind == "dropdown" and props.get("choices"):
            return rng.choice(props["choices"])[1]
        return (
            rng.choice((*TEXTS, props.get("value")))
            if kind == "textbox" and rng.random() < 0.5
            else props.get("value")
        )

    def _method_settings(self, rng: random.Random) -> str:
        """What a visitor changed of methods' settings, most of it as the page allows."""
        of: dict[str, Any] = {}
        for kind in methods.available().values():
            settings = declaration(kind)["settings"]
            of[kind.id] = {
                "auto": rng.random() < 0.5,
                "predicted": rng.choice(("", *TEXTS)),
                "values": {one["name"]: self._setting(one, rng) for one in settings},
            }
        return json.dumps({"method": rng.choice(list(of)), "of": of}, default=str)

    @staticmethod
    def _setting(declared: Mapping[str, Any], rng: random.Random) -> Any:
        """A value of a setting; of a large one the least, so that no run takes long."""
        if rng.random() < 0.05:
            return junk(rng)
        if "choices" in declared:
            return rng.choice(declared["choices"])
        if "low" not in declared:
            return declared["value"] if rng.random() < 0.5 else rng.choice(TEXTS)
        low, high = declared["low"], declared["high"]
        return low if low >= 8 else rng.choice((low, declared["value"], low - 1, high + 1))

    def _told(self, rng: random.Random, names: set[str]) -> Any:
        """What an event says of itself, by the event's name."""
        if "open_file" in names and rng.random() < 0.8:
            return {"name": rng.choice(TEXTS), "text": self._file_text(rng)}
        value = (
            junk(rng)
            if rng.random() < 0.5
            else rng.choice(("json", "csv", "html", "link", "java-ouroboros", 0, 1))
        )
        key = {
            "save_run": "kind",
            "open_recorded": "name",
            "open_cell": "cell",
            "point_select": "data",
        }
        return (
            {next((key[name] for name in names if name in key), "value"): value}
            if rng.random() < 0.8
            else junk(rng)
        )

    def _file_text(self, rng: random.Random) -> str:
        """A recorded run, one to three of its values something else."""
        content = json.loads(self.trace)
        for _ in range(rng.randint(1, 3)):
            container: Any = content
            while True:
                key = (
                    rng.choice(list(container))
                    if isinstance(container, dict)
                    else rng.randrange(len(container))
                )
                if (
                    not container[key]
                    or not isinstance(container[key], dict | list)
                    or rng.random() < 0.15
                ):
                    break
                container = container[key]
            container[key] = junk(rng)
        return json.dumps(content)[: None if rng.random() < 0.9 else rng.randrange(5000)]

    def _direct(self, rng: random.Random, session: str) -> Payload:
        """Past the queue, which Gradio lets anybody do."""
        name = rng.choice(("generate", "predict", "x", *self.names))
        content = (
            {"data": list(self._arguments(rng).values())}
            if name == "generate"
            else self._body(rng, session)
        )
        return Payload(
            "", "POST", f"{API}/{rng.choice(('run', 'api'))}/{quote(name)}", dump(content)
        )

    def _served(self, rng: random.Random, session: str) -> Payload:
        names = ("run", "run", "run", "preprocess", "__init__", "get_config", "", "x")
        data = rng.choice((junk(rng), {"name": junk(rng)}, {"name": "java-ouroboros"}))
        number = rng.choice((*self.serving * 3, rng.choice(list(self.components)), junk(rng)))
        content = {
            "component_id": number,
            "fn_name": rng.choice(names),
            "session_hash": session,
            "data": data,
        }
        if rng.random() < 0.2:
            content[rng.choice(list(content))] = junk(rng)
        return Payload("", "POST", f"{API}/component_server", dump(content))

    def _upload(self, rng: random.Random, session: str) -> Payload:
        name = rng.choice(
            (
                "a.txt",
                self.secret,
                "../../../x",
                "x" * 5000,
                "",
                "a\\..\\b",
                "CON",
                "é\x00.html",
                '";x="',
            )
        )
        part = f'--B\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\nx\r\n'.encode()
        body = rng.choice(
            (
                part * rng.choice((1, 3, 30)) + b"--B--\r\n",
                part,
                b"--B--\r\n",
                b"",
                part[: rng.randrange(90)],
            )
        )
        kind = rng.choice(
            ("multipart/form-data; boundary=B",) * 3 + ("multipart/form-data", "application/json")
        )
        target = (
            f"{API}/{rng.choice(('upload', 'upload/', 'process_recording', 'component_server'))}"
        )
        return Payload("", "POST", target, body, {"Content-Type": kind})
