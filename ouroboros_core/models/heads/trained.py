"""What the heads have in common that are trained for one target, beside the EAGLE head: a folder
with weights and what they are, and outputs that depend on a node's depth alone."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedModel

from ouroboros_core.errors import InvalidInput, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.models import rounding
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Product, product
from ouroboros_core.models.evaluation import TorchEvaluation
from ouroboros_core.models.heads.eagle import _alike
from ouroboros_core.tree import TokenTree

WEIGHTS, ABOUT = "head.safetensors", "head.json"


@dataclass(frozen=True)
class TrainedConfig:
    """For whom a head was trained.

    target     the target's name, for messages
    signature  some of the target's weights: a head fits no other target
    width      of the target's hidden states
    """

    target: str
    signature: tuple[float, ...]
    width: int


class TrainedHead(nn.Module):
    """Weights that are trained for one target, and the token ids that they can draft."""

    kind: ClassVar[str]
    called: ClassVar[str]
    """What it is called in messages, with its article."""
    Config: ClassVar[type[TrainedConfig]]
    outputs: torch.Tensor

    def __init__(self, config: TrainedConfig, outputs: Sequence[int]) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("outputs", torch.tensor(sorted(outputs), dtype=torch.int32))

    @property
    def parts(self) -> dict[str, torch.Tensor]:
        """The weights that are its own."""
        return self.state_dict()

    def save(self, folder: Path, bits: int = 16) -> None:
        """Write weights in bfloat16, or matrices in 8 bits, and what they are."""
        folder.mkdir(parents=True, exist_ok=True)
        rounding.write(self.parts, folder / WEIGHTS, bits)
        about = {"kind": self.kind, **asdict(self.config)}
        (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, target: PreTrainedModel, signature: Sequence[float]) -> Self:
        """The head in a folder, in the target's dtype and on its device.

        signature: the target's. Raises WeightsUnavailable where there is none of this kind,
        VocabularyMismatch for another target.
        """
        try:
            data: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if data.pop("kind") != cls.kind:
                raise ValueError("it is of another kind")
            config = cls.Config(**{name: _frozen(value) for name, value in data.items()})
            state = rounding.read(folder / WEIGHTS)
            head = cls(config, state["outputs"].tolist())
            missing, unknown = head.load_state_dict(state, strict=False)
            if unknown or set(missing) & head.parts.keys():
                raise ValueError(f"weights are missing or unknown: {[*missing, *unknown]}")
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise WeightsUnavailable(f"{folder} does not hold {cls.called}: {error}") from None
        if not _alike(config.signature, signature):
            raise VocabularyMismatch(
                f"{folder.name}, {cls.called}, was trained for {config.target} and reads its "
                "states, but this target is another: train one for it: python -m ouroboros_core "
                f"train {cls.kind} --target ... --out ..."
            )
        weight = target.get_input_embeddings().weight
        return head.to(device=weight.device, dtype=weight.dtype).eval()

    def start_from(self, folder: Path) -> None:
        """Take the weights of a finished one of the same shape; raises InvalidInput."""
        try:
            state = self.renamed(rounding.read(folder / WEIGHTS))
            state.pop("outputs")
            missing, unknown = self.load_state_dict(state, strict=False)
            if unknown or set(missing) & self.parts.keys() - {"outputs"}:
                raise KeyError(", ".join([*missing, *unknown]))
        except (OSError, RuntimeError, KeyError, SafetensorError) as error:
            raise InvalidInput(
                f"{folder} holds no head of this shape to go on from: {error}"
            ) from None

    def renamed(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The weights of what it can go on from, by the names that they have here."""
        return state


def _frozen(value: Any) -> Any:
    """Lists as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class DepthEvaluation(TorchEvaluation):
    """Outputs that depend on a node's depth alone: logits [levels, columns], and nodes that lie
    deeper have none."""

    def __init__(
        self,
        logits: torch.Tensor,
        tree: TokenTree,
        outputs: torch.Tensor,
        vocabulary: int,
        context: tuple[int, ...],
    ) -> None:
        super().__init__(logits, (), tree, outputs, vocabulary, context, wants_confidence=True)
        self._row = {node: depth for node, depth in enumerate(tree.depths) if depth < len(logits)}


class DepthDrafter(ABC):
    """A head of a target as a Drafter, with outputs that depend on a node's depth alone."""

    def __init__(self, head: TrainedHead, target: CausalLM, name: str) -> None:
        self.target, self.name, self.passes, self.rows = target, name, 0, 0
        self._outputs = scored_outputs(head, target)
        self._project = projection(target, self._outputs)

    @property
    def vocabulary(self) -> int:
        vocabulary: int = self.target.vocabulary
        return vocabulary

    def reset(self) -> None:  # noqa: B027 - there is nothing to do
        """Forget every token; there is nothing to forget where nothing is remembered."""

    def forget(self) -> None:  # noqa: B027 - there is nothing to do
        """Nothing is remembered."""

    def reserve(self, tokens: int) -> None:  # noqa: B027 - there is nothing to do
        """It needs no memory."""

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> DepthEvaluation:
        """The outputs after every node; the context has at least two tokens, since the last one has
        no hidden state yet."""
        context = tuple(context)
        check_context(context, tree)
        logits = self._project(self.guesses(context, max(tree.depths) + 1))
        return DepthEvaluation(logits, tree, self._outputs, self.vocabulary, context)

    @abstractmethod
    def guesses(self, context: tuple[int, ...], levels: int) -> torch.Tensor:
        """Hidden states [levels or fewer, width] behind nodes of depth 0, 1 ..., from one pass."""

    def extend(self, evaluation: Any, tree: TokenTree) -> DepthEvaluation:
        """No pass, unless the tree goes deeper than what was computed."""
        assert isinstance(evaluation, DepthEvaluation)
        logits = evaluation.all_logits
        if max(tree.depths) >= len(logits):
            return self.evaluate(evaluation.context, tree)
        return DepthEvaluation(logits, tree, self._outputs, self.vocabulary, evaluation.context)


def check_context(context: tuple[int, ...], tree: TokenTree) -> None:
    """Raises InvalidInput unless a head can draft at the end of the context."""
    if len(context) < 2 or tree.tokens[0] != context[-1]:
        raise InvalidInput(
            "the root of the tree must be the last token of the context, which must have two "
            "tokens at least"
        )


def scored_outputs(head: TrainedHead, target: CausalLM) -> torch.Tensor:
    """The token ids that the head can draft and the target scores, ascending."""
    ids = head.outputs.long()
    return ids[ids < target.vocabulary]


def projection(target: CausalLM, outputs: torch.Tensor) -> Product:
    """Hidden states [rows, width] to logits of some token ids, by the target's own output
    matrix."""
    output = target.model.get_output_embeddings()
    kept = outputs.to(output.weight.device)
    bias = None if output.bias is None else output.bias.detach()[kept]
    return product(target.engine, output.weight.detach()[kept], bias)
