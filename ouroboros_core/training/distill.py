"""Distil a small draft model from a few layers of its target (the recipe of FastDraft, arXiv 2411.11055).

The student is an ordinary causal LM of the target's width: it starts from chosen layers of the target, shares the target's
embedding and output matrix (frozen), and is trained on conversations that the target wrote itself, against the target's
own next-token distribution. Because embeddings are shared, only the layers are saved; `models.pairs` puts them together.

    python -m ouroboros_core.training.distill --target DIR --data selfchat.npz --out DIR --tokens 4000000
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, PreTrainedModel

TOP_K = 16
"""How many of the target's most probable tokens are kept at each position; the rest of the mass is left out."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights; saved beside them."""

    target: str
    data: str
    layers: tuple[int, ...] = (0, 1, 15, 29)
    tokens: int = 4_000_000
    batch_tokens: int = 2048
    learning_rate: float = 8e-4
    warmup_steps: int = 100
    cooldown: float = 0.25
    negatives: int = 4096
    seed: int = 0
    held_out: int = 64


@dataclass(frozen=True)
class Conversations:
    """Token ids end to end; conversation i is tokens[offsets[i]:offsets[i+1]], its answer starts at answer_start[i]."""

    tokens: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    answer_start: npt.NDArray[np.int64]

    @classmethod
    def load(cls, path: str) -> Conversations:
        with np.load(path) as file:
            return cls(*(file[name].astype(np.int64) for name in ("tokens", "offsets", "answer_start")))

    def __len__(self) -> int:
        return len(self.answer_start)

    def length(self, index: int) -> int:
        return int(self.offsets[index + 1] - self.offsets[index])

    def batches(self, indices: npt.NDArray[np.int64], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
        """Groups of conversations of similar length, each padded to about batch_tokens."""
        order = indices[np.argsort([self.length(i) for i in indices], kind="stable")]
        start = 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and (stop - start + 1) * self.length(order[stop]) <= batch_tokens:
                stop += 1
            yield order[start:stop]
            start = stop

    def pad(self, indices: npt.NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """ids [batch, length], right-padded with 0, and the flat positions whose *next* token belongs to an answer."""
        width = max(self.length(i) for i in indices)
        ids = np.zeros((len(indices), width), dtype=np.int64)
        rows = []
        for row, i in enumerate(indices):
            length = self.length(i)
            ids[row, :length] = self.tokens[self.offsets[i] : self.offsets[i + 1]]
            rows.append(row * width + np.arange(self.answer_start[i] - 1, length - 1))
        return torch.from_numpy(ids), torch.from_numpy(np.concatenate(rows))


class TeacherCache:
    """The target's TOP_K tokens and probabilities at every answer position, computed once and kept on disk."""

    def __init__(self, data: Conversations, path: Path) -> None:
        answers = data.offsets[1:] - data.offsets[:-1] - data.answer_start
        self.start = np.concatenate([[0], np.cumsum(answers)])
        self.path = path
        shape = (int(self.start[-1]), TOP_K)
        mode = "r+" if (path / "ids.npy").exists() else "w+"
        path.mkdir(parents=True, exist_ok=True)
        if mode == "w+":
            np.lib.format.open_memmap(path / "ids.npy", "w+", np.uint16, shape)
            np.lib.format.open_memmap(path / "probabilities.npy", "w+", np.float16, shape)
        self.ids = np.lib.format.open_memmap(path / "ids.npy", "r+")
        self.probabilities = np.lib.format.open_memmap(path / "probabilities.npy", "r+")

    def rows(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.concatenate([np.arange(self.start[i], self.start[i + 1]) for i in indices])

    @torch.inference_mode()
    def get(
        self, teacher: PreTrainedModel, data: Conversations, indices: npt.NDArray[np.int64]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """ids and probabilities, [answer positions, TOP_K] each; asks the target for those not yet known."""
        rows = self.rows(indices)
        if (self.probabilities[rows, 0] == 0).any():
            ids, positions = data.pad(indices)
            hidden = teacher.model(ids, use_cache=False).last_hidden_state.flatten(0, 1)[positions]
            for part, where in zip(hidden.split(512), np.array_split(rows, range(512, len(rows), 512)), strict=True):
                logits = teacher.lm_head(part).float()
                top = (logits - logits.logsumexp(-1, keepdim=True)).topk(TOP_K)
                self.ids[where] = top.indices.numpy().astype(np.uint16)
                self.probabilities[where] = top.values.exp().half().numpy()
        ids_ = torch.from_numpy(self.ids[rows].astype(np.int64))
        return ids_, torch.from_numpy(self.probabilities[rows].astype(np.float32))


def make_student(target: PreTrainedModel, layers: tuple[int, ...]) -> PreTrainedModel:
    """A model of the given layers of the target, in float32, its embeddings shared with the target's and frozen."""
    config = type(target.config).from_dict({**target.config.to_dict(), "num_hidden_layers": len(layers), "dtype": "float32"})
    student = AutoModelForCausalLM.from_config(config)
    for mine, theirs in zip(student.model.layers, (target.model.layers[i] for i in layers), strict=True):
        mine.load_state_dict(theirs.state_dict())
    student.model.norm.load_state_dict(target.model.norm.state_dict())
    student.set_input_embeddings(target.get_input_embeddings())
    student.set_output_embeddings(target.get_output_embeddings())
    student.get_input_embeddings().weight.requires_grad_(False)
    student.get_output_embeddings().weight.requires_grad_(False)
    return student


def distillation_loss(
    student: PreTrainedModel, hidden: torch.Tensor, ids: torch.Tensor, p: torch.Tensor, negatives: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy from the target's top tokens to the student, its softmax taken over those of the batch and negatives.

    hidden [rows, width], ids and p [rows, TOP_K], negatives [n]; the mean over rows, in nats.
    """
    candidates = torch.unique(torch.cat([ids.flatten(), negatives]))
    logits = hidden @ student.lm_head.weight[candidates].to(hidden.dtype).T
    log_q = F.log_softmax(logits.float(), dim=-1)
    p = p / p.sum(-1, keepdim=True)
    return -(p * log_q.gather(1, torch.searchsorted(candidates, ids))).sum(-1).mean()


def learning_rate(recipe: Recipe, step: int, tokens: int) -> float:
    """Warm up, stay, and fall linearly to zero over the last `cooldown` of the tokens."""
    left = (1 - tokens / recipe.tokens) / recipe.cooldown
    return recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup_steps, max(0.0, left))


@torch.inference_mode()
def agreement(
    student: PreTrainedModel, teacher: PreTrainedModel, data: Conversations, cache: TeacherCache, indices: npt.NDArray[np.int64]
) -> float:
    """Share of held-out answer positions at which student and target choose the same next token: greedy acceptance."""
    same = total = 0
    for group in data.batches(indices, 2048):
        ids, positions = data.pad(group)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = student.model(ids, use_cache=False).last_hidden_state.flatten(0, 1)[positions]
        choice = student.lm_head(hidden.to(student.lm_head.weight.dtype)).argmax(-1)
        wanted = cache.get(teacher, data, group)[0][:, 0]
        same += int((choice == wanted).sum())
        total += len(wanted)
    return same / total


def save(student: PreTrainedModel, out: Path, recipe: Recipe, curve: list[dict[str, float]]) -> None:
    """Write the layers in bfloat16, one file a layer, with config, recipe and training curve; no embeddings."""
    from safetensors.torch import save_file

    state = {k: v.bfloat16().contiguous() for k, v in student.state_dict().items() if "embed" not in k and "lm_head" not in k}
    layers = student.config.num_hidden_layers
    where: dict[str, str] = {}
    for n in range(layers):
        name = f"model-{n + 1:05d}-of-{layers:05d}.safetensors"
        part = {k: v for k, v in state.items() if f".layers.{n}." in k or (n == layers - 1 and ".layers." not in k)}
        where |= dict.fromkeys(part, name)
        save_file(part, out / name, metadata={"format": "pt"})
    index = {"metadata": {"embeddings": "shared with the target"}, "weight_map": where}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    config = {**student.config.to_dict(), "dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
    config.pop("_name_or_path", None)
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    named = {**asdict(recipe), "target": Path(recipe.target).name, "data": Path(recipe.data).name}
    (out / "training.json").write_text(json.dumps({"recipe": named, "curve": curve}, indent=1) + "\n")


def train(recipe: Recipe, out: Path, work: Path, log: Any = print) -> float:
    """Train, or go on from the last checkpoint in `work`; returns the final held-out agreement."""
    data = Conversations.load(recipe.data)
    cache = TeacherCache(data, work / "teacher")
    teacher = AutoModelForCausalLM.from_pretrained(recipe.target, dtype=torch.bfloat16).eval()
    torch.manual_seed(recipe.seed)
    student = make_student(teacher, recipe.layers)
    parameters = [p for p in student.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    step, tokens, skip, epoch, curve = 0, 0, 0, 0, []
    checkpoint = work / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        student.load_state_dict(saved["student"], strict=False)
        optimiser.load_state_dict(saved["optimiser"])
        step, tokens, skip, epoch, curve = (saved[k] for k in ("step", "tokens", "skip", "epoch", "curve"))
    held_out = np.arange(len(data) - recipe.held_out, len(data))
    start, recent = time.perf_counter(), 0.0

    def checkpoint_now(done: int) -> float:
        value = agreement(student, teacher, data, cache, held_out)
        curve.append({"tokens": tokens, "loss": round(recent, 4), "agreement": round(value, 4)})
        log(f"{tokens} tokens, loss {recent:.3f}, held-out agreement {value:.3f}, {time.perf_counter() - start:.0f} s")
        state = {k: v for k, v in student.state_dict().items() if "embed" not in k and "lm_head" not in k}
        state_ = {"student": state, "optimiser": optimiser.state_dict(), "step": step, "tokens": tokens}
        torch.save({**state_, "skip": done, "epoch": epoch, "curve": curve}, work / "checkpoint.tmp")
        (work / "checkpoint.tmp").replace(checkpoint)
        save(student, out, recipe, curve)
        return value

    out.mkdir(parents=True, exist_ok=True)
    while tokens < recipe.tokens:
        rng = np.random.default_rng([recipe.seed, epoch])
        groups = list(data.batches(rng.permutation(len(data) - recipe.held_out), recipe.batch_tokens))
        groups = [groups[i] for i in rng.permutation(len(groups))]
        for done, group in enumerate(groups[skip:], skip + 1):
            target_ids, p = cache.get(teacher, data, group)
            ids, positions = data.pad(group)
            for part in optimiser.param_groups:
                part["lr"] = learning_rate(recipe, step, tokens)
            with torch.autocast("cpu", torch.bfloat16):
                hidden = student.model(ids, use_cache=False).last_hidden_state.flatten(0, 1)[positions]
                negatives = torch.from_numpy(rng.integers(0, student.config.vocab_size, recipe.negatives))
                loss = distillation_loss(student, hidden, target_ids, p, negatives)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            step, tokens = step + 1, tokens + len(positions)
            recent = loss.item() if recent == 0 else 0.95 * recent + 0.05 * loss.item()
            if step % 100 == 0:
                checkpoint_now(done)
            if tokens >= recipe.tokens:
                break
        skip, epoch = 0, epoch + 1
    return checkpoint_now(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="folder of the target model")
    parser.add_argument("--data", required=True, help="npz of tokens, offsets, answer_start")
    parser.add_argument("--out", required=True, type=Path, help="folder for the draft")
    parser.add_argument("--work", type=Path, help="folder for checkpoint and the target's cached answers (default: OUT.work)")
    parser.add_argument("--tokens", type=int, default=Recipe.tokens, help="answer tokens to train on, all epochs together")
    parser.add_argument("--layers", type=lambda s: tuple(int(n) for n in s.split(",")), default=Recipe.layers)
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    options = parser.parse_args()
    recipe = Recipe(options.target, options.data, options.layers, options.tokens, seed=options.seed)
    train(recipe, options.out, options.work or options.out.with_suffix(".work"), lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
