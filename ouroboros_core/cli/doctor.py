"""Say what this machine has, which path it takes and why, and whether it writes exact text.

Ends with 0 unless something is broken, then with 1.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.messages import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.benchmark.doctor import Finding

MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "broken": ("✗", "red")}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON: a list of findings")
    parser.add_argument(
        "--facts", action="store_true", help="load no models, fetch nothing, compute nothing"
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="for owners of a GPU: ten minutes of checks, and a report in Markdown to paste",
    )
    parser.add_argument(
        "--quick", action="store_true", help="with --gpu: so few prompts that it only tries itself"
    )
    options.add_pair(parser)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    findings: list[Finding] = []
    for finding in _findings(arguments):
        if not arguments.json:
            _show(
                finding, findings[-1].section if findings else "", console, markdown=arguments.gpu
            )
        findings.append(finding)
    if arguments.json:
        print(json.dumps([asdict(entry) for entry in findings], indent=1))
    else:
        states = Counter(entry.state for entry in findings)
        worth, broken = counted(states["note"], "thing"), counted(states["broken"], "thing")
        console.print(f"\n{worth} worth knowing, {broken} broken.")
    return int(any(entry.state == "broken" for entry in findings))


def _check(arguments: argparse.Namespace) -> None:
    if arguments.facts and arguments.gpu:
        raise InvalidInput("--facts computes nothing and --gpu does: leave one of them out")
    if arguments.quick and not arguments.gpu:
        raise InvalidInput("--quick shortens --gpu: give both, or leave it out")


def _findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    from ouroboros_core.benchmark import doctor as checkup
    from ouroboros_core.loading.machine import choose_device

    if arguments.gpu and arguments.device == "auto" and choose_device("auto").type == "cpu":
        raise InvalidInput(
            "--gpu found no GPU that torch can use: `doctor --facts` says why, and "
            "`doctor --gpu --device cpu` tries the script without one"
        )
    yield from checkup.machine()
    yield from checkup.passes(arguments.device, arguments.dtype)
    yield from checkup.weights()
    if arguments.facts:
        return
    try:
        pair = options.load_pair(arguments)
    except OuroborosError as error:
        yield checkup.Finding("models", "pair", "broken", "it could not be loaded", str(error))
        return
    yield from checkup.models(pair)
    if arguments.gpu:
        yield from checkup.gpu_report(pair, quick=arguments.quick)
    else:
        yield from checkup.self_test(pair)


def _show(finding: Finding, before: str, console: Console, *, markdown: bool) -> None:
    """One line, below a heading where a section begins; a fault has its own line."""
    mark, colour = MARKS[finding.state]
    if finding.section != before:
        console.print(f"\n## {finding.section}\n" if markdown else f"\n[bold]{finding.section}[/]")
    if markdown:
        sentences = (finding.reason, f"**{finding.remedy}**" if finding.remedy else "")
        details = "".join(f"; {sentence}" for sentence in sentences if sentence)
        console.print(f"* {mark} {finding.name}: {finding.fact}{details}", markup=False)
        return
    console.print(f"  [{colour}]{mark}[/] {finding.name}: ", end="")
    reason = f" ({finding.reason})" if finding.reason else ""
    console.print(f"{finding.fact}{reason}", markup=False)
    if finding.remedy:
        console.print(f"      → {finding.remedy}", markup=False)
