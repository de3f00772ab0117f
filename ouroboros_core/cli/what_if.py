"""Price a recorded run on another machine, with other models and in a batch: modelled seconds.

The trace is a file of `generate --json` or of the page. The numbers of machines and models stand in
docs/what-if.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.file import read_trace
from ouroboros_core.what_if.machines import Quoted

NUMBERS = ("bandwidth", "layer_seconds", "target.bytes_per_parameter", "draft.layers")
"""Some numbers that can be set, as docs/what-if.md names them."""


def add(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("trace", type=Path, metavar="TRACE.json", help="a recorded run")
    option(
        "--machine",
        default="h100",
        metavar="NAME",
        help="its id in docs/what-if.md (default: h100)",
    )
    option(
        "--target",
        default="llama-3-70b",
        metavar="X",
        help="id of the target's size, or own: that of the run (default: llama-3-70b)",
    )
    option("--draft", metavar="Y", help="id of the draft's size (default: the target's usual one)")
    option("--batch", default="1", metavar="N", help="texts at once, 1-64 (default: 1)")
    option(
        "--set",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help=f"another number of machine, target or draft: {', '.join(NUMBERS)}, ...; may be "
        "repeated",
    )
    option("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.what_if import machines

    trace = read_trace(arguments.trace.read_bytes())
    changed = _numbers(arguments.set)
    machine = machines.edited(machines.machine(arguments.machine), changed["machine"])
    target, draft = machines.sizes(trace, arguments.target, arguments.draft, changed["target"])
    if draft is not None:
        draft = machines.edited(draft, changed["draft"])
    elif changed["draft"]:
        raise InvalidInput(
            "there is no draft to change: choose one with --draft"
            if machines.drafting(trace)
            else "nothing drafts in this run: leave out --set draft.…"
        )
    quoted = machines.quote_sizes(trace, machine, target, draft, _batch(arguments.batch))
    if arguments.json:
        print(json.dumps(_json(quoted), indent=1))
        return
    _print(quoted)


def _batch(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"--batch must be a whole number between 1 and 64, got {text}") from None


def _numbers(texts: list[str]) -> dict[str, dict[str, float]]:
    """Of `bandwidth=1e12`, `target.layers=40`, ...: by machine, target and draft."""
    changes: dict[str, dict[str, float]] = {"machine": {}, "target": {}, "draft": {}}
    for text in texts:
        name, _, value = text.partition("=")
        owner, dot, rest = name.partition(".")
        try:
            changes[owner if dot else "machine"][rest or name] = float(value)
        except (ValueError, KeyError):
            raise InvalidInput(
                "--set takes NAME=NUMBER, as in bandwidth=1e12 or target.layers=40; before the dot "
                f"stands machine, target or draft; got {text}"
            ) from None
    return changes


def _json(quoted: Quoted) -> dict[str, Any]:
    priced = quoted.priced
    return {
        "modelled": True,
        "machine": vars(quoted.machine),
        "target": vars(quoted.target),
        "draft": vars(quoted.draft) if quoted.draft else None,
        "batch": priced.batch,
        "seconds": {phase: run for phase, (run, _) in quoted.parts.items()},
        "plain_seconds": {phase: plain for phase, (_, plain) in quoted.parts.items()},
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
    for phase, (run, plain) in quoted.parts.items():
        print(f"{phase:18}{run:12.4f}{plain:12.4f}")
    print(f"{'speedup':18}{quoted.priced.speedup:12.2f}")
    print(f"{'without prefill':18}{quoted.priced.decode_speedup:12.2f}")
