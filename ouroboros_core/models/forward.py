"""The forward pass of a causal language model, from rows of tokens to an evaluation.

A `ForwardPass` computes rows after cached ones, by transformers' code or by one of our decoders,
and projects them to the token ids that are scored. A `TorchEvaluation` holds these logits for the
nodes of a tree and chooses from them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from ouroboros_core.interfaces import Mixture
from ouroboros_core.models.bookkeeping import TokenRows
from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.engines.native.choose import LogitRows, logit_rows
from ouroboros_core.models.engines.native.decoder import NativeDecoder, NativeProduct
from ouroboros_core.models.engines.passes import Decoder, Engine, Product, decoder, product, rounded
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.reach import Masks, windows_of
from ouroboros_core.models.skips import NOTHING, ReducedModel
from ouroboros_core.tree import TokenTree

EVERY_ROW = 1 << 30
"""More rows than any pass has."""

BLOCK = 128
"""Columns of a block of logits."""

STAND_IN = 0
"""The token id that a draft model reads in place of an id that it does not share."""


class ForwardPass:
    """The computation of a model's rows, and the cache that they are written to.

    vocabulary  token ids below this number are scored
    outputs     if not None, only these token ids are scored
    unshared    token ids that mean something else to the target: their probability is 0. For such
                an id in the text, or an id beyond the rows of the embedding, STAND_IN is read
    cache       keys and values, and after the model's layers a layer for features
    """

    def __init__(
        self,
        model: PreTrainedModel,
        engine: Engine,
        vocabulary: int,
        outputs: Sequence[int] | None,
        unshared: AbstractSet[int],
        max_length: int,
    ) -> None:
        config = model.config.get_text_config(decoder=True)
        self.model, self.engine = model, engine
        self.vocabulary, self.max_length = vocabulary, max_length
        self.unshared = unshared
        self.layers = int(config.num_hidden_layers)
        weight: torch.Tensor = model.get_input_embeddings().weight
        self.embedded = len(weight)
        self.outputs = (
            None
            if outputs is None
            else torch.tensor(sorted({*outputs} - unshared), device=weight.device)
        )
        ruled_out = sorted(token for token in unshared if token < vocabulary)
        self._ruled_out = (
            torch.tensor(ruled_out, device=weight.device) if ruled_out and outputs is None else None
        )
        self.decoder: Decoder | None = None
        self.blocks: BlocksOf = {}
        self.block_rows = 0
        if engine != "transformers":
            self.decoder = decoder(engine, model.base_model)
            self.project = self._projection()
        self.depths: tuple[int, ...] | None = None
        self._seen: dict[int, torch.Tensor] = {}
        self.cache = self.new_cache()

    @cached_property
    def masks(self) -> Masks:
        """Return the maker of masks for transformers' pass; the first use asks the model for
        windows."""
        return Masks(self.model.dtype, windows_of(self.model, self.max_length))

    def new_cache(self) -> TreeCache:
        """Replace the cache by an empty one, and return it."""
        layers = self.layers + (self.depths is not None)
        self.cache = TreeCache(layers, zeroed=self.engine == "static")
        return self.cache

    def _projection(self) -> Product:
        """Return the product of hidden states [rows, width] to logits of the scored token ids."""
        head = self.model.get_output_embeddings()
        ids = slice(self.vocabulary) if self.outputs is None else self.outputs
        bias = None if head.bias is None else head.bias.detach()[ids]
        projection = product(self.engine, head.weight.detach()[ids], bias)
        blocks = self.blocks.get("output", self.blocks.get("token_embd"))
        if blocks is not None and isinstance(projection, NativeProduct):
            projection.add_blocks(blocks.rows(ids if isinstance(ids, slice) else ids.numpy()))
            projection.block_rows = self.block_rows
        return projection

    def add_blocks(self, blocks: BlocksOf) -> int:
        """See `CausalLM.add_blocks`."""
        if not isinstance(self.decoder, NativeDecoder):
            return 0
        self.blocks = blocks
        self.project = self._projection()
        head = isinstance(self.project, NativeProduct) and self.project.in_blocks is not None
        return self.decoder.add_blocks(blocks) + head

    def read_blocks(self, rows: int) -> None:
        """See `CausalLM.read_blocks`."""
        self.block_rows = rows
        for computation in (self.decoder, self.project):
            if isinstance(computation, NativeDecoder | NativeProduct):
                computation.block_rows = rows

    def round_weights(self) -> None:
        """See `CausalLM.round_weights`."""
        for computation in (self.decoder, self.project) if self.decoder else ():
            rounded(computation)

    def readable(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens, with STAND_IN in place of ids that the model does not share."""
        return [
            token if token < self.embedded and token not in self.unshared else STAND_IN
            for token in tokens
        ]

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Hook a transformers model for a while, so that it notes the features."""
        if self.depths is None:
            yield
            return
        body: Any = self.model.get_decoder()

        def note(depth: int, output: Any) -> None:
            if isinstance(output, tuple):  # a layer's, before transformers 5
                output = output[0]
            states: torch.Tensor = getattr(output, "last_hidden_state", output)
            self._seen[depth] = states[0]

        hooks = [body.register_forward_hook(lambda _, __, out: note(self.layers, out))]
        # Architectures name the list of their layers differently.
        lists = (part for part in body.children() if isinstance(part, torch.nn.ModuleList))
        layers = next(part for part in lists if len(part) == self.layers)
        for depth in self.depths:
            hook = partial(lambda depth, _, __, out: note(depth, out), depth)
            hooks.append(layers[depth - 1].register_forward_hook(hook))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def logits(self, rows: TokenRows, reduced: ReducedModel | None = None) -> torch.Tensor:
        """Append rows to the cache; return the logits [len(rows.scored), vocabulary or outputs].

        reduced: compute them without some sublayers; no features are kept then.
        """
        device = self.model.get_input_embeddings().weight.device
        count, past, embeddings = len(rows.tokens), rows.past, rows.embeddings
        sees = rows.sees
        self.cache.reserve(past + count)
        valid = [min(position, self.max_length - 1) for position in rows.positions]
        ids, positions = torch.tensor(
            [self.readable(rows.tokens), valid], device=device
        )  # one transfer to the device
        columns = torch.tensor(rows.above, device=device) if rows.above else None
        if self.decoder is not None:
            if embeddings is None:
                embeddings = self.model.get_input_embeddings()(ids)
            longest = min(self.cache.capacity, self.max_length)
            depths = () if reduced else self.depths or ()
            skips = reduced.skips if reduced else NOTHING
            # On a CPU mostly NativeDecoder of native/decoder.py; passes.py chooses.
            hidden, states = self.decoder.run(
                Rows(embeddings, positions, longest, sees, depths, without=skips), self.cache
            )
            if reduced is None:
                self._seen = {**dict(zip(depths, states, strict=True)), self.layers: hidden}
                self._note_features(past)
            return self._projected(hidden, rows.scored)
        inputs: dict[str, torch.Tensor] = (
            {"input_ids": ids[None]} if embeddings is None else {"inputs_embeds": embeddings[None]}
        )
        model = reduced.view if reduced else self.model
        with contextlib.nullcontext() if reduced else self._watching():
            output = model(
                **inputs,
                attention_mask=self.masks.of(past - len(rows.above), positions, sees, columns),
                position_ids=positions[None],
                past_key_values=self.cache,
                use_cache=True,
                # At least one row: some models' code fails without any.
                logits_to_keep=torch.tensor(rows.scored or [count - 1], device=device),
            )
        if reduced is None:
            self._note_features(past)
        return self.scored(output.logits[0, : len(rows.scored)])

    def scored(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the columns of the scored token ids from logits [rows, all tokens]."""
        columns = logits[:, : self.vocabulary]
        if self.outputs is not None:
            columns = columns[:, self.outputs]
        return self._without_unshared(columns)

    def _without_unshared(self, logits: torch.Tensor) -> torch.Tensor:
        """Set the logits [rows, columns] of unshared token ids to -inf; return them."""
        if self._ruled_out is not None:
            logits[:, self._ruled_out] = -torch.inf
        return logits

    def _projected(self, hidden: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """Return the logits [len(rows), vocabulary or outputs] of rows of hidden [rows, width]."""
        if not rows:
            columns = self.vocabulary if self.outputs is None else len(self.outputs)
            return hidden.new_empty(0, columns)
        chosen = hidden if len(rows) == len(hidden) else hidden[rows]
        return self._without_unshared(self.project(chosen))

    def _note_features(self, past: int) -> None:
        if self.depths is not None:
            layer = self.cache.layers[self.layers]
            assert layer.length == past
            rows = torch.cat([self._seen[d] for d in (self.layers, *self.depths)], -1)[None, None]
            layer.update(rows, rows[..., :0])
        self._seen.clear()


def candidates_of(logits: torch.Tensor, k: int, outputs: torch.Tensor | None) -> list[list[int]]:
    """Return the token ids [rows, k] of the largest logits [rows, columns], the largest first;
    fewer if there are fewer columns."""
    ids: list[list[int]] = _ids(_largest(logits, min(k, logits.shape[-1])), outputs)
    return ids


def _ids(columns: Any, outputs: torch.Tensor | None) -> Any:
    """Return the token ids of columns, a tensor or an array, in lists."""
    if outputs is None:
        return columns.tolist()
    ids: Any = outputs if isinstance(columns, torch.Tensor) else outputs.numpy()
    return ids[columns].tolist()


def _largest(logits: torch.Tensor, k: int) -> torch.Tensor | npt.NDArray[np.int32]:
    """Return the columns [rows, k] of the largest logits. The k blocks with the largest maxima
    contain the k largest logits, so only these blocks are sorted: a tenth of the time of `topk`
    over a vocabulary.
    """
    rows, columns = logits.shape
    blockwise = columns % BLOCK == 0 and columns >= BLOCK * BLOCK and k <= BLOCK // 4
    native = logit_rows(logits)
    if native is not None:
        return native.top(k, BLOCK if blockwise else 0)
    if not blockwise:
        return logits.topk(k).indices
    blocks = logits.view(rows, -1, BLOCK)
    best = blocks.amax(-1).topk(k).indices
    within = blocks.gather(1, best[:, :, None].expand(-1, -1, BLOCK)).view(rows, -1).topk(k).indices
    return best.gather(1, within // BLOCK) * BLOCK + within % BLOCK


class TorchEvaluation:
    """Logits of the nodes of one tree, on the model's device."""

    def __init__(
        self,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        outputs: torch.Tensor | None,
        vocabulary: int,
        context: tuple[int, ...] = (),
        mixtures: tuple[Mixture, ...] = (),
        *,
        wants_confidence: bool = False,
    ) -> None:
        """logits [len(nodes), columns] belong to `nodes` of the tree after the tokens `context`.

        outputs: the token id of each column, if the model scores only some ids; other ids have
        probability 0. mixtures: mixtures in place of the tokens of the last nodes.
        wants_confidence: the probabilities of the likeliest tokens will be needed, so both are
        fetched from the device at once.
        """
        self.context, self.tree, self.mixtures = context, tree, mixtures
        self._logits = logits
        self._outputs = outputs
        self._vocabulary = vocabulary
        self._row = {node: row for row, node in enumerate(nodes)}
        self._size = len(tree)
        self._wants_confidence = wants_confidence and logits.device.type != "cpu"
        self._argmax: list[int] | None = None
        self._shares: dict[tuple[int, int], float] = {}
        """Probabilities by node and its likeliest token, if they were fetched with the tokens."""

    @property
    def all_logits(self) -> torch.Tensor:
        """Return logits [nodes, columns] of all nodes that are not silent, on the model's
        device."""
        return self._logits

    def joined(
        self,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...] = (),
    ) -> TorchEvaluation:
        """Return the evaluation with the logits [len(nodes), columns] of further nodes; `tree`
        begins with this evaluation's tree."""
        every = torch.cat([self._logits, logits]), [*self._row, *nodes], tree
        same = self._outputs, self._vocabulary, self.context
        wants = self._wants_confidence
        return TorchEvaluation(*every, *same, mixtures, wants_confidence=wants)

    def argmax(self) -> list[int]:
        if self._argmax is None:
            best = self._best()
            self._argmax = [-1] * self._size
            for node, row in self._row.items():
                self._argmax[node] = best[row]
        return self._argmax

    def _best(self) -> list[int]:
        """Return the likeliest token of every row."""
        if not self._wants_confidence:
            native = self._native
            columns = native.argmax() if native else self._logits.argmax(-1)
            tokens: list[int] = _ids(columns, self._outputs)
            return tokens
        logits = self._logits.float()
        columns = logits.argmax(-1)
        scores = logits.gather(1, columns[:, None])[:, 0] - logits.logsumexp(-1)
        best: list[int]
        best, shares = self._fetched(columns, scores.exp())
        self._shares = {(node, best[row]): shares[row] for node, row in self._row.items()}
        return best

    def likeliest(self, k: int) -> dict[int, list[int]]:
        best = candidates_of(self._logits, k, self._outputs)
        return {node: best[row] for node, row in self._row.items()}

    @cached_property
    def _native(self) -> LogitRows | None:
        return logit_rows(self._logits)

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        rows, k = [self._row[node] for node in nodes], min(k, self._logits.shape[-1])
        if self._native is not None:
            columns, scores = self._native.scored(rows, k)
            tokens, logarithms = _ids(columns, self._outputs), scores.tolist()
        else:
            logits = self._logits[rows].float()
            values, best = logits.topk(k)
            normalised = values - logits.logsumexp(-1, keepdim=True)
            tokens, logarithms = self._fetched(best, normalised)
        return [[*zip(*row, strict=True)] for row in zip(tokens, logarithms, strict=True)]

    def _fetched(self, columns: torch.Tensor, numbers: torch.Tensor) -> tuple[Any, Any]:
        """Return the token ids of columns, and numbers of the same shape in single precision, in
        lists. Both are fetched as the same kind of bits, so that the device is waited for once."""
        ids = columns if self._outputs is None else self._outputs[columns]
        tokens, bits = torch.stack([ids.int(), numbers.contiguous().view(torch.int32)]).tolist()
        return tokens, np.array(bits, dtype=np.int32).view(np.float32).tolist()

    def confidence(self, node: int, token: int) -> float:
        return self.confidences([(node, token)])[0]

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        if not pairs:
            return []
        if self._native is not None:
            return [self._natively(self._native, self._row[node], token) for node, token in pairs]
        if all(pair in self._shares for pair in pairs):
            return [self._shares[pair] for pair in pairs]
        rows = sorted({self._row[node] for node, _ in pairs})
        logits = self._logits[rows].float()
        indices = [rows.index(self._row[node]) for node, _ in pairs]
        tokens = torch.tensor([token for _, token in pairs], device=logits.device)
        last = logits.shape[-1] - 1
        if self._outputs is None:  # a draft may have fewer rows than its target
            columns, missing = tokens.clamp(max=last), tokens > last
        else:  # search on the device, to wait for it once only
            columns = torch.searchsorted(self._outputs, tokens).clamp_(max=last)
            missing = self._outputs[columns] != tokens
        chosen = logits[indices, columns].masked_fill(missing, -torch.inf)
        shares: list[float] = (chosen - logits.logsumexp(-1)[indices]).exp().tolist()
        return shares

    def _natively(self, native: LogitRows, row: int, token: int) -> float:
        column = self._column(token)
        return 0.0 if column is None else math.exp(native.log_probability(row, column))

    def _column(self, token: int) -> int | None:
        """Return the column of a token's logit; None for a token that is not scored."""
        if self._outputs is None:
            return token if token < self._logits.shape[-1] else None
        outputs = self._outputs.numpy()
        column = int(outputs.searchsorted(token))
        return column if column < len(outputs) and outputs[column] == token else None

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        row = self._logits[self._row[node]]
        if self._outputs is not None:
            row = row.new_full((self._vocabulary,), -torch.inf).scatter_(0, self._outputs, row)
        if row.dtype in (torch.bfloat16, torch.float16):
            row = row.float()
        result: npt.NDArray[np.floating] = row.cpu().numpy()
        return result
