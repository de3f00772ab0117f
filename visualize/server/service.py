"""Middleware between the network and the page: request limits, refused routes, compression and the
log."""

from __future__ import annotations

import logging
import re
import sys
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 48 * 2**20
"""Of one request: more than the greatest trace that may be opened, as JSON in JSON."""
UNUSED = re.compile(
    r"/+(gradio_api/+)?(upload|process_recording|deep_link|proxy=.*|file=/*https?:.*|stream/.*|run-history/.*)/*$",
    re.IGNORECASE,
)
"""Ways of Gradio's by which files come in or other servers are asked. The page needs none: files
are read in the browser."""
NO_FILES = (
    "no files are taken here, and no other server is asked: the page reads files in the browser"
)


class Gate:
    """ASGI middleware: refuses what is too large (413), and files and addresses of others (403),
    before anything is read."""

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
        told = JSONResponse({"detail": limit}, 413)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.most_bytes:
            await told(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            """A body without a length, or with a wrong one, ends where it grows too large."""
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            return {"type": "http.disconnect"} if seen > self.most_bytes else message

        await self.app(scope, counted, send)


class Packed:
    """ASGI middleware: compresses what Gradio leaves as it is, which is all whose address has no
    ending, the page itself first.

    Streams of events pass as they come: they must not wait until there is enough to pack.
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
    """ASGI middleware: puts what is to be there from the first moment into the page's own HTML.
    Gradio's scripts would bring it only when they have run."""

    def __init__(self, app: ASGIApp, head: str, body: str) -> None:
        """head: HTML at the end of the head; body: at the beginning of the body."""
        self.app, self.head, self.body = app, head.encode(), body.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        below = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", "")))
        if scope["type"] != "http" or scope["method"] != "GET" or below not in ("", "/"):
            await self.app(scope, receive, send)
            return
        begun: Message = {}
        parts: list[bytes] = []

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = Headers(raw=message.get("headers", []))
                if message["status"] == 200 and headers.get("content-type", "").startswith(HTML):
                    begun.update(message)
                    return
            if not begun:
                await send(message)
                return
            parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            page = self._opened(b"".join(parts))
            MutableHeaders(raw=begun["headers"])["content-length"] = str(len(page))
            await send(begun)
            await send({"type": "http.response.body", "body": page})

        await self.app(scope, receive, opened)

    def _opened(self, page: bytes) -> bytes:
        """The page with both in it; anything else as it is."""
        head, middle, rest = page.partition(b"</head>")
        before, tag, after = rest.partition(b"<gradio-app")
        if not tag:
            return page
        return b"".join((head, self.head, middle, before, self.body, tag, after))


async def malformed(_: Request, error: Exception) -> JSONResponse:
    """An envelope that is none: where and why, without the value, which need not be JSON (NaN, half
    a surrogate pair)."""
    problems = error.errors() if isinstance(error, RequestValidationError) else ()
    told = [{"where": ".".join(map(str, one["loc"])), "why": str(one["msg"])} for one in problems]
    return JSONResponse({"detail": told}, 422)


def write_log() -> None:
    """Our own log to the standard error: a JSON line a run, and what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("ouroboros")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
