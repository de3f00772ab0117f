"""What MkDocs does to the pages of docs/: pictures outside of it come along, links to other files
of the repository become their names. The pages themselves read as they are in the repository, too.
"""

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
    """A link's path in the repository where it leads out of docs/, else None."""
    path = posixpath.join("docs", posixpath.dirname(page), link.partition("#")[0])
    path = posixpath.normpath(path)
    return None if path.startswith("docs/") else path


def on_files(files: Any, config: Any) -> Any:
    """Adds the pictures that the pages show."""
    wanted = {LOGO}
    for page in files.documentation_pages():
        text = (ROOT / "docs" / page.src_uri).read_text(encoding="utf-8")
        found = (outside(link, page.src_uri) for _, _, link in LINK.findall(text))
        wanted |= {path for path in found if path and path.endswith(PICTURES)}
    for path in sorted(wanted):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Leads links to pictures to their copies; of other links to outside keeps the words."""
    here = page.file.src_uri

    def mended(found: re.Match[str]) -> str:
        picture, words, link = found.groups()
        path = outside(link, here)
        if path is None:
            return found[0]
        if not path.endswith(PICTURES):
            return f"`{path}`" if words == Path(path).name else f"{words} (`{path}`)"
        near = posixpath.relpath(path, posixpath.dirname(here) or ".")
        return f"{picture}[{words}]({near})"

    return LINK.sub(mended, markdown)
