"""A training run: its student and teacher from a recipe, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from accelerate import Accelerator
from rich import progress as rich
from transformers import PreTrainedModel

from ouroboros_core.loading.weights import stop_tokens
from ouroboros_core.models.heads import class_in
from ouroboros_core.models.heads.recipes import Recipe
from ouroboros_core.training.corpus import Conversations
from ouroboros_core.training.loop import Progress, Trainer, output_vocabulary
from ouroboros_core.training.student import Student
from ouroboros_core.training.teacher import StoredTeacher, Teacher


def make_student(
    target: PreTrainedModel,
    sources: Sequence[Conversations],
    recipe: Recipe,
    answers: Path,
    accelerator: Accelerator,
    *,
    stored: bool = True,
) -> Student:
    """Return the untrained student of a recipe.

    answers  folder for the target's answers, if it computes on a CPU and they must be `stored`
    """
    student: type[Student] = class_in(f"ouroboros_core.training.{recipe.kind}", Student)
    torch.manual_seed(recipe.seed)
    share = f"process-{accelerator.process_index}" if accelerator.num_processes > 1 else "."
    options = student.teacher_options(recipe)
    teacher: Teacher
    if stored and target.device.type == "cpu":
        teacher = StoredTeacher(target, sources, answers / share, **options)
    else:
        teacher = Teacher(target, sources, **options)
    always = sorted(stop_tokens(target, None))
    outputs = output_vocabulary(teacher.data, recipe.outputs, target.config.vocab_size, always)
    return student(target, teacher, recipe, outputs)


def watch(trainer: Trainer, stop: Callable[[], bool]) -> bool:
    """Train with a progress bar, or on a pipe with a line at each checkpoint. Return whether the
    end was reached."""
    columns = (
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.description}"),
        rich.TimeRemainingColumn(),
    )
    points = len(trainer.progress.curve)
    with rich.Progress(
        *columns, disable=not trainer.accelerator.is_main_process or not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("tokens", total=1.0)
        bar.update(task, completed=trainer.share)

        def log(progress: Progress) -> None:
            nonlocal points
            agreement = (
                ", ".join(f"{a:.1%}" for a in progress.curve[-1]["agreement"])
                if progress.curve
                else "-"
            )
            text = f"{progress.tokens} tokens, loss {progress.recent:.3f}, agreement {agreement}"
            bar.update(task, completed=trainer.share, description=text)
            if len(progress.curve) > points and bar.disable and trainer.accelerator.is_main_process:
                print(f"{text}, {progress.seconds:.0f} s", flush=True)
            points = len(progress.curve)

        return trainer.train(log, stop)
