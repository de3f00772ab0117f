"""List the decoding methods, their papers and their knobs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ouroboros_core import methods


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON; the default method is marked")


def describe() -> list[dict[str, Any]]:
    """One dictionary a method: id, name, paper, summary, needs, default, knobs."""
    return [
        {
            "id": method.id,
            "name": method.name,
            "paper": method.paper,
            "summary": method.summary,
            "needs": sorted(methods.needed(method, method.Hyperparameters())),
            "default": method.id == methods.DEFAULT,
            "knobs": {
                knob.name: {
                    "type": knob.kind.__name__,
                    "default": knob.default,
                    "min": knob.low,
                    "max": knob.high,
                    "choices": list(knob.choices),
                    "auto": knob.fixed is not None,
                    "fixed": knob.fixed,
                    "help": knob.help,
                }
                for knob in method.Hyperparameters.knobs().values()
            },
        }
        for method in methods.available().values()
    ]


def run(arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(describe(), indent=1))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for method in describe():
        needs = f" needs: {', '.join(method['needs'])}" if method["needs"] else ""
        mark = " (default)" if method["default"] else ""
        head = f"[bold]{method['id']}[/]: {method['name']}{mark}{needs}  [dim]{method['paper']}[/]"
        console.print(head.removesuffix("  [dim][/]"), soft_wrap=True)
        console.print(f"  {method['summary']}")
        for name, knob in method["knobs"].items():
            bounds = f" {knob['min']}-{knob['max']}" if knob["min"] is not None else ""
            if knob["type"] == "str" and knob["auto"]:
                bounds = f" {knob['fixed']}"
            bounds += " or auto" if knob["auto"] else ""
            bounds = bounds or (f" {'|'.join(knob['choices'])}" if knob["choices"] else "")
            console.print(
                f"    --{name.replace('_', '-')}{bounds} (default {knob['default']}): "
                f"{knob['help']}"
            )
