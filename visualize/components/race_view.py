"""The race view: several runs of one prompt, replayed together on one clock."""

from __future__ import annotations

from typing import Any

from visualize.components.base import JsonHTML, script

TEMPLATE = """
<section class="ouro-run ouro-race" aria-label="Race">
  <header class="ouro-run-head"><span class="ouro-badge"></span><span class="ouro-title"></span></header>
  <div class="ouro-timeline" role="group" aria-label="Timeline of the race: Space plays, arrow keys step"></div>
  <p class="ouro-status"></p>
  <div class="ouro-lanes"></div>
  <p class="ouro-order"></p>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="Table of the race"><table class="ouro-table"></table></div>
  <p class="ouro-said" role="status" aria-live="polite"></p>
</section>
"""


class RaceView(JsonHTML):
    """Value: {seq, race, lanes: [{name, steps, row}], status, badge, title, done, play?}; lanes come one after the other."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(
            value=value,
            html_template=TEMPLATE,
            js_on_load=script("dom.js", "token_text.js", "player.js", "race_view.js"),
            apply_default_css=False,
            **more,
        )
