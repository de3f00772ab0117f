"""The loop for `model.generate(..., custom_generate=ouroboros_core.generate)`.

`generate` prepares everything as usual: the generation config, logits processors, stopping
criteria, the length. Only its loop is replaced. The processors become part of the target (see
`models.processed`). So greedy text equals the text of `generate`. Sampled text is an exact sample
of the same distribution with different noise.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StoppingCriteriaList,
)
from transformers.generation import CandidateGenerator

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.transformers.call import padding_of, refuse, stopping_at
from ouroboros_core.integrations.transformers.run import Output, Request
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.models.state_candidates import is_block_drafter

WITHHELD = ("assistant_model", "streamer", "tokenizer", "assistant_tokenizer")
"""Arguments that `generate` takes but does not pass to `custom_generate`."""


def generate(
    model: PreTrainedModel,
    input_ids: torch.Tensor | None = None,
    logits_processor: LogitsProcessorList | None = None,
    stopping_criteria: StoppingCriteriaList | None = None,
    generation_config: GenerationConfig | None = None,
    *,
    method: str | None = None,
    settings: Mapping[str, Any] | None = None,
    trace: bool = False,
    assistant_model: PreTrainedModel | None = None,
    streamer: Any = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    assistant_tokenizer: PreTrainedTokenizerBase | None = None,
    candidate_generator: CandidateGenerator | None = None,
    stop_strings: str | list[str] | None = None,
    synced_gpus: bool | None = None,
    **model_kwargs: Any,
) -> torch.Tensor | Output:
    """Run the loop of `model.generate(..., custom_generate=ouroboros_core.generate)`.

    A direct call with a model and the arguments of `generate` makes that call.

    method               one of `methods.available()`, also with its preset, "lookahead[published]".
                         The default is "hf_candidates" with a candidate generator, "hf_universal"
                         with an assistant tokenizer, "hf_dflash" with a DFlash drafter, else
                         "union"
    settings             settings of the method by name
    trace                return a trace with the probabilities at every token; needs `tokenizer` and
                         `return_dict_in_generate=True`
    assistant_model      the draft model, with the target's vocabulary or with `assistant_tokenizer`
    tokenizer            the target's tokenizer, for `trace`, `stop_strings` and with
                         `assistant_tokenizer`
    assistant_tokenizer  the tokenizer of a draft model with a different vocabulary
    candidate_generator  a generator of candidates that the target checks, for one text, which it
                         sees without padding

    Return token ids [1, prompt + new], or an `Output`. Raises InvalidInput for requests that this
    loop does not support, such as beams and batches, and UnsupportedModel for a model that cannot
    read a token tree.
    """
    extras = {"method": method, "settings": settings, "trace": trace}
    extras["candidate_generator"] = candidate_generator
    helpers = {"assistant_model": assistant_model, "streamer": streamer, "tokenizer": tokenizer}
    helpers["assistant_tokenizer"] = assistant_tokenizer
    if not hasattr(generation_config, "_eos_token_tensor"):
        if input_ids is not None:
            model_kwargs["inputs"] = input_ids
        rules = {"logits_processor": logits_processor, "stopping_criteria": stopping_criteria}
        prepared = {"generation_config": generation_config, "stop_strings": stop_strings}
        with _streamed(helpers):
            return _by_generate(model, {**extras, **helpers}, {**rules, **prepared, **model_kwargs})
    assert input_ids is not None
    assert generation_config is not None
    withheld = dict(zip(WITHHELD, _withheld(), strict=True))
    helpers = {name: withheld[name] if value is None else value for name, value in helpers.items()}
    with _streamed(helpers), _evaluated(model, helpers["assistant_model"]):
        criteria = StoppingCriteriaList(stopping_criteria or ())
        if stop_strings:
            criteria.append(stopping_at(helpers["tokenizer"], stop_strings))
        if synced_gpus:
            raise InvalidInput(
                "synced_gpus is not possible here: each process needs the whole model"
            )
        chosen = _chosen(method, candidate_generator, helpers)
        refuse(model, input_ids, generation_config, helpers["assistant_model"], model_kwargs)
        request = Request(
            model,
            input_ids,
            padding_of(model, input_ids, model_kwargs),
            LogitsProcessorList(logits_processor or ()),
            criteria,
            generation_config,
            chosen,
            settings or {},
            trace,
            candidate_generator=candidate_generator,
            **helpers,
        )
        return request.run()


class _EndsOnce:
    """A streamer whose end can be called repeatedly."""

    def __init__(self, streamer: Any) -> None:
        self.put, self._streamer, self._ended = streamer.put, streamer, False

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._streamer.end()


@contextlib.contextmanager
def _streamed(helpers: dict[str, Any]) -> Iterator[None]:
    """End the streamer with the call, also after an error: another thread may wait."""
    if helpers["streamer"] is None:
        yield
        return
    if not isinstance(helpers["streamer"], _EndsOnce):
        helpers["streamer"] = _EndsOnce(helpers["streamer"])
    try:
        yield
    finally:
        helpers["streamer"].end()


def _chosen(
    method: str | None, generator: CandidateGenerator | None, helpers: Mapping[str, Any]
) -> str:
    """Return the method; raises InvalidInput for a candidate generator that it does not use."""
    if generator is None:
        draft = helpers["assistant_model"]
        if draft is not None and is_block_drafter(draft.config):
            return method or methods.simplest_with(Need.BLOCK_DRAFT)
        foreign = helpers["assistant_tokenizer"] is not None
        return method or (methods.simplest_with(Need.TRANSLATED) if foreign else methods.DEFAULT)
    method = method or methods.simplest_with(Need.CANDIDATES)
    kind = methods.get(method.partition("[")[0])
    if Need.CANDIDATES not in kind.needs:
        raise InvalidInput(
            f"{kind.id} asks no candidate generator: leave candidate_generator out, or choose "
            f"{methods.able(Need.CANDIDATES)}"
        )
    if not callable(getattr(generator, "get_candidates", None)) or isinstance(generator, type):
        raise InvalidInput(
            "candidate_generator must be an object with get_candidates, as transformers' "
            f"CandidateGenerator has it, got {str(generator)[:80]}"
        )
    if getattr(generator, "requires_model_outputs", False):
        raise InvalidInput(
            f"{type(generator).__name__} needs the outputs of transformers' own passes, which this "
            "loop does not make: give one whose requires_model_outputs is False"
        )
    return method


def _by_generate(
    model: PreTrainedModel, loop_arguments: dict[str, Any], arguments: dict[str, Any]
) -> torch.Tensor | Output:
    """Call `model.generate` with this loop; stop strings become stopping criteria."""
    config = arguments["generation_config"]
    strings = arguments.pop("stop_strings") or getattr(config, "stop_strings", None)
    if strings:
        ends = stopping_at(loop_arguments["tokenizer"], strings)
        criteria = arguments["stopping_criteria"] or ()
        arguments["stopping_criteria"] = StoppingCriteriaList([*criteria, ends])
    if getattr(config, "stop_strings", None):
        arguments["generation_config"] = copy.deepcopy(config)
        arguments["generation_config"].stop_strings = None
    shared = {name: loop_arguments[name] for name in ("assistant_model", "streamer")}
    loop = partial(generate, **loop_arguments)
    call: Any = model.generate
    output: torch.Tensor | Output = call(custom_generate=loop, **shared, **arguments)
    return output


def _withheld() -> Iterator[Any]:
    """Yield the WITHHELD arguments of the enclosing call of `model.generate`, or None.

    `generate` of transformers 5 passes arguments to a callable that has them in its signature, but
    removes these before. They are read from the frame of the call.
    """
    code = inspect.unwrap(GenerationMixin.generate).__code__
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    inside = frame.f_locals if frame is not None else {}
    outside = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
    call = outside.get("kwargs")
    for name in WITHHELD:
        value = inside.get(name)
        if value is None and isinstance(call, dict):
            value = call.get(name)
        yield value


@contextlib.contextmanager
def _evaluated(*models: PreTrainedModel | None) -> Iterator[None]:
    """Put the models into evaluation mode for the duration of the context."""
    present = [model for model in models if model is not None]
    modes = [(module, module.training) for model in present for module in model.modules()]
    for model in present:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
