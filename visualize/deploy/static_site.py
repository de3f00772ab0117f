"""Pages without Python: the replay of a run in one HTML file, and the gallery for any web server.

Both mount the views of the page, with the same scripts. `python -m visualize.deploy.static_site
FOLDER` writes the gallery.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.locations import assets
from ouroboros_core.messages import say
from ouroboros_core.progress import accept_any_text
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from visualize.gallery import runs as gallery
from visualize.kit import labels, palette
from visualize.kit.markup import PLOTLY_JS, template
from visualize.kit.modules import carried
from visualize.learn import lessons
from visualize.live import packing
from visualize.run import view as views

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' blob:; "
    "img-src blob: data:"
)
"""Of a replay: it may ask nobody for anything. A chart becomes a picture on the way to a file."""
PAGES = {
    "index": ("learn", "learn/learn_view"),
    "traces": ("gallery", "gallery/gallery_view"),
    "theory": ("theory", "learn/theory_view"),
}
"""Of the static gallery: the element that site.js fills, and with which view."""
LABELS = {"index.html": "Learn", "traces.html": "Recorded runs", "theory.html": "Theory"}
LIVE = {"watch.html#watch": "Watch live", "watch.html#compare": "Compare live"}
"""The places of the page on which the model runs, which only a server of files can send."""
LARGE = 500_000
"""Bytes of a file whose size is printed."""
REPLAY_FOOT = (
    "This file needs no network and no program but a browser. Space plays, arrow keys step; a "
    "click on a token says who wrote it and why."
)
SITE_FOOT = (
    "Recorded runs of the project Ouroboros; every number was measured in the run that is shown."
)
LIVE_FOOT = (
    "The model and the methods are those of the project Ouroboros, in Python and WebAssembly; "
    '<a href="live/LICENCES.md">licences of all parts</a>.'
)
README = """\
---
title: Ouroboros gallery
emoji: 🐍
sdk: static
short_description: Speculative decoding, seen token by token
license: apache-2.0
---

Lessons and recorded runs of speculative decoding. No server and no model is needed: index.html \
opens from disk, too.
"""
"""Of the static gallery, as Spaces wants it."""


def replay_html(
    trace: Trace, baseline: Trace | None = None, difference: Divergence | None = None
) -> str:
    """The replay of a run as one file: it opens from disk, with the network off.

    baseline    its plain run, for the speedup and the comparison of texts
    difference  where the two texts first differ, judged
    """
    summary = Summary(trace, baseline, difference)
    view = views.run_view(summary, run="replay", seq=1, badge_text=views.badge(trace))
    view |= {"rests": True}
    facts = {"value": json.dumps(view), "looks": views.legend()}
    body = (
        f'<main class="ouro-site">{template("kit/address")}<div id="run">{template("run/token_view")}</div>'
        f'<p class="ouro-site-foot ouro-small">{REPLAY_FOOT}</p></main>'
        f'<script type="text/plain" id="plotly">{_packed(PLOTLY_JS)}</script>'
        f"{_facts(facts)}<script>{carried('run/replay.js')}</script>"
    )
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return _page(
        f"A run of {labels.method(trace.method)}, replayed",
        body,
        f"{policy}<style>{_css()}</style>",
    )


@cache
def _packed(file: Path) -> str:
    """Return a file as the base64 of its gzip, which `standalone.js` unpacks."""
    return base64.b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()


def _json(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    return json.dumps(value).replace("<", "\\u003c")


def _facts(value: Any) -> str:
    """Return the facts that the scripts of a page read, see kit/standalone.js."""
    return f'<script type="application/json" id="facts">{_json(value)}</script>'


def _css() -> str:
    return (
        Path(__file__).with_name("standalone.css").read_text(encoding="utf-8")
        + "\n"
        + palette.style()
    )


def _page(title: str, body: str, head: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>{head}</head>'
        f"<body>{body}</body></html>\n"
    )


def make_way(folder: Path, mark: str) -> None:
    """Remove a folder that an earlier run wrote; it contains the file `mark`.

    Raises InvalidInput for a file, for a folder that holds anything else, and for one that has a
    history in git.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file: name an empty folder, or one that does not exist")
    if (
        folder.exists()
        and any(folder.iterdir())
        and (not (folder / mark).exists() or (folder / ".git").exists())
    ):
        raise InvalidInput(
            f"{folder} holds other files: name an empty folder, or one that does not exist"
        )
    if folder.exists():
        shutil.rmtree(folder)


def write_gallery(folder: Path, *, live: bool = False) -> list[Path]:
    """Write lessons, recorded runs and the theory's curves into a folder; the files written.

    An earlier gallery there is replaced; raises InvalidInput for a folder that holds anything else.
    live: also write the page on which the model runs in the browser
    """
    make_way(folder, "site.js")
    (folder / "runs").mkdir(parents=True)
    files = {
        "site.css": _css(),
        "site.js": carried("deploy/site.js"),
        "README.md": README,
    }
    files |= {
        f"{name}.html": _site_page(
            name, _element(name, element, view), _data(name, live), live=live
        )
        for name, (element, view) in PAGES.items()
    }
    files |= {f"runs/{name}.js": _run_script(name) for name in gallery.runs()}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, text in (_live_files(folder) if live else {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(PLOTLY_JS, folder / "plotly.min.js")
    shutil.copyfile(assets() / "logo.svg", folder / "logo.svg")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _live_files(folder: Path) -> dict[str, str]:
    """Pack what the live page needs; return the page, its script and its service worker."""
    from visualize.live import inputs  # loads gradio

    packed = packing.pack(folder)
    facts = {**inputs.page_facts(packed), "looks": views.legend()}
    return {
        "watch.html": _site_page("watch", inputs.page_markup(), facts, live=True, script="live.js"),
        "live.js": carried("live/live.js"),
        "service_worker.js": packing.service_worker(packed),
    }


def _run_script(name: str) -> str:
    """Return a recorded run as a script, because a page from disk may fetch nothing else."""
    detail = _json({"name": name, "run": gallery.view(name)})
    return f'document.dispatchEvent(new CustomEvent("ouro:recorded", {{ detail: {detail} }}));\n'


def _data(name: str, live: bool) -> dict[str, Any]:
    """Return the facts of a page, without the runs."""
    pages = LIVE | LABELS if live else LABELS
    own: dict[str, Any] = {
        "index": {
            "chapters": lessons.chapters(),
            "questions": lessons.questions(),
            "end": lessons.end(pages, "" if live else say("learn.end.site")),
        },
        "traces": {"entries": gallery.entries()},
    }
    return {**own.get(name, {}), "looks": views.legend()}


def _element(name: str, element: str, view: str) -> str:
    """Return the element that site.js fills on a page, with a view."""
    run = f'<div id="run">{template("run/token_view")}</div>' if name == "traces" else ""
    return f'<div id="{element}">{template(view)}</div>{run}'


def _site_page(
    name: str, content: str, facts: dict[str, Any], *, live: bool, script: str = "site.js"
) -> str:
    pages = LIVE | LABELS if live else LABELS
    foot = SITE_FOOT if script == "site.js" else LIVE_FOOT
    title = next(label for address, label in pages.items() if address.startswith(f"{name}.html"))
    links = "".join(
        f'<a href="{address}"{" aria-current=page" if label == title else ""}>{label}</a>'
        for address, label in pages.items()
    )
    body = (
        f'<main class="ouro-site">{template("kit/address")}<nav class="ouro-site-nav ouro-wrap" aria-label="Pages">{links}</nav>'
        f'{content}<p class="ouro-site-foot ouro-small">{foot}</p></main>'
        f'{_facts(facts)}<script src="{script}"></script>'
    )
    head = (
        '<link rel="icon" href="logo.svg"><link rel="stylesheet" href="site.css">'
        '<script src="plotly.min.js"></script>'
    )
    return _page(f"Ouroboros: {title}", body, head)


if __name__ == "__main__":
    accept_any_text()
    arguments = [argument for argument in sys.argv[1:] if argument != "--live"]
    if len(arguments) != 1:
        sys.exit("usage: python -m visualize.deploy.static_site FOLDER [--live]")
    site = Path(arguments[0])
    try:
        written = write_gallery(site, live="--live" in sys.argv)
    except OuroborosError as error:
        sys.exit(f"error: {error}")
    for file in written:
        if file.stat().st_size > LARGE:
            print(f"{file.stat().st_size / 1e6:8.1f} MB  {file.relative_to(site).as_posix()}")
    size = sum(file.stat().st_size for file in written) / 1e6
    print(f"{len(written)} files, {size:.1f} MB, in {site}")
