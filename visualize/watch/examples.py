"""Example prompts. The embedded model answers each sensibly, with the chat template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A prompt with the label of its chip, and a note on its difficulty."""

    label: str
    note: str
    prompt: str
    chat: bool = True


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
    Example("Three tips", "half easy: a list has a form", "Give me three tips for better sleep."),
    Example("Gravity", "hard: a definition in free words", "What is gravity?"),
    Example("Story", "hard: a story may go on in many ways", "Write the first lines of a story about an old clockmaker."),
)  # fmt: skip
