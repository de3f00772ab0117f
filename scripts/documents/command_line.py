"""The commands of docs/command-line.md, from their own help."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import ModuleType

from ouroboros_core import cli, methods
from scripts.documents.markdown import wrapped

ON_OTHER_PAGES = ("sam", "serve", "train", "what-if")
"""Commands that other pages than docs/command-line.md explain."""


def commands() -> str:
    """Return the help of the commands, in paragraphs. One that several commands have comes once;
    settings of methods stand on the methods' pages."""
    helps = {
        name: _help(command)
        for name, command in cli.commands().items()
        if name not in ON_OTHER_PAGES
    }
    counts = Counter(paragraph for paragraphs in helps.values() for paragraph in paragraphs)
    shared = [paragraph for paragraph, count in counts.items() if count > 1]
    sections = [_block("For several commands:", shared)]
    for name, paragraphs in helps.items():
        also = ", ".join(p.partition(":")[0] for p in paragraphs if p in shared)
        text = cli.summary(cli.commands()[name]) + (f" Also: {also}." if also else "")
        own = [paragraph for paragraph in paragraphs if paragraph not in shared]
        sections.append(f"## {name}\n\n{_block(wrapped(text), own)}")
    return "\n".join(sections)


def _help(command: ModuleType) -> list[str]:
    """Return the paragraphs of a command's help."""
    form = partial(argparse.HelpFormatter, width=110)
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False, formatter_class=form)
    command.add(parser)
    text = re.sub(r"(--[\w-]+) [A-Z]+, (?=--)", r"\1, ", parser.format_help())  # as from 3.13 on
    text = re.sub(",\\s+".join(methods.available()), "the id of a method", text)
    paragraphs = text.strip().split("\n\n")
    return [p for p in paragraphs if not p.startswith("settings of the method")]


def _block(text: str, paragraphs: Sequence[str]) -> str:
    return "\n".join([f"{text}\n", "```text", "\n\n".join(paragraphs), "```", ""])
