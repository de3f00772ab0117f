"""List the decoding methods, their papers and their settings."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ouroboros_core import methods


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON; the default method is marked")


def describe() -> list[dict[str, Any]]:
    """One dictionary a method: id, name, paper, summary, needs, default, settings."""
    return [
        {
            "id": method.id,
            "name": method.name,
            "paper": method.paper,
            "summary": method.summary,
            "needs": sorted(methods.needed(method, method.Hyperparameters())),
            "default": method.id == methods.DEFAULT,
            "published": dict(method.published),
            "settings": {
                setting.name: {
                    "type": setting.kind.__name__,
                    "default": setting.default,
                    "min": setting.low,
                    "max": setting.high,
                    "choices": list(setting.choices),
                    "auto": setting.fixed is not None,
                    "fixed": setting.fixed,
                    "help": setting.help,
                }
                for setting in method.Hyperparameters.settings().values()
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
        for name, setting in method["settings"].items():
            bounds = f" {setting['min']}-{setting['max']}" if setting["min"] is not None else ""
            if setting["type"] == "str" and setting["auto"]:
                bounds = f" {setting['fixed']}"
            bounds += " or auto" if setting["auto"] else ""
            bounds = bounds or (f" {'|'.join(setting['choices'])}" if setting["choices"] else "")
            console.print(
                f"    --{name.replace('_', '-')}{bounds} (default {setting['default']}): "
                f"{setting['help']}"
            )
        if method["published"]:
            values = (f"{name}={value}" for name, value in method["published"].items())
            console.print(f"    --preset published: {', '.join(values)}", soft_wrap=True)
