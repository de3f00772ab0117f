"""Drawing of a token tree as SVG, for the documentation and for notebooks."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from html import escape

from ouroboros_core.messages import isolated
from ouroboros_core.sources import LOOKS

HEIGHT, GAP_X, GAP_Y, MARGIN = 26, 26, 10, 8
ROOT = "root"
"""The kind of the root node, the last token of the context."""


@dataclass
class Node:
    """A box of the picture; the layout sets `x` and `y`.

    kind      `root`, or the key of a `Look`
    accepted  whether it is drawn with a solid line, not with dashes
    """

    kind: str
    accepted: bool
    label: str
    children: list[Node] = field(default_factory=list)
    x: float = 0
    y: float = 0

    @property
    def text(self) -> str:
        label = isolated(self.label)
        return label if self.kind == ROOT else f"{LOOKS[self.kind].glyph} {label}"

    @property
    def width(self) -> float:
        return 18 + 7.8 * columns(self.text)

    def walk(self) -> list[Node]:
        """Return the node and all nodes below it, parents before children."""
        nodes, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            waiting += reversed(node.children)
        return nodes


def columns(text: str) -> int:
    """Return a text's columns: two for an East Asian letter, none for accents."""
    visible = (letter for letter in text if unicodedata.category(letter) not in ("Mn", "Cf"))
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in visible)


def picture(root: Node, title: str) -> str:
    """Return the tree as SVG for light and dark pages; first children stay in the line."""
    levels: list[list[Node]] = []
    _level(root, levels, 0)
    x: float = MARGIN
    for level in levels:
        for node in level:
            node.x = x
        x += max(node.width for node in level) + GAP_X
    rows = _rows(root, 0)
    size = (x - GAP_X + MARGIN, rows * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]:.0f}" height="{size[1]:.0f}" '
        f'viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="img">',
        f"<title>{escape(title)}</title>",
        *(_edge(node, child) for node in root.walk() for child in node.children),
        *(_box(node) for node in root.walk()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _level(node: Node, levels: list[list[Node]], depth: int) -> None:
    if depth == len(levels):
        levels.append([])
    levels[depth].append(node)
    for child in node.children:
        _level(child, levels, depth + 1)


def _rows(node: Node, first: int) -> int:
    """Place a branch from the row `first` on, and return the number of its rows."""
    node.y = MARGIN + first * (HEIGHT + GAP_Y)
    used = 0
    for child in node.children:
        used += _rows(child, first + used)
    return max(used, 1)


def _tone(node: Node) -> str:
    return "#6B7280" if node.kind == ROOT else LOOKS[node.kind].colour


def _tint(colour: str) -> str:
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(channel + 4 * 255) // 5:02x}" for channel in channels)


def _edge(node: Node, child: Node) -> str:
    start, end = (node.x + node.width, node.y + HEIGHT / 2), (child.x, child.y + HEIGHT / 2)
    middle = end[0] - GAP_X / 2
    curve = f"M{start[0]:.1f} {start[1]} H{middle - 6:.1f} L{middle + 4:.1f} {end[1]} H{end[0]:.1f}"
    style = (
        f'stroke="{_tone(child)}" stroke-width="2.5"'
        if child.accepted
        else 'stroke="#8a8f98" stroke-width="1.2" stroke-dasharray="4 3"'
    )
    return f'<path d="{curve}" fill="none" {style}/>'


def _box(node: Node) -> str:
    dashes = "" if node.accepted else ' stroke-dasharray="4 3"'
    middle = node.x + node.width / 2
    return (
        f'<rect x="{node.x:.1f}" y="{node.y}" width="{node.width:.1f}" height="{HEIGHT}" rx="6" '
        f'fill="{_tint(_tone(node))}" stroke="{_tone(node)}"{dashes}/>'
        f'<text x="{middle:.1f}" y="{node.y + 17.5}" text-anchor="middle" font-size="13" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" fill="#1a1a1a">'
        f"{escape(node.text)}</text>"
    )


WORD = re.compile(r"([a-z]+)(\+?):([^\s()]+)|([()])|\s+")


def parse(notation: str) -> Node:
    """Read a token tree; raises ValueError for another notation.

    A node is KIND:LABEL, its children follow in parentheses; `+` marks an accepted one. A kind is
    `root` or in the page's legend: root:Paris(draft+:is(draft+:the(draft:city correction+:a)))
    """
    stack: list[list[Node]] = [[]]
    position = 0
    while position < len(notation):
        match = WORD.match(notation, position)
        if not match:
            raise ValueError(f"not the notation of a tree: {notation[position:]!r}")
        position = match.end()
        kind, mark, label, bracket = match.groups()
        if kind:
            if kind != ROOT and kind not in LOOKS:
                raise ValueError(f"{kind} is neither root nor one of {', '.join(LOOKS)}")
            stack[-1].append(Node(kind, bool(mark) or kind == ROOT, label))
        elif bracket == "(" and stack[-1]:
            stack.append(stack[-1][-1].children)
        elif bracket == ")" and len(stack) > 1:
            stack.pop()
        elif bracket:
            raise ValueError(f"a bracket too many in {notation!r}")
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"a tree has one root and closed brackets, got {notation!r}")
    return stack[0][0]
