"""The opening: the recorded run of Watch, shown before scripts have built the page.

Gradio's page is empty until then, for a second or two. The opening is in the page's own HTML, and
its text grows at the pace of the run's tour. When the run behind it is ready, the opening goes
away, and the run plays on from the same moment. There is no opening if the page begins with
something else: at the address of another place or of a run, and on a page that was reloaded or
returned to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from visualize.kit import palette
from visualize.kit.address import KEY
from visualize.kit.markup import LOGO, MOTTO, safe
from visualize.run import view as views
from visualize.run.tour import tour
from visualize.watch.examples import EXAMPLES
from visualize.watch.inputs import CARDS

LONGEST_MS = 12_000
"""After this time the page is shown as it is."""


def tokens(summary: Summary) -> Iterator[tuple[str, str, float]]:
    """Yield text, key of the look, and second of the tour of each token."""
    trace = summary.trace
    pace = tour(summary, views.piece_of(trace))
    seconds = map(pace.played, metrics.seconds_to_token(trace))
    yield from zip(trace.texts, trace.looks, seconds, strict=False)


def opening(summary: Summary) -> str:
    """Return the opening as HTML for the beginning of the page's body."""
    trace = summary.trace
    words = "".join(
        f'<i data-look="{look}" style="animation-delay:{second:.2f}s">{safe(text)}</i>'
        for text, look, second in tokens(summary)
    )
    prompt = safe(trace.prompt.text)
    gap = "\n\n" if trace.prompt.chat else ""
    chips = "".join(f"<span>{safe(example.label)}</span>" for example in EXAMPLES)
    cards = "".join(f"<span><b>{card['name']}</b>{card['line']}</span>" for card in CARDS)
    foreign = 'dir="auto" translate="no"'
    style, script = (
        Path(__file__).with_name(f"opening.{kind}").read_text("utf-8") for kind in ("css", "js")
    )
    return (
        f'<div id="ouro-opening" data-store="{KEY}" data-longest="{LONGEST_MS}" aria-hidden="true" '
        f"inert><style>{style}{palette.css()}</style>"
        f"<header>{LOGO}<b>Ouroboros</b></header><main><p>{safe(MOTTO)}</p>"
        f"<section><blockquote {foreign}>{prompt}</blockquote><b>Generate</b></section>"
        f"<nav>{chips}</nav><nav>{cards}</nav><article>"
        f"<div><b {foreign}>{prompt}</b><small>{safe(views.title(trace))}</small>"
        f"<small>{safe(views.badge(trace))}</small>"
        f"<strong>{safe(views.sentence(summary))}</strong></div>"
        f"<pre {foreign}><s>{prompt}{gap}</s>{words}</pre></article></main></div>"
        f"<script>{script}</script>"
    )
