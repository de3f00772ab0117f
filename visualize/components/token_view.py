"""The token view: the text, each token in the colour of who wrote it, with legend, counts and headline numbers."""

from __future__ import annotations

from typing import Any

from visualize.components.base import JsonHTML, script
from visualize.views import legend

TEMPLATE = """
<section class="ouro-run" aria-label="Generated text">
  <header class="ouro-run-head">
    <span class="ouro-badge"></span><span class="ouro-title"></span>
    <button type="button" class="ouro-toggle ouro-final" aria-pressed="false">final text only</button>
    <button type="button" class="ouro-toggle ouro-palette" aria-pressed="false">the paper's colours</button>
  </header>
  <dl class="ouro-tiles"></dl>
  <ul class="ouro-legend" aria-label="Who wrote the tokens"></ul>
  <div class="ouro-text" role="group" aria-label="Tokens; arrow keys move from one to the next"></div>
  <div class="ouro-timeline" role="group" aria-label="Timeline: Space plays, arrow keys step, Home and End jump"></div>
  <p class="ouro-status"></p>
  <details class="ouro-stage" open>
    <summary>The token tree of this step</summary>
    <p class="ouro-tree-note"></p>
    <button type="button" class="ouro-toggle ouro-windowed" aria-pressed="false" hidden>with the lookahead window</button>
    <div class="ouro-tree" tabindex="0" role="group" aria-label="Token tree; arrow keys move between its tokens"></div>
  </details>
  <div class="ouro-numbers"></div>
  <div class="ouro-card" id="ouro-card" role="tooltip" hidden></div>
  <p class="ouro-said" role="status" aria-live="polite"></p>
  <details class="ouro-meaning"><summary>What the colours mean</summary><dl></dl></details>
</section>
"""


PARTS = ("dom.js", "token_text.js", "player.js", "timeline.js", "tree_view.js", "token_card.js")


class TokenView(JsonHTML):
    """Value: {seq, run, from, steps, prompt?, chat?, badge?, title?, tiles?, numbers?, status?, done?}, see `views.run_view`.

    `steps` are those from index `from` on, so a stream sends each step once; another `run` starts anew. {seq, stopped} ends
    what is shown. A chosen token triggers `token_select` with its data.
    """

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(
            value=value,
            html_template=TEMPLATE,
            js_on_load=script(*PARTS, "token_view.js"),
            looks=legend(),
            apply_default_css=False,
            **more,
        )
