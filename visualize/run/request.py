"""The request for a run, and its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from visualize.server.limits import Limits, flag, whole_number

LONGEST_PREDICTION = 100_000
"""Characters of a predicted output."""


@dataclass(frozen=True)
class RunRequest:
    """The values that describe a run, as they came: any of them may be of a wrong type."""

    prompt: Any
    method: str
    settings: Mapping[str, Any]
    chat: Any
    max_new_tokens: Any
    sampling: Mapping[str, Any]
    prediction: Any = ""
    record: Any = False
    generation_config: Any = True

    def task(self, most: int = Limits.new_tokens) -> Task:
        """Return the task of at most `most` new tokens; raises InvalidInput with all faults."""
        faults: list[str] = []
        kind = methods.get(self.method)
        with _noting(faults):
            _check_prompt(self.prompt)
        with _noting(faults):
            _check_prediction(self.prediction)
        with _noting(faults):
            sampling = Sampling.parse(dict(self.sampling))
        with _noting(faults):
            settings = kind.Hyperparameters.parse(dict(self.settings))
        with _noting(faults):
            count = whole_number("max_new_tokens", self.max_new_tokens, most)
        for name in ("chat", "record", "generation_config"):
            with _noting(faults):
                flag(name, getattr(self, name))
        if faults:
            raise InvalidInput("; ".join(faults))
        return Task(
            self.prompt,
            self.method,
            settings,
            sampling,
            count,
            chat=self.chat,
            prediction=self.prediction,
            record=self.record,
            generation_config=self.generation_config,
        )


@contextmanager
def _noting(faults: list[str]) -> Iterator[None]:
    """Add an invalid value inside to the faults, so that all of them are named at once."""
    try:
        yield
    except InvalidInput as error:
        faults.append(str(error))


def _check_prompt(prompt: Any) -> None:
    if not isinstance(prompt, str) or not prompt:
        raise InvalidInput(
            "the prompt is empty; write at least one character, or choose an example"
        )


def _check_prediction(prediction: Any) -> None:
    if isinstance(prediction, str) and len(prediction) <= LONGEST_PREDICTION:
        return
    is_text = isinstance(prediction, str)
    actual = f"{len(prediction)} characters" if is_text else f"a {type(prediction).__name__}"
    raise InvalidInput(
        f"prediction must be a text of at most {LONGEST_PREDICTION} characters, got {actual}"
    )
