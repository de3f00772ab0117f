"""The base of all heads: weights in a folder with their description, and a drafter that reads the
target's states."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

from ouroboros_core.errors import InvalidInput, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Product, draft_product
from ouroboros_core.models.forward import TorchEvaluation
from ouroboros_core.models.heads.recipes import EAGLE, EAGLE3, HeadRecipe
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.tree import Evaluation, TokenTree

WEIGHTS, ABOUT = "head.safetensors", "head.json"

SCALE = ".scale"
"""Suffix of the name of a matrix's factors, one factor per row."""


@dataclass(frozen=True)
class HeadConfig:
    """The target that a head was trained for.

    target     the target's name, for messages
    signature  some of the target's weights: a head fits no other target
    width      of the target's hidden states
    """

    target: str
    signature: tuple[float, ...]
    width: int


def signature(target: PreTrainedModel) -> tuple[float, ...]:
    """Return some weights of a model, from its first matrices to its last. They are the same in
    every dtype up to rounding."""
    matrices = [weight for weight in target.parameters() if weight.dim() == 2]
    chosen = [matrices[round(n * (len(matrices) - 1) / 7)] for n in range(8)]
    weights = [
        matrix[(len(matrix) // 3 + n) % len(matrix), (5 * n + 3) % matrix.shape[1]]
        for matrix in chosen
        for n in range(8)
    ]
    return tuple(round(float(weight.detach()), 7) for weight in weights)


def _same_model(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether two signatures are equal up to rounding."""
    return len(a) == len(b) and all(
        abs(x - y) <= 0.01 * max(abs(x), abs(y)) + 1e-4 for x, y in zip(a, b, strict=True)
    )


class Head(nn.Module):
    """Weights that were trained for one target, and the token ids that they can draft."""

    Recipe: ClassVar[type[HeadRecipe]]
    Config: ClassVar[type[HeadConfig]]
    by_output: ClassVar[frozenset[str]] = frozenset()
    """The weights that have a row for each token of `outputs`."""
    outputs: torch.Tensor

    def __init__(self, config: HeadConfig, outputs: Sequence[int]) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("outputs", torch.tensor(sorted(outputs), dtype=torch.int32))

    @property
    def device(self) -> torch.device:
        return self.outputs.device

    @property
    def stored(self) -> dict[str, torch.Tensor]:
        """The tensors that a file of the head holds."""
        return self.state_dict()

    @property
    def shape(self) -> str:
        """The sizes of the head, in words."""
        return f"{len(self.outputs)} output tokens"

    def save(self, folder: Path, bits: int = 16) -> None:
        """Write the weights in bfloat16, or their matrices in 8 bits, and the configuration."""
        folder.mkdir(parents=True, exist_ok=True)
        write_weights(self.stored, folder / WEIGHTS, bits)
        about = {"kind": self.Recipe.kind, **asdict(self.config)}
        (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, target: PreTrainedModel) -> Self:
        """Return the head in a folder, in the target's dtype and on its device.

        Raises WeightsUnavailable if the folder holds no head of this kind, VocabularyMismatch if
        the head was trained for another target.
        """
        phrase, kind = cls.Recipe.phrase, cls.Recipe.kind
        try:
            data: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if described(data) != kind:
                raise ValueError("it is of another kind")
            sizes = {name: value for name, value in data.items() if name != "kind"}
            config = cls.Config(**{name: _frozen(value) for name, value in sizes.items()})
            state = read_weights(folder / WEIGHTS)
            head = cls(config, state["outputs"].tolist())
            state = head.renamed(state)
            missing, unknown = head.load_state_dict(state, strict=False)
            if unknown or set(missing) & head.stored.keys():
                raise ValueError(f"weights are missing or unknown: {[*missing, *unknown]}")
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise WeightsUnavailable(f"{folder} does not hold {phrase}: {error}") from None
        if not _same_model(config.signature, signature(target)):
            raise VocabularyMismatch(
                f"{folder.name}, {phrase}, was trained for {config.target} and reads its "
                "states, but this target is another: train one for it: ouroboros "
                f"train {kind} --target ... --out ..."
            )
        depths = head._depths
        layers = target.config.get_text_config(decoder=True).num_hidden_layers
        if not all(0 < depth < layers for depth in depths):
            raise WeightsUnavailable(
                f"{folder} does not hold {phrase}: depths must be between 1 and {layers - 1}, got "
                f"{', '.join(map(str, depths))}"
            )
        weight = target.get_input_embeddings().weight
        return head.to(device=weight.device, dtype=weight.dtype).eval()

    def start_from(self, folder: Path) -> None:
        """Take the weights of a finished head of the same shape that reads the same states. Rows of
        tokens that it does not draft stay as they are. Raises InvalidInput."""
        try:
            about: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            depths, file_depths = list(self._depths), list(about.get("depths", ()))
            if depths != file_depths:
                raise ValueError(f"it reads states at depths {file_depths}, not {depths}")
            state = self.renamed(read_weights(folder / WEIGHTS))
            outputs = state.pop("outputs")
            for name in self.by_output & state.keys():
                state[name] = self._moved(name, state[name], outputs)
            missing, unknown = self.load_state_dict(state, strict=False)
            if unknown or set(missing) & self.stored.keys() - {"outputs"}:
                raise KeyError(", ".join([*missing, *unknown]))
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise InvalidInput(
                f"{folder} holds no head of this shape to go on from: {error}"
            ) from None

    @property
    def _depths(self) -> Sequence[int]:
        """The layers of the target after which states are read, beside the last one."""
        depths: Sequence[int] = getattr(self.config, "depths", ())
        return depths

    def _moved(self, name: str, rows: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        """Return a weight with the rows that another head has for the same tokens."""
        weight: torch.Tensor = self.state_dict()[name].clone()
        own_outputs = self.outputs.cpu()
        indices = torch.searchsorted(outputs, own_outputs).clamp(max=len(outputs) - 1)
        trained = outputs[indices] == own_outputs
        if rows.shape[1:] != weight.shape[1:] or len(rows) != len(outputs):
            raise ValueError(f"{name} has shape {list(rows.shape)}, not {list(weight.shape)}")
        weight[trained.to(weight.device)] = rows[indices[trained]].to(weight)
        return weight

    def renamed(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the weights in a file by the names that this class gives them."""
        return state


def described(about: dict[str, Any]) -> str | None:
    """Return the kind of head that a description names. Before EAGLE-3 had a kind of its own, its
    heads were EAGLE heads with `depths`."""
    kind = about.get("kind")
    return EAGLE3 if kind == EAGLE and about.get("depths") else kind


def _frozen(value: Any) -> Any:
    """Return lists as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class HeadDrafter(ABC):
    """A head of one target as a Drafter. It remembers keys and values of the text that it has
    read, where it has any."""

    weights: ClassVar[type[Head]]
    """The class of the heads that it drafts with."""

    def __init__(self, head: Head, target: CausalLM, name: str) -> None:
        self.target, self.name, self.passes, self.rows = target, name, 0, 0
        self.weight_count = sum(weight.numel() for weight in head.parameters())
        self.reset()

    @property
    def vocabulary(self) -> int:
        vocabulary: int = self.target.vocabulary
        return vocabulary

    def reset(self) -> None:
        """Forget every token, and free the memory of the cache."""
        self._cache = TreeCache(1)
        self.forget()

    def forget(self) -> None:
        """Forget earlier texts; the allocated memory stays."""
        self._tokens: tuple[int, ...] = ()
        self._cache.keep(0)

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens)

    def _common_length(self, tokens: Sequence[int]) -> int:
        """Return the length of the common beginning of some tokens and the text that was read."""
        shorter = min(len(tokens), len(self._tokens))
        pairs = enumerate(zip(tokens, self._tokens, strict=False))
        return next((n for n, (new, old) in pairs if new != old), shorter)

    @abstractmethod
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        """Return the outputs after every node. The context has at least two tokens, because the
        target has no states of the last one yet."""

    @abstractmethod
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> TorchEvaluation:
        """Return the outputs after every node of a tree that begins with the evaluated one."""


class DepthEvaluation(TorchEvaluation):
    """Outputs that depend on the depth of a node only: logits [levels, columns]. Deeper nodes have
    no outputs."""

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


class DepthDrafter(HeadDrafter):
    """A drafter whose outputs depend on the depth of a node only."""

    def __init__(self, head: Head, target: CausalLM, name: str) -> None:
        super().__init__(head, target, name)
        self._outputs = scored_outputs(head, target)
        self._project = projection(target, self._outputs)

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> DepthEvaluation:
        context = tuple(context)
        check_context(context, tree)
        logits = self._project(self.guesses(context, max(tree.depths) + 1))
        return DepthEvaluation(logits, tree, self._outputs, self.vocabulary, context)

    @abstractmethod
    def guesses(self, context: tuple[int, ...], levels: int) -> torch.Tensor:
        """Return hidden states [levels or fewer, width] after nodes of depth 0, 1 ..., from one
        pass."""

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> DepthEvaluation:
        """Make a pass only if the tree is deeper than the evaluated one."""
        assert isinstance(evaluation, DepthEvaluation)
        logits = evaluation.all_logits
        if max(tree.depths) >= len(logits):
            return self.evaluate(evaluation.context, tree)
        return DepthEvaluation(logits, tree, self._outputs, self.vocabulary, evaluation.context)


def check_context(context: tuple[int, ...], tree: TokenTree) -> None:
    """Raise InvalidInput unless a head can draft at the end of the context."""
    if len(context) < 2 or tree.tokens[0] != context[-1]:
        raise InvalidInput(
            "the root of the tree must be the last token of the context, which must have two "
            "tokens at least"
        )


def scored_outputs(head: Head, target: CausalLM) -> torch.Tensor:
    """Return the token ids that the head can draft and the target scores, in ascending order."""
    ids = head.outputs.long()
    return ids[ids < target.vocabulary]


def projection(target: CausalLM, outputs: torch.Tensor) -> Product:
    """Return the map of hidden states [rows, width] to logits of some token ids, by the target's
    output matrix."""
    output = target.model.get_output_embeddings()
    ids = outputs.to(output.weight.device)
    bias = None if output.bias is None else output.bias.detach()[ids]
    return draft_product(target.engine, output.weight.detach()[ids], bias)


def write_weights(state: dict[str, torch.Tensor], file: Path, bits: int = 16) -> None:
    """Write weights in bfloat16, or their matrices in 8 bits with a factor for each row."""
    weights = {name: value.detach().cpu() for name, value in state.items()}
    stored = {}
    for name, value in (rounded(weights) if bits == 8 else weights).items():
        short = value.is_floating_point() and not name.endswith(SCALE)
        stored[name] = (value.bfloat16() if short else value).contiguous()
    save_file(stored, file, metadata={"format": "pt"})


def rounded(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights with all matrices, single or in a stack, as whole numbers from -127 to 127
    and a factor for each row; biases stay unchanged."""
    integers: dict[str, torch.Tensor] = {}
    for name, weight in state.items():
        integers[name] = weight
        if weight.ndim >= 2 and weight.is_floating_point() and not name.endswith("bias"):
            largest = weight.float().abs().amax(-1, keepdim=True)
            factor = (largest / 127).clamp_min(torch.finfo(torch.float32).tiny)
            integers[name] = (weight.float() / factor).round().to(torch.int8)
            integers[name + SCALE] = factor
    return integers


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights in a file, rounded matrices in bfloat16, so that every pass multiplies the
    same numbers. Raises OSError or SafetensorError."""
    state = load_file(file)
    factors = {name: state.pop(name) for name in [*state] if name.endswith(SCALE)}
    for name, factor in factors.items():
        matrix = name.removesuffix(SCALE)
        state[matrix] = (state[matrix].float() * factor).bfloat16()
    return state
