"""How a run shows itself in a notebook: HTML and CSS alone, so that it needs no script and no
network, and is read where styles are taken out.

Whatever models and people wrote is escaped, and kept from MathJax. What is said of a token when it
is pointed at is an attribute; the text that is selected, copied or shown without styles is the
text of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.tree_svg import ROOT, Node, picture
from ouroboros_core.messages import allowed, counted, isolated
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import LOOKS, key_of
from ouroboros_core.trace.reasons import Reasons, origin, share

if TYPE_CHECKING:
    from ouroboros_core.trace.trace import Judged, Step, Trace

CARDS, TREES, NODES, LABEL, LIKELIEST = 400, 24, 48, 24, 4
"""At most so many tokens with a card, trees, boxes in a tree, letters in a box, and probabilities
in a card."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NUMBER_BEFORE, NUMBER_BEHIND = re.compile(r"\d[.,:/٫٬-]?$"), re.compile(r"[.,:/٫٬-]?\d|[%٪]")
"""A text that ends so and one that begins so are one number. visualize/kit/dom.js has them too."""
QUOTED = re.compile("‘\u2068?(.*?)\u2069?’(?=[\\s.,;:)]|$)")
QUOTE = r'‘<bdi translate="no">\1</bdi>’'
"""A text that a sentence quotes; in HTML it has a direction of its own and is not translated."""
QUIET = "tex2jax_ignore mathjax_ignore"
"""Classes that keep MathJax from taking two dollar signs for a formula."""


@dataclass(frozen=True)
class TreePicture:
    """The token tree of one step; a notebook shows it as a picture with a reason for each token.

    number  of the step, counted from 1
    text    the tree in letters, for a terminal
    svg     the picture, as the text of a file
    reasons  what became of every proposed token that is drawn, and why
    """

    number: int
    title: str
    text: str
    svg: str
    reasons: tuple[str, ...]

    def _repr_html_(self) -> str:
        return block(f"<p><strong>{safe(self.title)}</strong></p>{_drawn(self)}")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)


def safe(text: str) -> str:
    """Text as HTML, in an attribute, too; control characters become pictures of themselves."""
    shown = CONTROL.sub(lambda one: chr(0x2400 + ord(one[0])) if one[0] < " " else "�", text)
    return escape(shown)


@cache
def _style() -> str:
    tones = "".join(
        f'.ouro-nb [data-look="{look.key}"]{{--tone:{look.colour};--line:{look.underline}}}'
        f'.ouro-nb [data-look="{look.key}"]>i::before{{content:"{look.glyph} "}}'
        for look in LOOKS.values()
    )
    return Path(__file__).with_name("notebook.css").read_text("utf-8") + tones


def block(body: str) -> str:
    """What a notebook shows, with its styles."""
    return f'<div class="ouro-nb {QUIET}"><style>{_style()}</style>{body}</div>'


def summary(trace: Trace) -> str:
    """A run in one sentence: method, tokens, forward passes, seconds."""
    from ouroboros_core.trace import metrics

    tokens, steps = metrics.new_tokens(trace), len(trace.steps)
    passes = f"{steps} forward pass{'' if steps == 1 else 'es'}"
    each = f", {metrics.mean_acceptance_length(trace):.2f} tokens per pass" if steps else ""
    took = f"{metrics.total_seconds(trace):.2f} s on {trace.environment.where}"
    models = f"{trace.target} with {trace.draft}" if trace.draft else trace.target
    name = methods.label(trace.method, trace.hyperparameters)
    return f"{name}: {counted(tokens, 'token')} in {passes}{each}; {took}; {models}"


def looks_of(step: Step) -> list[str]:
    """The look of every token that a step emitted."""
    looks = [key_of(step.tree.provenance[node].source) for node in step.path]
    return looks if step.target_token is None else [*looks, key_of(step.writer, step.kind)]


def trace_html(trace: Trace) -> str:
    """A run: its text in colours, a card for each token, who wrote how many, and trees."""
    count = len(trace.tokens)
    cut = (
        f"The text is whole; cards are those of the first {CARDS} of {count} tokens."
        if count > CARDS
        else ""
    )
    text = "".join(_text(trace))
    parts = [
        f'<p class="ouro-nb-head">{safe(summary(trace))}</p>',
        '<div class="ouro-nb-text" dir="auto" translate="no" role="group" '
        f'aria-label="Text of the run">{text}</div>',
        f"<p>{cut}</p>" if cut else "",
        legend(trace),
        _trees(trace),
    ]
    return block("".join(parts))


def trace_text(trace: Trace) -> str:
    """A run in letters: the sign of who wrote it stands before each stretch of the text."""
    parts, before = [], ""
    keys = [look for step in trace.steps for look in looks_of(step)]
    for look, text in zip(keys, trace.texts, strict=True):
        parts.append(text if look == before else f"{LOOKS[look].glyph}{text}")
        before = look
    signs = "  ".join(f"{LOOKS[k].glyph} {LOOKS[k].label}" for k in dict.fromkeys(keys))
    return "\n".join([summary(trace), CONTROL.sub("�", "".join(parts)), signs])


def _text(trace: Trace) -> Iterator[str]:
    """Every token, and before the target's own a mark for what was rejected.

    A card that opens takes a place behind its token in the browser's order of letters. Inside a
    number among letters from right to left, what is said is a title, which takes none.
    """
    done, cards = 0, [*_cards(trace)]
    for step in trace.steps:
        reasons = _reasons(trace, step) if done < CARDS else None
        looks = looks_of(step)
        for index, look in enumerate(looks):
            if reasons and index == len(step.path) and step.kind == "correction":
                yield _rejected(step, reasons, cards[done + index])
            name = cards[done + index + 1]
            card = f' {name}="{safe(_card(step, index, look, reasons))}"' if reasons else ""
            yield f'<span data-look="{look}"{card}>{safe(trace.texts[done + index])}</span>'
        done += len(looks)


def _cards(trace: Trace) -> Iterator[str]:
    """Return the attribute for what is said of something before each token, and behind the last."""
    turned = isolated(trace.text) != trace.text
    for before, behind in pairwise(["", *trace.texts, ""]):
        inside = turned and NUMBER_BEFORE.search(before) and NUMBER_BEHIND.match(behind)
        yield "title" if inside else "data-card"


def _reasons(trace: Trace, step: Step) -> Reasons:
    sampling = Sampling.model_validate(trace.sampling)
    return Reasons(step, sampling, lambda token: trace.pieces.get(token, f"#{token}"))


def _card(step: Step, index: int, look: str, reasons: Reasons) -> str:
    """What is said of a token: who wrote it, why, where it is from, what the models thought."""
    accepted = index < len(step.path)
    lines = [
        f"{LOOKS[look].glyph} {LOOKS[look].label} · {reasons.quoted(step.tokens[index])} · "
        f"step {step.index + 1}",
        reasons.of_token(index),
        origin(step.tree.provenance[step.path[index]]) if accepted else "",
        *_odds(step, (0, *step.path)[index], reasons),
    ]
    return "\n".join(filter(None, lines))


def _odds(step: Step, node: int, reasons: Reasons) -> Iterator[str]:
    judged = next((one for one in step.judged if one.node == node), None)
    if judged is not None:
        yield f"target: {_likeliest(judged, judged.target, reasons)}"
        if judged.draft:
            yield f"draft: {_likeliest(judged, judged.draft, reasons)}"


def _likeliest(judged: Judged, column: Sequence[float], reasons: Reasons) -> str:
    rows = sorted(zip(column, judged.tokens, strict=True), reverse=True)[:LIKELIEST]
    return "  ".join(f"{reasons.quoted(token)} {share(chance)}" for chance, token in rows)


def _rejected(step: Step, reasons: Reasons, name: str) -> str:
    """A mark that holds nothing but its card, in the attribute `name`."""
    below = step.tree.children(step.path[-1] if step.path else 0)
    said = "\n".join(reasons.of_node(node) for node in below[:LIKELIEST])
    return f'<b {name}="{safe(said)}"></b>'


def legend(*traces: Trace) -> str:
    """Who wrote how many tokens."""
    counts: dict[str, int] = {}
    for trace in traces:
        for step in trace.steps:
            for look in looks_of(step):
                counts[look] = counts.get(look, 0) + 1
    items = "".join(
        f'<li data-look="{key}"><i></i>{LOOKS[key].label} <span>{counts[key]}</span></li>'
        for key in LOOKS
        if key in counts
    )
    return f'<ul class="ouro-nb-legend" aria-label="Who wrote how many tokens">{items}</ul>'


def _trees(trace: Trace) -> str:
    """The tree of the step that emitted most, and behind a fold those of the first steps."""
    steps = [step for step in trace.steps if len(step.tree) > 1]
    if not steps:
        return ""
    best = max(steps, key=lambda step: len(step.tokens))
    shown = steps[:TREES]
    folds = "".join(_fold(trace, step) for step in shown)
    cut = f", the first {len(shown)} of {len(steps)}" if len(shown) < len(steps) else ""
    more = "<p>Any other: <code>trace.tree(number)</code>.</p>" if cut else ""
    return (
        f"{_fold(trace, best, is_open=True)}"
        f"<details><summary>Token trees of the steps{cut}</summary>{folds}{more}</details>"
    )


def _fold(trace: Trace, step: Step, *, is_open: bool = False) -> str:
    found = tree(trace, step.index + 1)
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{safe(found.title)}</summary>{_drawn(found)}</details>"


def _drawn(found: TreePicture) -> str:
    """The picture, and below it a reason for each proposed token."""
    told = "".join(f"<li>{QUOTED.sub(QUOTE, safe(one))}</li>" for one in found.reasons)
    return f'<div class="ouro-nb-tree" translate="no">{found.svg}</div><ol>{told}</ol>'


def tree(trace: Trace, number: int) -> TreePicture:
    """The token tree of a step, counted from 1; raises InvalidInput for one that the run lacks."""
    if not 1 <= number <= len(trace.steps):
        steps = allowed(1, len(trace.steps), "absent: there is no step")
        raise InvalidInput(f"the number of a step must be {steps}, got {number}")
    step = trace.steps[number - 1]
    reasons = _reasons(trace, step)
    proposed = len(step.tree) - 1
    title = f"Step {number}: {proposed} proposed, {len(step.path)} accepted"
    title += f", then a {step.kind}" if step.kind else ""
    drawn = min(len(step.tree), NODES)
    title += f"; the first {drawn - 1} are drawn" if drawn < len(step.tree) else ""
    root = _nodes(trace, step, drawn)
    return TreePicture(
        number,
        title,
        "\n".join([title, *_lines(root, 0)]),
        picture(root, title),
        tuple(_said(step, node, reasons) for node in range(1, drawn)),
    )


def _nodes(trace: Trace, step: Step, drawn: int) -> Node:
    """The boxes of a step's tree, the target's own token with them."""

    def label(token: int) -> str:
        text = trace.pieces.get(token, f"#{token}")
        text = CONTROL.sub("�", re.sub(r"[\n\v\f\r\x85\u2028\u2029]", "↵", text))
        text = re.sub(r"^ | $", "␣", text.replace("\t", "⇥")) or "∅"
        return text if len(text) <= LABEL else f"{text[:LABEL]}…"

    tree = step.tree
    made = [Node(ROOT, True, label(tree.tokens[0]))]
    for node in range(1, drawn):
        look = key_of(tree.provenance[node].source)
        made.append(Node(look, node in step.path, label(tree.tokens[node])))
        made[tree.parents[node]].children.append(made[-1])
    tip = step.path[-1] if step.path else 0
    if step.target_token is not None and tip < drawn:
        own = Node(key_of(step.writer, step.kind), True, label(step.target_token))
        made[tip].children.append(own)
    return made[0]


def _lines(node: Node, depth: int) -> Iterator[str]:
    mark = "" if node.kind == ROOT else " ✓" if node.accepted else " ✗"
    yield f"{'  ' * depth}{node.text}{mark}"
    for child in node.children:
        yield from _lines(child, depth + 1)


def _said(step: Step, node: int, reasons: Reasons) -> str:
    told = origin(step.tree.provenance[node])
    look = LOOKS[key_of(step.tree.provenance[node].source)]
    said = f"{look.glyph} {reasons.quoted(step.tree.tokens[node])}: {reasons.of_node(node)}"
    return f"{said} ({told})" if told else said
