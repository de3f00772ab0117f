"""Make a corpus to draft from: index texts, or let the target answer prompts and index the answers.

Used by the methods rest and sam (--corpus FILE). The file holds arrays of token ids, so it belongs
to one tokenizer.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import read_json_lines, read_utf8
from ouroboros_core.lookup.corpus import Corpus

if TYPE_CHECKING:
    from ouroboros_core.loading.chat_template import ChatTemplate

PASSAGES = 1000
PASSAGE = 32
"""Texts that are followed to measure the seconds of a token, and tokens of each."""

BATCH = 16


def add(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    build = options.subcommand(what, "build", "index texts")
    build.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help=(
            "a text file is one document, a line of a .jsonl file one each, of conversations "
            "(train data) each answer"
        ),
    )
    build.add_argument(
        "--field",
        metavar="NAME",
        help="where a line of a .jsonl file has its text (default: all its strings)",
    )
    answer = options.subcommand(
        what, "corpus", "let the target answer prompts, and index prompts and answers"
    )
    option = answer.add_argument
    option("--prompts", required=True, type=Path, metavar="FILE", help="JSON lines, as for bench")
    option("--field", metavar="NAME", help="where a line has its prompt")
    option("--max-new-tokens", default="256", metavar="N", help="longest answer (default: 256)")
    option("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    for sub in (build, answer):
        sub.add_argument(
            "--out",
            required=True,
            type=Path,
            metavar="FILE",
            help=(
                "the corpus: a small .npz file, indexed whenever it is loaded, or an .npy file "
                "with its index, which is mapped into memory"
            ),
        )
        sub.add_argument(
            "--target",
            metavar="X",
            help="whose tokenizer, as for generate (default: the embedded one)",
        )


def run(arguments: argparse.Namespace) -> None:
    if not arguments.out.absolute().parent.is_dir():
        raise InvalidInput(f"the folder of {arguments.out} does not exist: make it first")
    documents, mark = (_texts if arguments.what == "build" else _answers)(arguments)
    began = time.perf_counter()
    corpus = Corpus.build(documents, mark)
    seconds = time.perf_counter() - began
    corpus.save(arguments.out)
    size = arguments.out.stat().st_size / 1e3
    count = len(corpus) - corpus.documents
    held = f"{size:.0f} kB ({1e3 * corpus.megabytes:.0f} kB in memory)"
    print(f"documents: {corpus.documents}, tokens: {count}; {arguments.out}: {held}")
    print(
        f"indexed in {seconds:.2f} s, {1e6 * seconds / count:.1f} µs a token; "
        f"to follow a text takes {_follow_time(corpus):.1f} µs a token"
    )


def _follow_time(corpus: Corpus) -> float:
    """Return microseconds a token to follow passages of the corpus."""
    rng, tokens = random.Random(0), corpus.tokens
    text: list[int] = []
    for _ in range(PASSAGES):
        first = rng.randrange(len(tokens))
        text.append(int(tokens[rng.randrange(len(tokens))]))
        text += tokens[first : first + PASSAGE].tolist()
    text = [token for token in text if token >= 0]
    began = time.perf_counter()
    corpus.cursor().extend(text)
    return 1e6 * (time.perf_counter() - began) / len(text)


def _texts(arguments: argparse.Namespace) -> tuple[list[list[int]], str]:
    from ouroboros_core.loading import embedded
    from ouroboros_core.loading.chat_template import ChatTemplate
    from ouroboros_core.loading.pairs import fingerprint
    from ouroboros_core.loading.weights import load_tokenizer

    for path in arguments.files:
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}")
    tokenizer = load_tokenizer(arguments.target or str(embedded.ensure_target()))
    words = ChatTemplate(tokenizer)
    documents = [
        document for path in arguments.files for document in _read(path, arguments.field, words)
    ]
    largest = max((max(document) for document in documents if document), default=0)
    if largest >= len(tokenizer):
        raise InvalidInput(
            f"the conversations hold token id {largest}, beyond the tokenizer's {len(tokenizer)}: "
            "they were written with another"
        )
    return documents, fingerprint(tokenizer)


def _read(path: Path, field: str | None, words: ChatTemplate) -> Iterator[list[int]]:
    """The documents of a file, as token ids; control tokens in them are text."""
    if path.suffix == ".npz":
        from ouroboros_core.training.corpus import Conversations

        conversations = Conversations.load([path])
        for index, start in enumerate(conversations.answer_start):
            yield conversations.tokens[
                conversations.offsets[index] + start : conversations.offsets[index + 1]
            ].tolist()
        return
    for text in _lines(path, field) if ".jsonl" in path.suffixes else [read_utf8(path)]:
        yield words.as_text(text)


def _lines(path: Path, field: str | None) -> Iterator[str]:
    """Yield the texts of JSON lines: the named field, or all strings of a line."""
    for number, data in read_json_lines(path):
        if field is not None and not (
            isinstance(data, dict) and isinstance(data.get(field), str | list)
        ):
            names = ", ".join(data) if isinstance(data, dict) else "no object"
            raise InvalidInput(
                f"{path.name}, line {number}: no text in the field {field}; there is {names}"
            )
        text = "\n\n".join(_strings(data if field is None else data[field]))
        if text:
            yield text


def _strings(value: Any) -> Iterator[str]:
    """All strings inside a JSON value; of objects the values, and none that only names things."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if not name.endswith("id") and name != "category":
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _answers(arguments: argparse.Namespace) -> tuple[list[list[int]], str]:
    import torch
    from rich.progress import Progress

    from ouroboros_core.benchmark import prompts
    from ouroboros_core.loading import pairs
    from ouroboros_core.progress import columns
    from ouroboros_core.training.writer import GREEDY, Writer

    longest = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 1)
    questions = [question.turns[0] for question in prompts.read(arguments.prompts, arguments.field)]
    target, tokenizer = pairs.load_target(arguments.target, pairs.Placement(arguments.device))
    if not tokenizer.chat_template:
        raise InvalidInput(
            f"{target.name} has no chat template, so it cannot answer prompts: index texts with "
            "sam build"
        )
    writer = Writer(target.model, tokenizer)
    prompt_ids = [writer.ids(text) for text in questions]
    templated = [writer.ids(f"{writer.before}{text}{writer.after}") for text in questions]
    for text, ids in zip(questions, templated, strict=True):
        if len(ids) + longest > target.max_length:
            raise InvalidInput(
                f"a prompt has {len(ids)} tokens, too many for {target.name} and an answer: "
                f"{text[:40]}..."
            )
    # Similar lengths together: less padding.
    order = sorted(range(len(prompt_ids)), key=lambda n: len(templated[n]))
    documents: list[list[int]] = []
    with Progress(*columns(), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("answers", total=len(order))
        try:
            for start in range(0, len(order), BATCH):
                group = order[start : start + BATCH]
                written = writer.write(
                    [templated[n] for n in group], longest, GREEDY, torch.Generator()
                )
                documents += [
                    [*prompt_ids[n], *answer] for n, answer in zip(group, written, strict=True)
                ]
                bar.update(task, advance=len(group))
        except KeyboardInterrupt:
            print(
                f"stopped after {len(documents)} of {len(order)} answers; these are indexed",
                file=sys.stderr,
            )
    return documents, pairs.fingerprint(tokenizer)
