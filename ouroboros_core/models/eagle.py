"""The EAGLE head: one decoder layer that continues the target's own features, and the tree it drafts.

A feature is the target's last hidden state at a position, from which its output matrix makes logits. The head takes the feature
at position i and the token at i + 1, and guesses the feature at i + 1 (EAGLE, arXiv 2401.15077, section 4.1); embeddings and
output matrix are the target's. From its guesses it goes on by itself, and grows a tree whose nodes are chosen by cumulative
probability (EAGLE-2, arXiv 2406.16858, section 4).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import LlamaConfig, LlamaModel, PreTrainedModel

from ouroboros_core.errors import VocabularyMismatch, WeightsUnavailable
from ouroboros_core.models.causal_lm import PREFILL_CHUNK, CausalLM
from ouroboros_core.models.evaluation import TorchEvaluation
from ouroboros_core.models.fused import FusedDecoder, product
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.language_model import Guess, Output

FILE = "head.safetensors"


@dataclass(frozen=True)
class HeadConfig:
    """What the head is made of, and for whom.

    width        of the target's features; embedding: of its token embeddings
    target       the target's name, for messages
    signature    some of the target's weights: a head fits no other target
    eps          of the norms
    """

    width: int
    embedding: int
    intermediate: int
    heads: int
    key_value_heads: int
    target: str
    signature: tuple[float, ...]
    rope_theta: float = 10_000.0
    eps: float = 1e-6


def signature(target: PreTrainedModel) -> tuple[float, ...]:
    """Some weights of a model, from its first matrices to its last; the same in every dtype up to rounding."""
    matrices = [p for p in target.parameters() if p.dim() == 2]
    chosen = [matrices[round(n * (len(matrices) - 1) / 7)] for n in range(8)]
    places = [(m[len(m) // 3 + n, (5 * n + 3) % m.shape[1]]) for m in chosen for n in range(8)]
    return tuple(round(float(value.detach()), 7) for value in places)


def _alike(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(abs(x - y) <= 0.01 * max(abs(x), abs(y)) + 1e-4 for x, y in zip(a, b, strict=True))


class EagleHead(nn.Module):
    """The weights: a matrix that joins feature and embedding, and one Llama layer with its norm."""

    outputs: torch.Tensor

    def __init__(self, config: HeadConfig, outputs: Sequence[int]) -> None:
        """outputs: the token ids that the head can draft."""
        super().__init__()
        self.config = config
        self.join = nn.Linear(config.width + config.embedding, config.width, bias=False)
        self.register_buffer("outputs", torch.tensor(sorted(outputs), dtype=torch.int32))
        self.body = LlamaModel(
            LlamaConfig(
                vocab_size=1,
                hidden_size=config.width,
                intermediate_size=config.intermediate,
                num_hidden_layers=1,
                num_attention_heads=config.heads,
                num_key_value_heads=config.key_value_heads,
                max_position_embeddings=1 << 20,
                rms_norm_eps=config.eps,
                pad_token_id=None,
                bos_token_id=None,
                eos_token_id=None,
                rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
                attn_implementation="sdpa",
            )
        )
        self.body.embed_tokens.requires_grad_(False)  # it is never used: the joined vectors go in

    @property
    def parts(self) -> dict[str, torch.Tensor]:
        """The weights that are its own."""
        return {name: value for name, value in self.state_dict().items() if "embed_tokens" not in name}

    def save(self, folder: Path) -> None:
        """Write weights in bfloat16, and what they are."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        state = {k: v.detach().cpu() for k, v in self.parts.items()}
        state = {k: (v.bfloat16() if v.is_floating_point() else v).contiguous() for k, v in state.items()}
        save_file(state, folder / FILE, metadata={"format": "pt"})
        (folder / "head.json").write_text(json.dumps({"kind": "eagle", **asdict(self.config)}, indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path, target: PreTrainedModel) -> EagleHead:
        """The head in a folder, in the target's dtype and on its device; refuses a target it was not trained for.

        Raises WeightsUnavailable where there is none, VocabularyMismatch for another target.
        """
        from safetensors.torch import load_file

        try:
            data: dict[str, Any] = json.loads((folder / "head.json").read_text())
            if data.pop("kind") != "eagle":
                raise ValueError("it is no EAGLE head")
            config = HeadConfig(**{**data, "signature": tuple(data["signature"])})
            state = load_file(folder / FILE)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise WeightsUnavailable(f"{folder} holds no EAGLE head: {error}") from None
        if not _alike(config.signature, signature(target)):
            raise VocabularyMismatch(
                f"the EAGLE head {folder.name} was trained for {config.target} and reads its features, but this target is "
                f"another: train one for it: python -m ouroboros_core train eagle --target ... --out ..."
            )
        head = cls(config, state["outputs"].tolist())
        head.load_state_dict(state, strict=False)
        weight = target.get_input_embeddings().weight
        return head.to(device=weight.device, dtype=weight.dtype).eval()


class EagleDrafter:
    """Drafts trees for one target; remembers the rows of the context it has already read."""

    def __init__(self, head: EagleHead, target: CausalLM, name: str = "eagle") -> None:
        target.keep_features()
        self.head, self.target, self.name = head, target, name
        self.passes = 0
        device = head.join.weight.device
        output = target.model.get_output_embeddings()
        self._outputs = head.outputs.long()
        kept = self._outputs.to(output.weight.device)
        bias = None if output.bias is None else output.bias.detach()[kept].to(device)
        self._project = product(output.weight.detach()[kept].to(device), bias)
        # Its frequencies are not weights: in half precision they would turn by the wrong angles.
        head.body.rotary_emb = type(head.body.rotary_emb)(config=head.body.config).to(device)
        self._embed = target.model.get_input_embeddings()
        self._join = product(head.join.weight)
        self._body = FusedDecoder(head.body)
        self._cache = TreeCache(1)
        self._tokens: tuple[int, ...] = ()
        self._grown = _Tree(0)

    def reset(self) -> None:
        """Forget every token and give the cache's memory back."""
        self._cache, self._tokens, self._grown = TreeCache(1), (), _Tree(0)

    def forget(self) -> None:
        """Drop what is remembered of earlier texts; keeps the room."""
        self._tokens = ()
        self._cache.keep(0)

    @torch.inference_mode()
    def draft(
        self, tokens: Sequence[int], *, depth: int, width: int, size: int, go_on: Callable[[Sequence[float]], bool] | None = None
    ) -> list[Guess]:
        """At most `size` nodes, parents first, `depth` levels deep, `width` of each level expanded, while `go_on` agrees."""
        tokens = tuple(tokens)
        if len(tokens) < 2 or depth < 1 or (go_on and not go_on([0.0])):
            return []
        width = min(width, len(self._outputs))
        root = self._read(tokens)
        base, grown = len(tokens) - 1, _Tree(width)
        self._grown = grown
        frontier = grown.grow([-1], root, *self._likeliest(root, width))
        for level in range(1, depth):
            if go_on and not go_on([grown.scores[node] for node in frontier]):
                break
            guessed = self._expand(grown, frontier, base + level - 1, base)
            frontier = grown.grow(frontier, guessed, *self._likeliest(guessed, width))
        self._cache.keep(base)
        return grown.best(size)

    def output(self, guess: int) -> Output | None:
        """What the head said after a node of the tree it drafted last, -1 being the root; None where it was not asked."""
        logits = self._grown.logits_of(guess)
        if logits is None:
            return None
        return TorchEvaluation(logits[None], [0], 1, self._outputs, self.target.vocabulary), 0

    def _read(self, tokens: tuple[int, ...]) -> torch.Tensor:
        """Bring the head's cache up to the context; the feature [1, width] it guesses for the last token."""
        features = self.target.features(tokens).to(self.head.join.weight.device)
        pairs = zip(tokens, self._tokens, strict=False)
        agreed = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(tokens), len(self._tokens)))
        held = min(max(0, agreed - 1), len(tokens) - 2)
        self._cache.keep(held)
        self._tokens = ()
        guessed = features[:0]
        for start in range(held, len(tokens) - 1, PREFILL_CHUNK):
            stop = min(start + PREFILL_CHUNK, len(tokens) - 1)
            mask = None
            if stop - start > 1:
                mask = features.new_zeros(stop - start, stop)
                later = torch.ones(stop - start, stop - start, dtype=torch.bool, device=mask.device).triu(1)
                mask[:, start:].masked_fill_(later, torch.finfo(mask.dtype).min)
            positions = torch.arange(start, stop, device=features.device)
            guessed = self._pass(features[start:stop], list(tokens[start + 1 : stop + 1]), positions, mask)
        self._tokens = tokens
        return guessed[-1:]

    def _expand(self, grown: _Tree, frontier: list[int], position: int, base: int) -> torch.Tensor:
        """The features guessed behind the frontier's nodes; their rows stay in the cache until the tree is finished."""
        features = torch.stack([grown.features[node] for node in frontier])
        past = self._cache.get_seq_length()
        hidden = torch.ones(len(frontier), past - base + len(frontier), dtype=torch.bool)
        for row, node in enumerate(frontier):
            grown.rows[node] = past - base + row
            above = node
            while above >= 0:
                hidden[row, grown.rows[above]] = False
                above = grown.parents[above]
        mask = features.new_zeros(len(frontier), past + len(frontier))
        mask[:, base:].masked_fill_(hidden.to(mask.device), torch.finfo(mask.dtype).min)
        positions = torch.full((len(frontier),), position, device=features.device)
        return self._pass(features, [grown.tokens[node] for node in frontier], positions, mask)

    def _pass(
        self, features: torch.Tensor, tokens: list[int], positions: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        self._cache.reserve(self._cache.get_seq_length() + len(tokens))
        embedded = self._embed(torch.tensor(tokens, device=features.device))
        self.passes += 1
        joined = self._join(torch.cat([features, embedded], dim=-1))
        return self._body.run(joined, positions, self._cache.room, mask, self._cache)

    def _likeliest(self, features: torch.Tensor, count: int) -> tuple[torch.Tensor, list[list[float]], list[list[int]]]:
        """Logits [rows, outputs], and of the likeliest next tokens log-probabilities and ids [rows, count]."""
        logits = self._project(features).float()
        top = logits.topk(count)
        scores = top.values - logits.logsumexp(-1, keepdim=True)
        return logits, scores.tolist(), self._outputs[top.indices].tolist()


class _Tree:
    """The nodes while they grow; `features` are those of a node's parent, with which its own expansion begins."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.parents: list[int] = []
        self.tokens: list[int] = []
        self.scores: list[float] = []
        self.features: list[torch.Tensor] = []
        self.rows: dict[int, int] = {}
        self._logits: dict[int, torch.Tensor] = {}
        self._chosen: list[int] = []

    def grow(
        self,
        frontier: list[int],
        guessed: torch.Tensor,
        logits: torch.Tensor,
        scores: list[list[float]],
        ids: list[list[int]],
    ) -> list[int]:
        """Children of the frontier (-1: the root), of which the likeliest are the next frontier."""
        first = len(self.tokens)
        self._logits |= dict(zip(frontier, logits, strict=True))
        for node, feature, some_scores, some_ids in zip(frontier, guessed, scores, ids, strict=True):
            above = self.scores[node] if node >= 0 else 0.0
            self.parents += [node] * len(some_ids)
            self.tokens += some_ids
            self.scores += [above + score for score in some_scores]
            self.features += [feature] * len(some_ids)
        new = range(first, len(self.tokens))
        return sorted(sorted(new, key=lambda node: -self.scores[node])[: self.width])

    def logits_of(self, guess: int) -> torch.Tensor | None:
        """Logits after one of the best, -1 being the root; None where it was not expanded."""
        return self._logits.get(self._chosen[guess] if guess >= 0 else -1)

    def best(self, size: int) -> list[Guess]:
        """The likeliest nodes; a child is never likelier than its parent, so they hang together."""
        chosen = sorted(sorted(range(len(self.tokens)), key=lambda node: (-self.scores[node], node))[:size])
        self._chosen = chosen
        place = {node: index for index, node in enumerate(chosen)}
        return [Guess(self.tokens[n], place.get(self.parents[n], -1), self.scores[n]) for n in chosen]
