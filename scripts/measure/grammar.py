"""Compare methods with plain decoding where both write JSON for a schema, on twelve prompts.

Every prompt runs with plain decoding and with each method under the same grammar, in rounds. The
end has the median speedup of each method over the prompts, and its range.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

from ouroboros_core import methods
from ouroboros_core.benchmark import protocol
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.models.grammar import Grammar
from ouroboros_core.trace.trace import Trace

METHODS = ("union", "speculative", "eagle3", "sam")


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    """Return the schema of a call of a tool; a parameter is a type or a list of its values."""
    kinds = {
        key: {"enum": value} if isinstance(value, list) else {"type": value, "maxLength": 40}
        for key, value in parameters.items()
    }
    arguments = {"type": "object", "properties": kinds, "required": list(kinds)}
    call = {"name": {"enum": [name]}, "arguments": arguments | {"additionalProperties": False}}
    whole = {"type": "object", "properties": call, "required": list(call)}
    return whole | {"additionalProperties": False}


WEATHER = tool("get_weather", city="string", unit=["celsius", "fahrenheit"], days=["1", "3", "7"])
MAIL = tool("send_mail", recipient="string", subject="string", priority=["low", "normal", "high"])
BOOK = tool("find_book", title="string", author="string", format=["paper", "ebook", "audio"])
PROMPTS = (
    ("What is the weather in Paris for three days, in celsius?", WEATHER),
    ("Will it rain in Boston tomorrow? Use fahrenheit.", WEATHER),
    ("Show me a week of weather in Tokyo.", WEATHER),
    ("How warm is it in Cairo today?", WEATHER),
    ("Tell anna@example.org that the meeting is moved to Friday.", MAIL),
    ("Mail bob@example.org: the server is down. It is urgent.", MAIL),
    ("Send carla@example.org the notes of today, no hurry.", MAIL),
    ("Write to dave@example.org about lunch on Monday.", MAIL),
    ("I want to listen to Moby-Dick by Herman Melville.", BOOK),
    ("Get me a printed copy of Emma by Jane Austen.", BOOK),
    ("Is there an ebook of Dracula by Bram Stoker?", BOOK),
    ("Find The Time Machine by H. G. Wells on paper.", BOOK),
)


def measured(pair: Pair, prompt: str, schema: dict[str, Any], rounds: int) -> protocol.Measured:
    """Return the rounds of plain decoding and of all methods under one grammar."""
    grammar = Grammar("json-schema", json.dumps(schema))
    text = f"{prompt} Answer with a call of {schema['properties']['name']['enum'][0]} as JSON."
    lanes = ("autoregressive", *METHODS)

    def run(_: int, lane: int) -> Trace:
        settings = methods.get(lanes[lane]).Hyperparameters()
        return Generation(pair, Task(text, lanes[lane], settings, grammar=grammar)).run()

    measuring = protocol.measure(len(lanes), protocol.at_once(run), rounds=rounds, again=0)
    return protocol.last(measuring)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=protocol.ROUNDS, metavar="N")
    rounds = parser.parse_args().rounds
    pair = load_pair()
    speedups: dict[str, list[float]] = {method: [] for method in METHODS}
    for prompt, schema in PROMPTS:
        found = measured(pair, prompt, schema, rounds)
        plain, *others = found.middle(0).traces
        assert all(other.tokens == plain.tokens for other in others), prompt
        for number, method in enumerate(METHODS, 1):
            speedups[method].append(found.speedup(number).median)
        cells = ", ".join(f"{method} {values[-1]:.2f}" for method, values in speedups.items())
        passes = "/".join(str(len(trace.steps)) for trace in (plain, *others))
        print(f"{prompt} {cells}; passes {passes}: {plain.text}", flush=True)
    for method, values in speedups.items():
        print(f"{method}: {median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
