"""Middleware between network and page: request limits, refused routes, compression, log."""

from __future__ import annotations

import logging
import re
import sys

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 48 * 2**20
"""Largest request: more than the largest trace that may be opened, as JSON in JSON."""
UNUSED = re.compile(
    r"/+(gradio_api/+)?(upload|process_recording|deep_link|proxy=.*|file=/*https?:.*|stream/.*|run-history/.*)/*$",
    re.IGNORECASE,
)
"""Gradio's routes for uploads and other servers, which the page does not need."""
NO_FILES = (
    "no files are taken here, and no other server is asked: the page reads files in the browser"
)


class Gate:
    """ASGI middleware: refuses large requests (413), uploads and other servers (403), unread."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self.app, self.most_bytes = app, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if UNUSED.match(str(scope["path"])) or headers.get(b"content-type", b"").lower().startswith(
            b"multipart/"
        ):
            await JSONResponse({"detail": NO_FILES}, 403)(scope, receive, send)
            return
        limit = f"a request may have at most {self.most_bytes // 2**20} MiB"
        too_large = JSONResponse({"detail": limit}, 413)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.most_bytes:
            await too_large(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            """Receive; end a body whose length was missing or wrong when it is too large."""
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return {"type": "http.disconnect"} if received > self.most_bytes else message

        await self.app(scope, counted, send)


class Packed:
    """ASGI middleware: compresses what Gradio does not: addresses without an ending, as the page.

    Streams of events pass at once: they must not wait until there is enough to compress.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.packed = app, GZipMiddleware(app, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        plain = scope["type"] != "http" or "." in str(scope["path"]).rsplit("/", 1)[-1]
        if plain:
            await self.app(scope, receive, send)
        else:
            await self.packed(scope, receive, send)


HTML = "text/html"


class Opening:
    """ASGI middleware: puts HTML into the page that must be visible before Gradio's scripts run."""

    def __init__(self, app: ASGIApp, head: str, body: str) -> None:
        """head: HTML at the end of the head; body: at the beginning of the body."""
        self.app, self.head, self.body = app, head.encode(), body.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        below = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", "")))
        if scope["type"] != "http" or scope["method"] != "GET" or below not in ("", "/"):
            await self.app(scope, receive, send)
            return
        begun: Message = {}
        chunks: list[bytes] = []

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = Headers(raw=message.get("headers", []))
                if message["status"] == 200 and headers.get("content-type", "").startswith(HTML):
                    begun.update(message)
                    return
            if not begun:
                await send(message)
                return
            chunks.append(message.get("body", b""))
            if message.get("more_body"):
                return
            page = self._opened(b"".join(chunks))
            MutableHeaders(raw=begun["headers"])["content-length"] = str(len(page))
            await send(begun)
            await send({"type": "http.response.body", "body": page})

        await self.app(scope, receive, opened)

    def _opened(self, page: bytes) -> bytes:
        """Return the page with both; other content unchanged."""
        head, middle, rest = page.partition(b"</head>")
        before, tag, after = rest.partition(b"<gradio-app")
        if not tag:
            return page
        return b"".join((head, self.head, middle, before, self.body, tag, after))


async def malformed(_: Request, error: Exception) -> JSONResponse:
    """Answer a malformed request: where and why, without the value.

    The value need not be JSON: NaN, half a surrogate pair.
    """
    problems = error.errors() if isinstance(error, RequestValidationError) else ()
    detail = [
        {"where": ".".join(map(str, problem["loc"])), "why": str(problem["msg"])}
        for problem in problems
    ]
    return JSONResponse({"detail": detail}, 422)


def write_log() -> None:
    """Write the log to the standard error: a JSON line a job, and unforeseen errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("ouroboros")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
