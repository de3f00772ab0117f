"""The page: models, panels and flags put together. It computes nothing.

python app.py [--host 127.0.0.1] [--port 7860] [--max-queue 20] [--target X --draft Y] [--device D] [--dtype T]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.words import say
from visualize import palette
from visualize.panels.drafts import DraftsPanel
from visualize.panels.endpoint import add_endpoint
from visualize.panels.generate import GeneratePanel
from visualize.panels.learn import LearnPanel
from visualize.panels.race import RacePanel
from visualize.panels.studio import Studio
from visualize.panels.sweep import SweepPanel
from visualize.panels.traces import GENERATE, TracesPanel

HEADER = f"""
<header class="ouro-header">
  <h1>{say("page.title")}</h1>
  <p>{say("page.motto")}</p>
</header>
"""
MAX_QUEUE = 20
"""Runs that may wait; who comes then is told so."""


def theme() -> Any:
    """System fonts only: nothing is fetched from elsewhere."""
    base = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "monospace"],
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


def build(studio: Studio, max_queue: int = MAX_QUEUE) -> gr.Blocks:
    """The page, not yet launched."""
    with gr.Blocks(title=say("page.window"), analytics_enabled=False) as page:
        gr.HTML(HEADER)
        with gr.Tabs() as tabs:
            with gr.Tab(say("tab.generate"), id=GENERATE):
                panel = GeneratePanel(studio)
            with gr.Tab(say("tab.race")):
                RacePanel(studio)
            with gr.Tab(say("tab.sweep")):
                sweep = SweepPanel(studio, panel, tabs)
            with gr.Tab(say("tab.learn")):
                LearnPanel()
            with gr.Tab(say("tab.traces")) as traces:
                TracesPanel(panel, tabs, traces)
            with gr.Tab(say("tab.drafts")):
                DraftsPanel()
        add_endpoint(studio)
        panel.attach_loading(page)
        sweep.attach(page)
    return page.queue(max_size=max_queue)


def launch_options() -> dict[str, Any]:
    """What belongs to launch() in Gradio 6: theme, styles, no traffic to anybody."""
    style = (assets() / "css" / "page.css").read_text() + "\n" + palette.css()
    return {"theme": theme(), "css": style, "run_history": False, "footer_links": ["api"], "show_error": True}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve the page.", allow_abbrev=False)
    parser.add_argument("--host", default=os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"), help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=os.environ.get("PORT", "7860"), help="default: 7860")
    parser.add_argument("--max-queue", default=str(MAX_QUEUE), metavar="N", help=f"runs that may wait (default: {MAX_QUEUE})")
    options.add_pair(parser)
    return parser.parse_args(argv)


def health(studio: Studio) -> JSONResponse:
    """For whoever watches over the server: 200 while it serves, 503 if the models could not be loaded."""
    return JSONResponse({"status": studio.health}, 503 if studio.health == "failed" else 200)


def main() -> None:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        max_queue = options.whole_number(arguments.max_queue, "max_queue", 1)
    except InvalidInput as error:
        sys.exit(f"error: {error}")
    studio = Studio(partial(options.load_pair, arguments))
    page = build(studio, max_queue)
    studio.start()
    try:
        where = {"server_name": arguments.host, "server_port": arguments.port}
        routes = [APIRoute("/healthz", partial(health, studio))]  # there from the first answer on
        page.launch(**where, prevent_thread_lock=True, quiet=True, app_kwargs={"routes": routes}, **launch_options())
    except OSError:
        sys.exit(f"error: port {arguments.port} is taken; choose another, as in PORT={arguments.port + 1} make run")
    print(f"The page is on http://{arguments.host}:{arguments.port}", flush=True)
    try:
        page.block_thread()
    finally:
        page.close(verbose=False)


if __name__ == "__main__":
    main()
