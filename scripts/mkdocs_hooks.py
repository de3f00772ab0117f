"""Hooks of MkDocs: copy pictures from outside docs/, and turn other links to the repository into
the names of their files."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((\.\.?/[^)\s]+)\)")
PICTURES = (".png", ".svg", ".gif")
LOGO = "assets/logo.svg"


def outside(link: str, page: str) -> str | None:
    """Return a link's path in the repository if it leads out of docs/, else None."""
    path = posixpath.join("docs", posixpath.dirname(page), link.partition("#")[0])
    path = posixpath.normpath(path)
    return None if path.startswith("docs/") else path


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures that the pages show."""
    pictures = {LOGO}
    for page in files.documentation_pages():
        text = (ROOT / "docs" / page.src_uri).read_text(encoding="utf-8")
        paths = (outside(link, page.src_uri) for _, _, link in LINK.findall(text))
        pictures |= {path for path in paths if path and path.endswith(PICTURES)}
    for path in sorted(pictures):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Point links of pictures to their copies; keep only the words of other links to outside."""
    uri = page.file.src_uri

    def replaced(match: re.Match[str]) -> str:
        picture, words, link = match.groups()
        path = outside(link, uri)
        if path is None:
            return match[0]
        if not path.endswith(PICTURES):
            return f"`{path}`" if words == Path(path).name else f"{words} (`{path}`)"
        return f"{picture}[{words}]({posixpath.relpath(path, posixpath.dirname(uri) or '.')})"

    return LINK.sub(replaced, markdown)
