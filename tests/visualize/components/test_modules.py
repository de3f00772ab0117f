"""The views' scripts are modules: how the page gets them, mounts them, and makes one script of
them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from ouroboros_core.locations import assets
from tests.visitor import watch
from visualize import markup
from visualize.components.base import mounting
from visualize.components.modules import imported, modules, modules_path, preloaded
from visualize.deploy.bundle import bundle

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


def written(folder: Path, **sources: str) -> Path:
    for name, source in sources.items():
        (folder / f"{name}.js").write_text(source)
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
    (tmp_path / "page.html").write_text(f"<script>{bundle('one', tmp_path)}</script>")
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
        file.write_text(f"<meta charset=utf-8><body>{run}{facts}<script>{bundle(name)}</script>")
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
@pytest.mark.embedded
def test_the_page_gets_every_module_once_and_nothing_else_of_the_folder(
    browser: Any, url: str
) -> None:
    with httpx.Client(base_url=url, timeout=30) as client:
        for name, source in modules().items():
            answer = client.get(f"/{modules_path()}/{name}")
            assert answer.text == source == (assets() / "js" / name).read_text()
            assert answer.headers["content-type"].startswith("text/javascript")
            assert "immutable" in answer.headers["cache-control"]
        for name in ("none.js", "..%2Fcss%2Fpage.css", "%2Fetc%2Fpasswd", "dom.js%00", "dom"):
            assert client.get(f"/{modules_path()}/{name}").status_code == 404
        assert client.get(f"/{modules_path()[:-1]}x/dom.js").status_code == 404
    page = browser.new_page()
    faults, asked = watch(page)
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    page.wait_for_selector("#chart-speedup .js-line", state="attached")
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
