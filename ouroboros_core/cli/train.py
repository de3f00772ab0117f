"""Train drafts for a target: write its texts, distil a draft model, train heads on its states,
export.

`accelerate launch --multi_gpu -m ouroboros_core train ...`, or torchrun, spreads a training over
several GPUs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import as_utf8, read_utf8
from ouroboros_core.models.heads.recipes import RECIPES, HeadRecipe, Recipe
from ouroboros_core.settings import Hyperparameters

if TYPE_CHECKING:
    import torch

    from ouroboros_core.training.corpus import Conversations
    from ouroboros_core.training.folder import Circumstances


class DataSettings(Hyperparameters):
    """Settings of `train data`."""

    tokens: int = Field(500_000, ge=1, description="Answer tokens to write.")
    answer_tokens: int = Field(136, ge=2, description="Longest answer.")
    batch: int = Field(96, ge=4, description="Texts written side by side.")
    seed: int = Field(0, ge=0, description="Seed of the texts.")


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    _add_data(commands)
    for kind, recipe in RECIPES.items():
        _add_training(options.subcommand(commands, kind, recipe.task), recipe)
    _add_export(commands)


def _add_data(commands: Any) -> None:
    data = options.subcommand(commands, "data", "let the target write conversations")
    option = data.add_argument
    option("--out", required=True, type=Path, metavar="DIR", help="folder for the conversations")
    for flag, kind, metavar, text in (
        ("--pieces", Path, "FILE", "conversations to make articles of"),
        ("--passages", Path, "FILE", "texts in paragraphs to make articles of"),
        ("--foreign", str, "LANGUAGE=FILE", "texts in paragraphs to translate"),
    ):
        option(flag, nargs="*", type=kind, default=[], metavar=metavar, help=text)
    option("--kinds", metavar="LIST", help="only these kinds of tasks (default: all)")
    options.add_settings(data, DataSettings)
    _add_common(data)


def _add_training(parser: argparse.ArgumentParser, recipe: type[Recipe]) -> None:
    option = parser.add_argument
    option("--out", required=True, type=Path, metavar="DIR", help="folder for the result")
    for flag, metavar, text in (
        ("--data", "PATH", "files or folders of conversations"),
        ("--texts", "FILE", "plain texts to learn from as well"),
    ):
        option(flag, nargs="*", type=Path, default=[], metavar=metavar, help=text)
    for flag, text in (
        ("--work", "folder of the checkpoint (default: OUT.work)"),
        ("--teacher", "folder for the target's answers (default: in --work)"),
        ("--start", f"finished weights of the same shape to begin with{recipe.also_starts_from}"),
    ):
        option(flag, type=Path, metavar="DIR", help=text)
    option("--note", type=options.text, metavar="TEXT", help="what the texts are, for the card")
    option(
        "--license",
        metavar="NAME",
        help="for the card, such as apache-2.0 (default: that of the target)",
    )
    if issubclass(recipe, HeadRecipe):
        option(
            "--bits",
            type=int,
            choices=(8, 16),
            default=16,
            help="store matrices in 8 bits a weight, half the size (default: 16, bfloat16)",
        )
    options.add_settings(parser, recipe)
    _add_common(parser)


def _add_export(commands: Any) -> None:
    export = options.subcommand(commands, "export", "write a draft that any program can load")
    option = export.add_argument
    option("--draft", metavar="DIR", help="the trained draft (default: the embedded one)")
    option("--out", required=True, type=Path, metavar="DIR", help="a new folder")
    option("--target", metavar="X", help="the draft's target (default: the embedded one)")


def _add_common(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option(
        "--target",
        metavar="X",
        help="folder, GGUF file or Hub id of the target (default: the embedded one)",
    )
    option("--minutes", metavar="N", help="stop after N minutes; --resume goes on")
    option("--resume", action="store_true", help="go on where an earlier run stopped")
    option("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    option(
        "--dtype",
        default="auto",
        choices=("auto", "bfloat16", "float16", "float32"),
        help="of the target (default: bfloat16 where there is some)",
    )


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.models.engines.static import plan_no_attention

    plan_no_attention()  # a step took six times as long with it, see docs/training.md
    commands = {"data": _data, "export": _export}
    commands.get(arguments.what, _train)(arguments)


def _stopper(arguments: argparse.Namespace) -> Any:
    if arguments.minutes is None:
        return lambda: False
    end = time.monotonic() + 60 * options.whole_number(arguments.minutes, "minutes", 1)
    return lambda: time.monotonic() > end


def _data(arguments: argparse.Namespace) -> None:
    from rich.progress import Progress

    from ouroboros_core.loading import pairs
    from ouroboros_core.progress import columns
    from ouroboros_core.training.corpus import Conversations
    from ouroboros_core.training.write import Author, Library, choose_kinds
    from ouroboros_core.training.writer import Writer

    kinds = choose_kinds(arguments.kinds)
    library = Library.read(arguments.passages, arguments.foreign)
    settings = DataSettings.parse(options.flag_values(arguments, DataSettings.settings()))
    stop = _stopper(arguments)
    earlier_files = sorted(arguments.out.glob("*.npz")) if arguments.out.is_dir() else []
    if earlier_files and not arguments.resume:
        raise InvalidInput(
            f"{arguments.out} has conversations already: go on with --resume, or take another --out"
        )
    pieces = Conversations.load(arguments.pieces) if arguments.pieces else None
    arguments.out.mkdir(parents=True, exist_ok=True)
    target, tokenizer = pairs.load_target(
        arguments.target, pairs.Placement(arguments.device, arguments.dtype)
    )
    writer = Writer(target.model, tokenizer)
    author = Author(writer, settings.seed, settings.answer_tokens, kinds, library, settings.batch)
    if pieces is not None:
        author.remember(pieces)
    done, first = 0, 0
    for path in earlier_files:
        earlier = Conversations.load([path])
        number, _, kind = path.stem.partition("-")
        if kind in {k.name for k in kinds if k.longest}:
            author.remember(earlier)
        first = int(number) + 1
        done += int(earlier.written.sum())
    with Progress(*columns(), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("answer tokens", total=settings.tokens, completed=done)
        for number, kind, conversations in author.batches(first) if done < settings.tokens else ():
            conversations.save(arguments.out / f"{number:05d}-{kind}.npz")
            done += int(conversations.written.sum())
            bar.update(task, completed=done, description=f"answer tokens ({kind})")
            if done >= settings.tokens or stop():
                break
    print(f"{done} answer tokens in {arguments.out}")


def _texts(texts: list[str], tokenizer: Any) -> Conversations:
    from ouroboros_core.loading.chat_template import ChatTemplate
    from ouroboros_core.training.corpus import plain_texts

    template = ChatTemplate(tokenizer)  # a control token in a text is text
    return plain_texts([template.as_text(text) for text in texts])


def _train(arguments: argparse.Namespace) -> None:
    from accelerate import Accelerator

    from ouroboros_core.loading import pairs
    from ouroboros_core.training.corpus import Conversations, files, join
    from ouroboros_core.training.folder import save
    from ouroboros_core.training.loop import Trainer
    from ouroboros_core.training.session import make_student, watch

    stop = _stopper(arguments)
    if not arguments.data and not arguments.texts:
        raise InvalidInput(
            "there is nothing to train on: name conversations with --data; `train data` makes some"
        )
    sources = [Conversations.load([path]) for path in files(arguments.data)]
    texts = [read_utf8(path) for path in arguments.texts]
    if (
        not arguments.resume
        and arguments.out.exists()
        and (not arguments.out.is_dir() or any(arguments.out.iterdir()))
    ):
        raise InvalidInput(
            f"{arguments.out} is there already: go on with --resume, or take another --out"
        )
    accelerator = Accelerator(cpu=arguments.device == "cpu")
    device = arguments.device if arguments.device != "auto" else str(accelerator.device)
    target, tokenizer = pairs.load_target(
        arguments.target, pairs.Placement(device, arguments.dtype)
    )
    if texts:
        sources.append(_texts(texts, tokenizer))
    data = join(sources)
    if data.tokens.max() >= target.vocabulary:
        raise InvalidInput(
            f"the conversations hold token id {data.tokens.max()}, beyond the vocabulary of "
            f"{target.name}, 0 to "
            f"{target.vocabulary - 1}: they were written with another tokenizer"
        )
    if data.idle and accelerator.is_main_process:
        print(
            f"there is nothing to learn: {data.idle}; train on longer or other answers",
            file=sys.stderr,
        )
    work = arguments.work or Path(f"{arguments.out}.work")
    recipe = _recipe(arguments, target.name, data.digest, target.layers)
    student = make_student(
        target.model, sources, recipe, arguments.teacher or work / "teacher", accelerator
    )
    trainer = Trainer(student, data, recipe, work, accelerator)
    if trainer.checkpoint.exists():
        if not arguments.resume:
            raise InvalidInput(
                f"{trainer.checkpoint} is there already: go on with --resume, or take another --out"
            )
        trainer.resume()
    elif arguments.start:
        student.start_from(arguments.start)
    else:
        student.prepare()
    done = watch(trainer, stop)
    trainer.finish()
    if accelerator.is_main_process:
        circumstances = _circumstances(arguments, target.device)
        save(student, arguments.out, recipe, trainer.progress, circumstances)
        last = trainer.progress.curve[-1]
        agreement = ", ".join(f"{a:.1%}" for a in last["agreement"])
        print(
            f"{last['tokens']} tokens, held-out agreement {agreement}: "
            f"{arguments.out}{'' if done else ' (go on with --resume)'}"
        )


def _recipe(arguments: argparse.Namespace, target: str, digest: str, layers: int) -> Recipe:
    """Return the recipe that the flags ask for; raises InvalidInput. layers: of the target."""
    kind = RECIPES[arguments.what]
    names = sorted({as_utf8(path.resolve().name) for path in (*arguments.data, *arguments.texts)})
    facts = {
        "target": target,
        "data": tuple(names),
        "digest": digest,
        "start": arguments.start.name if arguments.start else "",
    }
    return kind.read(options.flag_values(arguments, kind.settings()) | facts, layers)


def _bare(word: str) -> str:
    """Return a word of a command without the folders of a path."""
    flag, equals, value = word.partition("=")
    if equals and "/" in value:
        return f"{flag}={Path(value).name}"
    return Path(word).name if "/" in word else word


def _circumstances(arguments: argparse.Namespace, device: torch.device) -> Circumstances:
    import platform

    import torch
    import transformers

    from ouroboros_core.loading.machine import device_name, processor
    from ouroboros_core.training.folder import Circumstances, earlier

    machine = f"{processor()}, {torch.get_num_threads()} threads"
    if device.type == "cuda":
        machine = device_name(device)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    versions += f", Python {platform.python_version()}"
    words = ["python", "-m", "ouroboros_core", *map(_bare, arguments.argv)]
    if "--note" in words:  # the card has the note
        del words[words.index("--note") : words.index("--note") + 2]
    note = arguments.note or ("plain texts, too" if arguments.texts else "")
    before, bits = earlier(arguments.start), getattr(arguments, "bits", 16)
    return Circumstances(words, machine, versions, before, note, arguments.license, bits)


def _export(arguments: argparse.Namespace) -> None:
    from ouroboros_core.loading import pairs

    if arguments.out.exists() and any(arguments.out.iterdir()):
        raise InvalidInput(f"{arguments.out} is not empty: name a new folder")
    pair = pairs.load_pair(
        arguments.target, arguments.draft, "none", placement=pairs.Placement("cpu", "bfloat16")
    )
    if pair.draft is None:
        raise InvalidInput("there is no draft to export: name one with --draft")
    model = pair.draft.model
    model.generation_config = pair.target.model.generation_config
    model.save_pretrained(arguments.out)
    pair.tokenizer.save_pretrained(arguments.out)
    print(f"{pair.draft.name} as a model of its own: {arguments.out}")
