"""Measure the live static site in headless Chromium: passes by rows, and speedups on own prompts.

Six prompts ask to repeat and complete a text, and six for something else. `make static` writes the
site. A speedup is that of the page: plain decoding and the method alternate in rounds, and reading
the prompt counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from ouroboros_core.benchmark.prompts import own_prompts
from tests.browser import chromium

COPIES, OTHERS = (6, 49, 50, 51, 52, 56), (1, 2, 7, 9, 25, 33)
"""Prompts whose answer mostly repeats the prompt, and others, by their ids."""
ROWS, CONTEXT, ROUNDS = (1, 2, 4, 8), 100, 21
TOKENS = 64
PASSES = """async ([folder, counts, past, rounds]) => {
  const { Pass, build } = await import(`${folder}pass.js`);
  const read = async (name) => (await fetch(folder + name)).arrayBuffer();
  const pass = await Pass.load(await read(`pass-${build()}.wasm`));
  const model = pass.model(await read("target.bin"), "target");
  const run = (start, count) => {
    const rows = Array.from({ length: count }, (_, n) => n);
    const positions = rows.map((n) => start + n);
    const seen = positions.map((n) => n + 1);
    const begin = Array(count + 1).fill(0);
    const began = performance.now();
    model.run(start, positions, positions, seen, begin, [], rows).free();
    return performance.now() - began;
  };
  run(0, past);
  for (const count of counts) for (let n = 0; n < 3; n++) run(past, count);
  const times = counts.map(() => []);
  for (let n = 0; n < rounds; n++) counts.forEach((count, at) => times[at].push(run(past, count)));
  return { build: build(), times };
}"""
BEGIN = """(folder) => new Promise((started, failed) => {
  const worker = new Worker(`${folder}worker.js`, { type: "module" });
  let shown, finish, number = 0;
  worker.addEventListener("message", ({ data }) => {
    if (data.failure) failed(new Error(data.failure));
    if (data.started) started();
    if (data.update) {
      const { view, error } = JSON.parse(data.update);
      shown = { ...shown, ...view, error };
    }
    if (data.ended) finish(shown);
  });
  window.compute = (ask) => new Promise((resolve) => {
    [shown, finish] = [{}, resolve];
    worker.postMessage({ number: ++number, ask });
  });
})"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


def tiles(page: Any, method: str, prompt: str) -> dict[str, str]:
    """Run a prompt in the worker of the page; return the headline numbers by their labels."""
    run = {"max_new_tokens": TOKENS, "chat": True, "temperature": 0.0}
    ask = {"prompt": prompt, "method": method, "settings": {}, "run": run}
    shown = page.evaluate("(ask) => window.compute(ask)", ask)
    if "tiles" not in shown:
        sys.exit(f"{method} failed: {json.dumps(shown)[:300]}")
    return {tile["label"]: tile["value"] for tile in shown["tiles"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/static"))
    parser.add_argument("--methods", nargs="+", default=["union", "suffix"])
    arguments = parser.parse_args()
    folders = [path.parent.name for path in arguments.folder.glob("live/*/files.json")]
    if not folders:
        sys.exit(f"{arguments.folder} has no live page: run make static")
    questions = {question.id: question for question in own_prompts()}
    handler = partial(_Quiet, directory=str(arguments.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.set_default_timeout(600_000)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        folder = f"./live/{folders[0]}/"
        measured = page.evaluate(PASSES, [folder, ROWS, CONTEXT, ROUNDS])
        medians = [median(times) for times in measured["times"]]
        for rows, milliseconds in zip(ROWS, medians, strict=True):
            cost = f"{milliseconds:.1f} ms, {milliseconds / medians[0]:.2f} passes over one row"
            print(f"{measured['build']} {rows} rows: {cost}")
        page.reload()
        page.evaluate(BEGIN, folder)
        for name, ids in (("copies", COPIES), ("others", OTHERS)):
            for method in arguments.methods:
                speedups = []
                for question in (questions[number] for number in ids):
                    shown = tiles(page, method, question.turns[0])
                    speedup, same = shown["Speedup"], shown["Identical text"]
                    speedups.append(float(speedup.rstrip("×")))
                    print(f"  {method} {question.id}: {speedup}, identical: {same}", flush=True)
                print(f"{name} {method}: {median(speedups):.2f}, least {min(speedups):.2f}")
        server.shutdown()


if __name__ == "__main__":
    main()
