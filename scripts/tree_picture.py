"""Draws the small token trees of the documentation as SVG files, from one line of notation.

    root:Paris(draft+:is(draft+:the(draft:city correction+:capital)))

A node is KIND:LABEL, its children follow in parentheses; `+` marks what was accepted. A kind is
`root` or one that the page's legend has.
"""

from __future__ import annotations

import re

from ouroboros_core.integrations.tree_svg import ROOT, Node, picture
from ouroboros_core.sources import LOOKS

WORD = re.compile(r"([a-z]+)(\+?):([^\s()]+)|([()])|\s+")


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


def draw(notation: str, title: str) -> str:
    """The tree as the text of an SVG file that is legible on light and on dark pages."""
    return picture(parse(notation), title)
