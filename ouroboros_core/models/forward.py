"""The forward pass of a causal language model: rows of tokens behind cached ones, computed by
transformers' own code or by one of our decoders, and projected to the token ids that are scored."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from ouroboros_core.interfaces import Mixture
from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.engines.native.choose import LogitRows, logit_rows
from ouroboros_core.models.engines.native.decoder import NativeDecoder, NativeProduct
from ouroboros_core.models.engines.passes import Decoder, Engine, Product, decoder, product
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.reach import Masks, windows_of
from ouroboros_core.models.skips import NOTHING, ReducedModel
from ouroboros_core.tree import TokenTree

EVERY_ROW = 1 << 30
"""Rows of any pass, at most."""

BLOCK = 128
"""Columns of a block of logits."""

STAND_IN = 0
"""The token id that a draft model reads in the place of one that it does not share."""


@dataclass(frozen=True)
class TokenRows:
    """Rows of one pass as token ids.

    tokens     token ids [rows]
    positions  of the rows in the text [rows]
    sees       [rows, above + rows]: visibility among the rows `above` and the new ones; a new row
               sees all earlier cached rows
    scored     rows whose logits are computed
    past       cached rows, `above` included
    above      positions of the last cached rows, of which a new row sees only some
    embeddings [rows, width] that replace those of the tokens
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    sees: npt.NDArray[np.bool_]
    scored: Sequence[int]
    past: int
    above: Sequence[int] = ()
    embeddings: torch.Tensor | None = None


class ForwardPass:
    """What computes the rows of one model, and the cache into which it writes them.

    vocabulary  the first so many token ids are scored
    outputs     only these of them are; None: all
    unshared    token ids that mean something else to the target: they have no chance, and where the
                text holds one, or one beyond the rows of the embedding, STAND_IN is read instead
    cache       keys and values, and behind the model's layers one more for the features that are
                kept
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
        """Makes the masks of transformers' own pass. The model is asked when the first is made."""
        return Masks(self.model.dtype, windows_of(self.model, self.max_length))

    def new_cache(self) -> TreeCache:
        """An empty one in the place of what there was."""
        layers = self.layers + (self.depths is not None)
        self.cache = TreeCache(layers, zeroed=self.engine == "static")
        return self.cache

    def _projection(self) -> Product:
        """Hidden states [rows, width] to logits of the token ids that are scored."""
        head = self.model.get_output_embeddings()
        part = slice(self.vocabulary) if self.outputs is None else self.outputs
        bias = None if head.bias is None else head.bias.detach()[part]
        found = product(self.engine, head.weight.detach()[part], bias)
        blocks = self.blocks.get("output", self.blocks.get("token_embd"))
        if blocks is not None and isinstance(found, NativeProduct):
            found.add_blocks(blocks.rows(part if isinstance(part, slice) else part.numpy()))
            found.block_rows = self.block_rows
        return found

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
        for part in (self.decoder, self.project):
            if isinstance(part, NativeDecoder | NativeProduct):
                part.block_rows = rows

    def readable(self, tokens: Sequence[int]) -> list[int]:
        """The tokens, STAND_IN in the place of those that the model does not share."""
        return [
            token if token < self.embedded and token not in self.unshared else STAND_IN
            for token in tokens
        ]

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Hooks on a transformers model that note the features that are kept."""
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
        for depth in self.depths:
            hook = partial(lambda depth, _, __, out: note(depth, out), depth)
            hooks.append(body.layers[depth - 1].register_forward_hook(hook))
        try:
            yield
        finally:
            for one in hooks:
                one.remove()

    def logits(self, rows: TokenRows, reduced: ReducedModel | None = None) -> torch.Tensor:
        """Append rows to the cache; return the logits [len(rows.scored), vocabulary or outputs].

        reduced: compute them without some sublayers; no features are kept then.
        """
        device = self.model.get_input_embeddings().weight.device
        count, past, embeddings = len(rows.tokens), rows.past, rows.embeddings
        self.cache.reserve(past + count)
        known = [min(position, self.max_length - 1) for position in rows.positions]
        ids, places = torch.tensor(
            [self.readable(rows.tokens), known], device=device
        )  # one way to the device
        columns = torch.tensor(rows.above, device=device) if rows.above else None
        if self.decoder is not None:
            if embeddings is None:
                embeddings = self.model.get_input_embeddings()(ids)
            longest = min(self.cache.capacity, self.max_length)
            depths = () if reduced else self.depths or ()
            skips = reduced.skips if reduced else NOTHING
            # On a CPU mostly NativeDecoder of native/decoder.py; passes.py chooses.
            hidden, states = self.decoder.run(
                Rows(embeddings, places, longest, rows.sees, depths, without=skips), self.cache
            )
            if reduced is None:
                self._seen = {**dict(zip(depths, states, strict=True)), self.layers: hidden}
                self._note_features(past)
            return self._projected(hidden, rows.scored)
        given: dict[str, torch.Tensor] = (
            {"input_ids": ids[None]} if embeddings is None else {"inputs_embeds": embeddings[None]}
        )
        model = reduced.view if reduced else self.model
        with contextlib.nullcontext() if reduced else self._watching():
            output = model(
                **given,
                attention_mask=self.masks.of(past - len(rows.above), places, rows.sees, columns),
                position_ids=places[None],
                past_key_values=self.cache,
                use_cache=True,
                # A row at least: not every model's code can do with none.
                logits_to_keep=torch.tensor(rows.scored or [count - 1], device=device),
            )
        if reduced is None:
            self._note_features(past)
        return self.scored(output.logits[0, : len(rows.scored)])

    def scored(self, logits: torch.Tensor) -> torch.Tensor:
        """Of logits [rows, all tokens] those of the token ids that are scored."""
        known = logits[:, : self.vocabulary]
        return self._without_unshared(known if self.outputs is None else known[:, self.outputs])

    def _without_unshared(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [rows, columns] in which the token ids that are not shared have no chance."""
        if self._ruled_out is not None:
            logits[:, self._ruled_out] = -torch.inf
        return logits

    def _projected(self, hidden: torch.Tensor, wanted: Sequence[int]) -> torch.Tensor:
        """Logits [len(wanted), vocabulary or outputs] of some rows of hidden [rows, width]."""
        if not wanted:
            columns = self.vocabulary if self.outputs is None else len(self.outputs)
            return hidden.new_empty(0, columns)
        rows = hidden if len(wanted) == len(hidden) else hidden[wanted]
        return self._without_unshared(self.project(rows))

    def _note_features(self, past: int) -> None:
        if self.depths is not None:
            layer = self.cache.layers[self.layers]
            assert layer.length == past
            rows = torch.cat([self._seen[d] for d in (self.layers, *self.depths)], -1)[None, None]
            layer.update(rows, rows[..., :0])
        self._seen.clear()


def candidates_of(logits: torch.Tensor, k: int, outputs: torch.Tensor | None) -> list[list[int]]:
    """The token ids [rows, k] of the largest logits [rows, columns], the largest first; fewer where
    there are fewer columns."""
    found: list[list[int]] = _ids(_largest(logits, min(k, logits.shape[-1])), outputs)
    return found


def _ids(columns: Any, outputs: torch.Tensor | None) -> Any:
    """The token ids of some columns, a tensor or an array, in lists."""
    if outputs is None:
        return columns.tolist()
    ids: Any = outputs if isinstance(columns, torch.Tensor) else outputs.numpy()
    return ids[columns].tolist()


def _largest(logits: torch.Tensor, k: int) -> torch.Tensor | npt.NDArray[np.int32]:
    """Columns [rows, k] of the largest logits. The k largest lie in the k blocks with the largest
    maxima, so that only those are sorted: a tenth of the time of `topk` over a vocabulary.
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
        """logits [len(nodes), columns] belong to `nodes` of the tree, which hangs behind the tokens
        `context`.

        outputs: the token id of each column, where the model can write only some; the others have
        no chance. mixtures: what stands for the tokens of the last nodes. wants_confidence: the
        probabilities of the likeliest tokens will be asked for, so that one wait for the device
        brings both.
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
        """Of nodes and their likeliest tokens, where these came with the tokens."""

    @property
    def all_logits(self) -> torch.Tensor:
        """Logits [nodes, columns] of all nodes that are not silent, on the model's device."""
        return self._logits

    def joined(
        self,
        logits: torch.Tensor,
        nodes: Sequence[int],
        tree: TokenTree,
        mixtures: tuple[Mixture, ...] = (),
    ) -> TorchEvaluation:
        """With the logits [len(nodes), columns] of more nodes, of a tree that begins with this
        one's."""
        both, every = torch.cat([self._logits, logits]), [*self._row, *nodes]
        known = self._outputs, self._vocabulary, self.context, mixtures
        return TorchEvaluation(both, every, tree, *known, wants_confidence=self._wants_confidence)

    def argmax(self) -> list[int]:
        if self._argmax is None:
            best = self._best()
            self._argmax = [-1] * self._size
            for node, row in self._row.items():
                self._argmax[node] = best[row]
        return self._argmax

    def _best(self) -> list[int]:
        """The likeliest token of every row."""
        if not self._wants_confidence:
            native = self._native
            columns = native.argmax() if native else self._logits.argmax(-1)
            found: list[int] = _ids(columns, self._outputs)
            return found
        logits = self._logits.float()
        columns = logits.argmax(-1)
        scores = logits.gather(1, columns[:, None])[:, 0] - logits.logsumexp(-1)
        best: list[int]
        best, shares = self._together(columns, scores.exp())
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
            ids, of = _ids(columns, self._outputs), scores.tolist()
        else:
            logits = self._logits[rows].float()
            values, found = logits.topk(k)
            ids, of = self._together(found, values - logits.logsumexp(-1, keepdim=True))
        return [[*zip(*one, strict=True)] for one in zip(ids, of, strict=True)]

    def _together(self, columns: torch.Tensor, numbers: torch.Tensor) -> tuple[Any, Any]:
        """The token ids of some columns, and numbers of the same shape in single precision, in
        lists; they come as the same kind of bits, so that the device is waited for once."""
        ids = columns if self._outputs is None else self._outputs[columns]
        found, bits = torch.stack([ids.int(), numbers.contiguous().view(torch.int32)]).tolist()
        return found, np.array(bits, dtype=np.int32).view(np.float32).tolist()

    def confidence(self, node: int, token: int) -> float:
        return self.confidences([(node, token)])[0]

    def confidences(self, asked: Sequence[tuple[int, int]]) -> list[float]:
        if not asked:
            return []
        if self._native is not None:
            return [self._natively(self._native, self._row[node], token) for node, token in asked]
        if all(pair in self._shares for pair in asked):
            return [self._shares[pair] for pair in asked]
        rows = sorted({self._row[node] for node, _ in asked})
        logits = self._logits[rows].float()
        places = [rows.index(self._row[node]) for node, _ in asked]
        tokens = torch.tensor([token for _, token in asked], device=logits.device)
        last = logits.shape[-1] - 1
        if self._outputs is None:  # a draft may have fewer rows than its target
            columns, missing = tokens.clamp(max=last), tokens > last
        else:  # searched on the device, which is then waited for once
            columns = torch.searchsorted(self._outputs, tokens).clamp_(max=last)
            missing = self._outputs[columns] != tokens
        chosen = logits[places, columns].masked_fill(missing, -torch.inf)
        shares: list[float] = (chosen - logits.logsumexp(-1)[places]).exp().tolist()
        return shares

    def _natively(self, native: LogitRows, row: int, token: int) -> float:
        column = self._column(token)
        return 0.0 if column is None else math.exp(native.log_probability(row, column))

    def _column(self, token: int) -> int | None:
        """Where a token's logit stands; None for one that the model cannot write."""
        if self._outputs is None:
            return token if token < self._logits.shape[-1] else None
        outputs = self._outputs.numpy()
        place = int(outputs.searchsorted(token))
        return place if place < len(outputs) and outputs[place] == token else None

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        row = self._logits[self._row[node]]
        if self._outputs is not None:
            row = row.new_full((self._vocabulary,), -torch.inf).scatter_(0, self._outputs, row)
        if row.dtype in (torch.bfloat16, torch.float16):
            row = row.float()
        result: npt.NDArray[np.floating] = row.cpu().numpy()
        return result
