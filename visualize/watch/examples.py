"""Example prompts. The embedded model answers each sensibly, with the chat template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """A prompt with the label of its chip, and a note on its difficulty.

    method, settings  for an example of one method, which chooses it; otherwise the visitor's
                      choice stays
    """

    label: str
    note: str
    prompt: str
    chat: bool = True
    method: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


EXAMPLES = (
    Example(
        "Fibonacci",
        "easy: code has few ways to go on",
        "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
    ),
    Example(
        "Bank account",
        "easy: a class repeats its own names",
        "Write a Python class for a bank account with deposit, withdraw and balance.",
    ),
    Example(
        "Summary",
        "half easy: a summary copies from its source",
        "Summarise: The town library will close for six weeks in spring. The roof, which has leaked since the "
        "storm two years ago, is to be replaced, and the reading room on the first floor gets new windows. During the work, the "
        "children's books can be borrowed from the school on Mill Street, and the newspapers from the town hall. The mayor said "
        "the works cost less than planned, because the carpenters' guild gave the timber.",
    ),
    Example(
        "Repeating class",
        "for Ouroboros: a class repeats its phrases, so many candidate suffixes are accepted behind two draft tokens",
        "Write a Python class Point with methods for add, subtract, multiply and divide, each with a docstring.",
        method="ouroboros",
        settings={"gamma": 2, "top_k_suffixes": 3, "extended": True},
    ),
    Example("Three tips", "half easy: a list has a form", "Give me three tips for better sleep."),
    Example("Gravity", "hard: a definition in free words", "What is gravity?"),
    Example("Story", "hard: a story may go on in many ways", "Write the first lines of a story about an old clockmaker."),
)  # fmt: skip
