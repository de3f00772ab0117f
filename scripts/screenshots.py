"""Pictures of the page for the README and the documentation: make screenshots.

`python -m scripts.screenshots NAME ...` makes some of them alone: animation, benchmark, or a place.
All show recorded runs, so that no picture depends on how fast this machine is.
"""

from __future__ import annotations

import io
import itertools
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from ouroboros_core.locations import assets
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step
from tests.browser import chromium, server
from tests.visitor import open_tab
from visualize.drafts import figures as record_figures
from visualize.gallery import runs as gallery
from visualize.results import figures as result_figures
from visualize.results.data import Benchmark, Family, Over
from visualize.run.tour import longest_step
from visualize.watch.tab import RECORDED

DESK, PHONE = (1440, 900), (390, 844)
"""Width and height of the whole pictures, and of the page that small ones are cut from."""
WHOLE = ("watch", "compare", "results", "runs", "learn")
"""Pictures of the whole page."""
FRAME, FRAMES, COLOURS, LAST_MS = (1120, 700), 32, 256, 4000
"""The animation: size of a frame, number of frames and colours, milliseconds of the last frame."""
EXACT = 96
"""Colours of the animation that stay unchanged."""
MOST_BYTES = 3_000_000
SEEK = f"""(seconds) => document.dispatchEvent(
  new CustomEvent('ouro:seek', {{ detail: {{ run: 'recorded {RECORDED}', seconds }} }})
)"""
TYPEFACE = """async () => {
  const fonts = ['16px Inter', '16px "JetBrains Mono"'];
  await Promise.all(fonts.map((font) => document.fonts.load(font)));
  await document.fonts.ready;
}"""
SUBJECTS = {
    "watch": ("#token-view .ouro-text", "#token-view .ouro-legend"),
    "card": (".ouro-card", ".ouro-card"),
    "compare": (".ouro-compare-rows", ".ouro-compare-row:nth-child(6)"),
    "learn": (".ouro-learn-run .ouro-text", ".ouro-learn-run .ouro-legend"),
    "trade-off": (".ouro-compare-below figure", ".ouro-compare-below figure"),
}
"""Parts of phone pictures that the README shows small: first element, last."""
SMALL, SHARP = (300, 390), 2
"""Width and height of a small picture, and its dots per pixel."""
STYLES = {
    "watch": ".ouro-text { height: 310px !important }",
    "card": ".ouro-card { width: 300px !important; border-radius: 0 !important }",
}
"""Rules that make elements smaller for a small picture."""
END = """() => {
  const tokens = document.querySelectorAll('#token-view .ouro-step[data-stage] .ouro-token');
  const last = [...tokens].at(-1);
  if (last) last.style.scrollMarginBottom = '6px';
  last?.scrollIntoView({ block: 'end' });
}"""
"""Scrolls to the end of the step in a text that was made smaller."""
BARE = """(subject) => {
  for (const node of document.querySelectorAll('*')) {
    const apart = !node.contains(subject) && !subject.contains(node);
    if (apart && ['fixed', 'sticky'].includes(getComputedStyle(node).position))
      node.style.visibility = 'hidden';
  }
}"""
"""Hides fixed and sticky bars."""
SHOWN = """() => {
  for (const node of document.querySelectorAll('[style*=visibility]')) node.style.visibility = '';
}"""


def main(names: Sequence[str]) -> None:
    folder = assets() / "screenshots"
    folder.mkdir(exist_ok=True)
    places = [shot for name, shot in PLACES.items() if name in names or not names]
    with server(guard=False) as url, chromium() as browser:
        if not names or "animation" in names:
            _animate(browser, url, folder / "watch.gif")
        if places:
            for width, height in (DESK, PHONE):
                size = {"width": width, "height": height}
                still = browser.new_context(
                    viewport=size, reduced_motion="reduce", device_scale_factor=SHARP
                )
                page = still.new_page()
                page.goto(f"{url}/?__theme=light")
                page.get_by_text("Ready:").wait_for(state="attached", timeout=60_000)
                _in_its_typeface(page)

                def shoot(name: str, page: Any = page, width: int = width) -> None:
                    page.wait_for_timeout(1200)
                    if width == PHONE[0] and name in SUBJECTS:
                        _small(page, name, folder)
                    elif width == DESK[0] and name in WHOLE:
                        page.screenshot(path=folder / f"{name}-{width}-light.png", scale="css")

                for place in places:
                    place(page, shoot)
                still.close()
        if not names or "benchmark" in names:
            _benchmark(browser, folder)


def _small(page: Any, name: str, folder: Path) -> None:
    """Take the page from the top of one element to the bottom of another."""
    first, last = SUBJECTS[name]
    sheet = page.add_style_tag(content=STYLES.get(name, "* {}"))
    subject = page.locator(first).first
    page.evaluate(END)
    subject.evaluate(BARE)
    box = subject.bounding_box()
    end = page.locator(last).first.bounding_box()
    height = end["y"] + end["height"] - box["y"]
    top = box["y"] + page.evaluate("scrollY")
    clip = {"x": box["x"], "y": top, "width": box["width"], "height": height}
    _fit(page.screenshot(clip=clip, full_page=True), folder / f"small-{name}.png")
    page.evaluate(SHOWN)
    sheet.evaluate("node => node.remove()")


def _fit(picture: bytes, path: Path) -> None:
    """Put a picture into the middle of a small one, made smaller where it is too large."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    canvas = Image.new("RGB", (SMALL[0] * SHARP, SMALL[1] * SHARP), "white")
    image.thumbnail(canvas.size, Image.Resampling.LANCZOS)
    canvas.paste(image, ((canvas.width - image.width) // 2, (canvas.height - image.height) // 2))
    canvas.quantize(COLOURS).save(path, optimize=True)


def _watch(page: Any, shoot: Callable[..., None]) -> None:
    """Show the step on which the page rests, and the card of the most disputed token."""
    trace = gallery.trace(RECORDED)
    reached = [0, *itertools.accumulate(len(step.tokens) for step in trace.steps)]
    corrections = [step for step in trace.steps if step.kind == "correction"]
    disputed = max(corrections, key=_disagreement)
    arrived = metrics.seconds_to_token(trace)
    page.evaluate(SEEK, arrived[reached[longest_step(trace)]] + 1e-3)
    shoot("watch")
    token = reached[disputed.index] + len(disputed.path)
    page.evaluate(SEEK, arrived[token] + 1e-3)
    page.locator("#token-view .ouro-token").nth(token).click()
    shoot("card")
    page.keyboard.press("Escape")


def _disagreement(step: Step) -> float:
    """Return how far the models differ where a step was corrected, 0 without a draft's."""
    judged = step.judged[-1]
    return sum(
        abs(p - q) for p, q in zip(judged.target, judged.draft or judged.target, strict=True)
    )


def _in_its_typeface(page: Any) -> None:
    """Wait until the page's own fonts are drawn."""
    page.evaluate(TYPEFACE)
    page.wait_for_timeout(500)


def _animate(browser: Any, url: str, path: Path) -> None:
    """Animate the first run at its speed; raises ValueError above `MOST_BYTES`."""
    width, height = DESK
    size = {"width": width, "height": height}
    page = browser.new_page(viewport=size, reduced_motion="reduce")
    page.goto(f"{url}/?__theme=light")
    page.wait_for_selector("#token-view .ouro-token")
    page.get_by_text("Ready:").wait_for(state="attached", timeout=60_000)
    _in_its_typeface(page)
    trace = gallery.trace(RECORDED)
    first, last = metrics.seconds_to_token(trace)[0], metrics.total_seconds(trace)
    pause = (last - first) / (FRAMES - 1)
    moments = [first + pause * n for n in range(FRAMES)]
    drawn = [_frame(page, moment) for moment in moments]
    page.close()
    palette = _palette(drawn)
    drawn = [_in_colours(frame, palette) for frame in drawn]
    shown = [round(1000 * pause)] * (FRAMES - 1) + [LAST_MS]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=shown, loop=0)
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(
            f"{path} has {path.stat().st_size} bytes, at most {MOST_BYTES} are allowed: lower "
            "FRAMES, FRAME or COLOURS"
        )


def _palette(frames: Sequence[Any]) -> Any:
    """Return the colours of a run: the most frequent ones unchanged, so that the tints of two
    sources stay apart, and blended ones."""
    sample = frames[:: -(len(frames) // 4)]
    width, height = FRAME
    strip: Any = Image.new("RGB", (width, height * len(sample)))
    for row, frame in enumerate(sample):
        strip.paste(frame, (0, height * row))
    counted = sorted(strip.getcolors(strip.width * strip.height), reverse=True)
    exact = [colour for _, colour in counted[:EXACT]]
    blended = strip.quantize(COLOURS - EXACT, method=Image.Quantize.FASTOCTREE).getpalette()
    return np.array([*itertools.chain(*exact), *blended]).reshape(-1, 3)[:COLOURS]


def _in_colours(frame: Any, palette: Any) -> Any:
    """Return a frame in the nearest colours; Pillow's quicker search confuses tints."""
    pixels = np.asarray(frame, dtype=np.int64)
    packed: Any = pixels @ np.array([65536, 256, 1])
    unique, index = np.unique(packed, return_inverse=True)
    colours = np.stack([unique >> 16, unique >> 8 & 255, unique & 255], -1)
    nearest = [int(((palette - colour) ** 2).sum(-1).argmin()) for colour in colours]
    image = Image.fromarray(np.array(nearest, dtype=np.uint8)[index].reshape(packed.shape), "P")
    image.putpalette(palette.astype(np.uint8).tobytes())
    return image


def _frame(page: Any, moment: float) -> Any:
    page.evaluate(SEEK, moment)
    page.wait_for_timeout(150)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return picture.resize(FRAME, Image.Resampling.LANCZOS)


def _compare(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Compare")
    page.wait_for_selector(".ouro-compare-row:nth-child(6)")
    shoot("compare")
    page.locator(".ouro-compare-below").scroll_into_view_if_needed()
    page.wait_for_selector("#compare-view .main-svg")
    shoot("trade-off")


def _learn(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Learn")
    page.wait_for_selector("#learn-view .ouro-learn[data-at]")
    page.locator(".ouro-learn-chapter").nth(6).click()
    page.locator(".ouro-learn-next").click()
    shoot("learn")


def _runs(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Recorded runs")
    shoot("runs")


def _results(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Results")
    page.wait_for_timeout(1500)
    shoot("results")


PLACES = {"watch": _watch, "compare": _compare, "results": _results, "runs": _runs, "learn": _learn}


def _benchmark(browser: Any, folder: Path) -> None:
    """Draw the figure of docs/benchmarks.md, and a small one for the README."""
    benchmark = Benchmark.read(assets() / "benchmark.json")
    bars = result_figures.few(benchmark.bars(Over.PLAIN))
    machine = f"{benchmark.target} on {benchmark.where}, {benchmark.questions} prompts"
    title = {"text": machine, "font": {"size": 13}, "y": 0.98, "yanchor": "top"}
    margin = {"l": 16, "r": 60, "t": 90, "b": 16}
    picture = _bars(browser, bars, (1000, 560), 1, title=title, margin=margin)
    (folder / "benchmark.png").write_bytes(picture)
    bars = [bar for bar in bars if bar.family is not Family.PEER]
    margin = {"l": 8, "r": 44, "t": 8, "b": 8}
    picture = _bars(browser, bars, SMALL, SHARP, height=SMALL[1] - 30, margin=margin)
    _fit(picture, folder / "small-results.png")


def _bars(browser: Any, bars: Any, size: tuple[int, int], sharp: int, **layout: Any) -> bytes:
    figure = go.Figure(result_figures.speedups(bars, Over.PLAIN))
    figure.update_layout(template="plotly_white", **layout)
    figure.update_xaxes(title="speedup over plain decoding")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "benchmark.html"
        record_figures.write_page(figure, path)
        viewport = {"width": size[0], "height": size[1]}
        page = browser.new_page(viewport=viewport, device_scale_factor=sharp)
        page.goto(path.as_uri())
        page.wait_for_selector(".main-svg")
        page.wait_for_timeout(500)
        picture: bytes = page.screenshot()
        page.close()
    return picture


if __name__ == "__main__":
    main(sys.argv[1:])
