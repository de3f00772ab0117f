"""Let the target write the conversations that its drafts learn from: a user turn, then the answer.

No text comes from a benchmark. The target writes the user turn after the beginning of a user turn
in its chat template (as in Magpie, arXiv 2406.08464), or after a few words that set the kind of
task. The articles to summarise and the passages to read are pieces of its earlier answers, or of
texts that people wrote, if there are some: they have many names and words that a draft must copy,
unlike the texts of a model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import read_utf8
from ouroboros_core.training.corpus import Conversations
from ouroboros_core.training.writer import ANSWERING, ASKING, GREEDY, Writer

LONG = 60
"""Fewest tokens of an answer that can be part of an article."""

BATCH = 96
"""Texts written side by side at most, on a CPU."""

PROMPT_TOKENS = 170
"""Prompt tokens in one batch at most, for each of its texts."""


@dataclass(frozen=True)
class Kind:
    """A kind of task.

    openings  words that begin the user turn, one drawn for each
    longest   most tokens that the target adds to the user turn; 0 if the turn is made of earlier
              answers
    weight    of the kind in the draw
    """

    name: str
    openings: tuple[str, ...]
    longest: int
    weight: int


QUESTIONS = (
    *("What is said about {}?", "What is {}?", "Why {}?", "Who or what is {}?"),
    "How does {} matter?",
)
KINDS = (
    Kind("free", ("",), 60, 3),
    Kind("writing", ("Write a short story about ", "Write an email to ", "Draft a ", "Compose a ", "Help me "), 80, 2),
    Kind("role", ("Pretend to be ", "Imagine you are ", "You are a ", "Act as "), 80, 2),
    Kind("explain", ("Explain ", "Compare ", "Describe ", "How does ", "Why ", "What are the main ", "Discuss "), 60, 3),
    Kind("extract", ("Extract the ", "List ", "Given the following ", "Which of "), 100, 1),
    Kind("code", ("Write a Python function that ", "Write a Java program to ", "Write a class ", "def ", "How do I "), 80, 2),
    Kind("arithmetic", (
        "A farmer has ", "Tom has ", "If a train ", "Maria buys ", "There are ", "John ", "A box contains ", "In a school ",
        "Sarah earns ", "A car travels ", "Every day ", "Lisa has twice ", "A shop sells ", "Peter and Ann ", "A class of ",
    ), 90, 6),
    Kind("question", (
        "who ", "who was the first ", "when did ", "when was ", "what is the ", "what does ", "where is the ", "where did ",
        "how many ", "how long ", "which ", "who wrote ", "who played ", "what year ", "why does ", "What is ", "Who is ",
    ), 24, 6),
    Kind("german", tuple("Translate German to English: " + start for start in (
        "Die Regierung", "Der ", "In ", "Nach Angaben", "Im vergangenen Jahr", "Das ", "Wir haben", "Die Polizei", "Am Montag",
        "Es gibt", "Die Stadt", "Viele Menschen", "Mit dem", "Auf der", "Ich habe", "Seit dem", "Die Zahl", "Er sagte", "Zwei",
    )), 60, 6),
    Kind("translation", ("Translate {} to English: ", "Translate {} to English: ", "Translate to English: "), 0, 6),
    Kind("summary", ("Summarize: ", "Summarize the following article:\n\n", "Please summarize the text below.\n\n"), 0, 4),
    Kind("reading", ("", "Context: ", "Answer the question using the passages below.\n\n"), 0, 4),
)  # fmt: skip
"""Openings of common requests; none is from a benchmark."""


@dataclass(frozen=True)
class Library:
    """Texts that people wrote.

    passages  works in paragraphs; neighbours belong together
    foreign   language, and a work in it in paragraphs
    """

    passages: tuple[tuple[str, ...], ...] = ()
    foreign: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def read(cls, passages: Sequence[Path], foreign: Sequence[str]) -> Library:
        """Read files of paragraphs with blank lines between them, `foreign` as LANGUAGE=FILE. Raises
        InvalidInput."""
        works = []
        for text in foreign:
            language, equals, path = text.partition("=")
            if not equals:
                raise InvalidInput(
                    f"foreign must name the language, as in German=book.txt, got {text}"
                )
            works.append((language, _paragraphs(Path(path))))
        return cls(tuple(map(_paragraphs, passages)), tuple(works))


def _paragraphs(path: Path) -> tuple[str, ...]:
    """Return the paragraphs of a file, which blank lines separate."""
    paragraphs = tuple(text.strip() for text in read_utf8(path).split("\n\n") if text.strip())
    if not paragraphs:
        raise InvalidInput(f"{path} is empty")
    return paragraphs


def choose_kinds(names: str | None) -> list[Kind]:
    """Return the kinds of tasks in a list with commas, or all. Raises InvalidInput for an unknown
    kind."""
    chosen = [name.strip() for name in names.split(",")] if names else [kind.name for kind in KINDS]
    unknown = sorted(set(chosen) - {kind.name for kind in KINDS})
    if unknown:
        raise InvalidInput(
            f"kinds must be some of {', '.join(kind.name for kind in KINDS)}, got "
            f"{', '.join(unknown)}"
        )
    return [kind for kind in KINDS if kind.name in chosen]


class Author:
    """Writes conversations, batch after batch, from a seed."""

    def __init__(
        self,
        writer: Writer,
        seed: int,
        answer_tokens: int = 136,
        kinds: Sequence[Kind] = KINDS,
        library: Library = Library(),
        batch: int = BATCH,
    ) -> None:
        """batch: texts written side by side at most."""
        self.writer, self.seed, self.answer_tokens = writer, seed, answer_tokens
        self.kinds, self.library, self.batch = kinds, library, batch
        self.answers: list[str] = []

    def _can(self, kind: Kind) -> bool:
        if kind.name == "translation":
            return bool(self.library.foreign)
        return bool(kind.longest or self.library.passages or len(self.answers) >= 64)

    def remember(self, conversations: Conversations) -> None:
        """Add earlier answers to the texts of articles and passages."""
        for index in range(len(conversations)):
            start, stop = (
                conversations.offsets[index] + conversations.answer_start[index],
                conversations.offsets[index + 1],
            )
            if stop - start >= LONG:
                self._keep(conversations.tokens[start:stop].tolist())

    def _keep(self, answer: list[int]) -> None:
        self.answers.append(self.writer.tokenizer.decode(answer, skip_special_tokens=True).strip())

    def batches(self, first: int = 0) -> Iterator[tuple[int, str, Conversations]]:
        """Yield number, kind and conversations of batch after batch, without end. Batch n depends on
        the seed, n and the remembered answers. A batch without an answer is left out."""
        number = first
        while True:
            rng = random.Random(f"{self.seed}-{number}")
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
            number += 1
            kinds = [k for k in self.kinds if self._can(k)]
            if not kinds:
                raise InvalidInput(
                    "these kinds need texts: give --passages or --foreign, or leave --kinds out"
                )
            kind = rng.choices(kinds, [k.weight for k in kinds])[0]
            prompts = self._prompts(kind, rng, generator)
            choice = GREEDY if rng.random() < 0.75 else ANSWERING
            answers = self.writer.write(prompts, self.answer_tokens, choice, generator)
            if kind.longest:
                for answer in (a for a in answers if len(a) >= LONG):
                    self._keep(answer)
            conversations = _conversations(prompts, answers)
            if conversations is not None:
                yield number - 1, kind.name, conversations

    def _prompts(
        self, kind: Kind, rng: random.Random, generator: torch.Generator
    ) -> list[list[int]]:
        writer = self.writer
        tail = writer.ids(writer.after)
        if kind.longest:
            starts = [
                writer.ids(writer.before + rng.choice(kind.openings)) for _ in range(self.batch)
            ]
            turns = writer.write(starts, kind.longest, ASKING, generator)
            return [
                [*s, *(t for t in turn if t not in writer.stop), *tail]
                for s, turn in zip(starts, turns, strict=True)
            ]
        if kind.name == "translation":
            return [
                writer.ids(writer.before + self._sentence(kind, rng) + writer.after)
                for _ in range(self.batch)
            ]
        length = rng.randrange(1, 4) if self.library.passages else rng.randrange(2, 8)
        make = self._article if kind.name == "summary" else self._passages
        texts = [rng.choice(kind.openings) + make(length, rng) for _ in range(self.batch)]
        prompts = [writer.ids(writer.before + text + writer.after) for text in texts]
        return prompts[: max(4, self.batch * PROMPT_TOKENS // max(map(len, prompts)))]

    def _sentence(self, kind: Kind, rng: random.Random) -> str:
        """Return one or two sentences to translate."""
        language, paragraphs = rng.choice(self.library.foreign)
        sentences = rng.choice(paragraphs).replace("\n", " ").split(". ")
        start = rng.randrange(len(sentences))
        text = ". ".join(sentences[start : start + rng.choice((1, 1, 2))])[:400]
        return rng.choice(kind.openings).format(language) + text

    def _pieces(self, length: int, rng: random.Random) -> list[str]:
        """Return neighbouring paragraphs of a work, or pieces of earlier answers."""
        if not self.library.passages:
            return [_shortened(rng.choice(self.answers), rng) for _ in range(length)]
        work = rng.choice(self.library.passages)
        start = rng.randrange(max(1, len(work) - length))
        return list(work[start : start + length])

    def _article(self, length: int, rng: random.Random) -> str:
        """Return a text to summarise."""
        return "\n".join(self._pieces(length, rng))

    def _passages(self, length: int, rng: random.Random) -> str:
        """Return passages to read, and a question about one of them."""
        passages = self._pieces(length, rng)
        words = rng.choice(passages).split()
        start = rng.randrange(max(1, len(words) - 5))
        about = " ".join(words[start : start + rng.randrange(2, 6)]).strip(".,:;*#")
        question = rng.choice(QUESTIONS).format(about)
        return "\n\n".join(passages) + "\n" + question


def _shortened(text: str, rng: random.Random) -> str:
    """Return a few neighbouring sentences of a text."""
    sentences = text.replace("\n", " ").split(". ")
    start = rng.randrange(max(1, len(sentences) - 2))
    return ". ".join(sentences[start : start + rng.randrange(3, 8)])


def _conversations(prompts: list[list[int]], answers: list[list[int]]) -> Conversations | None:
    pairs = [(p, a) for p, a in zip(prompts, answers, strict=True) if len(a) > 1]
    if not pairs:
        return None
    texts = [np.array([*p, *a], dtype=np.int64) for p, a in pairs]
    offsets = np.cumsum([0, *map(len, texts)])
    return Conversations(
        np.concatenate(texts), offsets, np.array([len(p) for p, _ in pairs], dtype=np.int64)
    )
