"""A link that holds the inputs of a run in its query string: nothing is stored on a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from ouroboros_core import methods
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling

FEWEST, MOST = 8, 512
"""New tokens that the page lets a visitor ask for."""
LONGEST = 4000
"""Characters of a prompt that a link may hold: longer addresses are cut off on their way."""


@dataclass(frozen=True)
class Inputs:
    """What a run is asked for with. knobs and sampling: the values that are given, validated; others have their defaults."""

    prompt: str
    method: str = methods.DEFAULT
    chat: bool = True
    max_new_tokens: int = 128
    knobs: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)


def of(trace: Trace) -> Inputs | None:
    """The inputs that a run was made of; None where the page has no such method, knobs or length."""
    try:
        kind = methods.get(trace.method)
        knobs = kind.Hyperparameters.parse(trace.hyperparameters).model_dump()
        sampling = Sampling.parse(trace.sampling).model_dump()
    except InvalidInput:
        return None
    if not FEWEST <= trace.max_new_tokens <= MOST:
        return None
    return Inputs(trace.prompt.text, kind.id, trace.prompt.chat, trace.max_new_tokens, knobs, sampling)


def query(inputs: Inputs) -> str:
    """`?prompt=...&method=...`, what is at its default left out; raises InvalidInput for a prompt that is too long."""
    if len(inputs.prompt) > LONGEST:
        raise InvalidInput(f"a link can hold a prompt of {LONGEST} characters, this one has {len(inputs.prompt)}: save the trace")
    knobs = {**methods.get(inputs.method).Hyperparameters.knobs(), **Sampling.knobs()}
    defaults = {name: knob.default for name, knob in knobs.items()}
    given = {**inputs.knobs, **inputs.sampling}
    more = {name: value for name, value in given.items() if value != defaults.get(name)}
    facts = {"prompt": inputs.prompt, "method": inputs.method, "chat": int(inputs.chat), "tokens": inputs.max_new_tokens}
    return "?" + urlencode({**facts, **more})


def read(parameters: Mapping[str, str], most: int = MOST) -> Inputs | None:
    """The inputs of a query string; None where there is no prompt in it. Parameters of others are left alone.

    most: new tokens that this page lets a visitor ask for.

    Raises InvalidInput for a value that is out of range.
    """
    prompt = parameters.get("prompt", "")
    if not prompt:
        return None
    if len(prompt) > LONGEST:
        raise InvalidInput(f"a link can hold a prompt of {LONGEST} characters, this one has {len(prompt)}")
    kind = methods.get(parameters.get("method", methods.DEFAULT))
    given = {name: parameters[name] for name in kind.Hyperparameters.knobs() if name in parameters}
    knobs = kind.Hyperparameters.parse(given).model_dump()
    sampling = {name: parameters[name] for name in Sampling.knobs() if name in parameters}
    values = Sampling.parse(sampling).model_dump()
    return Inputs(
        prompt,
        kind.id,
        parameters.get("chat", "1") not in ("0", "false"),
        _count(parameters.get("tokens", "128"), min(most, MOST)),
        {name: knobs[name] for name in given},
        {name: values[name] for name in sampling},
    )


def _count(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not FEWEST <= int(text[:9]) <= most:
        raise InvalidInput(f"tokens must be a whole number between {FEWEST} and {most}, got {text[:40]}")
    return int(text)
