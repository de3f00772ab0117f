"""Example prompts: each says what it shows."""

from __future__ import annotations

from dataclasses import dataclass

HEAP = "Write a Java program to implement a heap\nclass Heap {"


@dataclass(frozen=True)
class Example:
    """label: of the chip; note: what the prompt is good for."""

    label: str
    note: str
    prompt: str
    chat: bool = True


EXAMPLES = (
    Example("Java heap", "the paper's own example: a class skeleton, continued as it is", HEAP, chat=False),
    Example(
        "Repeat a paragraph",
        "easy, because the output copies itself",
        "Repeat this paragraph three times: The river rose all night, and in the morning the old bridge was gone.",
    ),
    Example(
        "Summary",
        "half easy: a summary copies from its source",
        "Summarise in three sentences: The town library will close for six weeks in spring. The roof, which has leaked since the "
        "storm two years ago, is to be replaced, and the reading room on the first floor gets new windows. During the work, the "
        "children's books can be borrowed from the school on Mill Street, and the newspapers from the town hall. The mayor said "
        "the works cost less than planned, because the carpenters' guild gave the timber.",
    ),
    Example("Quadratic formula", "easy: a formula has few ways to go on", "What is the quadratic formula? Show how it is used on x^2 - 5x + 6 = 0."),
    Example("Translation", "hard: every word is new", "Translate into French: The weather was so fine that we walked home along the canal."),
    Example("Story", "hard: a story may go on in many ways", "Write the opening of a story about a lighthouse keeper who collects clocks."),
)  # fmt: skip
