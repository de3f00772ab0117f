"""Compare predicted speedups of draft lengths with measured ones, prompt by prompt.

Every prompt runs with plain decoding and with each draft length, in rounds. From the median run of
one length, `--from`, the speedup of every other length is predicted as the page does it, see
`ouroboros_core.what_if.draft_length`. The end says how many predictions are within 10% of the
measured median.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator

from ouroboros_core import methods
from ouroboros_core.benchmark import protocol
from ouroboros_core.benchmark.prompts import Question, own_prompts
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if.draft_length import DraftLengths

LENGTHS = (1, 2, 4, 8)
NEAR = 0.10


def measured(pair: Pair, question: Question, tokens: int, rounds: int) -> protocol.Measured:
    """Return the rounds of plain decoding and of all lengths, with the models' probabilities."""

    def task(length: int | None) -> Task:
        kind = methods.get("speculative" if length else "autoregressive")
        settings = kind.Hyperparameters.parse({"gamma": length} if length else {})
        prompt = question.turns[0]
        return Task(prompt, kind.id, settings, max_new_tokens=tokens, record=True)

    lanes = (None, *LENGTHS)

    def run(_: int, lane: int) -> Trace:
        return Generation(pair, task(lanes[lane])).run()

    measuring: Generator[protocol.Measured, None, None] = protocol.measure(
        len(lanes), protocol.at_once(run), rounds=rounds, again=0
    )
    return protocol.last(measuring)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=12, metavar="N", help="prompts")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--rounds", type=int, default=protocol.ROUNDS, metavar="N")
    parser.add_argument("--from", type=int, default=4, choices=LENGTHS, dest="seen", metavar="N")
    arguments = parser.parse_args()
    pair = load_pair()
    near = total = 0
    for question in own_prompts(arguments.limit):
        rounds = measured(pair, question, arguments.max_new_tokens, arguments.rounds)
        lane = 1 + LENGTHS.index(arguments.seen)
        middle = rounds.middle(lane)
        lengths = DraftLengths(middle.traces[lane], middle.plain)
        cells = []
        for number, length in enumerate(LENGTHS, 1):
            if length == arguments.seen:
                continue
            predicted, actual = lengths.of(length).speedup, rounds.speedup(number).median
            near += abs(predicted / actual - 1) <= NEAR
            total += 1
            cells.append(f"{length}: {predicted:.2f} ({actual:.2f})")
        print(f"{question.id}: {', '.join(cells)}, oracle {lengths.oracle.speedup:.2f}", flush=True)
    print(f"{near} of {total} predictions are within {NEAR:.0%} of the measured speedup")
