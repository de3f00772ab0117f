"""The EAGLE head: one decoder layer that continues the target's own features, and the tree it
drafts.

A feature is the target's last hidden state at a position, from which its output matrix makes
logits. The head takes the feature at position i and the token at i + 1, and guesses the feature at
i + 1 (EAGLE, arXiv 2401.15077, section 4.1); embeddings and output matrix are the target's. From
its guesses it goes on by itself, and grows a tree whose nodes are chosen by cumulative probability
(EAGLE-2, arXiv 2406.16858, section 4). A feature can also hold states from between the target's
layers, which a matrix of the head adds to the last one (EAGLE-3, arXiv 2503.01840, section 3.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaModel, PreTrainedModel

from ouroboros_core.errors import InvalidInput, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.interfaces import Evaluation
from ouroboros_core.models.causal_lm import PREFILL_CHUNK, CausalLM
from ouroboros_core.models.engine import decoder, product
from ouroboros_core.models.evaluation import TorchEvaluation
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.tree import TokenTree, TreeBuilder

FILE = "head.safetensors"


@dataclass(frozen=True)
class HeadConfig:
    """What the head is made of, and for whom.

    width        of the target's features; embedding: of its token embeddings
    target       the target's name, for messages
    signature    some of the target's weights: a head fits no other target
    eps          of the norms
    depths       layers of the target behind which its states are read, beside the last one's
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
    depths: tuple[int, ...] = ()


def signature(target: PreTrainedModel) -> tuple[float, ...]:
    """Some weights of a model, from its first matrices to its last; the same in every dtype up to
    rounding."""
    matrices = [p for p in target.parameters() if p.dim() == 2]
    chosen = [matrices[round(n * (len(matrices) - 1) / 7)] for n in range(8)]
    places = [(m[len(m) // 3 + n, (5 * n + 3) % m.shape[1]]) for m in chosen for n in range(8)]
    return tuple(round(float(value.detach()), 7) for value in places)


def _alike(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(
        abs(x - y) <= 0.01 * max(abs(x), abs(y)) + 1e-4 for x, y in zip(a, b, strict=True)
    )


class EagleHead(nn.Module):
    """The weights: a matrix that joins feature and embedding, and one Llama layer with its norm."""

    outputs: torch.Tensor

    def __init__(self, config: HeadConfig, outputs: Sequence[int]) -> None:
        """outputs: the token ids that the head can draft."""
        super().__init__()
        self.config = config
        self.join = nn.Linear(config.width + config.embedding, config.width, bias=False)
        self.deeper: nn.Linear | None = None
        if config.depths:
            self.deeper = nn.Linear(len(config.depths) * config.width, config.width, bias=False)
            nn.init.zeros_(self.deeper.weight)
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
        return {
            name: value for name, value in self.state_dict().items() if "embed_tokens" not in name
        }

    def save(self, folder: Path) -> None:
        """Write weights in bfloat16, and what they are."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        state = {k: v.detach().cpu() for k, v in self.parts.items()}
        state = {
            k: (v.bfloat16() if v.is_floating_point() else v).contiguous() for k, v in state.items()
        }
        save_file(state, folder / FILE, metadata={"format": "pt"})
        (folder / "head.json").write_text(
            json.dumps({"kind": "eagle", **asdict(self.config)}, indent=2) + "\n"
        )

    @classmethod
    def load(cls, folder: Path, target: PreTrainedModel) -> EagleHead:
        """The head in a folder, in the target's dtype and on its device; refuses a target it was
        not trained for.

        Raises WeightsUnavailable where there is none, VocabularyMismatch for another target.
        """
        from safetensors.torch import load_file

        try:
            data: dict[str, Any] = json.loads((folder / "head.json").read_text())
            if data.pop("kind") != "eagle":
                raise ValueError("it is no EAGLE head")
            data |= {name: tuple(data.get(name, ())) for name in ("signature", "depths")}
            config = HeadConfig(**data)
            state = load_file(folder / FILE)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise WeightsUnavailable(f"{folder} holds no EAGLE head: {error}") from None
        if not _alike(config.signature, signature(target)):
            raise VocabularyMismatch(
                f"the EAGLE head {folder.name} was trained for {config.target} and reads its "
                "features, but this target is "
                "another: train one for it: python -m ouroboros_core train eagle --target ... "
                "--out ..."
            )
        head = cls(config, state["outputs"].tolist())
        head.load_state_dict(state, strict=False)
        weight = target.get_input_embeddings().weight
        return head.to(device=weight.device, dtype=weight.dtype).eval()


def head_input(
    features: torch.Tensor,
    config: HeadConfig,
    deeper: Callable[[torch.Tensor], torch.Tensor] | None,
) -> torch.Tensor:
    """What the head reads [..., width] of features [..., width * (1 + depths)]: the last hidden
    state, and what `deeper` makes of the others, each divided by its own size first."""
    last = features[..., : config.width]
    if deeper is None:
        return last
    between = [
        F.rms_norm(part, (config.width,), eps=config.eps)
        for part in torch.split(features[..., config.width :], config.width, -1)
    ]
    return last + deeper(torch.cat(between, -1))


class HeadEvaluation(TorchEvaluation):
    """Also the features [nodes, width] that the head guesses after each node, and the nodes' rows
    behind the context's in its cache, by which they can be extended."""

    features: torch.Tensor


class EagleDrafter:
    """The head of one target as a Drafter; remembers the rows of the context it has already
    read."""

    def __init__(self, head: EagleHead, target: CausalLM, name: str = "eagle") -> None:
        target.keep_features(head.config.depths)
        self.head, self.target, self.name = head, target, name
        self.passes = 0
        device = head.join.weight.device
        output = target.model.get_output_embeddings()
        self._outputs = head.outputs.long()
        kept = self._outputs.to(output.weight.device)
        bias = None if output.bias is None else output.bias.detach()[kept].to(device)
        engine = target.engine
        self._project = product(engine, output.weight.detach()[kept].to(device), bias)
        # Its frequencies are not weights: in half precision they would turn by the wrong angles.
        head.body.rotary_emb = type(head.body.rotary_emb)(config=head.body.config).to(device)
        self._embed = target.model.get_input_embeddings()
        self._join = product(engine, head.join.weight)
        self._deeper = None if head.deeper is None else product(engine, head.deeper.weight)
        self._body = decoder(engine, head.body)
        self.reset()

    @property
    def vocabulary(self) -> int:
        vocabulary: int = self.target.vocabulary
        return vocabulary

    def reset(self) -> None:
        """Forget every token and give the cache's memory back."""
        self._cache = TreeCache(1)
        self._tokens: tuple[int, ...] = ()
        self._latest: HeadEvaluation | None = None

    def forget(self) -> None:
        """Drop what is remembered of earlier texts; keeps the memory."""
        self._tokens, self._latest = (), None
        self._cache.keep(0)

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens)

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> HeadEvaluation:
        """The head's outputs after every node; the context has at least two tokens, since the first
        has no feature before it."""
        context = tuple(context)
        if len(context) < 2 or tree.tokens[0] != context[-1]:
            raise InvalidInput(
                "the root of the tree must be the last token of the context, which must have two "
                "tokens at least"
            )
        root = TreeBuilder(context[-1]).build()
        guessed = self._read(context)
        evaluation = HeadEvaluation(
            self._project(guessed), [0], root, self._outputs, self.vocabulary, context
        )
        evaluation.features = guessed
        self._latest = evaluation
        return self.extend(evaluation, tree)

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> HeadEvaluation:
        """One pass for every level of new nodes: a node goes in with the feature that was guessed
        after its parent."""
        assert isinstance(evaluation, HeadEvaluation)
        assert tree.begins_with(evaluation.tree), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        if evaluation is not self._latest and len(tree) > len(evaluation.tree):
            return self.evaluate(evaluation.context, tree)
        while len(evaluation.tree) < len(tree):
            known = len(evaluation.tree)
            level = next(
                (n for n in range(known, len(tree)) if tree.parents[n] >= known), len(tree)
            )
            evaluation = self._level(evaluation, tree.first(level))
        self._latest = evaluation
        return evaluation

    def _level(self, evaluation: HeadEvaluation, tree: TokenTree) -> HeadEvaluation:
        """New nodes, each below one that was evaluated."""
        base, known = len(evaluation.context) - 1, len(evaluation.tree)
        fresh = list(range(known, len(tree)))
        features = evaluation.features[[tree.parents[node] for node in fresh]]
        # The root's row is the last one of the context; node n has row base + n - 1.
        positions = torch.tensor(
            [base + tree.depths[node] - 1 for node in fresh], device=features.device
        )
        sees = tree.ancestors[known:, 1:]
        guessed = self._pass(features, [tree.tokens[node] for node in fresh], positions, sees)
        extended = HeadEvaluation(
            torch.cat([evaluation.all_logits, self._project(guessed)]),
            range(len(tree)),
            tree,
            self._outputs,
            self.vocabulary,
            evaluation.context,
        )
        extended.features = torch.cat([evaluation.features, guessed])
        return extended

    def _read(self, tokens: tuple[int, ...]) -> torch.Tensor:
        """Bring the head's cache up to the context; the feature [1, width] it guesses for the last
        token."""
        features = self.target.features(tokens).to(self.head.join.weight.device)
        pairs = zip(tokens, self._tokens, strict=False)
        agreed = next(
            (n for n, (a, b) in enumerate(pairs) if a != b), min(len(tokens), len(self._tokens))
        )
        held = min(max(0, agreed - 1), len(tokens) - 2)
        self._cache.keep(held)
        self._tokens, self._latest = (), None
        guessed = features[:0]
        for start in range(held, len(tokens) - 1, PREFILL_CHUNK):
            stop = min(start + PREFILL_CHUNK, len(tokens) - 1)
            positions = torch.arange(start, stop, device=features.device)
            given = head_input(features[start:stop], self.head.config, self._deeper)
            guessed = self._pass(given, list(tokens[start + 1 : stop + 1]), positions, None)
        self._tokens = tokens
        return guessed[-1:]

    def _pass(
        self,
        features: torch.Tensor,
        tokens: list[int],
        positions: torch.Tensor,
        sees: npt.NDArray[np.bool_] | None,
    ) -> torch.Tensor:
        self._cache.reserve(self._cache.get_seq_length() + len(tokens))
        embedded = self._embed(torch.tensor(tokens, device=features.device))
        self.passes += 1
        joined = self._join(torch.cat([features, embedded], dim=-1))
        return self._body.run(joined, positions, self._cache.capacity, sees, self._cache)[0]
