"""The page: models, tabs and flags put together. It computes nothing.

python app.py [--host 127.0.0.1] [--port 7860] [--max-queue 20] [--public] [--pairs FILE]
[--offline]
              [--target X --draft Y] [--device D] [--dtype T]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
if "--offline" in sys.argv:
    os.environ["HF_HUB_OFFLINE"] = "1"  # is read when the packages below are imported

from visualize.server import lent  # before torch  # isort: skip

import gradio as gr
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.middleware import Middleware

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.allowed import PairChoice, read_pairs
from visualize import palette
from visualize.components.address import Addresses, PageHeader
from visualize.components.fonts import FONTS_PATH, faces, font
from visualize.components.modules import module, modules_path, preloaded
from visualize.components.plot_view import PLOTLY, library
from visualize.server.endpoint import add_endpoint
from visualize.server.limits import PUBLIC, Limits
from visualize.server.models import EMBEDDED, Models
from visualize.server.runner import Runner
from visualize.server.service import Gate, Packed, malformed, write_log
from visualize.tabs.drafts import DraftsPanel
from visualize.tabs.generate import GeneratePanel
from visualize.tabs.learn import LearnPanel
from visualize.tabs.race import RacePanel
from visualize.tabs.results import ResultsPanel
from visualize.tabs.sweep import SweepPanel
from visualize.tabs.traces import WATCH, TracesPanel

PLACES = {WATCH: "Watch", "race": "Race", "learn": "Learn", "lab": "Lab"}
"""The labels of the places by their ids, which their addresses name, in their order."""
LAB = {
    "sweep": "Sweep",
    "results": "Results",
    "runs": "Recorded runs",
    "drafts": "Drafts and models",
}
"""The labels of what lies in the Lab, likewise; each has an address of its own."""
ADDRESSES = Addresses(tuple(PLACES), dict.fromkeys(LAB, "lab"))
FIRST = (
    "address",
    "token_view",
    "ask_view",
    "method_cards",
    "link_view",
    "save_view",
    "details_view",
    "plot_view",
)
"""The modules of what the page shows at first."""
MAX_QUEUE = 20
"""The number of runs that may wait; further ones are refused."""


SESSIONS = 200
"""Visitors whose runs are kept; the oldest is forgotten when there are more."""


def theme() -> Any:
    """Fonts that ship with the page: nothing is fetched from elsewhere."""
    base = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=["Inter", "system-ui", "sans-serif"],
        font_mono=["JetBrains Mono", "ui-monospace", "Menlo", "monospace"],
    )
    return base.set(
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_400",
        block_label_text_color="*neutral_600",
        block_title_text_color="*neutral_700",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
    )


def build(runner: Runner, max_queue: int = MAX_QUEUE) -> gr.Blocks:
    """The page, not yet launched."""
    with gr.Blocks(
        title="Ouroboros: speculative decoding, seen token by token",
        analytics_enabled=False,
        fill_width=True,
    ) as page:
        with gr.Row(elem_classes="ouro-top"):
            header = PageHeader(ADDRESSES)
            pair = choose_pair(runner.models)
        with gr.Tabs(elem_classes="ouro-places") as places:
            watch, race, learn, lab = (gr.Tab(label, id=tab) for tab, label in PLACES.items())
            with watch:
                panel = GeneratePanel(runner, pair)
            with race:
                RacePanel(runner, pair)
            with learn:
                LearnPanel()
            with lab, gr.Tabs(elem_classes="ouro-lab") as pages:
                swept, results, runs, drafts = (gr.Tab(label, id=tab) for tab, label in LAB.items())
                with swept:
                    sweep = SweepPanel(runner, panel, places)
                with results:
                    ResultsPanel()
                with runs:
                    TracesPanel(panel, places, runs)
                with drafts:
                    DraftsPanel()
        add_endpoint(runner)
        shown = (watch, race, learn, lab, swept, results, runs, drafts)
        opened = dict(zip((*PLACES, *LAB), shown, strict=True))
        address_tabs(page, header, (places, pages), opened)
        panel.attach_loading(page)
        sweep.attach(page)
    return page.queue(max_size=max_queue)


def address_tabs(
    page: gr.Blocks, header: PageHeader, tabs: Sequence[Any], each: Mapping[str, Any]
) -> None:
    """Open what the address names, and write into the address what is open; all of it in the
    browser."""
    here: dict[str, Any] = {"fn": None, "api_visibility": "private", "show_progress": "hidden"}
    for name, tab in each.items():
        tab.select(js=ADDRESSES.opened(name), **here)
    for event in (page.load, header.go):
        event(js=ADDRESSES.named(), outputs=list(tabs), **here)


def choose_pair(models: Models) -> Any:
    """Where a visitor chooses the models, for all tabs; hidden where there is no choice."""
    names = list(models.choices)
    shown = models.own or len(models.choices) > 1
    more: dict[str, Any] = {
        "visible": shown,
        "allow_custom_value": models.own,
        "elem_id": "pair",
        "min_width": 0,
        "show_label": False,
        "container": False,
    }
    return gr.Dropdown(names, value=models.first, label="Models", **more)


def launch_options() -> dict[str, Any]:
    """What belongs to launch() in Gradio 6: theme, styles, no traffic to anybody."""
    head = f"{faces()}\n{preloaded(*FIRST, 'kept')}"
    shown = {"theme": theme(), "css": palette.style(), "head": head, "footer_links": ["api"]}
    return {**shown, "show_error": True, "run_history": False, "state_session_capacity": SESSIONS}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve the page.", allow_abbrev=False)
    parser.add_argument(
        "--host",
        default=os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"),
        help="default: 127.0.0.1",
    )
    parser.add_argument(
        "--port", type=int, default=os.environ.get("PORT", "7860"), help="default: 7860"
    )
    public = (
        "pairs from a list only, and an hour's budget for every visitor (default: where SPACE_ID "
        "is set)"
    )
    parser.add_argument(
        "--public", action="store_true", default=bool(os.environ.get("SPACE_ID")), help=public
    )
    parser.add_argument(
        "--pairs",
        metavar="FILE",
        default=listed(),
        help="JSON list of the pairs that visitors may choose",
    )
    parser.add_argument(
        "--offline", action="store_true", help="ask no package index and no model hub for anything"
    )
    parser.add_argument(
        "--max-queue",
        default=str(MAX_QUEUE),
        metavar="N",
        help=f"runs that may wait (default: {MAX_QUEUE})",
    )
    options.add_pair(parser)
    return parser.parse_args(argv)


def listed() -> str | None:
    """The list of pairs where no flag names one: OUROBOROS_PAIRS, or on Spaces the file beside this
    one."""
    beside = Path(__file__).parent / "pairs.json"
    there = str(beside) if os.environ.get("SPACE_ID") and beside.exists() else None
    return os.environ.get("OUROBOROS_PAIRS") or there


def offered(arguments: argparse.Namespace) -> Sequence[PairChoice]:
    """The pairs that visitors may choose; raises InvalidInput for a list that cannot be read, or a
    pair beside it."""
    named = [getattr(arguments, name) for name in ("target", "draft", "head", "corpus")]
    if not arguments.pairs:
        name = " + ".join(one for one in named[:2] if one) if arguments.target else EMBEDDED
        return [
            PairChoice(
                name=name, **dict(zip(("target", "draft", "head", "corpus"), named, strict=True))
            )
        ]
    if any(named):
        raise InvalidInput(
            f"--pairs {arguments.pairs} lists the models: leave --target, --draft, --head and "
            "--corpus out"
        )
    return read_pairs(Path(arguments.pairs))


def load(arguments: argparse.Namespace, choice: PairChoice) -> Any:
    """The pair, on this machine as the flags say."""
    parts = choice.model_dump(exclude={"name"})
    return options.load_pair(
        argparse.Namespace(**{**vars(arguments), **parts, "checks": not lent.ZERO})
    )


def health(runner: Runner) -> JSONResponse:
    """For monitoring: 200 while the page serves, 503 if the models could not be loaded."""
    state = runner.models.health
    return JSONResponse({"status": state}, 503 if state == "failed" else 200)


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        max_queue = options.whole_number(arguments.max_queue, "max_queue", 1)
        choices = offered(arguments)
    except InvalidInput as error:
        sys.exit(f"error: {error}")
    write_log()
    limits = PUBLIC if arguments.public else Limits()
    runner = Runner(
        Models(partial(load, arguments), choices, own=limits.own_models), limits, max_queue
    )
    page = build(runner, max_queue)
    runner.models.start()
    try:
        where = {"server_name": arguments.host, "server_port": arguments.port}
        routes = [
            APIRoute("/healthz", partial(health, runner)),
            APIRoute(f"/{PLOTLY}", library),
            APIRoute(f"/{modules_path()}/{{name}}", module),
            APIRoute(f"/{FONTS_PATH}/{{name}}", font),
        ]  # there from the first answer on
        between = [Middleware(Gate), Middleware(Packed)]
        more = {
            "routes": routes,
            "middleware": between,
            "exception_handlers": {RequestValidationError: malformed},
        }
        page.launch(
            **where,
            prevent_thread_lock=True,
            quiet=True,
            app_kwargs=more,
            max_threads=40 + max_queue,
            **launch_options(),
        )
    except OSError as error:
        if "empty port" not in str(error):
            sys.exit(
                f"error: the page cannot be served on {arguments.host}, port {arguments.port}: "
                f"{error}"
            )
        sys.exit(
            f"error: port {arguments.port} is taken; choose another, as in "
            f"PORT={arguments.port + 1} make run"
        )
    print(f"The page is on http://{arguments.host}:{arguments.port}", flush=True)
    try:
        page.block_thread()
    finally:
        page.close(verbose=False)


if __name__ == "__main__":
    main()
