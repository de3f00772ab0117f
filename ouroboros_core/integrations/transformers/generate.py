"""transformers' own entry: `model.generate(..., custom_generate=ouroboros_core.generate)`.

`generate` prepares everything as always: the generation config, logits processors, stopping
criteria, the length. Only its loop is ours. The processors are part of the target then (see
`models.processed`), so that the greedy text is `generate`'s own; sampled, it is an exact sample of
the same distribution, with noise of our own.
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
from transformers.generation import (
    CandidateGenerator,
)

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.integrations.transformers.call import padding_of, refuse, stopping_at
from ouroboros_core.integrations.transformers.run import Output, Request
from ouroboros_core.methods.parts.needs import Need

HANDED_ON = ("assistant_model", "streamer", "tokenizer", "assistant_tokenizer")
"""What `generate` takes and does not hand on to a callable."""


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
    """The loop of `model.generate(..., custom_generate=ouroboros_core.generate)`; called by itself
    with a model and what `generate` takes, it makes that call.

    method      one of `methods.available()`, also with its preset: "lookahead[published]"; None is
                "hf_candidates" with a candidate generator, "hf_universal" with an assistant
                tokenizer, else "union"
    settings    its settings by name
    trace       keep a trace, with the probabilities at every token; needs `tokenizer` and
                `return_dict_in_generate=True`
    assistant_model  the draft model, with the target's vocabulary or with `assistant_tokenizer`
    tokenizer   the target's: for `trace`, `stop_strings` and with `assistant_tokenizer`
    assistant_tokenizer  the draft model's, where that has a vocabulary of its own
    candidate_generator  whose candidates the target is to check, for this one text; it sees the
                text without padding

    The token ids [1, prompt + new], or an `Output`. Raises InvalidInput for what this loop cannot
    do, such as beams and batches, and UnsupportedModel for a model that cannot read a token tree.
    """
    extras = {"method": method, "settings": settings, "trace": trace}
    extras["candidate_generator"] = candidate_generator
    given = {"assistant_model": assistant_model, "streamer": streamer, "tokenizer": tokenizer}
    given["assistant_tokenizer"] = assistant_tokenizer
    if not hasattr(generation_config, "_eos_token_tensor"):
        if input_ids is not None:
            model_kwargs["inputs"] = input_ids
        rules = {"logits_processor": logits_processor, "stopping_criteria": stopping_criteria}
        prepared = {"generation_config": generation_config, "stop_strings": stop_strings}
        with _streamed(given):
            return _by_generate(model, {**extras, **given}, {**rules, **prepared, **model_kwargs})
    assert input_ids is not None
    assert generation_config is not None
    held = dict(zip(HANDED_ON, _held_back(), strict=True))
    given = {name: held[name] if value is None else value for name, value in given.items()}
    with _streamed(given), _evaluated(model, given["assistant_model"]):
        criteria = StoppingCriteriaList(stopping_criteria or ())
        if stop_strings:
            criteria.append(stopping_at(given["tokenizer"], stop_strings))
        if synced_gpus:
            raise InvalidInput(
                "synced_gpus is not possible here: each process needs the whole model"
            )
        chosen = _chosen(method, candidate_generator, given["assistant_tokenizer"])
        refuse(model, input_ids, generation_config, given["assistant_model"], model_kwargs)
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
            **given,
        )
        return request.run()


class _EndsOnce:
    """A streamer that can be ended again."""

    def __init__(self, streamer: Any) -> None:
        self.put, self._streamer, self._ended = streamer.put, streamer, False

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._streamer.end()


@contextlib.contextmanager
def _streamed(given: dict[str, Any]) -> Iterator[None]:
    """End the streamer with the call, whatever ends that: somebody may be waiting for it in another
    thread."""
    if given["streamer"] is None:
        yield
        return
    if not isinstance(given["streamer"], _EndsOnce):
        given["streamer"] = _EndsOnce(given["streamer"])
    try:
        yield
    finally:
        given["streamer"].end()


def _chosen(
    method: str | None, generator: CandidateGenerator | None, words: PreTrainedTokenizerBase | None
) -> str:
    """The method; raises InvalidInput for a candidate generator that it would not ask."""
    if generator is None:
        return method or ("hf_universal" if words is not None else methods.DEFAULT)
    kind = methods.get((method or "hf_candidates").partition("[")[0])
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
    return method or "hf_candidates"


def _by_generate(
    model: PreTrainedModel, mine: dict[str, Any], arguments: dict[str, Any]
) -> torch.Tensor | Output:
    """The call of `model.generate` with this loop; texts that end the answer are its criteria."""
    config = arguments["generation_config"]
    strings = arguments.pop("stop_strings") or getattr(config, "stop_strings", None)
    if strings:
        ends = stopping_at(mine["tokenizer"], strings)
        criteria = arguments["stopping_criteria"] or ()
        arguments["stopping_criteria"] = StoppingCriteriaList([*criteria, ends])
    if getattr(config, "stop_strings", None):
        arguments["generation_config"] = copy.deepcopy(config)
        arguments["generation_config"].stop_strings = None
    both = {name: mine[name] for name in ("assistant_model", "streamer")}
    loop = partial(generate, **mine)
    call: Any = model.generate
    output: torch.Tensor | Output = call(custom_generate=loop, **both, **arguments)
    return output


def _held_back() -> Iterator[Any]:
    """The arguments HANDED_ON of the call of `model.generate` in which this one happens; None for
    what it was not given.

    `generate` of transformers 5 hands on to a callable what its signature adds to the usual one,
    and these it takes out before it looks. They are read where they still are.
    """
    code = inspect.unwrap(GenerationMixin.generate).__code__
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    inside = frame.f_locals if frame is not None else {}
    outside = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
    call = outside.get("kwargs")
    for name in HANDED_ON:
        found = inside.get(name)
        if found is None and isinstance(call, dict):
            found = call.get(name)
        yield found


@contextlib.contextmanager
def _evaluated(*models: PreTrainedModel | None) -> Iterator[None]:
    """While it lasts the models are in evaluation mode; then they are as they were."""
    given = [model for model in models if model is not None]
    modes = [(module, module.training) for model in given for module in model.modules()]
    for model in given:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
