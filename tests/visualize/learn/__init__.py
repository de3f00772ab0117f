"""Tests of the lessons."""

import re


def as_shown(text: str) -> str:
    """A text without the signs of strong words and of links."""
    return re.sub(r"\[([^\]]+)\]\(\w+\)", r"\1", text).replace("*", "")


def longest_earlier(tokens: list[int]) -> list[int] | None:
    """By brute force: the longest end of the tokens that stood there before, and behind which
    position it did most recently."""
    for length in range(len(tokens) - 1, 0, -1):
        for end in range(len(tokens) - 1, length - 1, -1):
            if tokens[end - length : end] == tokens[-length:]:
                return [length, end]
    return None
