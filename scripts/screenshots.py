"""Pictures of the page for the README and the documentation: make screenshots.

`python -m scripts.screenshots NAME ...` makes some of them alone: animation, benchmark, or a place.
All show recorded runs, so that no picture depends on how fast this machine is. The README's
pictures exist in light and dark.
"""

from __future__ import annotations

import functools
import io
import itertools
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from ouroboros_core.locations import assets
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step, Trace
from scripts.documents.pages import HERO
from tests.browser import chromium, server
from tests.visitor import open_tab
from visualize.gallery import runs as gallery
from visualize.kit.plots import write_page
from visualize.results import figures as result_figures
from visualize.results.data import Benchmark, Over
from visualize.run.tour import longest_step
from visualize.watch.tab import RECORDED

DESK, PHONE = (1440, 900), (390, 844)
"""Width and height of the whole pictures, and of the page that small ones are cut from."""
THEMES = {"light": "", "dark": "-dark"}
"""Themes of the page, and what they add to the name of a picture of the README."""
WHOLE = ("watch", "compare", "results", "runs", "learn")
"""Pictures of the whole page, in light."""
FRAME_WIDTH, NARROW_WIDTH, COLOURS = 1120, 348, 256
"""The animation: width of a frame, the same for phones, in CSS pixels; number of colours."""
REST_MS, LAST_MS = 2500, 4000
"""Milliseconds for which the last step that accepts a guess is shown longer, and of the last
frame."""
MARGIN = 40
"""Pixels beside the card of a run."""
EXACT = 96
"""Colours of the animation that stay unchanged."""
MOST_BYTES = 3_000_000
LOADED_MS = 600_000
"""Milliseconds in which a busy machine loads the embedded pair."""
SEEK = """([run, seconds]) => document.dispatchEvent(
  new CustomEvent('ouro:seek', { detail: { run: run || shownRun, seconds } })
)"""
"""Shows a run at a moment: that of the name, or the one that `LISTEN` has heard of."""
LAST_LINE = """token => {
  const { x, y, width, height } = [...token.getClientRects()].at(-1);
  return [x + width / 2, y + height / 2];
}"""
"""The middle of a token, which may begin in the line before."""
LISTEN = """document.addEventListener('ouro:cursor', (event) => {
  window.shownRun = event.detail.run;
})"""
LINKED = "() => window.shownRun && !shownRun.startsWith('recorded')"
"""Whether the page shows the run of its address, and no longer the one that it begins with."""
TYPEFACE = """async () => {
  const fonts = ['16px Inter', '16px "JetBrains Mono"'];
  await Promise.all(fonts.map((font) => document.fonts.load(font)));
  await document.fonts.ready;
}"""
SUBJECTS = {
    "card": (".ouro-card", ".ouro-card"),
    "compare": (".ouro-compare-rows", ".ouro-compare-key"),
    "learn": (".ouro-mask-box", ".ouro-mask-box + .ouro-picture-said"),
}
"""Parts of the page that the README shows small: first element, last."""
WHOLLY = ("compare",)
"""Those that are shown whole, however high they are."""
WIDE = ("learn",)
"""Those that are cut from the page of a desk; the others are cut from a phone's."""
SMALL, SHARP, EDGE = (340, 290), 2, "#8b95a5"
"""Size of a small picture, its dots per pixel, and the colour of its frame."""
STYLES = {
    "card": ".ouro-card { width: 268px !important; zoom: 1.2; border: 0 !important; "
    "border-radius: 0 !important } .ouro-card :is(.ouro-rest, .ouro-close) { display: none "
    "!important }",
    "compare": ".ouro-compare-letter { display: none !important } .ouro-compare-row { background: "
    "none !important }",
    "learn": ".ouro-mask-box { padding: 8px; width: max-content } .ouro-mask-node { margin-left: "
    "calc(var(--depth) * 7px) !important } .ouro-mask-matrix { flex: none !important; "
    "width: 230px } .ouro-mask-box + .ouro-picture-said { width: 380px; margin: 0; padding: 0 8px "
    "8px; box-sizing: border-box }",
}
"""Rules for a picture of the README: smaller elements, and no marks of what is chosen."""
LARGE = 900, 1000
"""Width and height of the page that the README's large picture of Compare is cut from."""
ANIMATED = """.ouro-timeline { display: none !important }
.ouro-text { padding-block: 0 !important; min-height: 0 !important; max-height: none !important;
  height: 9lh !important; overflow: hidden !important; clip-path: inset(2px 0 0) }
.ouro-rival-text { display: block !important; flex: none !important; height: 3lh !important }
"""
"""An animation has no buttons, whole lines of text, and plain decoding's text also on a phone."""
AT_DESK = """.ouro-text { height: 21lh !important }
.ouro-rival-text { height: 6lh !important }
.ouro-board { grid-template-rows: auto auto !important; align-content: start }
.ouro-board > .ouro-graphs { grid-area: 2 / 2; grid-template-columns: minmax(0, 1fr) !important;
  grid-auto-rows: 136px; align-content: start }
.ouro-legend { column-gap: 4px !important; font-size: 0.78rem !important }
"""
"""At a desk there are more lines, and the charts are below plain decoding's."""
BESIDE = """document.querySelector('#token-view .ouro-board').append(
  document.querySelector('#token-view .ouro-graphs')
)"""
"""Puts the charts beside the text."""
WHOLE_LINES = """text => {
  const line = parseFloat(getComputedStyle(text).lineHeight);
  text.scrollTop = Math.ceil(text.scrollTop / line - 0.1) * line;
}"""
"""Scrolls a text that was scrolled so that its first visible line is not cut."""
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
        for theme, suffix in THEMES.items():
            if not names or "animation" in names:
                place = f"{url}/?__theme={theme}"
                _animate(browser, place, False, folder / f"watch{suffix}.gif")
                _animate(browser, place, True, folder / f"watch-narrow{suffix}.gif")
            for width, height in (DESK, PHONE) if places else ():
                size = {"width": width, "height": height}
                still = browser.new_context(
                    viewport=size, reduced_motion="reduce", device_scale_factor=SHARP
                )
                page = still.new_page()
                page.goto(f"{url}/?__theme={theme}")
                page.get_by_text("Ready:").wait_for(state="attached", timeout=LOADED_MS)
                _in_its_typeface(page)

                shoot = functools.partial(_shoot, folder, page, width, theme)
                for visited in places:
                    visited(page, shoot)
                still.close()
        if not names or "benchmark" in names:
            _benchmark(browser, folder)


def _shoot(folder: Path, page: Any, width: int, theme: str, name: str) -> None:
    """Take the pictures of a place that this page is meant for."""
    page.wait_for_timeout(1200)
    if name in SUBJECTS and (width == DESK[0]) == (name in WIDE):
        _small(page, name, folder / f"small-{name}{THEMES[theme]}.png")
    if width == DESK[0] and name in WHOLE and theme == "light":
        page.screenshot(path=folder / f"{name}-{width}-light.png", scale="css")
    if width == DESK[0] and name == "compare":
        page.set_viewport_size({"width": LARGE[0], "height": LARGE[1]})
        page.wait_for_timeout(1200)
        picture = _cut(page, name, *SUBJECTS[name])
        picture.quantize(COLOURS).save(folder / f"compare{THEMES[theme]}.png", optimize=True)
        page.set_viewport_size({"width": DESK[0], "height": DESK[1]})


def _small(page: Any, name: str, path: Path) -> None:
    """Take a small picture of a part of the page."""
    image = _cut(page, name, *SUBJECTS[name])
    if name not in WHOLLY:
        image = _framed(image)
    image.quantize(COLOURS).save(path, optimize=True)


def _cut(page: Any, name: str, first: str, last: str) -> Any:
    """Return the page from the top of one element to the bottom of another, as wide as both, under
    the rules of the picture of that name."""
    sheet = page.add_style_tag(content=STYLES[name])
    subject = page.locator(first).first
    subject.evaluate(BARE)
    box, end = subject.bounding_box(), page.locator(last).first.bounding_box()
    width = max(box["x"] + box["width"], end["x"] + end["width"]) - box["x"]
    height = end["y"] + end["height"] - box["y"]
    top = box["y"] + page.evaluate("scrollY")
    clip = {"x": box["x"], "y": top, "width": width, "height": height}
    picture = page.screenshot(clip=clip, full_page=True)
    page.evaluate(SHOWN)
    sheet.evaluate("node => node.remove()")
    return Image.open(io.BytesIO(picture)).convert("RGB")


def _framed(image: Any) -> Any:
    """Return a small picture with an image in its middle, made smaller where it is too large, on
    the colour of its corner."""
    size = SMALL[0] * SHARP, SMALL[1] * SHARP
    image.thumbnail([side - 8 * SHARP for side in size], Image.Resampling.LANCZOS)
    canvas = Image.new("RGB", size, image.getpixel((0, 0)))
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return ImageOps.expand(ImageOps.crop(canvas, SHARP), SHARP, EDGE)


def _watch(page: Any, shoot: Callable[..., None]) -> None:
    """Show the step on which the page rests, and the card of the most disputed token."""
    trace = gallery.trace(RECORDED)
    reached = [0, *itertools.accumulate(len(step.tokens) for step in trace.steps)]
    corrections = [step for step in trace.steps if step.kind == "correction"]
    disputed = max(corrections, key=disagreement)
    arrived = metrics.seconds_to_token(trace)
    page.evaluate(SEEK, [f"recorded {RECORDED}", arrived[reached[longest_step(trace)]] + 1e-3])
    shoot("watch")
    token = reached[disputed.index] + len(disputed.path)
    page.evaluate(SEEK, [f"recorded {RECORDED}", arrived[token] + 1e-3])
    disputed_token = page.locator("#token-view .ouro-token").nth(token)
    page.mouse.click(*disputed_token.evaluate(LAST_LINE))
    shoot("card")
    page.keyboard.press("Escape")


def disagreement(step: Step) -> float:
    """Return how far the models differ where a step was corrected, 0 without a draft's."""
    judged = step.judged[-1]
    return sum(
        abs(p - q) for p, q in zip(judged.target, judged.draft or judged.target, strict=True)
    )


def _in_its_typeface(page: Any) -> None:
    """Wait until the page's own fonts are drawn."""
    page.evaluate(TYPEFACE)
    page.wait_for_timeout(500)


def _animate(browser: Any, url: str, narrow: bool, path: Path) -> None:
    """Animate a run at its own speed, as a desk or a phone shows it; raises ValueError if the file
    is larger than `MOST_BYTES`."""
    width, height = PHONE if narrow else (FRAME_WIDTH + 2 * MARGIN, 1000)
    page = browser.new_page(
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
        device_scale_factor=SHARP if narrow else 1,
    )
    page.add_init_script(LISTEN)
    page.goto(f"{url}#run={HERO}")
    page.wait_for_selector("#token-view .ouro-token")
    page.get_by_text("Ready:").wait_for(state="attached", timeout=LOADED_MS)
    page.wait_for_function(LINKED)
    page.locator("#token-view").evaluate(BARE)
    page.add_style_tag(content=ANIMATED + ("" if narrow else AT_DESK))
    if not narrow:
        page.evaluate(BESIDE)
    _in_its_typeface(page)
    moments, shown = played(gallery.trace(HERO))
    page.evaluate(SEEK, ["", moments[-1]])
    page.wait_for_timeout(500)
    clip = _clip(page, narrow)
    drawn = [_frame(page, moment, clip) for moment in moments]
    page.close()
    palette = _palette(drawn)
    drawn = [_in_colours(frame, palette) for frame in drawn]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=shown, loop=0)
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(
            f"{path} has {path.stat().st_size} bytes, at most {MOST_BYTES} are allowed: lower "
            "COLOURS"
        )


def played(trace: Trace) -> tuple[list[float], list[int]]:
    """Return the frames, one for each step from the first that accepts a guess to the last: its
    second, and for how many milliseconds it is shown."""
    accepting = [step.index for step in trace.steps if step.path]
    moments = [_over(trace, index) for index in range(accepting[0], len(trace.steps))]
    shown = [round(1000 * (end - start)) for start, end in itertools.pairwise(moments)]
    shown.append(LAST_MS)
    shown[accepting[-1] - accepting[0]] += REST_MS
    return moments, shown


def _over(trace: Trace, index: int) -> float:
    """Return the second at which a step has written its tokens."""
    tokens = sum(len(step.tokens) for step in trace.steps[: index + 1])
    return metrics.seconds_to_token(trace)[tokens - 1]


def _palette(frames: Sequence[Any]) -> Any:
    """Return the colours of a run: the most frequent ones unchanged, so that the tints of two
    sources stay apart, and blended ones."""
    sample = frames[:: -(len(frames) // 4)]
    width, height = frames[0].size
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


def _clip(page: Any, narrow: bool) -> dict[str, float]:
    """Return the part of the page that is a frame: from the sentence to legend and first chart."""
    boxes = [
        page.locator(f"#token-view {name}").first.bounding_box()
        for name in (".ouro-sentence", ".ouro-legend", ".ouro-graph")
    ]
    y = boxes[0]["y"] - 4
    height = max(box["y"] + box["height"] for box in boxes) + 4 - y
    x, width = (boxes[0]["x"] - 8, NARROW_WIDTH) if narrow else (MARGIN, FRAME_WIDTH)
    return {"x": x, "y": round(y), "width": width, "height": round(height)}


def _frame(page: Any, moment: float, clip: dict[str, float]) -> Any:
    """The card of the run at a moment, in seconds."""
    page.evaluate(SEEK, ["", moment])
    page.wait_for_timeout(150)
    page.locator("#token-view .ouro-text").evaluate(WHOLE_LINES)
    return Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True))).convert("RGB")


def _compare(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Compare")
    page.wait_for_selector(".ouro-compare-row:nth-child(6)")
    shoot("compare")


def _learn(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Learn")
    page.wait_for_selector("#learn-view .ouro-learn[data-at]")
    page.locator(".ouro-learn-chapter").nth(6).click()
    while not page.locator(".ouro-mask-matrix").is_visible():
        page.locator(".ouro-learn-next").click()
        page.wait_for_timeout(300)
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
    """Draw the figure of docs/benchmarks.md."""
    benchmark = Benchmark.read(assets() / "benchmark.json")
    bars = result_figures.few(benchmark.bars(Over.PLAIN))
    machine = f"{benchmark.target} on {benchmark.where}, {benchmark.questions} prompts"
    figure = result_figures.page(bars, machine).update_layout(height=560)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "benchmark.html"
        write_page(figure, path)
        page = browser.new_page(viewport={"width": 1000, "height": 560})
        page.goto(path.as_uri())
        page.add_style_tag(content="body { margin: 0; background: white }")
        page.wait_for_selector(".main-svg")
        page.wait_for_timeout(500)
        page.screenshot(path=folder / "benchmark.png")
        page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
