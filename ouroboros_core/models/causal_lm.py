"""A Hugging Face causal language model as a scorer of token trees.

One forward pass scores a whole tree: a 4D mask lets each node see the context and its own
ancestors, and position ids count depth. The wrapper remembers the tokens in its cache: a context,
then the last tree. For a new context it keeps the rows of a common prefix, then of a path in the
old tree. Nobody rolls back, crops or confirms.
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
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.engines.passes import Engine
from ouroboros_core.models.engines.static import plan_no_attention
from ouroboros_core.models.forward import (
    EVERY_ROW,
    ForwardPass,
    TokenRows,
    TorchEvaluation,
    candidates_of,
)
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.reach import longest_text
from ouroboros_core.models.skips import ReducedModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder

PREFILL_CHUNK = 512
"""Rows of the context computed in one pass; its mask has this many rows, never as many as the
context."""

PROJECTED = 1 << 25
"""Logits held at once where every row of the context is projected."""

TREE_ROOM = 256
"""Rows kept free behind the context for the trees of a run."""

PACKED_CONTEXT = 64
"""Up to this many missing context rows travel in the same pass as the tree."""


class CausalLM:
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
        self.passes = self.rows = 0
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
        self.borrower: object | None = None
        """The evaluation whose rows were appended after the context since the last pass."""
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
        self._context: tuple[int, ...] = ()
        self._tree: TokenTree | None = None
        self.borrower = None

    @property
    def held(self) -> tuple[tuple[int, ...], TokenTree | None]:
        """Return the tokens whose keys and values are in the cache: a context, and the tree whose
        root ends it."""
        return self._context, self._tree

    @property
    def cache(self) -> TreeCache:
        return self._cache

    def forget(self) -> None:
        self._context, self._tree, self.borrower = (), None, None
        self._cache.keep(0)

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
    def features(self, context: Sequence[int]) -> torch.Tensor:
        """Return features [len(context) - 1, width * (1 + depths)] of all tokens but the last: the
        last hidden state, then the states after `depths`; needs `keep_features`."""
        self.hold(tuple(context))
        layer = self._cache.layers[self.layers]
        return layer.keys[0, 0, : len(context) - 1]  # type: ignore[no-any-return]

    def hold(self, context: tuple[int, ...]) -> None:
        """Fill the cache with the rows of all tokens but the last, in every layer, and no
        others."""
        cached = self._rewind(context)
        if cached < len(context) - 1:
            self._fill(context, cached)

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
        context = tuple(context)
        if candidates:
            self.forget()
        if len(context) == 1:
            return {}
        likeliest = self._fill(context, self._rewind(context), candidates)
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

    @torch.inference_mode()
    def evaluate(self, context: Sequence[int], tree: TokenTree) -> TorchEvaluation:
        context = tuple(context)
        if not context or tree.tokens[0] != context[-1]:
            raise InvalidInput(
                "the root of the tree must be the last token of the context, and the context must "
                "not be empty"
            )
        cached = self._rewind(context)
        last = len(context) - 1
        if last - cached > PACKED_CONTEXT:
            self._fill(context, cached)
            cached = last
        missing = last - cached
        nodes = [n for n in range(len(tree)) if n not in tree.silent]
        # The content of the cache is undefined until the pass has ended.
        self._context, self._tree = (), None
        rows = TokenRows(
            tokens=[*context[cached:-1], *tree.tokens],
            positions=[*range(cached, last), *(last + depth for depth in tree.depths)],
            sees=_visibility(missing, tree.ancestors),
            scored=[missing + n for n in nodes],
            past=cached,
        )
        logits = self._forward(rows)
        self.passes += 1
        self.rows += len(tree)
        self._context, self._tree = context, tree
        return self._evaluation(logits, nodes, tree, context)

    @torch.inference_mode()
    def extend(self, evaluation: Evaluation, tree: TokenTree) -> TorchEvaluation:
        assert isinstance(evaluation, TorchEvaluation)
        context, evaluated = evaluation.context, evaluation.tree
        assert tree.begins_with(evaluated), (
            "an extended tree begins with the nodes of the one that was evaluated"
        )
        assert not evaluation.mixtures, "behind a mixture there are mixtures only"
        if self._context != context or self._tree is not evaluated:
            return self.evaluate(context, tree)
        return self._grown(evaluation, tree)

    @torch.inference_mode()
    def superpose(self, evaluation: Evaluation, mixture: Mixture) -> TorchEvaluation:
        assert isinstance(evaluation, TorchEvaluation)
        if getattr(self.model.config.get_text_config(), "hidden_size_per_layer_input", None):
            raise InvalidInput(
                f"{self.name} has further embeddings of a token in every layer, which cannot be "
                "mixed: name another draft model with --draft, or choose another method"
            )
        grown, waiting = evaluation, [mixture]
        if self._context != grown.context or self._tree is not grown.tree:
            waiting = [*grown.mixtures, mixture]
            unmixed = grown.tree.first(len(grown.tree) - len(grown.mixtures))
            grown = self.evaluate(grown.context, unmixed)
        for next_mixture in waiting:
            before, origin = grown.tree, Provenance(Source.DRAFT)
            tokens, parents = (*before.tokens, MIXED), (*before.parents, len(before) - 1)
            tree = TokenTree(tokens, parents, (*before.provenance, origin), before.silent)
            grown = self._grown(grown, tree, next_mixture)
        return grown

    def _grown(
        self, evaluation: TorchEvaluation, tree: TokenTree, mixture: Mixture | None = None
    ) -> TorchEvaluation:
        """Return the evaluation with the new nodes of `tree`; the others are in the cache. With a
        `mixture` it is the only new node."""
        context, cached = evaluation.context, evaluation.tree
        fresh = range(len(cached), len(tree))
        if not fresh:
            return evaluation
        nodes = [node for node in fresh if node not in tree.silent]
        last = len(context) - 1
        embeddings = None if mixture is None else self._mean(mixture)
        self._context, self._tree = (), None
        # A new row sees the whole context, and its ancestors among the tree's rows: the cached ones
        # (`above`) and the new ones.
        rows = TokenRows(
            tokens=[tree.tokens[node] for node in fresh],
            positions=[last + tree.depths[node] for node in fresh],
            sees=tree.ancestors[len(cached) :],
            scored=[node - len(cached) for node in nodes],
            past=last + len(cached),
            above=[last + depth for depth in cached.depths],
            embeddings=embeddings,
        )
        logits = self._forward(rows)
        self.passes += 1
        self.rows += len(fresh)
        self._context, self._tree = context, tree
        mixtures = () if mixture is None else (*evaluation.mixtures, mixture)
        return evaluation.joined(logits, nodes, tree, mixtures)

    def _mean(self, mixture: Mixture) -> torch.Tensor:
        """Return the weighted mean [1, width] of the embeddings of a mixture's tokens."""
        rows = self.model.get_input_embeddings()(torch.tensor([*mixture], device=self.device))
        exact = torch.promote_types(rows.dtype, torch.float32)
        weights = torch.tensor([[*mixture.values()]], device=rows.device, dtype=exact)
        mean: torch.Tensor = (weights @ rows.to(exact)).to(rows.dtype)
        return mean

    def _rewind(self, context: tuple[int, ...]) -> int:
        """Keep the cached rows that agree with `context` without its last token: a common prefix,
        or the whole cached context and the nodes of the old tree that the text continued through.
        Return the number of rows kept."""
        held, tree = self._context, self._tree
        self._context, self._tree, self.borrower = (), None, None
        limit = len(context) - 1
        if context[: len(held)] != held or limit < len(held):
            count = min(_agreement(held, context), limit)
            self._cache.keep(count)
        else:
            walk: list[int] = []
            if tree is not None:
                walk = _walk(tree, context[len(held) : limit])
            self._cache.keep(len(held), [len(held) - 1 + node for node in walk])
            count = len(held) + len(walk)
        self._context = context[:count]
        return count

    def _fill(self, context: tuple[int, ...], cached: int, candidates: int = 0) -> Candidates:
        """Compute the context's rows from `cached` up to the last token, in chunks.

        With `candidates` compute logits of every row, and return the likeliest tokens after the
        last occurrence of each token; otherwise compute no logits.
        """
        end = len(context) - 1
        likeliest: Candidates = {}
        last = {token: n for n, token in enumerate(context[:end])} if candidates else {}
        chunk = (
            min(PREFILL_CHUNK, max(64, PROJECTED // self.vocabulary))
            if candidates
            else PREFILL_CHUNK
        )
        for start in range(cached, end, chunk):
            stop = min(start + chunk, end)
            self._context = ()
            count = stop - start
            scored = sorted(n - start for n in last.values() if start <= n < stop)
            causal = np.tri(count, dtype=np.bool_)
            logits = self._forward(
                TokenRows(context[start:stop], range(start, stop), causal, scored, past=start)
            )
            if scored:
                best = candidates_of(logits, candidates, self.forward_pass.outputs)
                likeliest |= zip((context[start + n] for n in scored), best, strict=True)
            self._context = context[:stop]
        return likeliest


def _visibility(missing: int, ancestors: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the visibility among `missing` context rows and a tree's rows: causal for the context,
    the context and ancestors for the tree."""
    if not missing:
        return ancestors
    rows = missing + len(ancestors)
    sees = np.tri(rows, dtype=np.bool_)
    sees[missing:, missing:] = ancestors
    return sees


def _agreement(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _walk(tree: TokenTree, tokens: Sequence[int]) -> list[int]:
    """Return the path of nodes below the root with `tokens`, as far as the tree has it; window
    nodes are included."""
    below = {
        (parent, token): node
        for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True))
        if node
    }
    path: list[int] = []
    node = 0
    for token in tokens:
        if (node, token) not in below:
            break
        node = below[node, token]
        path.append(node)
    return path
