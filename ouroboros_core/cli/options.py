"""Options that several commands share: the models, the method and its settings, sampling."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import as_utf8, read_utf8
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Hyperparameters, Setting

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.models.grammar import Grammar


def subcommand(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """Add a subcommand; its list and its own help both describe it with the text, a phrase."""
    description = f"{text[0].upper()}{text[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=description, allow_abbrev=False
    )
    return parser


def add_pair(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    option = group.add_argument
    option(
        "--target",
        metavar="X",
        help="folder, GGUF file or Hub id of the target model (default: the embedded one)",
    )
    option("--draft", metavar="Y", help="the same for the draft model; 'none' for none")
    option(
        "--head",
        action="append",
        metavar="Z",
        help=(
            "folder or Hub id of an EAGLE head for the target, trained here or in the layout of "
            "SafeAILab, Speculators or SpecForge, or of a head of another kind (train); may be "
            "given once for each kind; 'none' for none"
        ),
    )
    option(
        "--corpus",
        metavar="FILE",
        help="file of texts to look things up in (command sam); 'none' for none",
    )
    option("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)")
    dtypes = ("auto", "bfloat16", "float16", "float32", "float64")
    option(
        "--dtype",
        default="auto",
        choices=dtypes,
        help="default: bfloat16 where the processor has it",
    )
    option(
        "--device-map",
        metavar="MAP",
        help="spread the target over devices: 'auto', by accelerate",
    )
    option(
        "--passes",
        default="auto",
        choices=("auto", "static", "transformers"),
        help=(
            "of the target: the fastest that gives the same, those in fixed shapes that a GPU "
            "replays as CUDA graphs (of the draft too), or transformers' own"
        ),
    )
    option(
        "--weights",
        default="bf16",
        choices=("auto", "bf16", "blocks"),
        help=(
            "what the native pass reads of a target from a GGUF file: bfloat16 (default), the "
            "file's own blocks (the same numbers in fewer bytes), or for each pass what is faster"
        ),
    )
    option(
        "--quantize",
        choices=("8bit", "4bit"),
        help="the target in 8 or 4 bits (bitsandbytes, on a GPU; untested)",
    )


def load_pair(arguments: argparse.Namespace) -> Pair:
    from ouroboros_core.loading import pairs

    return pairs.load_pair(
        arguments.target,
        arguments.draft,
        arguments.head,
        arguments.corpus,
        placement=pairs.Placement(
            arguments.device, arguments.dtype, arguments.device_map, arguments.quantize
        ),
        execution=pairs.Execution(
            arguments.passes, arguments.weights, getattr(arguments, "checks", True)
        ),
    )


def announce(arguments: argparse.Namespace) -> None:
    """Print which models `load_pair` loads."""
    names = [arguments.target or "the embedded models", arguments.draft, *(arguments.head or ())]
    notes().print(f"Loading {', '.join(filter(None, names))} …", markup=False)


def needed_method(pair: Pair) -> tuple[str, str] | None:
    """Return the method that the pair's draft needs, and the reason; None if no draft needs one."""
    if pair.foreign_draft is not None:
        method = methods.simplest_with(Need.TRANSLATED)
        return method, f"{pair.foreign}: {method} translates"
    if pair.block_draft is not None:
        method = methods.simplest_with(Need.BLOCK_DRAFT)
        return method, f"{pair.block_draft.name} drafts blocks: {method} uses it"
    return None


def default_method() -> str:
    """Return the default of the options that choose a method, in words."""
    foreign = methods.simplest_with(Need.TRANSLATED)
    return f"default: {methods.DEFAULT}; {foreign} with a draft of another tokenizer"


def _add_setting(group: Any, setting: Setting, text: str) -> None:
    """Add the flag of a setting, with a text for its help."""
    flag = "--" + setting.name.replace("_", "-")
    if setting.kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
    else:
        name = "LIST" if isinstance(setting.default, tuple) else setting.kind.__name__.upper()
        metavar = "|".join(setting.choices) or name
        group.add_argument(flag, default=None, metavar=metavar, help=text)


def _can_be_given(default: Any, low: float | None) -> bool:
    """Whether a default is a value that the flag takes: no list, and no number below its bound."""
    if isinstance(default, int | float):
        return low is None or default >= low
    return isinstance(default, str)


def add_settings(group: Any, kind: type[Hyperparameters]) -> None:
    for setting in kind.settings().values():
        text = setting.help.removesuffix(".")
        if _can_be_given(setting.default, setting.low):
            text += f" (default: {setting.default})"
        _add_setting(group, setting, text)


def flag_values(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of the flags that were set, by the names of their settings."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def add_method(parser: argparse.ArgumentParser) -> None:
    """Add --method and all methods' settings, each with the texts of all methods that
    have it; `read_method` checks which belong to the method."""
    ids = ", ".join(methods.available())
    parser.add_argument(
        "--method",
        metavar="ID",
        help=f"{ids} ({default_method()})",
    )
    parser.add_argument(
        "--preset",
        default="auto",
        metavar="NAME",
        help=(
            "auto: sized for this machine; published: as in the paper or its code; single settings "
            "can still be given (default: auto)"
        ),
    )
    group = parser.add_argument_group("settings of the method (defaults: see the command methods)")
    owners: dict[str, dict[str, list[str]]] = {}
    settings: dict[str, Setting] = {}
    for method in methods.available().values():
        for name, setting in method.Hyperparameters.settings().items():
            text = setting.help.removesuffix(".")
            owners.setdefault(name, {}).setdefault(text, []).append(method.id)
            settings.setdefault(name, setting)
    for name, setting in settings.items():
        texts = (f"{text} [{', '.join(ids)}]" for text, ids in owners[name].items())
        _add_setting(group, setting, "; ".join(texts))


def read_method(arguments: argparse.Namespace) -> Hyperparameters:
    """The validated settings of the chosen method; a setting of another method is refused."""
    method = methods.get(arguments.method)
    names = {name for m in methods.available().values() for name in m.Hyperparameters.settings()}
    values = flag_values(arguments, names)
    allowed = method.Hyperparameters.settings()
    for name in sorted(values.keys() - allowed.keys()):
        raise InvalidInput(
            f"{name} is not a setting of {method.id}; its settings are "
            f"{', '.join(allowed) or 'none'}"
        )
    return method.Hyperparameters.parse(methods.preset(method, arguments.preset) | values)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    add_settings(parser.add_argument_group("sampling"), Sampling)


def add_generation_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--generation-config",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=(
            "apply the penalties, bans and lengths of the target's generation_config.json, as "
            "transformers does (default: yes)"
        ),
    )


def add_grammar(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "grammar", "the text follows it, and tokens that it forces are drafts (needs llguidance)"
    ).add_mutually_exclusive_group()
    option = group.add_argument
    option("--json-schema", type=Path, metavar="FILE", help="the text is JSON that fits the schema")
    option("--regex", metavar="PATTERN", help="the whole text matches the pattern")
    option("--choices", nargs="+", metavar="TEXT", help="the text is one of these, as written")


def read_grammar(arguments: argparse.Namespace) -> Grammar | None:
    """Return the grammar that was asked for, or None."""
    from ouroboros_core.models.grammar import Grammar

    if arguments.json_schema:
        return Grammar("json-schema", read_utf8(arguments.json_schema))
    if arguments.regex is not None:
        return Grammar("regex", arguments.regex)
    if arguments.choices:
        return Grammar("choices", json.dumps(arguments.choices, ensure_ascii=False))
    return None


def read_sampling(arguments: argparse.Namespace) -> Sampling:
    return Sampling.parse(flag_values(arguments, Sampling.settings()))


def whole_number(text: str, name: str, low: int) -> int:
    """A whole number of at least `low`, or InvalidInput."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise InvalidInput(f"{name} must be a whole number of at least {low}, got {text}")
    return value


def text(value: str) -> str:
    """The type of an argument that is text, also where the locale's encoding is ASCII."""
    decoded = as_utf8(value)
    if decoded.count("\ufffd") > value.count("\ufffd"):
        wrong = next(ord(letter) - 0xDC00 for letter in value if "\udc80" <= letter <= "\udcff")
        raise argparse.ArgumentTypeError(
            f"the text has bytes that are no UTF-8, the first of them 0x{wrong:02X}: set the "
            "terminal to UTF-8 and write it again"
        )
    return decoded


def notes() -> Console:
    """Return standard error for notes; outside a terminal lines stay whole."""
    from rich.console import Console

    return Console(highlight=False, stderr=True, soft_wrap=not sys.stderr.isatty())
