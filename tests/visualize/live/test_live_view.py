"""The live page in Chromium with its own worker: runs of plain Python are sent again in place of
Pyodide, and each prompt says where its run stays."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Quiet, file_server
from tests.visualize.live.test_session import PLAN, session_of, updates
from tests.web_pass import node
from visualize.deploy import static_site
from visualize.kit.markup import PLOTLY_JS
from visualize.kit.modules import carried
from visualize.live import inputs
from visualize.live.packing import HERE
from visualize.run import view as views

pytestmark = pytest.mark.served
VERSION = "v1"
SIZE = {"version": VERSION, "bytes": 3_000_000}
OPEN = "open"
PYODIDE = """
const [UPDATES, MEASURED, OPENED] = %s;
let runs = 0;
function* updates(prompt) {
  const name = `live ${++runs}`;
  console.log("run " + prompt);
  if (prompt === "refused") return yield '{"error": "refused"}';
  for (const update of UPDATES) {
    const { steps = [], timing } = update.view || {};
    yield JSON.stringify(update).replaceAll('"live 1"', `"${name}"`);
    const at = timing ? "timing" : steps.length ? "writing" : "reading";
    if (prompt === "fails" && at === "writing")
      throw new Error("Traceback (most recent call last):\\n  File a\\nValueError: no luck\\n");
    while (prompt === at) yield '{"pause": true}';
  }
}
function* others({ plan }) {
  const stays = plan?.tokens === 8;
  for (const update of plan ? MEASURED.slice(0, stays ? -1 : undefined) : OPENED)
    yield JSON.stringify(update);
  while (stays) yield '{"pause": true}';
}
const run = (asked) => {
  const ask = JSON.parse(asked);
  const sent = "method" in ask ? updates(ask.prompt) : others(ask);
  return Object.assign(sent, { close() {}, destroy() {} });
};
export async function loadPyodide() {
  const word = await (await fetch("gate")).text();
  if (word !== "open") throw new Error(word);
  return { unpackArchive() {}, pyimport: () => ({ start: () => ({ run }) }) };
}
"""
FILES = {"archives": [], "models": {}, "passes": {"simd": {"path": "simd", "bytes": 1}}, "rest": 9}
LARGEST = ("target.bin", "draft.bin", "pyodide/pyodide.asm.wasm")


def everything_sent() -> list[list[Any]]:
    """Return the updates of a run, of a comparison and of one of its rows."""
    session = session_of()
    asked = json.dumps({"plan": PLAN}), json.dumps({"lane": 2, "prompt": 0})
    return [updates(session), *([json.loads(u) for u in session.run(ask)] for ask in asked)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with the page, its first recorded run and a worker without models."""
    site: Path = tmp_path_factory.mktemp("site")
    live = site / "live" / VERSION
    (live / "pyodide").mkdir(parents=True)
    (site / "runs").mkdir()
    facts = {**inputs.page_facts(SIZE), "looks": views.legend()}
    texts = {
        "watch.html": static_site._site_page(
            "watch", inputs.page_markup(), facts, live=True, script="live.js"
        ),
        "live.js": carried("live/live.js"),
        "site.css": static_site._css(),
        "runs/java-union.js": static_site._run_script("java-union"),
        f"live/{VERSION}/files.json": json.dumps(
            FILES | {"tokenizer": {"path": "tokenizer.json", "bytes": 2}}
        ),
        f"live/{VERSION}/simd": "1",
        f"live/{VERSION}/tokenizer.json": "{}",
        f"live/{VERSION}/tokenizers.min.js": "export class Tokenizer {}",
        f"live/{VERSION}/pass.js": 'export const Pass = { load() {} }, build = () => "simd";',
        f"live/{VERSION}/pyodide/pyodide.js": PYODIDE % json.dumps(everything_sent()),
    }
    for name, text in texts.items():
        (site / name).write_text(text, encoding="utf-8")
    shutil.copyfile(PLOTLY_JS, site / "plotly.min.js")
    shutil.copyfile(HERE / "worker.js", live / "worker.js")
    return site


@pytest.fixture
def gate() -> Queue[str]:
    """What the loading of Python waits for: `OPEN`, or why it fails."""
    return Queue()


@pytest.fixture
def address(folder: Path, gate: Queue[str]) -> Iterator[str]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            if self.path.endswith("/gate"):
                word = gate.get()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(word.encode())
            else:
                super().do_GET()

    with file_server(folder, Handler) as url:
        yield url
        gate.put("the test is over")


@pytest.fixture
def runs() -> list[str]:
    """The prompts whose runs began in the worker."""
    return []


@pytest.fixture
def page(browser: Any, address: str, runs: list[str]) -> Iterator[Page]:
    page = browser.new_page()
    expect.set_options(timeout=30_000)  # for a busy machine
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda line: runs.append(line.text[4:]) if line.text.startswith("run ") else None,
    )
    page.goto(address + "watch.html")
    page.locator(".ouro-run[data-recorded=true]").wait_for()
    yield page
    page.close()
    assert not errors


@pytest.fixture
def loaded(page: Page, gate: Queue[str]) -> Page:
    gate.put(OPEN)
    page.locator(".ouro-live-load").click()
    page.get_by_text("The model runs in this browser").wait_for()
    return page


def ask(page: Page, prompt: str) -> None:
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#generate").click()


def stop(page: Page) -> None:
    page.locator("#stop:not([aria-disabled])").click()


def status(page: Page) -> Any:
    return expect(page.locator(".ouro-run .ouro-status"))


def test_a_run_that_replaces_a_timed_one_can_be_stopped(loaded: Page) -> None:
    ask(loaded, "timing")
    status(loaded).to_contain_text("Timing it")
    ask(loaded, "writing")
    status(loaded).to_contain_text("Step ")
    expect(loaded.locator("#stop")).to_be_visible()
    stop(loaded)
    status(loaded).to_contain_text("Stopped. Step ")
    expect(loaded.locator("#generate")).to_be_visible()
    ask(loaded, "whole")
    loaded.locator(".ouro-run[data-recorded=false][data-done=true]").wait_for()
    status(loaded).not_to_contain_text("Stopped")


def test_a_timed_run_is_closed_when_the_next_one_is_refused(loaded: Page) -> None:
    ask(loaded, "timing")
    status(loaded).to_contain_text("Timing it")
    ask(loaded, "refused")
    expect(loaded.locator(".ouro-fault")).to_have_text("refused")
    status(loaded).to_contain_text("There is no plain run to compare with.")
    status(loaded).not_to_contain_text("Timing it")
    expect(loaded.locator("#generate")).to_be_visible()


def test_a_stop_while_the_model_loads_drops_the_run(
    page: Page, gate: Queue[str], runs: list[str]
) -> None:
    ask(page, "dropped")
    page.get_by_text("The run begins when the model is loaded.").first.wait_for()
    stop(page)
    expect(page.locator("#generate")).to_be_visible()
    gate.put(OPEN)
    page.get_by_text("The model runs in this browser").wait_for()
    ask(page, "whole")
    page.locator(".ouro-run[data-recorded=false][data-done=true]").wait_for()
    assert runs == ["whole"]


def test_a_comparison_is_measured_in_the_worker_and_its_rows_open_in_watch(loaded: Page) -> None:
    loaded.get_by_role("link", name="Compare live").click()
    expect(loaded.locator(".ouro-compare-row .ouro-strip").first).to_be_visible()
    expect(loaded.locator("#prompt")).to_be_hidden()
    loaded.locator(".ouro-compare-go").click()
    expect(loaded.locator(".ouro-compare-status")).to_contain_text("Measured here.")
    expect(loaded.locator(".ouro-compare-row")).to_have_count(4)
    loaded.get_by_role("button", name="Open in Watch").last.click()
    expect(loaded.locator(".ouro-run[data-recorded=false][data-done=true]")).to_be_visible()
    expect(loaded.locator(".ouro-compare")).to_be_hidden()


def test_a_comparison_can_be_stopped_and_gives_way_to_a_run(loaded: Page) -> None:
    loaded.get_by_role("link", name="Compare live").click()
    loaded.locator(".ouro-compare-tokens").fill("8")
    for leave in ("stop", "run"):
        loaded.locator(".ouro-compare-go").click()
        expect(loaded.locator(".ouro-compare-stop")).to_be_visible()
        if leave == "stop":
            loaded.locator(".ouro-compare-stop").click()
        else:
            loaded.get_by_role("link", name="Watch live").click()
            ask(loaded, "whole")
            loaded.locator(".ouro-run[data-recorded=false][data-done=true]").wait_for()
            loaded.get_by_role("link", name="Compare live").click()
        expect(loaded.locator(".ouro-compare-go")).to_be_visible()


def test_a_stop_before_the_first_token_says_so(loaded: Page) -> None:
    ask(loaded, "reading")
    status(loaded).to_contain_text("Reading the prompt")
    stop(loaded)
    status(loaded).to_have_text("Stopped before the first token.")


def test_a_run_that_fails_is_closed_with_its_reason_and_no_traceback(loaded: Page) -> None:
    ask(loaded, "fails")
    expect(loaded.locator(".ouro-fault")).to_have_text("The run failed: ValueError: no luck")
    status(loaded).to_contain_text("The run failed. Step ")
    expect(loaded.locator(".ouro-run")).to_have_attribute("data-done", "true")
    expect(loaded.locator("#generate")).to_be_visible()


def test_a_model_that_did_not_arrive_can_be_loaded_again(page: Page, gate: Queue[str]) -> None:
    load = page.locator(".ouro-live-load")
    expect(load).to_have_text("Load the model (3 MB)")
    ask(page, "whole")
    expect(page.locator(".ouro-live-state")).to_contain_text("0 of 3 MB")
    expect(load).to_be_hidden()
    gate.put("no network")
    expect(page.locator(".ouro-live-state")).to_contain_text("cannot be loaded: no network.")
    expect(page.locator("#generate")).to_be_enabled()
    expect(load).to_have_text("Try again")
    load.click()
    gate.put(OPEN)
    page.get_by_text("The model runs in this browser").wait_for()


def test_only_a_browser_with_all_large_files_loads_without_being_asked(page: Page) -> None:
    keep = """async ([names, folder]) => {
      const cache = await caches.open("earlier visit");
      for (const name of names) await cache.put(`live/${folder}/${name}`, new Response(""));
    }"""
    page.evaluate(keep, [["files.json", *LARGEST[:2]], VERSION])
    page.reload()
    page.locator(".ouro-run[data-recorded=true]").wait_for()
    page.evaluate("caches.match('nothing')")
    expect(page.locator(".ouro-live-load")).to_be_visible()
    page.evaluate(keep, [LARGEST, VERSION])
    page.reload()
    expect(page.locator(".ouro-live-state")).to_contain_text("Loading the model")


def test_a_recorded_run_that_does_not_arrive_is_a_fault(page: Page) -> None:
    page.locator(".ouro-method[aria-checked=false]").first.click()
    expect(page.locator(".ouro-fault")).to_have_text("The recorded run cannot be loaded.")


def test_the_service_worker_answers_before_it_has_stored_and_leaves_other_sites_alone() -> None:
    script = """
      const heard = {}, deleted = [], waits = [];
      const names = ["ouroboros /a/ old", "ouroboros /a/b/ old", "ouroboros /b/ old"];
      const cache = { match: async () => undefined, put: () => new Promise(() => {}) };
      globalThis.self = {
        addEventListener: (name, act) => (heard[name] = act),
        registration: { scope: "https://host/a/" },
        clients: { claim() {} },
      };
      globalThis.caches = {
        open: async () => cache,
        keys: async () => names,
        delete: (name) => deleted.push(name),
      };
      globalThis.fetch = async () => new Response("fresh");
      SCRIPT
      (async () => {
        let answer, active;
        heard.activate({ waitUntil: (promise) => (active = promise) });
        await active;
        heard.fetch({
          request: { method: "GET", url: "https://host/a/x" },
          respondWith: (promise) => (answer = promise),
          waitUntil: (promise) => waits.push(promise),
        });
        const text = await (await answer).text();
        console.log(JSON.stringify([deleted, text, waits.length]));
      })();
    """.replace("SCRIPT", (HERE / "service_worker.js").read_text("utf-8"))
    ended = subprocess.run(
        [node(), "-e", script], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert ended.stdout, f"no answer while the cache stores: {ended.stderr}"
    assert json.loads(ended.stdout) == [["ouroboros /a/ old"], "fresh", 1]
