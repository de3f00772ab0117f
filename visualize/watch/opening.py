"""The opening of the page, until its scripts have built it: the recorded run with which Watch
begins. Its text grows at the pace at which it was written.

Gradio's page is empty until then, for a second or two. The opening stands in the page's own HTML;
when the run behind it is there, it goes away, and the run plays on from the same moment. A page has
no opening if it begins with something else: at the address of another place or of a run, and when
a reload or the back button restores its earlier content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from visualize.kit import palette
from visualize.kit.address import KEY
from visualize.kit.markup import LOGO, MOTTO, safe
from visualize.run import view as views

LONGEST_MS = 12_000
"""A page that was begun and is not whole after so long is shown as it is."""

SCRIPT = """
(() => {
  const opening = document.getElementById("ouro-opening");
  const query = new URLSearchParams(location.search), theme = query.get("__theme");
  const text = opening.querySelector("pre"), words = [...text.querySelectorAll("i")];
  const [loaded] = performance.getEntriesByType("navigation"), begun = performance.now();
  let kept = false;
  try {
    kept = loaded?.type !== "navigate" && sessionStorage.getItem(KEY) !== null;
  } catch {} // storage is forbidden
  const first = ["", "#watch"].includes(location.hash) && !query.has("prompt");
  if (kept || !first) return opening.remove();
  opening.dataset.begun = begun;
  if (["light", "dark"].includes(theme)) opening.style.colorScheme = theme;
  const follow = (word) => {
    const below = word && word.offsetTop > text.scrollTop + text.clientHeight - 40;
    if (below) text.scrollTop = word.offsetTop - text.clientHeight / 2;
  };
  follow(words[0]);
  const timer = setInterval(() => {
    const spent = performance.now() - begun;
    const run = document.querySelector("#token-view .ouro-run[data-done]");
    const whole = run && getComputedStyle(run).visibility === "visible";
    if (whole || (spent > LONGEST && document.querySelector(".gradio-container"))) {
      clearInterval(timer);
      return opening.remove();
    }
    follow(words.findLast((word) => 1000 * parseFloat(word.style.animationDelay) <= spent));
  }, 50);
})();
"""


def tokens(trace: Trace) -> Iterator[tuple[str, str, float]]:
    """Of each token its text, the key of its look, and the second of the run at which it is
    there."""
    yield from zip(trace.texts, trace.looks, metrics.seconds_to_token(trace), strict=False)


def opening(trace: Trace) -> str:
    """The opening as HTML that stands before everything else in the page's body."""
    written = "".join(
        f'<i data-look="{look}" style="animation-delay:{second:.2f}s">{safe(text)}</i>'
        for text, look, second in tokens(trace)
    )
    prompt = safe(trace.prompt.text)
    gap = "\n\n" if trace.prompt.chat else ""
    foreign = 'dir="auto" translate="no"'
    style = Path(__file__).with_name("opening.css").read_text("utf-8") + palette.css()
    script = SCRIPT.replace("KEY", f'"{KEY}"').replace("LONGEST", str(LONGEST_MS))
    return (
        f'<div id="ouro-opening" aria-hidden="true" inert><style>{style}</style>'
        f"<header>{LOGO}<b>Ouroboros</b></header><main><p>{safe(MOTTO)}</p>"
        f"<section><blockquote {foreign}>{prompt}</blockquote><b>Generate</b></section><hr><hr>"
        "<article>"
        f"<div><small>{safe(views.badge(trace))}</small></div>"
        f"<pre {foreign}><s>{prompt}{gap}</s>{written}</pre></article></main></div>"
        f"<script>{script}</script>"
    )
