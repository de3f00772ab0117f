"""The views' scripts are modules: how the page gets and mounts them, and how a page without a
server carries them."""

import html
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import ROOT
from tests.visitor import chart, watch
from visualize.deploy.static_site import POLICY
from visualize.gallery import runs as gallery
from visualize.kit.json_html import mounting
from visualize.kit.markup import Markup
from visualize.kit.modules import carried, imported, modules, modules_path, preloaded
from visualize.kit.plot_view import plot_markup
from visualize.learn import lessons
from visualize.learn.components import LEARN_VIEW
from visualize.run.components import TOKEN_VIEW, save_buttons
from visualize.run.view import legend


def views() -> list[Markup]:
    """Return every view that a module of the page declares."""
    names = [
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in sorted((ROOT / "visualize").glob("*/*.py"))
        if re.search(r"= markup\(", path.read_text("utf-8"))
    ]
    members = [one for name in names for one in vars(import_module(name)).values()]
    declared = [getattr(member, "VIEW", member) for member in members]
    return list(dict.fromkeys(one for one in declared if isinstance(one, Markup)))


VIEWS = [*views(), plot_markup("A chart", 200), save_buttons("link")]

LATE = """async (code) => {
  const heard = [], props = { value: "first" };
  let changed, come;
  const module = new Promise((resolve) => (come = resolve));
  const watch = (_, act) => (changed = act);
  const given = { element: 0, props, watch, trigger: 0, server: 0, module };
  Function(...Object.keys(given), code)(...Object.values(given));
  const give = (value) => { props.value = value; changed(); };
  give("second");
  give("third");
  const mount = (_, view, watch) => {
    heard.push(view.value);
    watch("value", () => heard.push(view.value));
  };
  come({ mount });
  await module;
  await null;
  give("fourth");
  return heard;
}"""


OUTSIDE = """() => {
  window.outside = [];
  for (const target of [window, document]) {
    const add = target.addEventListener;
    target.addEventListener = function (name, act, options) {
      outside.push([name, options && options.signal]);
      return add.call(target, name, act, options);
    };
  }
  return {};
}"""
LENT = """(runs) => {
  window.asked = [];
  window.come = [];
  return (name) => {
    asked.push(name);
    return new Promise((resolve) => come.push(() => resolve(runs[name])));
  };
}"""


def mounted(page: Any, view: Markup, props: dict[str, Any], more: str = "{}") -> None:
    """A view in an empty page that has an address; more: of its properties, an object in
    JavaScript."""
    blank = {"body": view.template, "content_type": "text/html; charset=utf-8"}
    page.route("http://127.0.0.1/", lambda route: route.fulfill(**blank))
    page.goto("http://127.0.0.1/")
    still = "() => {}"
    page.evaluate(
        f"async (props) => (await {carried(view.module)}).mount(document.body, "
        f"{{...props, ...({more})}}, {still}, {still}, {{}})",
        props | {"looks": legend()},
    )


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.module)
def test_a_view_names_the_events_that_its_module_tells(view: Markup) -> None:
    source = modules()[view.module]
    assert re.search(r"^export function mount\(element, props\b", source, re.MULTILINE)
    assert set(view.events) == set(re.findall(r'trigger\("(\w+)"', source))
    assert all(f'"{event}"' in mounting(view) for event in view.events), "Gradio finds them there"


@pytest.mark.browser
def test_a_carried_module_needs_no_server_and_leaves_nothing_on_window(
    browser: Any, tmp_path: Path
) -> None:
    """From disk, under the policy of a replay, in a frame without an address, and in one that may
    do nothing but run scripts."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    code = f"{carried('kit/stepper.js')}.then((it) => (document.title = typeof it.stepper))"
    inner = f"<meta charset=utf-8>{policy}<body><script>{code}</script>"
    for page_html in (
        inner,
        f"<iframe srcdoc='{html.escape(inner)}'></iframe>",
        f"<iframe sandbox=allow-scripts srcdoc='{html.escape(inner)}'></iframe>",
    ):
        (tmp_path / "page.html").write_text(page_html, encoding="utf-8")
        page = browser.new_page()
        faults, asked = watch(page)
        page.goto((tmp_path / "page.html").as_uri())
        frame = page.frames[-1]
        frame.wait_for_function("document.title === 'function'")
        assert frame.evaluate("typeof stepper + typeof make") == "undefinedundefined"
        assert faults == []
        assert {address.split(":")[0] for address in asked} <= {"file", "blob"}
        page.close()


@pytest.mark.browser
def test_every_view_can_be_carried(browser: Any) -> None:
    page = browser.new_page()
    faults, asked = watch(page)
    page.goto("about:blank")
    for view in VIEWS:
        kinds = f"{carried(view.module)}.then(({{ mount }}) => typeof mount)"
        assert page.evaluate(kinds) == "function", view.module
    assert faults == [] and {address.split(":")[0] for address in asked} <= {"about", "blob"}
    page.close()


@pytest.mark.browser
def test_a_value_that_comes_before_its_view_is_there_is_not_lost(browser: Any) -> None:
    code = mounting(VIEWS[-1])
    page = browser.new_page()
    heard = page.evaluate(LATE, code.replace(imported(VIEWS[-1].module), "module"))
    assert heard == ["first", "second", "third", "fourth"]
    page.close()


@pytest.mark.browser
def test_a_run_that_is_taken_out_of_a_page_listens_to_it_no_more(browser: Any) -> None:
    """Each listener outside of the view has a signal, which ends it."""
    page = browser.new_page()
    props = {"value": json.dumps(gallery.view("java-speculative")), "keep": True, "asks": True}
    mounted(page, TOKEN_VIEW, props, f"({OUTSIDE})()")
    still = "outside.map(([name, signal]) => [name, !signal || signal.aborted])"
    before = page.evaluate(still)
    page.mouse.move(20, 20)
    assert page.evaluate(still) == before and len(before) > 8
    page.evaluate("document.querySelector('.ouro-run').remove()")
    page.mouse.move(30, 30)
    assert [name for name, signal in before if signal] == []
    assert all(over for _, over in page.evaluate(still))
    page.close()


@pytest.mark.browser
def test_who_reads_on_while_a_run_is_fetched_sees_the_moment_of_the_last_words(
    browser: Any,
) -> None:
    """One run is asked for once, whichever stops want it meanwhile."""
    chapter = next(one for one in lessons.chapters() if one["id"] == "copying")
    runs = {chapter["run"]: gallery.view(chapter["run"])}
    first, _, stop, *_ = chapter["stops"]
    assert first["at"]["step"] != stop["at"]["step"]
    page = browser.new_page()
    value = json.dumps({"chapters": [chapter], "questions": []})
    mounted(page, LEARN_VIEW, {"value": value}, f"{{load: ({LENT})({json.dumps(runs)})}}")
    for _ in range(2):
        page.evaluate("document.querySelector('.ouro-learn-next').click()")
    assert page.evaluate("asked") == [chapter["run"]]
    page.evaluate("come[0]()")
    count = page.locator(".ouro-learn-run .ouro-count")
    count.filter(has_text=f"step {stop['at']['step'] + 1} of").wait_for()
    assert page.inner_text(".ouro-learn-status") == ""
    page.close()


@pytest.mark.browser
@pytest.mark.embedded
def test_the_page_gets_every_module_once_and_nothing_else_of_the_folder(
    browser: Any, url: str
) -> None:
    with httpx.Client(base_url=url, timeout=30) as client:
        for name, source in modules().items():
            answer = client.get(f"/{modules_path()}/{name}")
            assert answer.text == source == (ROOT / "visualize" / name).read_text(encoding="utf-8")
            assert answer.headers["content-type"].startswith("text/javascript")
            assert "immutable" in answer.headers["cache-control"]
        for name in ("none.js", "..%2Fkit%2Fbase.css", "%2Fetc%2Fpasswd", "dom.js%00", "dom"):
            assert client.get(f"/{modules_path()}/{name}").status_code == 404
        assert client.get(f"/{modules_path()[:-1]}x/dom.js").status_code == 404
    page = browser.new_page()
    faults, asked = watch(page)
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    chart(page, "speedup")
    fetched = [address.rsplit("/", 1)[1] for address in asked if f"/{modules_path()}/" in address]
    assert len(fetched) == len(set(fetched)) > 10
    found = page.evaluate("Object.keys(window).filter((name) => /ouro/i.test(name))")
    assert found == []
    assert faults == []
    page.close()


def test_what_the_page_shows_first_is_fetched_with_all_that_it_imports() -> None:
    links = re.findall(r'href="([^"]+)"', preloaded("run/token_view.js"))
    assert len(links) == len(set(links))
    names = {link.removeprefix(f"{modules_path()}/") for link in links}
    first = {"run/token_view.js", "run/token_stage.js", "run/timeline.js", "kit/player.js"}
    assert first | {"kit/dom.js"} <= names
    assert "learn/learn_view.js" not in names
