"""The training loop of all drafts: warm up, stay, cool down; checkpoints from which a run goes on
as if never interrupted.

One process, or several under accelerate or torchrun: each takes its share of the batches, gradients
are averaged.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.training.corpus import Conversations, Ids

CHECKPOINT_STEPS = 100


@dataclass(frozen=True)
class Recipe:
    """What every draft's weights depend on; saved beside them.

    target         name of the target
    data           names of the files of conversations; digest: of their contents
    outputs        tokens of the trimmed output vocabulary; 0: the whole one
    tokens         answer tokens to train on, all epochs together
    batch_tokens   tokens of a batch, prompts and padding included
    within         minutes that training may take, if these are over first; 0: no limit
    cooldown       share of tokens or minutes over which the learning rate falls to zero at the end
    held_out       conversations kept for measuring
    """

    target: str
    data: tuple[str, ...]
    outputs: int = 12_288
    tokens: int = 5_000_000
    within: int = 0
    batch_tokens: int = 2048
    learning_rate: float = 8e-4
    warmup_steps: int = 100
    cooldown: float = 0.25
    seed: int = 0
    held_out: int = 64
    digest: str = ""


class Student(ABC):
    """Something that learns: parameters, a loss, and how well it agrees with its target."""

    module: nn.Module

    def prepare(self) -> None:  # noqa: B027 - most begin as they are
        """What is done once, before the first step of a new run."""

    @abstractmethod
    def loss(self, group: Ids, rng: np.random.Generator) -> tuple[torch.Tensor, int]:
        """Mean loss in nats over a group of conversations, and how many positions it was taken
        over."""

    @abstractmethod
    def agreement(self, group: Ids) -> list[tuple[int, int]]:
        """(agreeing, all) held-out answer positions, one or several steps ahead."""

    def calibrate(self, groups: Iterable[Ids]) -> None:  # noqa: B027 - most have nothing to measure
        """What is measured once on the conversations that were held out, when the run ends."""


class Weights(Protocol):
    """What a student of a target leaves behind, but for draft models."""

    def save(self, folder: Path, bits: int = 16) -> None: ...


class HeadStudent(Student):
    """A student that is trained on its target's states."""

    kind: ClassVar[str]
    head: Weights

    @property
    @abstractmethod
    def shape(self) -> str:
        """What the head is made of, in words."""

    @abstractmethod
    def start_from(self, folder: Path) -> None:
        """Begin with the weights of a finished one; raises InvalidInput."""


@dataclass
class Progress:
    """Where a run stands. `curve` has one point per checkpoint: tokens, loss in nats, agreement by
    step, seconds."""

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
    """The `count` token ids that the target writes most often, those of `always` included; all of
    them for 0."""
    if not count or count >= vocabulary:
        return list(range(vocabulary))
    frequency = np.bincount(data.tokens[data.written], minlength=vocabulary)
    frequency[list(always)] = frequency.max() + 1
    return sorted(np.argsort(-frequency, kind="stable")[:count].tolist())


def soft_cross_entropy(
    logits: torch.Tensor, columns: torch.Tensor, p: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy from the target's likeliest tokens to the student, the mean over rows, in nats.

    logits [rows, outputs]; columns [rows, k] those of the target's tokens, -1 for one that the
    student cannot write; p [rows, k] the target's probabilities. What the student cannot write
    weighs nothing.
    """
    logits = logits.float()
    p = p * (columns >= 0)
    chosen = logits.gather(1, columns.clamp(min=0))
    return (p.sum(-1) * logits.logsumexp(-1) - (p * chosen).sum(-1)).mean()


def learning_dtype(matrix: torch.Tensor) -> torch.dtype:
    """What a student multiplies in: bfloat16 where its target's `matrix` is kept in half precision,
    else float32, which a processor without bfloat16 multiplies six times as fast."""
    return torch.bfloat16 if matrix.dtype.itemsize == 2 else torch.float32


def arithmetic(matrix: torch.Tensor) -> torch.autocast:
    """Products in `learning_dtype`, of weights in float32."""
    half = learning_dtype(matrix) == torch.bfloat16
    return torch.autocast(matrix.device.type, torch.bfloat16, enabled=half)


class Columns:
    """Where each token id stands in a trimmed output vocabulary."""

    def __init__(self, outputs: Sequence[int], vocabulary: int, device: torch.device) -> None:
        self.ids = torch.tensor(outputs, device=device)
        self._column = torch.full((vocabulary,), -1, device=device)
        self._column[self.ids] = torch.arange(len(outputs), device=device)

    def of(self, ids: torch.Tensor) -> torch.Tensor:
        return self._column[ids]


def spent(recipe: Recipe, tokens: int, seconds: float) -> float:
    """The share of a training that is over: of its tokens, or of its minutes if that is more."""
    share = tokens / recipe.tokens
    return max(share, seconds / (60 * recipe.within)) if recipe.within else share


def learning_rate(recipe: Recipe, step: int, share: float) -> float:
    """Warm up, stay, and fall linearly to zero over the last `cooldown`; share: what is over."""
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
        self.student, self.data, self.recipe, self.work, self.accelerator = (
            student,
            data,
            recipe,
            work,
            accelerator,
        )
        self.parameters = [p for p in student.module.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self.progress = Progress()
        self.indices, self.held_out = data.split(recipe.held_out, recipe.seed)

    @property
    def _conditions(self) -> dict[str, Any]:
        """What must be the same for a run to go on: the recipe as JSON would have it, and the
        number of processes."""
        return {
            **json.loads(json.dumps(asdict(self.recipe))),
            "processes": self.accelerator.num_processes,
        }

    @property
    def checkpoint(self) -> Path:
        return self.work / "checkpoint.pt"

    def resume(self) -> None:
        """Go on from the checkpoint; raises InvalidInput where it comes from another recipe."""
        saved = torch.load(self.checkpoint, weights_only=True, map_location="cpu")
        mine = self._conditions
        for name, value in saved["recipe"].items():
            if mine.get(name) != value:
                raise InvalidInput(
                    f"the checkpoint in {self.work} was trained with {name} {value}, not "
                    f"{mine.get(name)}: resume with the same, "
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
        """Train to the recipe's end; whether that was reached. `stop` is asked at every checkpoint;
        `log` after every step."""
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
        """Let the student measure what it needs on what was held out."""
        batches = self.data.batches(self.held_out, self.recipe.batch_tokens)
        self.student.calibrate(batches)

    @property
    def share(self) -> float:
        """How much of the training is over."""
        return spent(self.recipe, self.progress.tokens, self.progress.seconds)

    def _somebody(self, wants: bool) -> bool:
        """Whether any process wants to stop; all ask at the same step, and all stop or none."""
        if self.accelerator.num_processes == 1:
            return wants
        return bool(
            self.accelerator.reduce(
                torch.tensor(float(wants), device=self.accelerator.device), "sum"
            ).item()
        )

    def _step(self, group: Ids) -> None:
        recipe, progress = self.recipe, self.progress
        for part in self.optimiser.param_groups:
            part["lr"] = learning_rate(recipe, progress.step, self.share)
        rng = np.random.default_rng([recipe.seed, progress.step, self.accelerator.process_index])
        loss, count = self.student.loss(group, rng)
        torch.autograd.backward(loss)
        known = loss.item(), float(count), time.perf_counter() - self._began
        facts = torch.tensor(known, dtype=torch.float64)
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
        """Measure on what was held out, and write the checkpoint."""
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
