"""Pictures of the page for the README: make screenshots"""

from __future__ import annotations

from ouroboros_core.locations import assets
from tests.browser import chromium, server

SIZES = ((1440, 1000), (390, 844))


def main() -> None:
    folder = assets() / "screenshots"
    folder.mkdir(exist_ok=True)
    with server(guard=False) as url, chromium() as browser:
        for width, height in SIZES:
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(f"{url}/?__theme={scheme}")
                page.get_by_text("Ready:").wait_for(timeout=60_000)
                page.click("#generate")
                page.wait_for_selector('.ouro-run[data-done="false"]', timeout=60_000)
                page.wait_for_selector('.ouro-run[data-done="true"]', timeout=120_000)
                page.wait_for_timeout(1500)
                page.screenshot(path=folder / f"generate-{width}-{scheme}.png", full_page=True)
                page.close()


if __name__ == "__main__":
    main()
