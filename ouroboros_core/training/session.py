"""A training run put together from its recipe, and watched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from accelerate import Accelerator
from rich import progress as rich
from transformers import PreTrainedModel

from ouroboros_core.loading.weights import stop_tokens
from ouroboros_core.training.corpus import Conversations
from ouroboros_core.training.draft import DraftRecipe, DraftStudent
from ouroboros_core.training.eagle import EagleRecipe, EagleStudent
from ouroboros_core.training.loop import Progress, Recipe, Trainer, output_vocabulary
from ouroboros_core.training.teacher import StoredTeacher, Teacher


def make_student(
    target: PreTrainedModel,
    sources: Sequence[Conversations],
    recipe: Recipe,
    answers: Path,
    accelerator: Accelerator,
) -> DraftStudent | EagleStudent:
    """The student of a recipe, not yet trained; `answers` is the folder where the target's are
    kept, if it computes on a CPU."""
    torch.manual_seed(recipe.seed)
    share = f"process-{accelerator.process_index}" if accelerator.num_processes > 1 else "."
    features = isinstance(recipe, EagleRecipe)
    depths = recipe.depths if isinstance(recipe, EagleRecipe) else ()
    teacher: Teacher
    if target.device.type == "cpu":
        teacher = StoredTeacher(target, sources, answers / share, features=features, depths=depths)
    else:
        teacher = Teacher(target, sources, features=features, depths=depths)
    always = sorted(stop_tokens(target, None))
    outputs = output_vocabulary(teacher.data, recipe.outputs, target.config.vocab_size, always)
    if isinstance(recipe, DraftRecipe):
        return DraftStudent(target, teacher, recipe, outputs)
    assert isinstance(recipe, EagleRecipe)
    return EagleStudent(target, teacher, recipe, outputs)


def watch(trainer: Trainer, stop: Callable[[], bool]) -> bool:
    """Train with a progress bar; on a pipe a line at each checkpoint instead. Whether the end was
    reached."""
    columns = (
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.description}"),
        rich.TimeRemainingColumn(),
    )
    seen = len(trainer.progress.curve)
    with rich.Progress(
        *columns, disable=not trainer.accelerator.is_main_process or not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(
            "tokens", total=trainer.recipe.tokens, completed=trainer.progress.tokens
        )

        def log(progress: Progress) -> None:
            nonlocal seen
            shown = (
                ", ".join(f"{a:.1%}" for a in progress.curve[-1]["agreement"])
                if progress.curve
                else "-"
            )
            text = f"tokens, loss {progress.recent:.3f}, agreement {shown}"
            bar.update(task, completed=progress.tokens, description=text)
            if len(progress.curve) > seen and bar.disable and trainer.accelerator.is_main_process:
                print(f"{progress.tokens} {text}, {progress.seconds:.0f} s", flush=True)
            seen = len(progress.curve)

        return trainer.train(log, stop)
