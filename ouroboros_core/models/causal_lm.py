"""A Hugging Face causal language model as a scorer of token trees.

One forward pass scores a whole tree: a 4D mask lets each node see the context and its own
ancestors, and position ids count depth. The wrapper remembers which tokens its cache holds - a
context, then the last tree - and keeps what a new context still agrees with: a common prefix, then
a walk down the old tree. Nobody rolls back, crops or confirms.
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
from ouroboros_core.models.evaluation import TorchEvaluation, candidates_of
from ouroboros_core.models.forward import EVERY_ROW, ForwardPass, TokenRows
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

        vocabulary  score only the first so many token ids, where a draft's output is padded beyond
                    its target's
        outputs     score only these token ids: a draft with a trimmed output vocabulary
        unshared    of a draft, the token ids that mean something else to its target: it never
                    writes them
        engine      what computes its passes; one of `engines(model)`
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
        # Rows to logits, by transformers' own code, ours in torch, or the native pass.
        self._forward = self.forward_pass.logits
        self.drafts = False
        """Whether it drafts: how sure it is of its choices is then asked, too."""
        self.differing_entries = 0
        """Of a draft, the entries of its vocabulary and the target's that it does not share."""
        self.borrower: object | None = None
        """Whoever has written behind the context's rows since the cache was last asked for."""
        self.reset()

    @property
    def engine(self) -> Engine:
        """What computes the passes."""
        return self.forward_pass.engine

    @property
    def vocabulary(self) -> int:
        """The first so many token ids are scored."""
        return self.forward_pass.vocabulary

    @property
    def outputs(self) -> list[int] | None:
        """The token ids it can write, where these are not all."""
        written = self.forward_pass.outputs
        return None if written is None else written.tolist()

    @property
    def unshared(self) -> AbstractSet[int]:
        """Token ids that mean something else to the target."""
        return self.forward_pass.unshared

    def add_blocks(self, blocks: BlocksOf) -> int:
        """Keep the weights of the native pass as blocks of a GGUF file, too, where these come to
        the same numbers; how many products have some. `read_blocks` says when they are read."""
        return self.forward_pass.add_blocks(blocks)

    def read_blocks(self, rows: int) -> None:
        """From now on passes over up to so many rows read the weights in blocks, where there are
        any; the others read bfloat16. The logits are the same to the bit."""
        self.forward_pass.read_blocks(rows)

    @property
    def weights(self) -> str:
        """In what format the native pass reads the weights, in words; '' where it does not
        compute."""
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
        """Where token ids go in; with `device_map` the layers may lie elsewhere too."""
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
        """The tokens whose keys and values the cache holds: a context, and the tree behind it,
        whose root ends the context."""
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
        """From now on remember the features of every row, as one more layer of the cache: the last
        hidden state, and the states after so many layers, beside those that are kept already.

        depths  numbers of layers, ascending, each below the model's own number
        """
        wanted = tuple(sorted({*(self.forward_pass.depths or ()), *depths}))
        if self.forward_pass.depths != wanted:
            self.forward_pass.depths = wanted
            self.reset()

    @torch.inference_mode()
    def features(self, context: Sequence[int]) -> torch.Tensor:
        """Features [len(context) - 1, width * (1 + depths)] of all tokens but the last: the last
        hidden state, then those of the depths; needs `keep_features`."""
        self.hold(tuple(context))
        layer = self._cache.layers[self.layers]
        return layer.keys[0, 0, : len(context) - 1]  # type: ignore[no-any-return]

    def hold(self, context: tuple[int, ...]) -> None:
        """Let the cache hold the rows of all tokens but the last, in every layer, and no others."""
        kept = self._rewind(context)
        if kept < len(context) - 1:
            self._fill(context, kept)

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
        """Keys and values [key-value heads, len(context) - 1, width] that the last layer keeps of
        all tokens but the last, which must not be the only one."""
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
            torch.cuda.synchronize(self.device)  # so that a clock read now has the pass behind it
        return likeliest

    @torch.inference_mode()
    def plain(self, context: Sequence[int]) -> npt.NDArray[np.floating]:
        """By transformers' own pass, whatever computes otherwise, and without any cache."""
        ids = torch.tensor([self.forward_pass.readable(context)], device=self.device)
        found = self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        return self._evaluation(
            self.forward_pass.scored(found), [0], TreeBuilder(context[-1]).build()
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
        kept = self._rewind(context)
        last = len(context) - 1
        if last - kept > PACKED_CONTEXT:
            self._fill(context, kept)
            kept = last
        missing = last - kept
        nodes = [n for n in range(len(tree)) if n not in tree.silent]
        # Until the pass has ended, the cache holds nothing that can be relied on.
        self._context, self._tree = (), None
        rows = TokenRows(
            tokens=[*context[kept:-1], *tree.tokens],
            positions=[*range(kept, last), *(last + depth for depth in tree.depths)],
            sees=_visibility(missing, tree.ancestors),
            scored=[missing + n for n in nodes],
            past=kept,
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
        found, waiting = evaluation, [mixture]
        if self._context != found.context or self._tree is not found.tree:
            waiting = [*found.mixtures, mixture]
            unmixed = found.tree.first(len(found.tree) - len(found.mixtures))
            found = self.evaluate(found.context, unmixed)
        for one in waiting:
            known, origin = found.tree, Provenance(Source.DRAFT)
            tokens, parents = (*known.tokens, MIXED), (*known.parents, len(known) - 1)
            tree = TokenTree(tokens, parents, (*known.provenance, origin), known.silent)
            found = self._grown(found, tree, one)
        return found

    def _grown(
        self, evaluation: TorchEvaluation, tree: TokenTree, mixture: Mixture | None = None
    ) -> TorchEvaluation:
        """The evaluation with the new nodes of `tree`, the others being in the cache; the only new
        one is a `mixture` where there is one."""
        context, known = evaluation.context, evaluation.tree
        fresh = range(len(known), len(tree))
        if not fresh:
            return evaluation
        nodes = [node for node in fresh if node not in tree.silent]
        last = len(context) - 1
        embeddings = None if mixture is None else self._mean(mixture)
        self._context, self._tree = (), None
        # A new row sees all of the context, and of the tree's rows - those in the cache (`above`)
        # and the new ones - its ancestors.
        rows = TokenRows(
            tokens=[tree.tokens[node] for node in fresh],
            positions=[last + tree.depths[node] for node in fresh],
            sees=tree.ancestors[len(known) :],
            scored=[node - len(known) for node in nodes],
            past=last + len(known),
            above=[last + depth for depth in known.depths],
            embeddings=embeddings,
        )
        logits = self._forward(rows)
        self.passes += 1
        self.rows += len(fresh)
        self._context, self._tree = context, tree
        mixtures = () if mixture is None else (*evaluation.mixtures, mixture)
        return evaluation.joined(logits, nodes, tree, mixtures)

    def _mean(self, mixture: Mixture) -> torch.Tensor:
        """The weighted mean [1, width] of the embeddings of some tokens."""
        rows = self.model.get_input_embeddings()(torch.tensor([*mixture], device=self.device))
        exact = torch.promote_types(rows.dtype, torch.float32)
        weights = torch.tensor([[*mixture.values()]], device=rows.device, dtype=exact)
        mean: torch.Tensor = (weights @ rows.to(exact)).to(rows.dtype)
        return mean

    def _rewind(self, context: tuple[int, ...]) -> int:
        """Keep of the cache what agrees with `context`, without its last token: a common prefix, or
        all of it and the nodes of the old tree that the text has gone on through. The number of
        rows kept."""
        held, tree = self._context, self._tree
        self._context, self._tree, self.borrower = (), None, None
        limit = len(context) - 1
        if context[: len(held)] != held or limit < len(held):
            kept = min(_agreement(held, context), limit)
            self._cache.keep(kept)
        else:
            walk: list[int] = []
            if tree is not None:
                walk = _walk(tree, context[len(held) : limit])
            self._cache.keep(len(held), [len(held) - 1 + node for node in walk])
            kept = len(held) + len(walk)
        self._context = context[:kept]
        return kept

    def _fill(self, context: tuple[int, ...], kept: int, candidates: int = 0) -> Candidates:
        """Compute context rows from `kept` up to the last token, in chunks.

        Where `candidates` are wanted every row is projected to logits, and the likeliest tokens
        after it come back; otherwise no row is.
        """
        end = len(context) - 1
        likeliest: Candidates = {}
        last = {token: place for place, token in enumerate(context[:end])} if candidates else {}
        chunk = (
            min(PREFILL_CHUNK, max(64, PROJECTED // self.vocabulary))
            if candidates
            else PREFILL_CHUNK
        )
        for start in range(kept, end, chunk):
            stop = min(start + chunk, end)
            self._context = ()
            count = stop - start
            wanted = sorted(place - start for place in last.values() if start <= place < stop)
            causal = np.tri(count, dtype=np.bool_)
            logits = self._forward(
                TokenRows(context[start:stop], range(start, stop), causal, wanted, past=start)
            )
            if wanted:
                found = candidates_of(logits, candidates, self.forward_pass.outputs)
                likeliest |= zip((context[start + n] for n in wanted), found, strict=True)
            self._context = context[:stop]
        return likeliest


def _visibility(missing: int, ancestors: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Visibility among `missing` context rows followed by a tree's rows: causal, then everything
    before plus ancestors."""
    if not missing:
        return ancestors
    rows = missing + len(ancestors)
    sees = np.tri(rows, dtype=np.bool_)
    sees[missing:, missing:] = ancestors
    return sees


def _agreement(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _walk(tree: TokenTree, tokens: Sequence[int]) -> list[int]:
    """Nodes below the root that carry `tokens` one after the other, as far as the tree goes; window
    nodes count, too."""
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
