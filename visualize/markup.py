"""What the views in the browser consist of: fixed markup, and modules that lie in assets/js.

The page, the replay that stands alone and the static gallery all mount the same parts.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

import plotly

from ouroboros_core.words import say

PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
"""The plotly.js that plotly.py was made for."""


@dataclass(frozen=True)
class Markup:
    """A view: its template, which no text of a visitor ever enters, and the module of assets/js
    that mounts it.

    events  what the module tells the server
    """

    template: str
    module: str
    events: tuple[str, ...] = ()


def safe(text: str) -> str:
    """A text that may stand in an element, or in an attribute between double quotes."""
    return html.escape(text, quote=False).replace('"', "&quot;")


def text(key: str) -> str:
    """A text of the page as it may stand in a template."""
    return safe(say(key))


def _chart(label: str) -> str:
    """The attributes that name a chart: to those who cannot see it, and as a file."""
    return f'aria-label="{safe(say("plot.chart", label=label))}" data-label="{safe(label)}"'


TOKEN_VIEW = Markup(
    f"""
<section class="ouro-run" aria-label="{text("view.run")}">
  <header class="ouro-run-head">
    <span class="ouro-badge"></span><span class="ouro-title"></span>
    <button type="button" class="ouro-toggle ouro-final" aria-pressed="false">{text("view.final")}</button>
    <button type="button" class="ouro-toggle ouro-palette" aria-pressed="false">{text("view.palette")}</button>
  </header>
  <dl class="ouro-tiles"></dl>
  <div class="ouro-notices"></div>
  <ul class="ouro-legend" aria-label="{text("view.legend")}"></ul>
  <div class="ouro-text" role="group" aria-label="{text("view.text")}"></div>
  <div class="ouro-timeline" role="group" aria-label="{text("view.timeline")}"></div>
  <p class="ouro-status"></p>
  <details class="ouro-stage" open>
    <summary>{text("view.tree")}</summary>
    <p class="ouro-tree-note"></p>
    <button type="button" class="ouro-toggle ouro-windowed" aria-pressed="false" hidden>{text("view.windowed")}</button>
    <div class="ouro-tree" tabindex="0" role="group" aria-label="{text("view.tree.label")}"></div>
  </details>
  <div class="ouro-numbers"></div>
  <div class="ouro-card" role="tooltip" hidden></div>
  <p class="ouro-said" role="status" aria-live="polite"></p>
  <details class="ouro-meaning"><summary>{text("view.meaning")}</summary><dl></dl></details>
</section>
""",
    "token_view",
    ("token_select", "run_again"),
)

RACE_VIEW = Markup(
    f"""
<section class="ouro-run ouro-race" aria-label="{text("tab.race")}">
  <header class="ouro-run-head"><span class="ouro-badge"></span><span class="ouro-title"></span></header>
  <div class="ouro-timeline" role="group" aria-label="{text("race.timeline")}"></div>
  <p class="ouro-status"></p>
  <div class="ouro-lanes"></div>
  <p class="ouro-order"></p>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="{text("race.table")}"><table class="ouro-table"></table></div>
  <p class="ouro-said" role="status" aria-live="polite"></p>
</section>
""",
    "race_view",
)


def plot_view(label: str, height: int) -> Markup:
    """A chart with a caption, so many pixels high."""
    return Markup(
        f'<figure class="ouro-figure"><figcaption>{safe(label)}</figcaption>'
        f'<div class="ouro-plot" role="group" {_chart(label)} style="height:{height}px"></div></figure>',
        "plot_view",
        ("point_select",),
    )


THEORY_VIEW = Markup(
    f"""
<section class="ouro-theory" aria-label="{text("static.theory")}">
  <div class="ouro-theory-sliders"></div>
  <p class="ouro-theory-said" role="status"></p>
  <div class="ouro-pair">
    <div class="ouro-plot ouro-theory-tokens" role="group" {_chart(say("theory.tokens"))}></div>
    <div class="ouro-plot ouro-theory-speedup" role="group" {_chart(say("theory.speedup"))}></div>
  </div>
  <p class="ouro-theory-runs ouro-small"></p>
</section>
""",
    "theory_view",
)

LEARN_VIEW = Markup(
    f"""
<section class="ouro-learn" aria-label="{text("learn.lessons")}">
  <nav aria-label="{text("learn.chapters")}"><ol class="ouro-learn-list"></ol></nav>
  <div class="ouro-learn-main">
    <article class="ouro-learn-text">
      <header class="ouro-learn-head">
        <h2 class="ouro-learn-title"></h2>
        <p class="ouro-learn-place ouro-small"></p>
      </header>
      <div class="ouro-learn-body" tabindex="0" role="group" aria-label="{text("learn.body")}">
        <div class="ouro-learn-words" aria-live="polite"></div>
        <div class="ouro-learn-residual"></div>
        <div class="ouro-learn-answer"></div>
        <p class="ouro-learn-status ouro-small" role="status"></p>
      </div>
      <p class="ouro-learn-buttons">
        <button type="button" class="ouro-learn-back">{text("learn.back")}</button>
        <button type="button" class="ouro-learn-next"></button>
      </p>
    </article>
    <div class="ouro-learn-stage">
      <div class="ouro-learn-theory" hidden>{THEORY_VIEW.template}</div>
      <div class="ouro-learn-run" role="group" aria-label="{text("learn.run")}">{TOKEN_VIEW.template}</div>
    </div>
  </div>
  <details class="ouro-learn-questions"><summary>{text("learn.questions")}</summary><ol class="ouro-learn-ten"></ol></details>
</section>
""",
    "learn_view",
)


ADDRESS = Markup(
    f'<header class="ouro-header"><h1>{text("page.title")}</h1><p>{text("page.motto")}</p></header>',
    "address",
    ("go",),
)

LINK_VIEW = Markup(
    f"""
<section class="ouro-link" aria-label="{text("link.title")}" hidden>
  <div class="ouro-link-lines" role="status"></div>
  <button type="button" class="ouro-link-run" hidden>{text("link.run")}</button>
</section>
""",
    "link_view",
)

GALLERY_VIEW = Markup('<ul class="ouro-gallery"></ul>', "gallery_view", ("open_recorded",))

DIFF_VIEW = Markup(
    """
<section class="ouro-diff">
  <p class="ouro-diff-problem" role="status"></p>
  <div class="ouro-diff-found" hidden>
    <h3 class="ouro-diff-title"></h3>
    <p class="ouro-diff-status"></p>
    <div class="ouro-diff-lines"></div>
    <ul class="ouro-diff-lanes"></ul>
    <div class="ouro-text ouro-diff-text"></div>
    <div class="ouro-scroll"><table class="ouro-table ouro-diff-table"></table></div>
  </div>
</section>
""",
    "diff_view",
)

ASK_VIEW = Markup('<p class="ouro-ask" role="status"></p>', "ask_view", ("prompt_edit",))

OPEN_VIEW = Markup(
    f"""
<section class="ouro-open">
  <label class="ouro-open-label">{text("open.label")} <input type="file" accept=".json,application/json"></label>
  <p class="ouro-open-said ouro-small" role="status"></p>
</section>
""",
    "open_view",
    ("open_file",),
)

SWEEP_VIEW = Markup(
    f"""
<section class="ouro-run ouro-sweep" aria-label="{text("tab.sweep")}">
  <p class="ouro-sweep-status" role="status"></p>
  <progress class="ouro-sweep-bar" max="1" value="0" aria-label="{text("sweep.progress")}"></progress>
  <p class="ouro-sweep-count ouro-small"></p>
  <div class="ouro-sweep-said"></div>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="{text("sweep.table")}">
    <table class="ouro-table ouro-sweep-table"></table>
  </div>
</section>
""",
    "sweep_view",
    ("open_cell",),
)


def save_buttons(*kinds: str) -> Markup:
    """A row of buttons, each of which hands over a file of that kind, or a link."""
    buttons = "\n".join(
        f'<button type="button" class="ouro-toggle" data-kind="{kind}">{text(f"save.{kind}")}</button>'
        for kind in kinds
    )
    return Markup(
        f"""
<section class="ouro-save" aria-label="{text("save.title")}">
  <span class="ouro-small">{text("save.title")}</span>
  {buttons}
  <span class="ouro-save-links"></span>
  <span class="ouro-save-said ouro-small" role="status"></span>
</section>
""",
        "save_view",
        ("save_run",),
    )
