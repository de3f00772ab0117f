"""Calls of the page's server over HTTP, well-formed or not."""

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import quote

API = "/gradio_api"
JSON = {"Content-Type": "application/json"}
STAGES = {"process_generating": "working", "generating": "working", "unexpected_error": "error"}


class Refused(Exception):
    """A status other than 200: (status, text of the answer)."""


@contextmanager
def opened(
    url: str,
    verb: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] = JSON,
    timeout: float = 60,
) -> Iterator[HTTPResponse]:
    """Send a request, its target as it is, dots and all; leaving early closes the connection."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=timeout)
    try:
        connection.request(verb, target, body or None, dict(headers))
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def follow(url: str, event: str, session: str) -> Generator[tuple[str, Any], None, None]:
    """Yield (stage, value) of a run, from `open` to `complete` or `error`.

    A session is a browser's, which gets all its runs in one stream; without one it is curl's.
    """
    name = quote(session.encode(errors="surrogatepass"))
    target = f"{API}/queue/data?session_hash={name}" if session else f"{API}/call/generate/{event}"
    with opened(url, "GET", target) as answer:
        yield "open", answer.status
        event_name = ""
        for line in answer:
            if line.startswith(b"event:"):
                event_name = line[6:].strip().decode()
            elif line.startswith(b"data:"):
                stage, value = _read(event_name, json.loads(line[5:]), event)
                yield stage, value
                if stage in ("complete", "error"):
                    return


def _read(name: str, content: Any, event: str) -> tuple[str, Any]:
    """Return stage and value of a message of either kind of stream."""
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


class Page:
    """The server as a program sees it; runs without a session are curl's, with one a browser's."""

    def __init__(self, url: str) -> None:
        self.url, self.times_full = url, 0
        while self.send("GET", "/healthz")["status"] == "loading":
            time.sleep(0.2)
        self.config = self.send("GET", "/config")
        parameters = self.send("GET", f"{API}/info")["named_endpoints"]["/generate"]["parameters"]
        self.defaults = {p["parameter_name"]: p.get("parameter_default") for p in parameters}
        events = self.config["dependencies"]
        self.index = next(event["id"] for event in events if event["api_name"] == "generate")

    def send(self, verb: str, target: str, content: Any = None) -> Any:
        """Return the JSON of an answer; raises Refused."""
        body = b"" if content is None else json.dumps(content).encode()
        with opened(self.url, verb, target, body) as answer:
            text = answer.read()
        if answer.status != 200:
            raise Refused(answer.status, text.decode(errors="replace"))
        return json.loads(text)

    def join(self, inputs: Mapping[str, Any], session: str = "") -> str:
        """Return the id of a new run; repeats the call while the queue is full. Raises Refused."""
        data = [inputs.get(name, default) for name, default in self.defaults.items()]
        content: dict[str, Any] = {"data": data}
        content |= {"fn_index": self.index, "session_hash": session} if session else {}
        target = f"{API}/{'queue/join' if session else 'call/generate'}"
        while True:
            try:
                return str(self.send("POST", target, content)["event_id"])
            except Refused as error:
                if error.args[0] != 503 or "queue is full" not in error.args[1].lower():
                    raise
            self.times_full += 1
            time.sleep(0.5)

    def ask(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the last value of a run; raises Refused."""
        *_, (stage, value) = follow(self.url, self.join(inputs), "")
        if stage != "complete":
            raise Refused(200, str(value))
        result: dict[str, Any] = value
        return result
