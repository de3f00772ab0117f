"""What can be asked of a training in the terminal, and the recipe that it makes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.cli import options, skipping
from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import allowed

if TYPE_CHECKING:
    from ouroboros_core.training.loop import Recipe


def add(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    data = what.add_parser("data", help="let the target write conversations", allow_abbrev=False)
    data.add_argument(
        "--out",
        required=True,
        type=Path,
        metavar="DIR",
        help="folder for the files of conversations",
    )
    data.add_argument(
        "--tokens", default="500000", metavar="N", help="answer tokens to write (default: 500000)"
    )
    data.add_argument(
        "--answer-tokens", default="136", metavar="N", help="longest answer (default: 136)"
    )
    data.add_argument(
        "--pieces",
        nargs="*",
        type=Path,
        default=[],
        metavar="FILE",
        help="conversations to make articles of",
    )
    data.add_argument(
        "--passages",
        nargs="*",
        type=Path,
        default=[],
        metavar="FILE",
        help="texts in paragraphs to make articles of",
    )
    data.add_argument(
        "--foreign",
        nargs="*",
        default=[],
        metavar="LANGUAGE=FILE",
        help="texts in paragraphs to translate",
    )
    data.add_argument("--kinds", metavar="LIST", help="only these kinds of tasks (default: all)")
    data.add_argument(
        "--batch", default="96", metavar="N", help="texts written side by side (default: 96)"
    )
    _add_common(data)
    for name, (text, add_own) in TRAINED.items():
        sub = what.add_parser(name, help=text, allow_abbrev=False)
        _add_training(sub)
        add_own(sub)
        _add_common(sub)
    skip = what.add_parser(
        "skip", help="search for the layers to skip in draft_verify", allow_abbrev=False
    )
    skipping.add(skip)
    export = what.add_parser(
        "export", help="write a draft that any program can load", allow_abbrev=False
    )
    export.add_argument(
        "--draft", metavar="DIR", help="the trained draft (default: the embedded one)"
    )
    export.add_argument("--out", required=True, type=Path, metavar="DIR", help="a new folder")
    export.add_argument(
        "--target", metavar="X", help="the draft's target (default: the embedded one)"
    )


def _add_training(sub: argparse.ArgumentParser) -> None:
    """What every training has."""
    sub.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the result")
    sub.add_argument(
        "--data",
        nargs="*",
        default=[],
        type=Path,
        metavar="PATH",
        help="files or folders of conversations",
    )
    sub.add_argument(
        "--texts",
        nargs="*",
        default=[],
        type=Path,
        metavar="FILE",
        help="plain texts to learn from, too",
    )
    sub.add_argument(
        "--work", type=Path, metavar="DIR", help="folder of the checkpoint (default: OUT.work)"
    )
    sub.add_argument(
        "--teacher",
        type=Path,
        metavar="DIR",
        help="where the target's answers are kept (default: in --work)",
    )
    sub.add_argument(
        "--start",
        type=Path,
        metavar="DIR",
        help="go on from a finished one of the same shape (parallel: or from an EAGLE head)",
    )
    sub.add_argument(
        "--tokens",
        metavar="N",
        help="answer tokens to train on, all epochs together (default: 5000000)",
    )
    sub.add_argument(
        "--outputs",
        metavar="N",
        help="output vocabulary: so many of the most frequent tokens, 0 for all",
    )
    sub.add_argument(
        "--within",
        metavar="N",
        help="train for at most so many minutes, the learning rate at zero in the end",
    )
    sub.add_argument("--batch-tokens", metavar="N", help="tokens of a batch (default: 2048)")
    sub.add_argument(
        "--held-out", metavar="N", help="conversations kept for measuring (default: 64)"
    )
    sub.add_argument(
        "--note", type=options.text, metavar="TEXT", help="what the texts are, for the card"
    )
    sub.add_argument(
        "--license",
        metavar="NAME",
        help="for the card, such as apache-2.0 (default: that of the target)",
    )
    sub.add_argument(
        "--learning-rate", metavar="R", help="default: 0.0008 for a draft, 0.001 for a head"
    )


def _add_draft(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--layers", help="how many, or which of the target's to begin with (default: 4)"
    )
    sub.add_argument(
        "--hidden",
        default="0",
        metavar="N",
        help="a narrower model of this width (default: the target's)",
    )


def _add_bits(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--bits",
        type=int,
        choices=(8, 16),
        default=16,
        help="store matrices in 8 bits a weight, half the size (default: 16, bfloat16)",
    )


def _add_eagle(sub: argparse.ArgumentParser) -> None:
    _add_bits(sub)
    sub.add_argument(
        "--steps",
        metavar="N",
        help="how far the head learns to go on from its own guesses (default: 2)",
    )
    sub.add_argument(
        "--depths",
        metavar="LIST",
        help="layers behind which the target's states are read, too, such as 10,20",
    )
    sub.add_argument(
        "--feature-weight",
        metavar="R",
        help="of the loss on features, beside that on tokens (default: 0.2)",
    )
    sub.add_argument(
        "--noise",
        metavar="R",
        help="on the target's features, as a share of their size (default: 0.1)",
    )


def _add_medusa(sub: argparse.ArgumentParser) -> None:
    _add_bits(sub)
    sub.add_argument(
        "--heads", metavar="N", help="how many places are guessed, one head each (default: 5)"
    )


def _add_glide(sub: argparse.ArgumentParser) -> None:
    _add_bits(sub)
    sub.add_argument(
        "--block", metavar="N", help="tokens of a draft that are learned together (default: 5)"
    )


def _add_parallel(sub: argparse.ArgumentParser) -> None:
    _add_bits(sub)
    sub.add_argument(
        "--group", metavar="N", help="tokens that are drafted in one pass (default: 4)"
    )


TRAINED: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "draft": ("distil a small draft model", _add_draft),
    "eagle": ("train an EAGLE head", _add_eagle),
    "medusa": ("train Medusa heads", _add_medusa),
    "glide": ("train a draft that reads the target's keys and values (GliDe)", _add_glide),
    "parallel": ("train a drafter of several tokens in one pass", _add_parallel),
}
"""What can be trained: the help, and what adds the options of its own."""


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        metavar="X",
        help="folder, GGUF file or Hub id of the target (default: the embedded one)",
    )
    parser.add_argument("--minutes", metavar="N", help="stop after so many; --resume goes on")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run stopped")
    parser.add_argument("--seed", default="0", metavar="N", help="default: 0")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    dtypes = ("auto", "bfloat16", "float16", "float32")
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=dtypes,
        help="of the target (default: bfloat16 where there is some)",
    )


def recipe(
    arguments: argparse.Namespace, target: str, data: tuple[str, ...], digest: str, depth: int
) -> Recipe:
    """The recipe that was asked for; raises InvalidInput. depth: the target's layers."""
    from ouroboros_core.training.draft import DraftRecipe, choose_layers
    from ouroboros_core.training.eagle import EagleRecipe
    from ouroboros_core.training.glide import GlideRecipe
    from ouroboros_core.training.medusa import MedusaRecipe
    from ouroboros_core.training.parallel import ParallelRecipe

    low = {"tokens": 1, "outputs": 0, "batch_tokens": 16, "held_out": 1, "steps": 1}
    low |= {"heads": 1, "block": 1, "group": 2}
    given: dict[str, Any] = {
        name: options.whole_number(getattr(arguments, name), name, at_least)
        for name, at_least in low.items()
        if getattr(arguments, name, None) is not None
    }
    if arguments.within is not None:
        given["within"] = options.whole_number(arguments.within, "within", 1)
    if arguments.learning_rate is not None:
        given["learning_rate"] = _rate(arguments.learning_rate)
    given |= {
        "digest": digest,
        "seed": options.whole_number(arguments.seed, "seed", 0),
        "start": arguments.start.name if arguments.start else "",
    }
    if arguments.what == "eagle":
        for name in ("feature_weight", "noise"):
            if getattr(arguments, name) is not None:
                given[name] = _weight(getattr(arguments, name), name)
        if arguments.depths:
            given["depths"] = _depths(arguments.depths, depth)
        return EagleRecipe(target, data, **given)
    if arguments.what == "medusa":
        return MedusaRecipe(target, data, **given)
    if arguments.what == "glide":
        return GlideRecipe(target, data, **given)
    if arguments.what == "parallel":
        return ParallelRecipe(target, data, **given)
    hidden = options.whole_number(arguments.hidden, "hidden", 0)
    return DraftRecipe(
        target,
        data,
        layers=choose_layers(arguments.layers or str(min(4, depth)), depth),
        hidden=hidden,
        **given,
    )


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _rate(text: str) -> float:
    value = _float(text)
    if not 0 < value <= 1:
        raise InvalidInput(f"learning_rate must be above 0 and at most 1, got {text}")
    return value


def _weight(text: str, name: str) -> float:
    value = _float(text)
    if not 0 <= value <= 100:
        raise InvalidInput(f"{name} must be a number from 0 to 100, got {text}")
    return value


def _depths(text: str, layers: int) -> tuple[int, ...]:
    """The layers meant by `10,20`, ascending."""
    parts = [part.strip() for part in text.split(",")]
    numbers = {int(part) for part in parts if part.isdecimal()}
    if len(numbers) < len(parts) or not all(0 < number < layers for number in numbers):
        numbers_of = allowed(1, layers - 1, "left out, because the target has a single layer")
        raise InvalidInput(
            f"depths, different numbers of layers with commas between them, must be {numbers_of}, "
            f"got {text}"
        )
    return tuple(sorted(numbers))
