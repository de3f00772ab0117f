"""The training loop of all drafts: warm up, stay, cool down. A run that resumes from a checkpoint
ends like an unbroken run.

One process trains, or several under accelerate or torchrun: each takes its share of the batches,
and gradients are averaged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.models.heads.recipes import Recipe
from ouroboros_core.training.corpus import Conversations, Ids
from ouroboros_core.training.student import Student

CHECKPOINT_STEPS = 100


@dataclass
class Progress:
    """The progress of a run.

    done    batches of the epoch that were learned
    recent  smoothed loss in nats
    curve   a point for each checkpoint: tokens, loss in nats, agreement by step, seconds
    """

    step: int = 0
    tokens: int = 0
    epoch: int = 0
    done: int = 0
    recent: float = 0.0
    seconds: float = 0.0
    curve: list[dict[str, Any]] = field(default_factory=list)


def output_vocabulary(
    data: Conversations, count: int, vocabulary: int, always: Sequence[int] = ()
) -> list[int]:
    """Return the `count` token ids that the target writes most often, with the ids of `always`; for
    0 all ids."""
    if not count or count >= vocabulary:
        return list(range(vocabulary))
    frequency = np.bincount(data.tokens[data.written], minlength=vocabulary)
    frequency[list(always)] = frequency.max() + 1
    return sorted(np.argsort(-frequency, kind="stable")[:count].tolist())


def spent(recipe: Recipe, tokens: int, seconds: float) -> float:
    """Return the share of a training that is over: of its tokens, or of its minutes if that is
    more."""
    share = tokens / recipe.tokens
    return max(share, seconds / (60 * recipe.within)) if recipe.within else share


def learning_rate(recipe: Recipe, step: int, share: float) -> float:
    """Return the learning rate of a step: it rises, stays, and falls linearly to zero.

    share: of the training that is over.
    """
    left = (1 - share) / recipe.cooldown if recipe.cooldown else 1.0
    return recipe.learning_rate * min(1.0, (step + 1) / max(1, recipe.warmup_steps), max(0.0, left))


class Trainer:
    """Trains a student on conversations."""

    def __init__(
        self,
        student: Student,
        data: Conversations,
        recipe: Recipe,
        work: Path,
        accelerator: Accelerator,
    ) -> None:
        """work: folder of the checkpoint."""
        self.student, self.data, self.recipe = student, data, recipe
        self.work, self.accelerator = work, accelerator
        self.parameters = [p for p in student.module.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self.progress = Progress()
        self.indices, self.held_out = data.split(recipe.held_out, recipe.seed)

    @property
    def _conditions(self) -> dict[str, Any]:
        """The recipe and the number of processes, which a resumed run must share."""
        return {**self.recipe.record, "processes": self.accelerator.num_processes}

    @property
    def checkpoint(self) -> Path:
        return self.work / "checkpoint.pt"

    def resume(self) -> None:
        """Resume from the checkpoint. Raises InvalidInput if it comes from another recipe."""
        saved = torch.load(self.checkpoint, weights_only=True, map_location="cpu")
        conditions = self._conditions
        for name, value in saved["recipe"].items():
            if conditions.get(name) != value:
                raise InvalidInput(
                    f"the checkpoint in {self.work} was trained with {name} {value}, not "
                    f"{conditions.get(name)}: resume with the same, "
                    f"or take another --out"
                )
        self.student.module.load_state_dict(saved["student"], strict=False)
        self.optimiser.load_state_dict(saved["optimiser"])
        self.progress = Progress(**saved["progress"])

    def train(
        self,
        log: Callable[[Progress], None] = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train to the end of the recipe, and return whether it was reached. `stop` is called at
        every checkpoint, `log` after every step."""
        self.work.mkdir(parents=True, exist_ok=True)
        recipe, progress, shares = self.recipe, self.progress, self.accelerator.num_processes
        self._began, resumed = time.perf_counter() - progress.seconds, progress.step
        while self.share < 1:
            groups = self.data.epoch(self.indices, recipe.batch_tokens, recipe.seed, progress.epoch)
            groups = (
                groups[: max(1, len(groups) // shares) * shares]
                if len(groups) >= shares
                else groups * shares
            )
            for start in range(progress.done, len(groups) - shares + 1, shares):
                self._step(groups[start + self.accelerator.process_index])
                progress.done = start + shares
                if self.share >= 1:
                    break
                if progress.step % CHECKPOINT_STEPS == 0:
                    self._note()
                    if self._somebody(stop()):
                        return False
                log(progress)
            else:
                progress.epoch, progress.done = progress.epoch + 1, 0
        if progress.step > resumed:
            self._note()
        log(progress)
        return True

    def finish(self) -> None:
        """Let the student measure on the held-out conversations."""
        batches = self.data.batches(self.held_out, self.recipe.batch_tokens)
        self.student.calibrate(batches)

    @property
    def share(self) -> float:
        """The share of the training that is over."""
        return spent(self.recipe, self.progress.tokens, self.progress.seconds)

    def _somebody(self, wants: bool) -> bool:
        """Whether any process wants to stop. All processes ask at the same step."""
        if self.accelerator.num_processes == 1:
            return wants
        return bool(
            self.accelerator.reduce(
                torch.tensor(float(wants), device=self.accelerator.device), "sum"
            ).item()
        )

    def _step(self, group: Ids) -> None:
        recipe, progress = self.recipe, self.progress
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = learning_rate(recipe, progress.step, self.share)
        rng = np.random.default_rng([recipe.seed, progress.step, self.accelerator.process_index])
        loss, count = self.student.loss(group, rng)
        torch.autograd.backward(loss)
        numbers = loss.item(), float(count), time.perf_counter() - self._began
        facts = torch.tensor(numbers, dtype=torch.float64)
        if self.accelerator.num_processes > 1:
            for parameter in self.parameters:
                assert parameter.grad is not None
                parameter.grad = self.accelerator.reduce(parameter.grad, "mean")
            facts = self.accelerator.reduce(
                facts.to(self.accelerator.device, torch.float32), "sum"
            ).cpu()
            facts[[0, 2]] /= self.accelerator.num_processes
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        progress.step, progress.tokens = progress.step + 1, progress.tokens + int(facts[1])
        progress.seconds = float(facts[2])
        progress.recent = (
            float(facts[0])
            if progress.step == 1
            else 0.95 * progress.recent + 0.05 * float(facts[0])
        )

    def _note(self) -> None:
        """Measure on the held-out conversations, and write the checkpoint."""
        counts = [
            self.student.agreement(group)
            for group in self.data.batches(self.held_out, self.recipe.batch_tokens)
        ]
        shares = [
            sum(c[n][0] for c in counts) / max(1, sum(c[n][1] for c in counts))
            for n in range(len(counts[0]))
        ]
        point = {
            "tokens": self.progress.tokens,
            "loss": round(self.progress.recent, 4),
            "agreement": [round(s, 4) for s in shares],
        }
        self.progress.curve.append({**point, "seconds": round(self.progress.seconds, 1)})
        if not self.accelerator.is_main_process:
            return
        trained = {name for name, p in self.student.module.named_parameters() if p.requires_grad}
        state = {
            name: value
            for name, value in self.student.module.state_dict().items()
            if name in trained
        }
        saved = {
            "student": state,
            "optimiser": self.optimiser.state_dict(),
            "recipe": self._conditions,
        }
        saved["progress"] = asdict(self.progress)
        write_atomically(self.checkpoint, lambda file: torch.save(saved, file))
