"""What stands between the network and the page: how much may come in, what is not served, and the log."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from ouroboros_core.words import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 48 * 2**20
"""Of one request: more than the greatest trace that may be opened, as JSON in JSON."""
UNUSED = ("/gradio_api/upload", "/upload")
"""Gradio's way for files to come in; the page needs none, what is opened is read in the browser."""


class Gate:
    """ASGI middleware: refuses bodies that are too large (413) and the upload of files (403), before they are read."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self.app, self.most_bytes = app, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if str(scope["path"]).rstrip("/") in UNUSED:
            await JSONResponse({"detail": say("service.uploads")}, 403)(scope, receive, send)
            return
        told = JSONResponse({"detail": say("service.large", most=self.most_bytes // 2**20)}, 413)
        length = dict(scope["headers"]).get(b"content-length", b"0")
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


def write_log() -> None:
    """Our own log to the standard error: a JSON line a run, and what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("ouroboros")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
