"""The page's typefaces, which ship with it: nothing is fetched from elsewhere."""

from __future__ import annotations

from functools import cache

from fastapi.responses import Response

from ouroboros_core.locations import assets
from visualize.kit.modules import FOREVER

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
