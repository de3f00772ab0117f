"""Price a recorded run on another machine, with other models and in a batch: modelled seconds.

The trace is a file of `generate --json` or of the page. The numbers of machines and models stand in
docs/what-if.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.decoding.trace_io import read_trace
from ouroboros_core.errors import InvalidInput

if TYPE_CHECKING:
    from ouroboros_core.decoding.machines import Quoted

NUMBERS = ("bandwidth", "flops", "layer_seconds", "pass_seconds")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, metavar="TRACE.json", help="a recorded run")
    parser.add_argument(
        "--machine",
        default="h100",
        metavar="NAME",
        help="its id in docs/what-if.md (default: h100)",
    )
    parser.add_argument(
        "--target",
        default="llama-3-70b",
        metavar="X",
        help="id of the target's size, or own: that of the run (default: llama-3-70b)",
    )
    parser.add_argument(
        "--draft", metavar="Y", help="id of the draft's size (default: the target's usual one)"
    )
    parser.add_argument(
        "--batch", default="1", metavar="N", help="texts at once, 1-64 (default: 1)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help=f"another number of the machine: {', '.join(NUMBERS)}, ...; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.decoding import machines

    trace = read_trace(arguments.trace.read_bytes())
    quoted = machines.quote(
        trace,
        machines.edited(machines.machine(arguments.machine), _numbers(arguments.set)),
        arguments.target,
        arguments.draft,
        _batch(arguments.batch),
    )
    if arguments.json:
        print(json.dumps(_json(quoted), indent=1))
        return
    _print(quoted)


def _batch(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"--batch must be a whole number between 1 and 64, got {text}") from None


def _numbers(texts: list[str]) -> dict[str, float]:
    """Of `bandwidth=1e12`, ..."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise InvalidInput(
                f"--set takes NAME=NUMBER, as in bandwidth=1e12, got {text}"
            ) from None
    return found


def _json(quoted: Quoted) -> dict[str, Any]:
    priced = quoted.priced
    return {
        "modelled": True,
        "machine": vars(quoted.machine),
        "target": vars(quoted.target),
        "draft": vars(quoted.draft) if quoted.draft else None,
        "batch": priced.batch,
        "seconds": {part: run for part, (run, _) in quoted.parts.items()},
        "plain_seconds": {part: plain for part, (_, plain) in quoted.parts.items()},
        "speedup": priced.speedup,
        "decode_speedup": priced.decode_speedup,
        "tokens_per_second": priced.tokens_per_second,
        "notes": list(quoted.notes),
    }


def _print(quoted: Quoted) -> None:
    print(quoted.sentence)
    for note in quoted.notes:
        print(note)
    print(f"\n{'modelled seconds':18}{'this run':>12}{'plain':>12}")
    for part, (run, plain) in quoted.parts.items():
        print(f"{part:18}{run:12.4f}{plain:12.4f}")
    print(f"{'speedup':18}{quoted.priced.speedup:12.2f}")
    print(f"{'without prefill':18}{quoted.priced.decode_speedup:12.2f}")
