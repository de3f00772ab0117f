"""The page put together: header, tabs and addresses, theme and styles. It computes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gradio as gr

from ouroboros_core import methods, rules
from ouroboros_core.locations import assets
from ouroboros_core.trace.summary import Summary
from visualize.compare.tab import ComparePanel
from visualize.draft_game.tab import DraftGamePanel
from visualize.drafts.tab import DraftsPanel
from visualize.gallery import runs as gallery
from visualize.gallery.tab import WATCH, TracesPanel
from visualize.kit import palette
from visualize.kit.address import Addresses, PageHeader
from visualize.kit.events import PRIVATE, errors_on_page
from visualize.kit.model_list import ModelList
from visualize.kit.modules import faces, preloaded
from visualize.learn.tab import LearnPanel
from visualize.proof.tab import ProofPanel
from visualize.results.tab import ResultsPanel
from visualize.server.limits import visitor_id
from visualize.server.runner import Runner
from visualize.watch import endpoint
from visualize.watch import opening as opening_page
from visualize.watch.tab import RECORDED, WatchPanel

PLACES = {WATCH: "Watch", "compare": "Compare", "learn": "Learn", "play": "Play", "lab": "Lab"}
"""The labels of the places by their ids, which their addresses name, in their order."""
LAB = {
    "results": "Results",
    "proof": "Proof",
    "runs": "Recorded runs",
    "drafts": "Drafts and models",
}
"""The labels of the Lab's pages by their ids; each page has an address."""
MOVED = {"race": "compare", "sweep": "compare"}
"""Addresses of earlier versions, with the places that they lead to."""
ADDRESSES = Addresses(tuple(PLACES), dict.fromkeys(LAB, "lab"), MOVED)
FIRST = (
    "kit/address.js",
    "run/token_view.js",
    "watch/ask_view.js",
    "watch/method_cards.js",
    "watch/example_chips.js",
    "watch/settings_view.js",
    "kit/fault_view.js",
    "run/link_view.js",
    "run/save_view.js",
    "run/details_view.js",
    "kit/plot_view.js",
    "kit/page_storage.js",
)
"""The modules of what the page shows at first."""
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
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        checkbox_border_color_dark="*neutral_500",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
    )


def build(runner: Runner, max_queue: int) -> gr.Blocks:
    """Return the page, not yet launched; at most `max_queue` runs may wait."""
    with gr.Blocks(
        title="Ouroboros: speculative decoding, seen token by token",
        analytics_enabled=False,
        fill_width=True,
    ) as page:
        with gr.Row(elem_classes="ouro-top"):
            header = PageHeader(ADDRESSES)
            models = ModelList(runner.models)
        models.build_download(page)
        pair = models.pair
        with gr.Tabs(elem_classes="ouro-places") as places:
            watch, compare, learn, play, lab = (
                gr.Tab(label, id=tab) for tab, label in PLACES.items()
            )
            with watch:
                panel = WatchPanel(runner, pair)
            with compare:
                ComparePanel(runner, panel, places)
            with learn:
                LearnPanel()
            with play:
                DraftGamePanel(runner, pair)
            with lab, gr.Tabs(elem_classes="ouro-lab") as pages:
                results, proof, runs, drafts = (gr.Tab(label, id=tab) for tab, label in LAB.items())
                with results:
                    ResultsPanel()
                with proof:
                    ProofPanel(runner, pair).follow(panel.models)
                with runs:
                    TracesPanel(panel, places)
                with drafts:
                    DraftsPanel()
        gr.HTML(footer(), elem_classes="ouro-footer ouro-size-s", padding=False)
        _add_endpoint(runner)
        tabs = (watch, compare, learn, play, lab, results, proof, runs, drafts)
        opened = dict(zip((*PLACES, *LAB), tabs, strict=True))
        address_tabs(page, header, (places, pages), opened)
        panel.attach_loading(page)
    return page.queue(max_size=max_queue)


def footer() -> str:
    """Return links to paper, interface for programs and licence. On a Space there is one to the
    code: it is beside the page. Elsewhere the project has no public address."""
    space = os.environ.get("SPACE_ID")
    links = {
        "Paper": "https://arxiv.org/abs/2402.13720",
        "API": "gradio_api/info",  # without Gradio's own footer, ?view=api shows nothing
        **({"Code": f"https://huggingface.co/spaces/{space}/tree/main"} if space else {}),
        "Licence: Apache 2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    }
    return " ".join(
        f'<a href="{url}" target="_blank" rel="noreferrer">{name}</a>'
        for name, url in links.items()
    )


def address_tabs(
    page: gr.Blocks, header: PageHeader, tabs: Sequence[Any], each: Mapping[str, Any]
) -> None:
    """Open the tab of the address, and write an open tab into it, in the browser."""
    here: dict[str, Any] = {"fn": None, **PRIVATE}
    for name, tab in each.items():
        tab.select(js=ADDRESSES.opened(name), **here)
    for event in (page.load, header.go):
        event(js=ADDRESSES.named(), outputs=list(tabs), **here)


MARGINS = (
    "<style>@media (max-width: 640px) { "
    ".gradio-container > .main.app { padding: 8px 16px } }</style>"
)
"""Narrow margins on a phone. Gradio limits a rule of `css` to what is inside its container; this
one is about the container."""


def head() -> str:
    """Return HTML for the page's head: fonts and modules that are fetched at once. With SSR, a
    server of Gradio writes the HTML and adds the same later."""
    return f"{faces()}\n{preloaded(*FIRST)}\n{MARGINS}\n"


def opening() -> str:
    """Return the HTML that is painted until the page is built, see `visualize.watch.opening`."""
    return opening_page.opening(Summary(gallery.trace(RECORDED), gallery.baseline(RECORDED)))


def launch_options() -> dict[str, Any]:
    """Return the options of `launch()`: theme, styles, no traffic to other servers."""
    look: dict[str, Any] = {
        "theme": theme(),
        "css": palette.style(),
        "head": head(),
        "footer_links": [],
    }
    look |= {"favicon_path": assets() / "logo.svg"}
    return {**look, "show_error": True, "run_history": False, "state_session_capacity": SESSIONS}


def _add_endpoint(runner: Runner) -> None:
    def generate(
        prompt: str,
        method: str = methods.DEFAULT,
        knobs: dict = {},  # type: ignore[type-arg]  # noqa: B006 - gradio reads the default, nobody changes it
        chat: bool = True,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        compare: bool = True,
        acceptance: str = rules.DEFAULT,
        prediction: str = "",
        record: bool = False,
        pair: str = "",
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Continue a prompt. Values arrive while it runs; the last one contains the trace.

        Each value is {text, done}. The last adds tokens_per_second; speedup over plain decoding,
        measured: the median of the rounds in speedups (null and empty without compare);
        identical (to plain decoding; null under a rule that does not repeat its text);
        difference (where, and whether rounding explains it); and trace, one JSON object with
        `steps`.
        """
        asked = {**locals()}
        with errors_on_page():
            yield from endpoint.answers(runner, asked, visitor_id(request))

    # One computes at a time all the same: see `Runner.submit`.
    gr.api(generate, api_name="generate", concurrency_limit=None)
