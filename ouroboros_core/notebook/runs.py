"""A run in a notebook: HTML and CSS without a script or the network, legible without styles.

Text of models and people is escaped, and kept from MathJax. The card of a token is an attribute, so
that the text that is selected, copied or shown without styles is the text of the run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path

from ouroboros_core.messages import isolated
from ouroboros_core.notebook import tree_svg
from ouroboros_core.notebook.tree_svg import ROOT, Node
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import LOOKS, key_of
from ouroboros_core.trace.reasons import Reasons, origin, share
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Judged, Step, StepTree, Trace

CARDS, TREES, NODES, LABEL, LIKELIEST = 400, 24, 48, 24, 4
"""Most tokens with a card, trees, boxes of a tree, letters of a box, odds of a card."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NUMBER_BEFORE, NUMBER_BEHIND = re.compile(r"\d[.,:/٫٬-]?$"), re.compile(r"[.,:/٫٬-]?\d|[%٪]")
"""A text that ends so and one that begins so are one number. visualize/kit/dom.js has them too."""
QUOTED = re.compile("‘\u2068?(.*?)\u2069?’(?=[\\s.,;:)]|$)")
QUOTE = r'‘<bdi translate="no">\1</bdi>’'
"""A text that a sentence quotes; in HTML it has its own direction and is not translated."""
QUIET = "tex2jax_ignore mathjax_ignore"
"""Classes that keep MathJax from taking two dollar signs for a formula."""


@dataclass(frozen=True)
class TreePicture:
    """The token tree of one step; a notebook shows it as a picture with a reason for each token.

    text    the tree in letters, for a terminal
    svg     the picture, as the text of a file
    reasons  what became of every proposed token that is drawn, and why
    """

    title: str
    text: str
    svg: str
    reasons: tuple[str, ...]


def safe(text: str) -> str:
    """Return text as HTML, also for an attribute; control characters become pictures."""
    text_with_signs = CONTROL.sub(
        lambda match: chr(0x2400 + ord(match[0])) if match[0] < " " else "�", text
    )
    return escape(text_with_signs)


@cache
def _style() -> str:
    tones = "".join(
        f'.ouro-nb [data-look="{look.key}"]{{--tone:{look.colour};--line:{look.underline}}}'
        f'.ouro-nb [data-look="{look.key}"]>i::before{{content:"{look.glyph} "}}'
        for look in LOOKS.values()
    )
    return Path(__file__).with_name("notebook.css").read_text("utf-8") + tones


def block(body: str) -> str:
    return f'<div class="ouro-nb {QUIET}"><style>{_style()}</style>{body}</div>'


def headline(run: Summary) -> str:
    """A run in one sentence: method, tokens, seconds, forward passes, machine, models."""
    trace = run.trace
    models = f"{trace.target} with {trace.draft}" if trace.draft else trace.target
    return f"{run.name}: {', '.join(run.figures)}; {trace.environment.where}; {models}"


def trace_html(trace: Trace) -> str:
    """A run: its text in colours, a card for each token, who wrote how many, and trees."""
    count = len(trace.tokens)
    cut = ""
    if count > CARDS:
        cut = f"The text is whole; cards are those of the first {CARDS} of {count} tokens."
    text = "".join(_text(trace))
    sections = [
        f'<p class="ouro-nb-head">{safe(headline(Summary(trace)))}</p>',
        '<div class="ouro-nb-text" dir="auto" translate="no" role="group" '
        f'aria-label="Text of the run">{text}</div>',
        f"<p>{cut}</p>" if cut else "",
        legend(trace),
        _trees(trace),
    ]
    return block("".join(sections))


def trace_text(trace: Trace) -> str:
    """A run in letters: the sign of who wrote it stands before each stretch of the text."""
    stretches, before = [], ""
    for look, text in zip(trace.looks, trace.texts, strict=True):
        stretches.append(text if look == before else f"{LOOKS[look].glyph}{text}")
        before = look
    signs = "  ".join(f"{LOOKS[k].glyph} {LOOKS[k].label}" for k in dict.fromkeys(trace.looks))
    return "\n".join([headline(Summary(trace)), CONTROL.sub("�", "".join(stretches)), signs])


def _text(trace: Trace) -> Iterator[str]:
    """Generate every token, and before the target's own token a mark for rejected ones.

    A card that opens takes a place behind its token in the browser's order of letters. Inside a
    number among letters from right to left the card is a title, which takes none.
    """
    done, cards = 0, [*_cards(trace)]
    for step in trace.steps:
        reasons = _reasons(trace, step) if done < CARDS else None
        for index, look in enumerate(step.looks):
            if reasons and index == len(step.path) and step.kind == "correction":
                yield _rejected(step, reasons, cards[done + index])
            name = cards[done + index + 1]
            card = f' {name}="{safe(_card(step, index, look, reasons))}"' if reasons else ""
            yield f'<span data-look="{look}"{card}>{safe(trace.texts[done + index])}</span>'
        done += len(step.tokens)


def _cards(trace: Trace) -> Iterator[str]:
    """Generate the attribute for the card of a mark before each token, and after the last one."""
    turned = isolated(trace.text) != trace.text
    for before, behind in pairwise(["", *trace.texts, ""]):
        inside = turned and NUMBER_BEFORE.search(before) and NUMBER_BEHIND.match(behind)
        yield "title" if inside else "data-card"


def _reasons(trace: Trace, step: Step) -> Reasons:
    sampling = Sampling.model_validate(trace.sampling)
    return Reasons(step, sampling, lambda token: trace.pieces.get(token, f"#{token}"))


def _card(step: Step, index: int, look: str, reasons: Reasons) -> str:
    """Return the card of a token: its writer, the reason, its origin, the models' probabilities."""
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
    judged = next((entry for entry in step.judged if entry.node == node), None)
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
    card = "\n".join(reasons.of_node(node) for node in below[:LIKELIEST])
    return f'<b {name}="{safe(card)}"></b>'


def legend(*traces: Trace) -> str:
    counts = Counter(look for trace in traces for look in trace.looks)
    items = "".join(
        f'<li data-look="{key}"><i></i>{LOOKS[key].label} <span>{counts[key]}</span></li>'
        for key in LOOKS
        if key in counts
    )
    return f'<ul class="ouro-nb-legend" aria-label="Who wrote how many tokens">{items}</ul>'


def _trees(trace: Trace) -> str:
    """The tree of the step that emitted most, and in a fold the trees of the first steps."""
    steps = [step for step in trace.steps if len(step.tree) > 1]
    if not steps:
        return ""
    best = max(steps, key=lambda step: len(step.tokens))
    folded = steps[:TREES]
    folds = "".join(_fold(trace, step) for step in folded)
    cut = f", the first {len(folded)} of {len(steps)}" if len(folded) < len(steps) else ""
    hint = "<p>Any other: <code>trace.tree(number)</code>.</p>" if cut else ""
    return (
        f"{_fold(trace, best, is_open=True)}"
        f"<details><summary>Token trees of the steps{cut}</summary>{folds}{hint}</details>"
    )


def _fold(trace: Trace, step: Step, *, is_open: bool = False) -> str:
    picture = tree_picture(trace.tree(step.index + 1))
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{safe(picture.title)}</summary>{_drawn(picture)}</details>"


def _drawn(picture: TreePicture) -> str:
    """The picture, and below it a reason for each proposed token."""
    reasons = "".join(f"<li>{QUOTED.sub(QUOTE, safe(reason))}</li>" for reason in picture.reasons)
    return f'<div class="ouro-nb-tree" translate="no">{picture.svg}</div><ol>{reasons}</ol>'


def tree_html(tree: StepTree) -> str:
    picture = tree_picture(tree)
    return block(f"<p><strong>{safe(picture.title)}</strong></p>{_drawn(picture)}")


def tree_text(tree: StepTree) -> str:
    return tree_picture(tree).text


def tree_picture(tree: StepTree) -> TreePicture:
    trace, step = tree.trace, tree.step
    reasons = _reasons(trace, step)
    proposed = len(step.tree) - 1
    title = f"Step {tree.number}: {proposed} proposed, {len(step.path)} accepted"
    title += f", then a {step.kind}" if step.kind else ""
    drawn = min(len(step.tree), NODES)
    title += f"; the first {drawn - 1} are drawn" if drawn < len(step.tree) else ""
    root = _nodes(trace, step, drawn)
    return TreePicture(
        title,
        "\n".join([title, *_lines(root, 0)]),
        tree_svg.picture(root, title),
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
    nodes = [Node(ROOT, True, label(tree.tokens[0]))]
    for node in range(1, drawn):
        look = key_of(tree.provenance[node].source)
        nodes.append(Node(look, node in step.path, label(tree.tokens[node])))
        nodes[tree.parents[node]].children.append(nodes[-1])
    tip = step.path[-1] if step.path else 0
    if step.target_token is not None and tip < drawn:
        target_node = Node(key_of(step.writer, step.kind), True, label(step.target_token))
        nodes[tip].children.append(target_node)
    return nodes[0]


def _lines(node: Node, depth: int) -> Iterator[str]:
    mark = "" if node.kind == ROOT else " ✓" if node.accepted else " ✗"
    yield f"{'  ' * depth}{node.text}{mark}"
    for child in node.children:
        yield from _lines(child, depth + 1)


def _said(step: Step, node: int, reasons: Reasons) -> str:
    learned_from = origin(step.tree.provenance[node])
    look = LOOKS[key_of(step.tree.provenance[node].source)]
    sentence = f"{look.glyph} {reasons.quoted(step.tree.tokens[node])}: {reasons.of_node(node)}"
    return f"{sentence} ({learned_from})" if learned_from else sentence
