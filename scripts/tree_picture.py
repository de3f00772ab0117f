"""Draws the small token trees of the documentation as SVG files, from one line of notation.

    root:Paris(draft+:is(draft+:the(draft:city correction+:capital)))

A node is KIND:LABEL, its children follow in parentheses; `+` marks what was accepted. A kind is
`root` or one that the page's legend has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape

from visualize.palette import LOOKS

HEIGHT, GAP_X, GAP_Y, MARGIN = 26, 26, 10, 8
WORD = re.compile(r"([a-z]+)(\+?):([^\s()]+)|([()])|\s+")


@dataclass
class Node:
    """A box of the picture; `x`, `y` and `width` are known once it is laid out."""

    kind: str
    accepted: bool
    label: str
    children: list[Node] = field(default_factory=list)
    x: float = 0
    y: float = 0

    @property
    def text(self) -> str:
        return self.label if self.kind == "root" else f"{LOOKS[self.kind].glyph} {self.label}"

    @property
    def width(self) -> float:
        return 18 + 7.8 * len(self.text)

    def walk(self) -> list[Node]:
        return [self, *(node for child in self.children for node in child.walk())]


def parse(notation: str) -> Node:
    """The root; raises ValueError for what is not the notation."""
    stack: list[list[Node]] = [[]]
    position = 0
    while position < len(notation):
        found = WORD.match(notation, position)
        if not found:
            raise ValueError(f"not the notation of a tree: {notation[position:]!r}")
        position = found.end()
        kind, mark, label, bracket = found.groups()
        if kind:
            if kind != "root" and kind not in LOOKS:
                raise ValueError(f"{kind} is neither root nor one of {', '.join(LOOKS)}")
            stack[-1].append(Node(kind, bool(mark) or kind == "root", label))
        elif bracket == "(" and stack[-1]:
            stack.append(stack[-1][-1].children)
        elif bracket == ")" and len(stack) > 1:
            stack.pop()
        elif bracket:
            raise ValueError(f"a bracket too many in {notation!r}")
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"a tree has one root and closed brackets, got {notation!r}")
    return stack[0][0]


def draw(notation: str, title: str) -> str:
    """The tree as the text of an SVG file that is legible on light and on dark pages."""
    root = parse(notation)
    levels: list[list[Node]] = []
    _level(root, levels, 0)
    x: float = MARGIN
    for level in levels:
        for node in level:
            node.x = x
        x += max(node.width for node in level) + GAP_X
    rows = _rows(root, 0)
    size = (x - GAP_X + MARGIN, rows * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]:.0f}" height="{size[1]:.0f}" '
        f'viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="img">',
        f"<title>{escape(title)}</title>",
        *(_edge(node, child) for node in root.walk() for child in node.children),
        *(_box(node) for node in root.walk()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _level(node: Node, levels: list[list[Node]], depth: int) -> None:
    if depth == len(levels):
        levels.append([])
    levels[depth].append(node)
    for child in node.children:
        _level(child, levels, depth + 1)


def _rows(node: Node, first: int) -> int:
    """Places a branch from a row on; the number of its rows. The first child continues the line."""
    node.y = MARGIN + first * (HEIGHT + GAP_Y)
    used = 0
    for child in node.children:
        used += _rows(child, first + used)
    return max(used, 1)


def _tone(node: Node) -> str:
    return "#6B7280" if node.kind == "root" else LOOKS[node.kind].colour


def _tint(colour: str) -> str:
    """The colour, mixed with four parts of white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(part + 4 * 255) // 5:02x}" for part in parts)


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
