"""The forward pass of a causal language model: rows of tokens behind cached ones, computed by
transformers' own code or by one of our decoders, and projected to the token ids that are scored."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.native.blocks import BlocksOf
from ouroboros_core.models.engines.native.decoder import NativeDecoder, NativeProduct
from ouroboros_core.models.engines.passes import Decoder, Engine, Product, decoder, product
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.models.reach import Masks, windows_of
from ouroboros_core.models.skips import NOTHING, ReducedModel

EVERY_ROW = 1 << 30
"""Rows of any pass, at most."""

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
