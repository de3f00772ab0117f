"""A link that holds the inputs of a run in its query string: nothing is stored on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Hyperparameters
from ouroboros_core.trace.trace import Trace

FEWEST, MOST = 8, 512
"""New tokens that the page lets a visitor ask for."""
SWITCH = {"1": True, "0": False, "true": True, "false": False}
LONGEST = 4000
"""Characters of a prompt that a link may hold: longer addresses are cut off on their way."""

LONGEST_NAME = 80
"""Characters of a model's name that are shown."""

T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """What a run is asked for with. settings and sampling: the values that are given, validated;
    others have their defaults. model: the name of the target model, for the reader of a link."""

    prompt: str
    method: str = methods.DEFAULT
    chat: bool = True
    max_new_tokens: int = 128
    settings: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    generation_config: bool = True
    model: str = ""

    @property
    def asked(self) -> dict[str, Any]:
        """Return the inputs as the page's scripts compare them (visualize/watch/asked.js)."""
        run = {
            "max_new_tokens": self.max_new_tokens,
            "chat": self.chat,
            "generation_config": self.generation_config,
        }
        sampling = Sampling().model_dump() | self.sampling
        return {
            "prompt": self.prompt,
            "method": self.method,
            "settings": self.settings,
            "run": run | sampling,
        }


def of_task(task: Task, model: str = "") -> Inputs:
    """Return the inputs of a task; `model` is the name of its target model."""
    return Inputs(
        task.prompt,
        task.method,
        task.chat,
        task.max_new_tokens,
        task.hyperparameters.model_dump(),
        task.sampling.model_dump(),
        task.generation_config,
        model,
    )


def of(trace: Trace) -> Inputs | None:
    """Return the inputs of a run; None if the page has no such method, setting or length."""
    try:
        kind = methods.get(trace.method)
        settings = kind.Hyperparameters.parse(trace.hyperparameters).model_dump()
        sampling = Sampling.parse(trace.sampling).model_dump()
    except InvalidInput:
        return None
    if not FEWEST <= trace.max_new_tokens <= MOST:
        return None
    return Inputs(
        trace.prompt.text, kind.id, trace.prompt.chat, trace.max_new_tokens, settings, sampling
    )


def query(inputs: Inputs) -> str:
    """Return `?prompt=...` without defaults; raises InvalidInput for a long prompt."""
    if len(inputs.prompt) > LONGEST:
        raise InvalidInput(
            f"a link can hold a prompt of {LONGEST} characters, this one has {len(inputs.prompt)}: "
            "save the trace"
        )
    offered = {**methods.get(inputs.method).Hyperparameters.settings(), **Sampling.settings()}
    defaults = {name: setting.default for name, setting in offered.items()}
    given = {**inputs.settings, **inputs.sampling}
    more = {name: value for name, value in given.items() if value != defaults.get(name)}
    more |= {} if inputs.generation_config else {"generation_config": 0}
    more |= {"model": inputs.model} if inputs.model else {}
    facts = {
        "prompt": inputs.prompt,
        "method": inputs.method,
        "chat": int(inputs.chat),
        "tokens": inputs.max_new_tokens,
    }
    return "?" + urlencode({**facts, **more})


def read(parameters: Mapping[str, str], most: int = MOST) -> tuple[Inputs, list[str]] | None:
    """The inputs of a query string, and what is wrong with it; None if there is no prompt in it.

    A parameter that is wrong has its default instead, and costs no other one; the prompt is then
    "". Parameters of others are left alone. most: new tokens that this page lets a visitor ask for.
    """
    if not parameters.get("prompt"):
        return None
    wrong: list[str] = []

    def one(name: str, check: Callable[[str], T], default: T) -> T:
        try:
            return check(parameters[name]) if name in parameters else default
        except InvalidInput as error:
            wrong.append(str(error))
            return default

    def values(kind: type[Hyperparameters]) -> dict[str, Any]:
        """Those that hold by themselves, if they also do together."""
        names = [name for name in kind.settings() if name in parameters]
        good: dict[str, Any] = {}
        nothing: dict[str, Any] = {}
        for name in names:
            good |= one(name, partial(_value, kind, name), nothing)
        try:
            kind.parse(good)
        except InvalidInput as error:
            wrong.append(str(error))
            return {}
        return good

    prompt = one("prompt", _prompt, "")
    method = one("method", methods.get, methods.get(methods.DEFAULT))
    chat = one("chat", partial(_switch, "chat"), True)
    own = one("generation_config", partial(_switch, "generation_config"), True)
    count = one("tokens", lambda text: _count(text, min(most, MOST)), min(most, 128))
    settings, sampling = values(method.Hyperparameters), values(Sampling)
    model = parameters.get("model", "")[:LONGEST_NAME]
    return Inputs(prompt, method.id, chat, count, settings, sampling, own, model), wrong


def _value(kind: type[Hyperparameters], name: str, text: str) -> dict[str, Any]:
    return {name: getattr(kind.parse({name: text}), name)}


def _prompt(text: str) -> str:
    if len(text) > LONGEST:
        raise InvalidInput(
            f"a link can hold a prompt of {LONGEST} characters, this one has {len(text)}"
        )
    return text


def _switch(name: str, text: str) -> bool:
    if text not in SWITCH:
        raise InvalidInput(f"{name} must be one of {', '.join(SWITCH)}, got {text[:40]}")
    return SWITCH[text]


def _count(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not FEWEST <= int(text[:9]) <= most:
        raise InvalidInput(
            f"tokens must be a whole number between {FEWEST} and {most}, got {text[:40]}"
        )
    return int(text)
