"""The views' scripts as the page gets them: ES modules, at addresses of this server."""

from __future__ import annotations

import hashlib
from functools import cache

from fastapi.responses import Response

from ouroboros_core.locations import assets
from visualize.deploy.bundle import imports

FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def modules() -> dict[str, str]:
    """The modules by the names of their files, as they were when the page was made."""
    return {path.name: path.read_text("utf-8") for path in sorted((assets() / "js").glob("*.js"))}


@cache
def modules_path() -> str:
    """Where the page has its modules, beside its own address: another version of any of them has
    another address. Below gradio_api, see `plot_view.PLOTLY`."""
    written = "\0".join(part for item in modules().items() for part in item)
    return f"gradio_api/js-{hashlib.sha256(written.encode()).hexdigest()[:16]}"


def module(name: str) -> Response:
    """A module by the name of its file; no path of the server's disk is made of that name."""
    if name not in modules():
        return Response(status_code=404)
    return Response(modules()[name], media_type="text/javascript", headers=FOREVER)


def imported(name: str) -> str:
    """In the browser: the promise of the module of that name."""
    return f'import(new URL("{modules_path()}/{name}.js", document.baseURI))'


def preloaded(*names: str) -> str:
    """For the page's head: links that fetch these modules, and all that they import, at once."""
    wanted = list(names)
    for name in wanted:
        more = (other for _, other in imports(modules()[f"{name}.js"]))
        wanted += [other for other in more if other not in wanted]
    links = (f'<link rel="modulepreload" href="{modules_path()}/{name}.js">' for name in wanted)
    return "\n".join(links)
