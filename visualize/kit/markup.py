"""What the views in the browser consist of: fixed markup, and modules in JavaScript.

The page, the replay that stands alone and the static gallery all mount the same parts.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path

import plotly

from ouroboros_core.locations import assets
from visualize.kit import labels

PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
"""The plotly.js that plotly.py was made for."""


@dataclass(frozen=True)
class Markup:
    """A view: its template, which no text of a visitor ever enters, and its module
    that mounts it.

    events  what the module tells the server
    """

    template: str
    module: str
    events: tuple[str, ...] = ()


def safe(text: str) -> str:
    """A text that may stand in an element, or in an attribute between double quotes."""
    return html.escape(text, quote=False).replace('"', "&quot;")


def _chart(label: str) -> str:
    """The attributes that name a chart: to those who cannot see it, and as a file."""
    return f'aria-label="{safe("Chart: " + label)}" data-label="{safe(label)}"'


TOKEN_VIEW = Markup(
    """
<section class="ouro-run" aria-label="Generated text">
  <div class="ouro-board">
    <div class="ouro-written">
      <header class="ouro-run-head">
        <span class="ouro-badge"></span>
        <button type="button" class="ouro-toggle ouro-guesses" aria-pressed="false">show guesses</button>
        <button type="button" class="ouro-toggle ouro-palette" aria-pressed="false" title="Blue, red and black, as in the paper on Ouroboros"><span class="ouro-more">Ouroboros </span>paper's colours</button>
      </header>
      <div class="ouro-text" dir="auto" translate="no" role="group" aria-label="Tokens; arrow keys move from one to the next"></div>
      <ul class="ouro-legend" aria-label="Who wrote the tokens up to the step shown"></ul>
    </div>
    <div class="ouro-aside">
      <details class="ouro-stage" open>
        <summary>This step</summary>
        <p class="ouro-tree-note"></p>
        <button type="button" class="ouro-toggle ouro-windowed" aria-pressed="false" hidden>with the lookahead window</button>
        <div class="ouro-tree" translate="no" tabindex="0" role="group" aria-label="Token tree; arrow keys move between its tokens"></div>
      </details>
      <p class="ouro-hint">Point at a token to see who wrote it and why.</p>
      <div class="ouro-card" dir="auto" role="tooltip" hidden></div>
    </div>
  </div>
  <div class="ouro-timeline" role="group" aria-label="Timeline: Space plays, arrow keys step, Home and End jump"></div>
  <p class="ouro-sentence"></p>
  <dl class="ouro-tiles"></dl>
  <p class="ouro-title"></p>
  <p class="ouro-status"></p>
  <div class="ouro-notices"></div>
  <details class="ouro-why-fast" hidden><summary>Why this speed</summary><div class="ouro-numbers"></div></details>
  <p class="ouro-said" role="status" aria-live="polite"></p>
  <details class="ouro-meaning"><summary>What the colours mean</summary><dl></dl></details>
</section>
""",
    "token_view",
    ("select", "step", "run_again"),
)

RACE_VIEW = Markup(
    """
<section class="ouro-run ouro-race" aria-label="Race">
  <header class="ouro-run-head"><span class="ouro-badge"></span><span class="ouro-title"></span></header>
  <div class="ouro-timeline" role="group" aria-label="Timeline of the race: Space plays, arrow keys step"></div>
  <p class="ouro-status"></p>
  <p class="ouro-verdict"></p>
  <ul class="ouro-legend" aria-label="Who wrote the tokens of the lanes"></ul>
  <div class="ouro-lanes"></div>
  <p class="ouro-order"></p>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="Table of the race"><table class="ouro-table"></table></div>
  <p class="ouro-said" role="status" aria-live="polite"></p>
</section>
""",
    "race_view",
)


def plot_view(label: str, height: int, *, scrolls: bool = False) -> Markup:
    """A chart with a caption, so many pixels high; one that scrolls stays as wide as it needs to be,
    in a box of its own."""
    plot = f'<div class="ouro-plot" translate="no" role="group" {_chart(label)} style="height:{height}px"></div>'
    box = f'<div class="ouro-scroll" tabindex="0" role="group" aria-label="{safe(label)}">{plot}</div>'
    return Markup(
        f'<figure class="ouro-figure"><figcaption>{safe(label)}</figcaption>{box if scrolls else plot}</figure>',
        "plot_view",
        ("point_select",),
    )


THEORY_VIEW = Markup(
    f"""
<section class="ouro-theory" aria-label="Theory">
  <div class="ouro-theory-sliders"></div>
  <p class="ouro-theory-said" role="status"></p>
  <div class="ouro-pair">
    <div class="ouro-plot ouro-theory-tokens" translate="no" role="group" {_chart("Tokens a step yields")}></div>
    <div class="ouro-plot ouro-theory-speedup" translate="no" role="group" {_chart("Speedup")}></div>
  </div>
  <p class="ouro-theory-runs ouro-small"></p>
</section>
""",
    "theory_view",
)

_RULES = {rule: name[:1].upper() + name[1:] for rule, name in labels.acceptance_rules().items()}

DICE_VIEW = Markup(
    f"""
<section class="ouro-dice" aria-label="Draw and count, with three tokens" data-rules="{safe(json.dumps(_RULES))}">
  <fieldset class="ouro-dice-rules"><legend>Rule</legend></fieldset>
  <p class="ouro-dice-what"></p>
  <div class="ouro-dice-sliders">
    <fieldset class="ouro-dice-p"><legend>The target's p</legend></fieldset>
    <fieldset class="ouro-dice-q"><legend>The draft's q</legend></fieldset>
  </div>
  <p class="ouro-dice-buttons">
    <button type="button" class="ouro-dice-one">Draw 1</button>
    <button type="button" class="ouro-dice-many">Draw 1000</button>
    <button type="button" class="ouro-dice-reset">Reset</button>
  </p>
  <p class="ouro-dice-last" role="status"></p>
  <ul class="ouro-dice-bars" aria-label="What was drawn"></ul>
  <p class="ouro-dice-key ouro-small">Bar: drawn so far. Line: p, what should come.<span> Dashed line: what this rule tends to.</span></p>
  <p class="ouro-dice-verdict" role="status"></p>
  <p class="ouro-dice-kept ouro-small"></p>
</section>
""",
    "dice_view",
)

LEARN_VIEW = Markup(
    f"""
<section class="ouro-learn" aria-label="Lessons">
  <nav class="ouro-learn-rail" aria-label="Chapters"><ol class="ouro-learn-list"></ol></nav>
  <div class="ouro-learn-main">
    <article class="ouro-learn-text">
      <header class="ouro-learn-head">
        <h2 class="ouro-learn-title"></h2>
        <p class="ouro-learn-position ouro-small"></p>
      </header>
      <div class="ouro-learn-body" tabindex="0" role="group" aria-label="The text of this stop">
        <div class="ouro-learn-words" aria-live="polite"></div>
        <div class="ouro-learn-residual"></div>
        <div class="ouro-learn-answer"></div>
        <p class="ouro-learn-status ouro-small" role="status"></p>
      </div>
      <p class="ouro-learn-buttons">
        <button type="button" class="ouro-learn-back">Back</button>
        <button type="button" class="ouro-learn-next"></button>
        <button type="button" class="ouro-learn-fold"></button>
      </p>
    </article>
    <div class="ouro-learn-stage">
      <div class="ouro-learn-figure" role="group" aria-label="Picture of this stop"></div>
      <div class="ouro-learn-theory" hidden>{THEORY_VIEW.template}</div>
      <div class="ouro-learn-dice" hidden>{DICE_VIEW.template}</div>
      <div class="ouro-learn-run" role="group" aria-label="The run this chapter is about">{TOKEN_VIEW.template}</div>
    </div>
  </div>
  <details class="ouro-learn-questions"><summary></summary><ol class="ouro-learn-ten"></ol></details>
</section>
""",
    "learn_view",
)


PLAY_VIEW = Markup(
    """
<section class="ouro-run ouro-play" aria-label="Be the draft">
  <p class="ouro-play-status" role="status"></p>
  <div class="ouro-text ouro-play-text" dir="auto" translate="no" tabindex="0" role="group" aria-label="The text so far"></div>
  <ul class="ouro-play-key"></ul>
  <p class="ouro-play-said" role="status"></p>
</section>
""",
    "play_view",
)

SCORE_VIEW = Markup(
    """
<section class="ouro-run ouro-play-score" aria-label="Score" hidden>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="Table of the score">
    <table class="ouro-table ouro-play-table"></table>
  </div>
</section>
""",
    "score_view",
)

PROOF_VIEW = Markup(
    """
<section class="ouro-run ouro-proof" aria-label="Proof">
  <p class="ouro-proof-status"></p>
  <progress class="ouro-sweep-bar ouro-proof-bar" max="1" value="0" aria-label="Seeds drawn"></progress>
  <p class="ouro-dice-verdict ouro-proof-verdict"></p>
  <p class="ouro-proof-said ouro-said" role="status"></p>
  <p class="ouro-proof-key ouro-small" hidden>Bar: drawn so far. Line: the target's own p, by plain passes.</p>
  <ul class="ouro-dice-bars ouro-proof-bars" aria-label="Texts that were drawn"></ul>
  <p class="ouro-proof-drafts ouro-small"></p>
</section>
""",
    "proof_view",
)

MOTTO = (
    "See who writes each token when a small model guesses and a large one checks, and why the "
    "text stays the same."
)
LOGO = (assets() / "logo.svg").read_text(encoding="utf-8").replace(' role="img"', "")
"""A ring of tokens that ends where it begins."""
ADDRESS = Markup(
    f'<header class="ouro-header"><h1><span class="ouro-logo" aria-hidden="true">{LOGO}</span>'
    "Ouroboros</h1></header>",
    "address",
    ("go",),
)

METHOD_CARDS = Markup(
    '<div class="ouro-methods" role="radiogroup" aria-label="Method"></div>',
    "method_cards",
    ("choose_method",),
)

METHOD_SETTINGS = Markup('<div class="ouro-method-settings"></div>', "settings_view")

DETAILS_VIEW = Markup(
    """
<details class="ouro-details">
  <summary>Details: charts of this run</summary>
  <div class="ouro-pick" role="group" aria-label="Chart"></div>
</details>
""",
    "details_view",
)

ELSEWHERE_VIEW = Markup(
    f"""
<section class="ouro-elsewhere ouro-figure" aria-label="This run on another machine, modelled">
  <p class="ouro-elsewhere-head">Another machine <span class="ouro-modelled">modelled</span></p>
  <div class="ouro-elsewhere-choices"></div>
  <p class="ouro-elsewhere-said" role="status" aria-live="polite"></p>
  <ul class="ouro-elsewhere-notes ouro-small"></ul>
  <div class="ouro-pair ouro-elsewhere-charts">
    <div class="ouro-plot ouro-elsewhere-time" translate="no" role="group" {_chart("Tokens over modelled seconds")}></div>
    <div class="ouro-plot ouro-elsewhere-batch" translate="no" role="group" {_chart("Modelled speedup by batch")}></div>
  </div>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="Modelled seconds by part"><table class="ouro-table"></table></div>
  <details class="ouro-elsewhere-fold"><summary>Every number, to be changed</summary><div class="ouro-elsewhere-numbers"></div></details>
</section>
""",
    "elsewhere_view",
    ("price_run",),
)

LINK_VIEW = Markup(
    """
<section class="ouro-link" aria-label="What the link holds" hidden>
  <div class="ouro-link-lines" role="status"></div>
  <button type="button" class="ouro-link-run" hidden>Run this</button>
</section>
""",
    "link_view",
)

GALLERY_VIEW = Markup(
    """
<ul class="ouro-legend ouro-gallery-key" aria-label="Who wrote the tokens, by colour"></ul>
<ul class="ouro-gallery"></ul>
""",
    "gallery_view",
    ("open_recorded",),
)

DIFF_VIEW = Markup(
    """
<section class="ouro-diff">
  <p class="ouro-diff-problem" role="status"></p>
  <div class="ouro-diff-found" hidden>
    <h3 class="ouro-diff-title"></h3>
    <p class="ouro-diff-status"></p>
    <div class="ouro-diff-lines"></div>
    <ul class="ouro-diff-lanes"></ul>
    <div class="ouro-text ouro-diff-text" dir="auto" translate="no" tabindex="0" role="group" aria-label="The text that both share"></div>
    <p class="ouro-diff-key ouro-note"></p>
    <div class="ouro-scroll"><table class="ouro-table ouro-diff-table"></table></div>
  </div>
</section>
""",
    "diff_view",
)

ASK_VIEW = Markup('<p class="ouro-ask" role="status"></p>', "ask_view", ("prompt_edit",))

OPEN_VIEW = Markup(
    """
<section class="ouro-open">
  <label class="ouro-open-label"><span class="ouro-open-button">Open a trace</span> (JSON), or drop it here <input type="file" accept=".json,application/json"></label>
  <p class="ouro-open-said ouro-small" role="status"></p>
</section>
""",
    "open_view",
    ("open_file",),
)

MEMORY_VIEW = Markup(
    """
<section class="ouro-memory" aria-label="What the method keeps">
  <button type="button" class="ouro-toggle">Download what it has learned</button>
  <label class="ouro-memory-load">or load such a file: <input type="file" accept=".json,application/json"></label>
  <span class="ouro-save-links"></span>
  <span class="ouro-memory-said ouro-small" role="status"></span>
</section>
""",
    "memory_view",
    ("save_memory", "load_memory"),
)

SWEEP_VIEW = Markup(
    """
<section class="ouro-run ouro-sweep" aria-label="Sweep">
  <p class="ouro-sweep-status" role="status"></p>
  <progress class="ouro-sweep-bar" max="1" value="0" aria-label="Progress of the sweep"></progress>
  <p class="ouro-sweep-count ouro-small"></p>
  <div class="ouro-sweep-said"></div>
  <div class="ouro-scroll" tabindex="0" role="group" aria-label="Cells of the sweep">
    <table class="ouro-table ouro-sweep-table"></table>
  </div>
</section>
""",
    "sweep_view",
    ("open_cell",),
)


SAVING = {
    "json": "JSON",
    "html": "replay (HTML)",
    "csv": "table (CSV)",
    "link": "link to these inputs",
}
"""What a run can be saved as."""


def save_buttons(*kinds: str) -> Markup:
    """A row of buttons, each of which hands over a file of that kind, or a link."""
    buttons = "\n".join(
        f'<button type="button" class="ouro-toggle" data-kind="{kind}">{SAVING[kind]}</button>'
        for kind in kinds
    )
    return Markup(
        f"""
<section class="ouro-save" aria-label="Save">
  <span class="ouro-small">Save</span>
  {buttons}
  <span class="ouro-save-links"></span>
  <span class="ouro-save-said ouro-small" role="status"></span>
</section>
""",
        "save_view",
        ("save_run",),
    )
