"""A visitor of the page, and what a person does there; the page itself and a browser are fixtures
of all tests."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ouroboros_core import methods
from visualize.kit.markup import Markup
from visualize.kit.modules import carried
from visualize.kit.palette import style

DONE = '#token-view .ouro-run[data-done="true"]'


def watch(page: Any) -> tuple[list[str], list[str]]:
    """What fails in a page's scripts from here on, and every address it asks for; both lists
    grow. What Gradio's client says when a page is left while a stream is open is no fault."""
    faults: list[str] = []
    asked: list[str] = []
    left = "AbortError: signal is aborted without reason"

    def note(error: object) -> None:
        if not str(error).startswith(left):
            faults.append(str(error))

    page.on("pageerror", note)
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: asked.append(r.url))
    return faults, asked


@contextmanager
def faultless(
    browser: Any, size: tuple[int, int] = (1440, 1000), ignored: str = "\0", **options: Any
) -> Iterator[Any]:
    """Open a page in a context of its own; a fault of its scripts is an error, unless it has the
    `ignored` words."""
    viewport = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, **options)
    page = context.new_page()
    faults, _ = watch(page)
    yield page
    assert [fault for fault in faults if ignored not in fault] == []
    context.close()


def visit(browser: Any, url: str) -> Iterator[Any]:
    """A fresh visitor; whatever the page asks of the network goes to this machine, and nothing
    fails in its scripts."""
    still: Any = {"reduced_motion": "reduce"}  # the recorded run rests at its best step
    with faultless(browser, **still) as visitor:
        _, asked = watch(visitor)
        visitor.goto(url)
        visitor.wait_for_selector("#token-view .ouro-token")
        visitor.wait_for_selector("#generate")
        yield visitor
        here = (url, "data:", "blob:", url.replace("http", "ws"))
        assert [address for address in asked if not address.startswith(here)] == []


def tokens(page: Any) -> list[dict[str, str]]:
    """Every token on the page: its text and its data attributes, in order."""
    found: list[dict[str, str]] = page.eval_on_selector_all(
        "#token-view .ouro-token", "nodes => nodes.map(n => ({text: n.textContent, ...n.dataset}))"
    )
    return found


def client(url: str) -> Any:
    from gradio_client import Client

    return Client(url, verbose=False)


def answer(url: str, prompt: str, method: str = methods.DEFAULT, **more: Any) -> Any:
    """Return the last value of a run by the endpoint, which is not compared unless asked for."""
    asked = {"compare": False, **more}
    return client(url).predict(prompt, method, **asked, api_name="/generate")


def saved(page: Any) -> bytes:
    """Return the file of the run that is shown, as it was downloaded."""
    with page.expect_download() as download:
        page.locator('#save-view [data-kind="json"]').click()
    return Path(download.value.path()).read_bytes()


def point_at(page: Any, node: Any) -> None:
    """Move the mouse to the middle of a node's first piece, also of a mark: it has no content, by
    which playwright's own `hover` looks for a place."""
    node.scroll_into_view_if_needed()
    middle = node.evaluate(
        """(node) => {
          const box = [...node.getClientRects()].find(({width}) => width);
          return [box.x + box.width / 2, box.y + box.height / 2];
        }"""
    )
    page.mouse.move(*middle)


def press_at(page: Any, node: Any) -> None:
    """Click there."""
    point_at(page, node)
    page.mouse.down()
    page.mouse.up()


def tile(page: Any, label: str) -> str:
    return str(page.locator(".ouro-tile", has_text=label).locator("dd").first.inner_text())


FIRST = {"acceptance": "#token-view .ouro-bars", "time": "#token-view .ouro-curves"}
"""The charts under the text."""


def chart(page: Any, name: str) -> Any:
    """A chart of a run, opened; charts are drawn when they are looked at."""
    if name in FIRST:
        plot = page.locator(FIRST[name])
        plot.scroll_into_view_if_needed()
        page.wait_for_selector(f"{FIRST[name]}.js-plotly-plot:not([data-due])")
        return plot
    if page.locator(".ouro-details").get_attribute("open") is None:
        page.locator(".ouro-details summary").click()
    page.locator(f".ouro-pick [data-chart={name}]").click()
    plot = page.locator(f"#chart-{name} .ouro-plot")
    plot.scroll_into_view_if_needed()
    page.wait_for_selector(f"#chart-{name} .ouro-plot.js-plotly-plot:not([data-due])")
    return plot


def bars(page: Any, name: str) -> list[list[float]]:
    """The heights of a chart's bars, by what they stand for; some charts come after the run."""
    plot = chart(page, name)
    page.wait_for_function("plot => plot.data?.length", arg=plot.element_handle())
    found: list[list[float]] = plot.evaluate("n => n.data.map(d => [...d.y].map(Number))")
    return found


def open_settings(page: Any, opened: bool = True) -> None:
    """Open the drawer of the settings, or close it: it lies over the result."""
    fold = page.locator(".ouro-settings").first
    fold.wait_for()
    if (fold.get_attribute("open") is not None) != opened:
        fold.locator("summary").click()


def set_count(page: Any, count: int) -> None:
    set_number(page, "Maximum new tokens", count)


def set_number(page: Any, label: str, value: float) -> None:
    open_settings(page)
    page.get_by_label(f"number input for {label}", exact=True).fill(str(value))
    page.keyboard.press("Tab")
    open_settings(page, False)


def switch(page: Any, name: str, on: bool = True) -> None:
    """Set a switch of the settings, by its id."""
    open_settings(page)
    page.locator(f"#{name} input").set_checked(on)
    open_settings(page, False)


def preset(page: Any, name: str, method: str) -> None:
    """Press a preset of a method's settings: auto, fixed or published."""
    open_settings(page)
    page.locator(f"#{name}-{method}").click()
    open_settings(page, False)


def pressed(page: Any, name: str, method: str) -> bool:
    """Return whether a preset of a method's settings holds."""
    button = page.locator(f"#{name}-{method}")
    button.wait_for(state="attached")
    return bool(button.get_attribute("aria-pressed") == "true")


def ask(page: Any, prompt: str, count: int) -> None:
    page.locator("#prompt textarea").fill(prompt)
    set_count(page, count)


def choose(page: Any, name: str) -> None:
    """Choose a method without running it, as the arrow keys do among the cards."""
    method = next(kind.id for kind in methods.available().values() if kind.name == name)
    page.evaluate(
        "method => document.dispatchEvent(new CustomEvent('ouro:method', {detail: {method}}))",
        method,
    )


LAB = ("Results", "Proof", "Recorded runs", "Drafts and models")


def open_tab(page: Any, name: str) -> None:
    """Open a place, or a page of the Lab, and wait until it is the one that is open; on a narrow
    screen it may be in a menu, and Gradio may move it there while it is looked for."""
    from playwright.sync_api import TimeoutError as LateError

    if name in LAB:
        open_tab(page, "Lab")
    tab = page.get_by_role("tab", name=name, exact=True)
    opened = page.get_by_role("tab", name=name, exact=True, selected=True)
    menu = page.locator(".overflow-menu > button").locator("visible=true").first
    for attempt in range(10):
        try:
            if tab.count() and tab.first.is_visible():
                tab.first.click(timeout=3_000)
            else:
                entry = page.locator(".overflow-dropdown").get_by_role(
                    "button", name=name, exact=True
                )
                if not entry.is_visible():
                    menu.click(timeout=3_000)
                entry.click(timeout=3_000)
            opened.wait_for(timeout=3_000)
            settle(page)
            return
        except LateError:
            if attempt == 9:
                raise


def settle(page: Any) -> None:
    """Wait until what is shown for the first time has its values: Gradio gives them once more with
    the next frame, over whatever was written meanwhile."""
    page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame("
        "() => setTimeout(done))))"
    )


def fade(page: Any) -> None:
    """Wait until everything that changes its colour or place has done so."""
    page.evaluate(
        """() => Promise.all(document.getAnimations()
          .filter(one => one.effect.getComputedTiming().endTime !== Infinity)
          .map(one => one.finished.catch(() => 0))).then(() => 0)"""
    )


def has(found: Any, count: int) -> None:
    """Wait until there are so many; what a page draws is there a moment after it was asked for."""
    from playwright.sync_api import expect

    expect(found).to_have_count(count, timeout=30_000)


def generate(page: Any) -> None:
    before = ended(page)
    page.click("#generate")
    finish(page, before)


def example(page: Any, label: str) -> None:
    """The run of an example, which begins at once."""
    page.locator("#generate").wait_for()  # while a run is under way, none begins
    before = ended(page)
    page.get_by_role("button", name=label, exact=True).click()
    finish(page, before)


def ended(page: Any) -> int:
    """How many runs have ended on this page, since it was asked for the first time."""
    count: int = page.evaluate(
        """() => {
          if (window.ended === undefined) {
            window.ended = 0;
            document.addEventListener("ouro:ended", () => { window.ended += 1; });
          }
          return window.ended;
        }"""
    )
    return count


def finish(page: Any, before: int) -> None:
    """Wait until the run that was asked for is over: more have ended than before."""
    page.wait_for_function("before => window.ended > before", arg=before, timeout=180_000)
    page.wait_for_selector(f"{DONE}:not([data-old]):not([data-timing])", timeout=180_000)
    page.locator("#generate").wait_for()


def insist(page: Any, act: Callable[[], Any], holds: str, timeout: float = 10_000) -> None:
    """Do something until it is heard, which what came before can prevent, and the page is so."""
    from playwright.sync_api import TimeoutError as LateError

    for _ in range(6):
        act()
        with suppress(LateError):
            page.wait_for_function(holds, timeout=timeout)
            return
    raise AssertionError(f"never so: {holds}")


def open_file(page: Any, file: Any) -> None:
    """Open a recorded run; the field's script comes a moment after the field."""
    said = page.locator(".ouro-open-said")
    said.wait_for(state="attached")
    said.evaluate("node => { node.textContent = ''; }")
    for _ in range(40):
        page.locator("#open-view input").set_input_files(file)
        if said.text_content():
            return
        page.wait_for_timeout(250)
    raise AssertionError(f"nobody hears of {file}")


def bar_at(page: Any, step: int) -> tuple[float, float]:
    """Where the bar of a step is, counted from 0, in the chart under the text."""
    x, y = page.locator(".ouro-bars").first.evaluate(
        """(plot, step) => {
          const { left, top } = plot.getBoundingClientRect(), { _size, xaxis } = plot._fullLayout;
          return [left + _size.l + xaxis.d2p(step + 1), top + _size.t + _size.h / 2];
        }""",
        step,
    )
    return x, y


def press_bar(page: Any, step: int) -> None:
    """Click the bar of a step."""
    page.mouse.move(*bar_at(page, step))
    page.mouse.down()
    page.mouse.up()


def write_view(file: Path, view: Markup, props: dict[str, Any]) -> str:
    """Write a view into a file that needs no server, and return its address.

    In the page, `show(value)` gives the view another value, `sent` has its events, [name, detail]
    each, and `ready` is fulfilled once the view is there.
    """
    file.write_text(
        f"<!doctype html><meta charset=utf-8><style>{style()}</style><div id=view>{view.template}"
        f"</div><script>const sent = [], props = {json.dumps(props)}; let act;"
        f"const ready = {carried(view.module)}.then(({{ mount }}) => mount("
        "document.getElementById('view'), props, (_, changed) => { act = changed; },"
        "(name, detail) => sent.push([name, detail])));"
        "const show = (value) => { props.value = JSON.stringify(value); act(); };</script>",
        encoding="utf-8",
    )
    return file.as_uri()


@contextmanager
def view_alone(browser: Any, file: Path, view: Markup, props: dict[str, Any]) -> Iterator[Any]:
    """Open a view that was written with `write_view`; a fault of a script is an error."""
    with faultless(browser) as page:
        page.goto(write_view(file, view, props))
        page.evaluate("() => ready")
        yield page
