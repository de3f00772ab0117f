"""Tests of the lessons."""

import re


def as_shown(text: str) -> str:
    """A text without the signs of strong words and of links."""
    return re.sub(r"\[([^\]]+)\]\(\w+\)", r"\1", text).replace("*", "")
