"""Serve the page in the browser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.allowed import PairChoice, read_pairs
from ouroboros_core.locations import assets

MAX_QUEUE = 20
"""The number of runs that may wait; further ones are refused."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        default=os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1",
        help="default: 127.0.0.1",
    )
    port = os.environ.get("GRADIO_SERVER_PORT") or os.environ.get("PORT") or "7860"
    parser.add_argument("--port", type=int, default=port, help="default: 7860")
    public = (
        "pairs from a list only, and an hour's budget for every visitor (default: where SPACE_ID "
        "is set)"
    )
    parser.add_argument(
        "--public", action="store_true", default=bool(os.environ.get("SPACE_ID")), help=public
    )
    parser.add_argument(
        "--pairs",
        metavar="FILE",
        default=_listed(),
        help="JSON list of the pairs that visitors may choose",
    )
    parser.add_argument(
        "--offline", action="store_true", help="ask no package index and no model hub for anything"
    )
    parser.add_argument(
        "--max-queue",
        default=str(MAX_QUEUE),
        metavar="N",
        help=f"runs that may wait (default: {MAX_QUEUE})",
    )
    options.add_pair(parser)


def _listed() -> str | None:
    """The list of pairs without a flag: OUROBOROS_PAIRS, or on Spaces the file of the Space."""
    pairs_file = assets().parent / "pairs.json"
    pairs_path = str(pairs_file) if os.environ.get("SPACE_ID") and pairs_file.exists() else None
    return os.environ.get("OUROBOROS_PAIRS") or pairs_path


def run(arguments: argparse.Namespace) -> None:
    max_queue = options.whole_number(arguments.max_queue, "max_queue", 1)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if arguments.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # is read when the packages below are imported
    from visualize import launch

    checks = not launch.LENT
    choices = offered(arguments)
    own_machine = launch.is_loopback(arguments.host) and not (arguments.public or launch.LENT)
    if own_machine and not arguments.pairs:
        choices = [*choices, *shipped()]
    launch.launch(
        partial(_load, arguments, checks),
        choices,
        host=arguments.host,
        port=arguments.port,
        public=arguments.public,
        max_queue=max_queue,
    )


def offered(arguments: argparse.Namespace) -> Sequence[PairChoice]:
    """Return the pairs that visitors may choose; raises InvalidInput."""
    from visualize.server.models import EMBEDDED

    named = [getattr(arguments, name) for name in ("target", "draft", "head", "corpus")]
    if not arguments.pairs:
        name = " + ".join(filter(None, named[:2])) if arguments.target else EMBEDDED
        models = dict(zip(("target", "draft", "head", "corpus"), named, strict=True))
        return [PairChoice(name=name[:200], **models)]
    if any(named):
        raise InvalidInput(
            f"--pairs {arguments.pairs} lists the models: leave --target, --draft, --head and "
            "--corpus out"
        )
    return read_pairs(Path(arguments.pairs))


def shipped() -> list[PairChoice]:
    """Return the pairs of `assets/pairs` that fit into memory, but for the embedded one."""
    from psutil import virtual_memory

    pairs = {
        choice.name: choice
        for file in sorted((assets() / "pairs").glob("*.json"))
        for choice in read_pairs(file)
        if choice.target and (choice.size or 0) < virtual_memory().total
    }
    return list(pairs.values())


def _load(arguments: argparse.Namespace, checks: bool, choice: PairChoice) -> Any:
    models = choice.model_dump(exclude={"name", "size"})
    return options.load_pair(argparse.Namespace(**{**vars(arguments), **models, "checks": checks}))
