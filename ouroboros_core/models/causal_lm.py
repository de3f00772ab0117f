"""A Hugging Face causal language model as a scorer of token trees.

One forward pass scores a whole tree: a 4D mask lets each node see the context and its own
ancestors, and position ids count depth. `bookkeeping.py` remembers the tokens in its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import MIXED, Candidates, Mixture
from ouroboros_core.models.bookkeeping import TREE_ROOM, Bookkeeping, TokenRows
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.engines.passes import Engine
from ouroboros_core.models.engines.static import plan_no_attention
from ouroboros_core.models.forward import (
    EVERY_ROW,
    ForwardPass,
    TorchEvaluation,
    candidates_of,
)
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.reach import longest_text
from ouroboros_core.models.skips import ReducedModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder


class CausalLM(Bookkeeping[torch.Tensor, TorchEvaluation]):
    """A LanguageModel (see interfaces.py) over a decoder-only transformers model."""

    def __init__(
        self,
        model: PreTrainedModel,
        name: str,
        vocabulary: int | None = None,
        *,
        outputs: Sequence[int] | None = None,
        unshared: AbstractSet[int] = frozenset(),
        engine: Engine = "transformers",
    ) -> None:
        """Wrap a model.

        vocabulary  score only token ids below this number, for a draft with more outputs than its
                    target
        outputs     score only these token ids: a draft with a trimmed output vocabulary
        unshared    token ids that mean something else to the target of a draft, which never writes
                    them
        engine      one of `engines(model)`
        """
        if any(weight.is_cuda for weight in model.parameters()):
            plan_no_attention()
        self.model = model.eval()
        self.name = name
        config = model.config.get_text_config(decoder=True)
        self.max_length = longest_text(model)
        scored = min(vocabulary or config.vocab_size, config.vocab_size)
        self.forward_pass = ForwardPass(
            self.model, engine, scored, outputs, unshared, self.max_length
        )
        # Rows to logits, by transformers' code, ours in torch, or the native pass.
        self._forward = self.forward_pass.logits
        self.drafts = False
        """Whether it drafts: then the probabilities of its choices are also needed."""
        self.differing_entries = 0
        """For a draft, the number of vocabulary entries that it does not share with its target."""
        super().__init__()
        self.reset()

    @property
    def engine(self) -> Engine:
        """Return the engine that computes the passes."""
        return self.forward_pass.engine

    @property
    def vocabulary(self) -> int:
        """Return the number of token ids, of which all or `outputs` are scored."""
        return self.forward_pass.vocabulary

    @property
    def outputs(self) -> list[int] | None:
        """Return the token ids that it can write, or None for all."""
        written = self.forward_pass.outputs
        return None if written is None else written.tolist()

    @property
    def unshared(self) -> AbstractSet[int]:
        """Return the token ids that mean something else to the target."""
        return self.forward_pass.unshared

    def add_blocks(self, blocks: BlocksOf) -> int:
        """Also keep the weights of the native pass as blocks of a GGUF file, if these give the same
        numbers; return the number of products with blocks. `read_blocks` decides their use."""
        return self.forward_pass.add_blocks(blocks)

    def read_blocks(self, rows: int) -> None:
        """Let passes over up to `rows` rows read the weights in blocks, if there are any, and
        longer ones bfloat16. The logits are bit-identical."""
        self.forward_pass.read_blocks(rows)

    def round_weights(self) -> None:
        """Let the native pass compute with weights of 8 bits and a scale for each 32 inputs; for a
        draft model. The other passes keep the model's own weights."""
        self.forward_pass.round_weights()

    @property
    def weights(self) -> str:
        """Return the format of the weights of the native pass in words; '' for other engines."""
        if self.engine != "native":
            return ""
        rows = self.forward_pass.block_rows
        if not 0 < rows < EVERY_ROW:
            return "blocks" if rows else "bf16"
        return f"blocks up to {rows} {'row' if rows == 1 else 'rows'}, then bf16"

    @property
    def layers(self) -> int:
        return self.forward_pass.layers

    @property
    def device(self) -> torch.device:
        """Return the device of the embeddings; with `device_map` layers may be on other devices."""
        weight: torch.Tensor = self.model.get_input_embeddings().weight
        return weight.device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    def reset(self) -> None:
        """Forget every token and give the cache's memory back."""
        self._cache = self.forward_pass.new_cache()
        self._forget_tokens()

    @property
    def cache(self) -> TreeCache:
        return self._cache

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(tokens + TREE_ROOM)

    def keep_features(self, depths: Sequence[int] = ()) -> None:
        """Keep features of every row from now on, as one more layer of the cache: the last hidden
        state, and the states after `depths` layers, in addition to earlier depths.

        depths  numbers of layers, ascending, each below the model's number
        """
        united = tuple(sorted({*(self.forward_pass.depths or ()), *depths}))
        if self.forward_pass.depths != united:
            self.forward_pass.depths = united
            self.reset()

    @torch.inference_mode()
    def features(self, context: Sequence[int], depths: Sequence[int] | None = None) -> torch.Tensor:
        """Return features [len(context) - 1, width * (1 + depths)] of all tokens but the last: the
        last hidden state, then the states after `depths`, which `keep_features` was given; None:
        after all that are kept."""
        self.hold(tuple(context))
        rows: torch.Tensor = self._cache.layers[self.layers].keys[0, 0, : len(context) - 1]
        kept = self.forward_pass.depths or ()
        if depths is None or tuple(depths) == kept:
            return rows
        last, *states = rows.chunk(1 + len(kept), -1)
        chosen = [states[kept.index(depth)] for depth in depths]
        return torch.cat([last, *chosen], -1) if chosen else last

    def logits_without(self, reduced: ReducedModel, rows: TokenRows) -> torch.Tensor:
        """Return the logits [len(rows.scored), vocabulary] of rows after those that `hold` keeps,
        computed without some sublayers.

        Rows are appended only in layers whose attention runs. They stay until the cache is used
        again, which cuts every layer back to the context's rows. `rows.above` are rows that were
        appended in this way before.
        """
        return self._forward(rows, reduced)

    @torch.inference_mode()
    def memory(self, context: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values [key-value heads, len(context) - 1, width] of the last layer, of
        all tokens but the last; the context has at least two tokens."""
        self.hold(tuple(context))
        layer, count = self._cache.layers[self.layers - 1], len(context) - 1
        return layer.keys[0, :, :count], layer.values[0, :, :count]

    @torch.inference_mode()
    def prefill(self, context: Sequence[int], candidates: int = 0) -> Candidates:
        likeliest = super().prefill(context, candidates)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # a clock that is read now includes the pass
        return likeliest

    @torch.inference_mode()
    def plain(self, context: Sequence[int]) -> npt.NDArray[np.floating]:
        """Compute by transformers' pass, for any engine, and without a cache."""
        ids = torch.tensor([self.forward_pass.readable(context)], device=self.device)
        logits = self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        return self._evaluation(
            self.forward_pass.scored(logits), [0], TreeBuilder(context[-1]).build()
        ).logits(0)

    def _evaluation(
        self,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        context: tuple[int, ...] = (),
    ) -> TorchEvaluation:
        outputs = self.forward_pass.outputs
        return TorchEvaluation(
            logits, nodes, tree, outputs, self.vocabulary, context, wants_confidence=self.drafts
        )

    def _joined(
        self,
        evaluation: TorchEvaluation,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...],
    ) -> TorchEvaluation:
        return evaluation.joined(logits, nodes, tree, mixtures)

    def _candidates(self, logits: torch.Tensor, k: int) -> list[list[int]]:
        return candidates_of(logits, k, self.forward_pass.outputs)

    def _compute(self, rows: TokenRows) -> torch.Tensor:
        return self._forward(rows)

    def _keep(self, start: int, rows: Sequence[int] = ()) -> None:
        self._cache.keep(start, rows)

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        return super().evaluate(context, tree)

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> TorchEvaluation:
        return super().extend(evaluation, tree)

    @torch.inference_mode()
    def superpose(self, evaluation: Evaluation, mixture: Mixture) -> TorchEvaluation:
        assert isinstance(evaluation, TorchEvaluation)
        if getattr(self.model.config.get_text_config(), "hidden_size_per_layer_input", None):
            raise InvalidInput(
                f"{self.name} has further embeddings of a token in every layer, which cannot be "
                "mixed: name another draft model with --draft, or choose another method"
            )
        grown, waiting = evaluation, [mixture]
        if not self._holds(grown):
            waiting = [*grown.mixtures, mixture]
            unmixed = grown.tree.first(len(grown.tree) - len(grown.mixtures))
            grown = self.evaluate(grown.context, unmixed)
        for next_mixture in waiting:
            before, origin = grown.tree, Provenance(Source.DRAFT)
            tokens, parents = (*before.tokens, MIXED), (*before.parents, len(before) - 1)
            tree = TokenTree(tokens, parents, (*before.provenance, origin), before.silent)
            mixtures = (*grown.mixtures, next_mixture)
            grown = self._grown(grown, tree, self._mean(next_mixture), mixtures)
        return grown

    def _mean(self, mixture: Mixture) -> torch.Tensor:
        """Return the weighted mean [1, width] of the embeddings of a mixture's tokens."""
        rows = self.model.get_input_embeddings()(torch.tensor([*mixture], device=self.device))
        exact = torch.promote_types(rows.dtype, torch.float32)
        weights = torch.tensor([[*mixture.values()]], device=rows.device, dtype=exact)
        mean: torch.Tensor = (weights @ rows.to(exact)).to(rows.dtype)
        return mean
