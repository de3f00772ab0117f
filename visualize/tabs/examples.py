"""Example prompts: each says what it shows."""

from __future__ import annotations

from dataclasses import dataclass

from ouroboros_core.words import say

HEAP = "Write a Java program to implement a heap\nclass Heap {"


@dataclass(frozen=True)
class Example:
    """id names its texts: the chip's label, and a note on what the prompt is good for."""

    id: str
    prompt: str
    chat: bool = True

    @property
    def label(self) -> str:
        return say(f"example.{self.id}")

    @property
    def note(self) -> str:
        return say(f"example.{self.id}.note")


EXAMPLES = (
    Example("heap", HEAP, chat=False),
    Example(
        "repeat",
        "Repeat this paragraph three times: The river rose all night, and in the morning the old bridge was gone.",
    ),
    Example(
        "summary",
        "Summarise in three sentences: The town library will close for six weeks in spring. The roof, which has leaked since the "
        "storm two years ago, is to be replaced, and the reading room on the first floor gets new windows. During the work, the "
        "children's books can be borrowed from the school on Mill Street, and the newspapers from the town hall. The mayor said "
        "the works cost less than planned, because the carpenters' guild gave the timber.",
    ),
    Example("quadratic", "What is the quadratic formula? Show how it is used on x^2 - 5x + 6 = 0."),
    Example("translation", "Translate into French: The weather was so fine that we walked home along the canal."),
    Example("story", "Write the opening of a story about a lighthouse keeper who collects clocks."),
)  # fmt: skip
