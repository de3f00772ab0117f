"""The views' scripts are modules: how the page gets them, mounts them, and makes one script of
them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import ROOT
from tests.visitor import chart, watch
from visualize.gallery import runs as gallery
from visualize.kit import markup
from visualize.kit.bundle import bundle, exported
from visualize.kit.json_html import mounting
from visualize.kit.modules import imported, modules, modules_path, preloaded
from visualize.learn import lessons as learn
from visualize.run.view import legend

VIEWS = [
    *(view for view in vars(markup).values() if isinstance(view, markup.Markup)),
    markup.plot_view("A chart", 200),
    markup.save_buttons("link"),
]
STANDING = [view.module for view in VIEWS] + ["site", "replay"]

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


def mounted(page: Any, view: markup.Markup, props: dict[str, Any], more: str = "{}") -> None:
    """A view in an empty page that has an address; more: of its properties, an object in
    JavaScript."""
    blank = {"body": view.template, "content_type": "text/html; charset=utf-8"}
    page.route("http://127.0.0.1/", lambda route: route.fulfill(**blank))
    page.goto("http://127.0.0.1/")
    still = "() => {}"
    page.evaluate(
        f"(props) => ({exported(view.module)}).mount(document.body, "
        f"{{...props, ...({more})}}, {still}, {still}, {{}})",
        props | {"looks": legend()},
    )


def written(folder: Path, **sources: str) -> Path:
    for name, source in sources.items():
        (folder / f"{name}.js").write_text(source, encoding="utf-8")
    return folder


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.module)
def test_a_view_names_the_events_that_its_module_tells(view: markup.Markup) -> None:
    source = modules()[f"{view.module}.js"]
    assert re.search(r"^export function mount\(element, props\b", source, re.MULTILINE)
    assert set(view.events) == set(re.findall(r'trigger\("(\w+)"', source))
    assert all(f'"{event}"' in mounting(view) for event in view.events), "Gradio finds them there"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('import "./dom.js";', "one.js, line 1: write an import as"),
        ('import * as dom from "./dom.js";', "write an import as"),
        ('\nimport {\n  make,\n} from "./dom.js";', "line 2: write an import as"),
        ('const dom = await import("./dom.js");', "write an import as"),
        ('import { remake } from "./dom.js";', "dom.js does not export remake"),
        ('import { make make } from "./dom.js";', "not names to import"),
        ("export default class {}", "line 1: what may be exported"),
        ("export let count = 0;", "what may be exported"),
        ('export { make } from "./dom.js";', "what may be exported"),
        ('import { a } from "./one.js";', "one imports one: modules may not import each other"),
    ],
)
def test_a_bundle_refuses_what_it_does_not_understand(
    source: str, said: str, tmp_path: Path
) -> None:
    written(tmp_path, one=source, dom="export const make = 1;")
    with pytest.raises(ValueError, match=said):
        bundle("one", tmp_path)


@pytest.mark.browser
def test_names_of_two_modules_never_meet_in_a_bundle(browser: Any, tmp_path: Path) -> None:
    written(
        tmp_path,
        one='import { name as other, Box } from "./two.js";\nconst name = "one";\n'
        "document.title = [name, other, new Box().name].join();",
        two='const secret = "two";\nexport const name = secret;\n'
        "export class Box {\n  get name() {\n    return secret;\n  }\n}",
    )
    (tmp_path / "page.html").write_text(
        f"<script>{bundle('one', tmp_path)}</script>", encoding="utf-8"
    )
    page = browser.new_page()
    page.goto(f"file://{tmp_path}/page.html")
    assert page.title() == "one,two,two"
    assert page.evaluate("typeof name + typeof secret + typeof Box") == "stringundefinedundefined"
    page.close()


@pytest.mark.browser
def test_every_view_runs_as_one_script_that_is_opened_from_disk(
    browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page()
    faults, asked = watch(page)
    for name in STANDING:
        file = tmp_path / f"{name}.html"
        facts = '{"value": null, "looks": []}'
        run = f'<div id="run">{markup.TOKEN_VIEW.template}</div>'
        facts = f'<script type="application/json" id="facts">{facts}</script>'
        file.write_text(
            f"<meta charset=utf-8><body>{run}{facts}<script>{bundle(name)}</script>",
            encoding="utf-8",
        )
        page.goto(f"file://{file}")
        assert faults == [], name
    assert all(address.startswith("file:") for address in asked)
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
    mounted(page, markup.TOKEN_VIEW, props, f"({OUTSIDE})()")
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
    chapter = next(one for one in learn.chapters() if one["id"] == "copying")
    runs = {chapter["run"]: gallery.view(chapter["run"])}
    first, _, stop, *_ = chapter["stops"]
    assert first["at"]["step"] != stop["at"]["step"]
    page = browser.new_page()
    value = json.dumps({"chapters": [chapter], "questions": []})
    mounted(page, markup.LEARN_VIEW, {"value": value}, f"{{load: ({LENT})({json.dumps(runs)})}}")
    for _ in range(2):
        page.evaluate("document.querySelector('.ouro-learn-next').click()")
    assert page.evaluate("asked") == [chapter["run"]]
    page.evaluate("come[0]()")
    at = f"step {stop['at']['step'] + 1} of"
    page.wait_for_function(
        "t => document.querySelector('.ouro-learn-run .ouro-count').textContent.startsWith(t)",
        arg=at,
    )
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
        for name in ("none.js", "..%2Fcss%2Fpage.css", "%2Fetc%2Fpasswd", "dom.js%00", "dom"):
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
    links = re.findall(r'href="([^"]+)"', preloaded("token_view"))
    assert len(links) == len(set(links))
    names = {link.removeprefix(f"{modules_path()}/") for link in links}
    assert {"token_view.js", "token_stage.js", "timeline.js", "player.js", "dom.js"} <= names
    assert "learn_view.js" not in names
