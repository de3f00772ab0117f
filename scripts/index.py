"""What the index of a corpus takes: seconds to build, bytes a token, microseconds a token.

    python -m scripts.index [100000 1000000 10000000]

The tokens are made up: documents of 50 to 300 tokens, drawn from 49,152 by Zipf's law (the n-th as
often as 1 / n), a third of them overwritten with passages from elsewhere in the corpus, of 8 to 200
tokens. The text that is followed is drawn alike, and half of it are passages of the corpus. Ends of
documents count as tokens. Times are those of one processor, without waiting for it or for the disk.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.suffix_array import END, Ids

SIZES = (10**5, 10**6, 10**7)
VOCABULARY = 49152
DOCUMENT = 50, 300
PASSAGE = 8, 200
FOLLOWED = 200_000

HEAD = "| tokens | build (s) | bytes a token | follow (µs a token) | save (s) | load mapped (s) |"


def zipf(count: int, rng: np.random.Generator) -> Ids:
    weights = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    drawn: Ids = np.searchsorted(weights, rng.random(count) * weights[-1]).astype(np.int32)
    return drawn


def repeat(into: Ids, source: Ids, share: float, rng: np.random.Generator) -> None:
    """Overwrite a share of some tokens with passages of others."""
    copied = 0
    while copied < share * len(into):
        size = int(rng.integers(*PASSAGE))
        start, to = rng.integers(len(source) - size), rng.integers(len(into) - size)
        into[to : to + size] = source[start : start + size].copy()
        copied += size


def documents(count: int, rng: np.random.Generator) -> list[Ids]:
    """With their ends, as many tokens as are asked for."""
    tokens = zipf(count, rng)
    repeat(tokens, tokens, 1 / 3, rng)
    ends = np.cumsum(rng.integers(*DOCUMENT, size=count // DOCUMENT[0] + 1))
    return [part[:-1] for part in np.split(tokens, ends[ends < count])]


def measured(count: int) -> Iterator[Any]:
    """The numbers of a line of the table."""
    rng = np.random.default_rng(0)
    texts = documents(count, rng)
    began = time.process_time()
    corpus = Corpus.build(texts)  # type: ignore[arg-type]  # arrays serve as sequences
    yield len(corpus)
    yield time.process_time() - began
    yield 1e6 * corpus.megabytes / len(corpus)
    text = zipf(FOLLOWED, rng)
    repeat(text, corpus.tokens[corpus.tokens != END], 1 / 2, rng)
    tokens = text.tolist()
    began = time.process_time()
    corpus.cursor().extend(tokens)
    yield 1e6 * (time.process_time() - began) / FOLLOWED
    with TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.npy"
        began = time.process_time()
        corpus.save(path)
        yield time.process_time() - began
        began = time.process_time()
        Corpus.load(path)
        yield time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="TOKENS")
    print(HEAD, "|---|---|---|---|---|---|", sep="\n")
    for size in parser.parse_args().sizes:
        tokens, *numbers = measured(size)
        build, *others = numbers
        print(f"| {tokens:,} | {build:.1f} |", *(f"{number:.1f} |" for number in others))


if __name__ == "__main__":
    main()
