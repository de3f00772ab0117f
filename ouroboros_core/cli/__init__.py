"""The command line: one file a command, found in this folder."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import ouroboros_core
from ouroboros_core.errors import OuroborosError
from ouroboros_core.locations import as_utf8
from ouroboros_core.progress import accept_any_text
from ouroboros_core.version import commit

HELPERS = ("console", "display", "measuring", "options")


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line, because the options of a command fill more than a screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} ({self.prog} --help lists what there is)\n")


class _Version(argparse.Action):
    """Prints the version, and the commit in a checkout."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        names = (ouroboros_core.__version__, commit())
        print(" ".join(filter(None, names)))
        parser.exit()


def commands() -> dict[str, ModuleType]:
    """Return the module of each command, which has `add(parser)` and `run(arguments)`: all modules
    here but the HELPERS."""
    return {
        module.name.replace("_", "-"): importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
        if module.name not in HELPERS
    }


def summary(command: ModuleType) -> str:
    """Return the description of a command: the first paragraph of its module's docstring."""
    return " ".join((command.__doc__ or "").split("\n\n")[0].split())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="ouroboros" if Path(sys.argv[0]).stem == "ouroboros" else "python -m ouroboros_core",
        description="Exact speculative decoding, seen token by token.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        default=argparse.SUPPRESS,
        help="print version and commit",
    )
    parser.add_argument(
        "--debug", action="store_true", help="show where an unexpected error comes from"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in commands().items():
        text = summary(command)
        sub = subparsers.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.add(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all went well, 1 if the work failed, 2 for bad input, 3 if `bench` or
    `sweep` left questions out, 130 when interrupted."""
    accept_any_text()
    arguments = build_parser().parse_args(argv)
    arguments.argv = [as_utf8(word) for word in (sys.argv[1:] if argv is None else argv)]
    try:
        return int(arguments.run(arguments) or 0)
    except OuroborosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except UnicodeDecodeError as error:
        print(f"error: the input is not UTF-8 text: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}",
            file=sys.stderr,
        )
        return 1
    except Exception as error:
        if "--debug" in (argv or sys.argv):
            raise
        print(f"error: {type(error).__name__}: {error} (--debug shows where)", file=sys.stderr)
        return 1
