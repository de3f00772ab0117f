"""The views' scripts as the page gets them: ES modules, at addresses of this server."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi.responses import Response

from visualize.kit.bundle import imports

VISUALIZE = Path(__file__).parents[1]
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def modules() -> dict[str, str]:
    """Return every module's text by its path below `visualize`, such as "race/race_view.js"."""
    paths = sorted(VISUALIZE.glob("*/*.js"))
    return {path.relative_to(VISUALIZE).as_posix(): path.read_text("utf-8") for path in paths}


def path_of(name: str) -> str:
    """Return the path below `visualize` of the module `name`; names are unique."""
    return next(path for path in modules() if path.endswith(f"/{name}.js"))


@cache
def modules_path() -> str:
    """Where the page has its modules, beside its own address: another version of any of them has
    another address. Below gradio_api, see `plot_view.PLOTLY`."""
    written = "\0".join(part for item in modules().items() for part in item)
    return f"gradio_api/js-{hashlib.sha256(written.encode()).hexdigest()[:16]}"


def module(name: str) -> Response:
    """Answer with the module at the path `name` below `visualize`, which is only a key here."""
    if name not in modules():
        return Response(status_code=404)
    return Response(modules()[name], media_type="text/javascript", headers=FOREVER)


def imported(name: str) -> str:
    """In the browser: the promise of the module of that name."""
    return f'import(new URL("{modules_path()}/{path_of(name)}", document.baseURI))'


def preloaded(*names: str) -> str:
    """For the page's head: links that fetch these modules, and all that they import, at once."""
    wanted = list(names)
    for name in wanted:
        more = (other for _, other in imports(modules()[path_of(name)]))
        wanted += [other for other in more if other not in wanted]
    links = (
        f'<link rel="modulepreload" href="{modules_path()}/{path_of(name)}">' for name in wanted
    )
    return "\n".join(links)
