"""The page over HTTP: routes, limits, start and end. `ouroboros serve` has its flags."""

from __future__ import annotations

import ipaddress
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.middleware import Middleware

from ouroboros_core.loading.allowed import PairChoice
from visualize import page
from visualize.kit.modules import FONTS_PATH, font, module, modules_path
from visualize.kit.plot_view import PLOTLY, library
from visualize.server import zero_gpu
from visualize.server.limits import PUBLIC, Limits
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.server.service import Gate, Opening, Packed, malformed, write_log

LENT = zero_gpu.ZERO
"""Whether the GPU belongs to others, so that nothing is computed while the models are loaded."""


def health(runner: Runner) -> JSONResponse:
    """Answer 200 while the page serves, 503 if the models could not be loaded; for monitoring."""
    state = runner.models.health
    return JSONResponse({"status": state}, 503 if state == "failed" else 200)


def launch(
    load: Callable[[PairChoice], Any],
    choices: Sequence[PairChoice],
    *,
    host: str,
    port: int,
    public: bool,
    max_queue: int,
) -> None:
    """Serve the page until SIGTERM or Ctrl-C.

    load       makes a Pair of one of the choices
    choices    the pairs that visitors may choose, the first of which is loaded at once
    host       with an address that other machines reach, visitors may name no other models
    public     for strangers: see `visualize.server.limits`
    max_queue  runs that may wait

    Ends the process with a message where the page cannot be served there.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    write_log()
    limits = PUBLIC if public else Limits()
    own = limits.own_models and is_loopback(host)
    runner = Runner(Models(load, choices, own=own), limits, max_queue)
    blocks = page.build(runner, max_queue)
    runner.models.start()
    try:
        _launch(blocks, runner, host, port, max_queue)
    except OSError as error:
        if "empty port" not in str(error):
            sys.exit(f"error: the page cannot be served on {host}, port {port}: {error}")
        sys.exit(f"error: port {port} is taken; choose another, as in --port {port + 1}")
    print(f"The page is on http://{host}:{port}", flush=True)
    try:
        blocks.block_thread()
    finally:
        blocks.close(verbose=False)


def is_loopback(host: str) -> bool:
    """Return whether a page at this address is served to this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _launch(blocks: Any, runner: Runner, host: str, port: int, max_queue: int) -> None:
    routes = [
        APIRoute("/healthz", partial(health, runner)),
        APIRoute(f"/{PLOTLY}", library),
        APIRoute(f"/{modules_path()}/{{name:path}}", module),
        APIRoute(f"/{FONTS_PATH}/{{name}}", font),
    ]  # there from the first answer on
    between = [
        Middleware(Gate),
        Middleware(Packed),
        Middleware(Opening, page.head(), page.opening()),
    ]
    more = {
        "routes": routes,
        "middleware": between,
        "exception_handlers": {RequestValidationError: malformed},
    }
    blocks.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        app_kwargs=more,
        max_threads=40 + max_queue,
        **page.launch_options(),
    )
