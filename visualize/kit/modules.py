"""The scripts of the views: ES modules, served as files or carried as text by a page without a
server. And the page's typefaces, which ship with it: nothing is fetched from elsewhere."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from functools import cache
from pathlib import Path

from fastapi.responses import Response

from ouroboros_core.locations import assets

VISUALIZE = Path(__file__).parents[1]
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
IMPORT = re.compile(r' from "(\.[^"]+)";$', re.MULTILINE)
"""The address in an import, relative to the file that imports; prettier writes it that way."""
LOADER = r"""((texts, path) => {
  const addresses = {};
  const address = (path) => (addresses[path] ??= URL.createObjectURL(new Blob([module(path)], {
    type: "text/javascript",
  })));
  const resolve = (name, path) => new URL(name, "file:///" + path).pathname.slice(1);
  const module = (path) => texts[path].replace(/ from "(\.[^"]+)";$/gm, (_, name) =>
    ` from "${address(resolve(name, path))}";`) + "\n//# sourceURL=" + path;
  return import(address(path));
})"""
"""Import a module from texts by path. Each module gets an address inside the browser, and its
imports the addresses of the modules that they name."""


@cache
def modules() -> dict[str, str]:
    """Return every module's text by its path below `visualize`, such as "run/token_view.js"."""
    paths = sorted(VISUALIZE.glob("*/*.js"))
    return {path.relative_to(VISUALIZE).as_posix(): path.read_text("utf-8") for path in paths}


def with_imports(*paths: str) -> list[str]:
    """Return the paths of these modules and of all modules that they import."""
    needed = list(paths)
    for path in needed:
        folder = posixpath.dirname(path)
        names = IMPORT.findall(modules()[path])
        needed += [
            other
            for name in names
            if (other := posixpath.normpath(posixpath.join(folder, name))) not in needed
        ]
    return needed


@cache
def modules_path() -> str:
    """Return the address of the modules, beside the page's own address. Another version of any
    module has another address. It is below gradio_api, see `plot_view.PLOTLY`."""
    written = "\0".join(part for item in modules().items() for part in item)
    return f"gradio_api/js-{hashlib.sha256(written.encode()).hexdigest()[:16]}"


def module(name: str) -> Response:
    """Answer with the module at the path `name` below `visualize`, which is only a key here."""
    if name not in modules():
        return Response(status_code=404)
    return Response(modules()[name], media_type="text/javascript", headers=FOREVER)


def imported(path: str) -> str:
    """Return an expression in JavaScript: the promise of a module that this server serves."""
    return f'import(new URL("{modules_path()}/{path}", document.baseURI))'


def carried(path: str) -> str:
    """Return an expression in JavaScript: the promise of a module, for a page without a server.

    The expression contains the texts of the module and of all that it imports. It may stand in a
    script element: no text in it can end the element.
    """
    texts = {name: modules()[name] for name in with_imports(path)}
    return f"{LOADER}({json.dumps(texts)}, {json.dumps(path)})".replace("</", "<\\/")


def preloaded(*paths: str) -> str:
    """Return links for the page's head that fetch modules, and all that they import, at once."""
    links = (
        f'<link rel="modulepreload" href="{modules_path()}/{path}">'
        for path in with_imports(*paths)
    )
    return "\n".join(links)


FONTS = {"Inter": "inter.woff2", "JetBrains Mono": "jetbrains-mono.woff2"}
"""The file in assets/fonts of each family; both are under the SIL Open Font License 1.1."""
FONTS_PATH = "gradio_api/fonts"
"""Beside the page's own address. Below gradio_api, see `plot_view.PLOTLY`."""


@cache
def _read(name: str) -> bytes:
    return (assets() / "fonts" / name).read_bytes()


def font(name: str) -> Response:
    """A font by the name of its file; no path of the server's disk is made of that name."""
    if name not in FONTS.values():
        return Response(status_code=404)
    return Response(_read(name), media_type="font/woff2", headers=FOREVER)


def faces() -> str:
    """For the page's head: each is fetched at once, and until it is there its text takes its place
    unseen, so that no text is drawn twice."""
    lines = []
    for family, name in FONTS.items():
        address = f"{FONTS_PATH}/{name}"
        lines.append(
            f'<link rel="preload" href="{address}" as="font" type="font/woff2" crossorigin>'
        )
        lines.append(
            f'<style>@font-face {{ font-family: "{family}"; src: url("{address}") format("woff2"); '
            "font-weight: 100 800; font-display: block; }</style>"
        )
    return "\n".join(lines)
