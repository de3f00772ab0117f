"""The endpoint /generate, for programs, and the checks that it shares with the page."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.hyperparameters import by_name
from ouroboros_core.sampling import Sampling
from visualize.server.faults import told
from visualize.server.limits import Limits, who
from visualize.server.models import import_core
from visualize.server.runner import Runner
from visualize.server.updates import Finished, Progress, RunUpdate

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task

LONGEST_PREDICTION = 100_000


def make_task(
    prompt: str,
    method: str,
    settings: dict[str, Any],
    chat: bool,
    count: Any,
    sampling: dict[str, Any],
    prediction: str = "",
    record: bool = False,
    most: int = Limits.new_tokens,
) -> Task:
    """What is asked for, checked; raises InvalidInput. most: tokens of an answer."""
    import_core()
    from ouroboros_core.decoding.generation import Task

    if not isinstance(prompt, str) or not prompt:
        raise InvalidInput(
            "the prompt is empty; write at least one character, or choose an example"
        )
    if not isinstance(prediction, str) or len(prediction) > LONGEST_PREDICTION:
        text = isinstance(prediction, str)
        what = f"{len(prediction)} characters" if text else f"a {type(prediction).__name__}"
        raise InvalidInput(
            f"prediction must be a text of at most {LONGEST_PREDICTION} characters, got {what}"
        )
    kind = methods.get(method)
    chosen = Sampling.parse(sampling)
    assert isinstance(chosen, Sampling)
    more: dict[str, Any] = {
        "chat": flag("chat", chat),
        "prediction": prediction,
        "record": flag("record", record),
    }
    return Task(
        prompt,
        method,
        kind.Hyperparameters.parse(settings),
        chosen,
        whole("max_new_tokens", count, most),
        **more,
    )


def whole(name: str, count: Any, most: int) -> int:
    """A whole number between 1 and `most`, or InvalidInput."""
    if (
        not isinstance(count, int | float)
        or isinstance(count, bool)
        or not 1 <= count <= most
        or count % 1
    ):
        given = str(count)[:40]
        raise InvalidInput(f"{name} must be a whole number between 1 and {most}, got {given}")
    return int(count)


def flag(name: str, value: Any) -> bool:
    """True or false, or InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, got {str(value)[:40]}")
    return value


def add_endpoint(runner: Runner) -> None:
    """The endpoint /generate, for programs."""

    def generate(
        prompt: str,
        method: str = methods.DEFAULT,
        knobs: dict = {},  # type: ignore[type-arg]  # noqa: B006 - gradio reads the default, nobody changes it
        chat: bool = True,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        compare: bool = True,
        acceptance: str = "match",
        prediction: str = "",
        record: bool = False,
        pair: str = "",
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Continue a prompt. Values arrive while it runs; the last one contains the trace.

        Each value is {text, done}. The last adds tokens_per_second; speedup over plain decoding,
        measured: the median of the rounds in speedups (null and empty without compare);
        identical (to plain decoding; null under rejection sampling and block verification);
        difference (where, and whether rounding explains it); and trace, one JSON object with
        `steps`.
        """
        sampling = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "acceptance": acceptance,
        }
        with told():
            most = runner.limits.new_tokens
            given = {} if knobs is None else by_name(knobs)
            kind, chosen = methods.with_preset(method)
            settings = chosen | given
            how = (settings, chat, max_new_tokens, sampling, prediction, record, most)
            task = make_task(prompt, kind.id, *how)
            compared = flag("compare", compare)
            yield from _answers(
                runner.run(task, compared, charts=False, pair=pair, visitor=who(request)), task
            )

    gr.api(
        generate, api_name="generate", concurrency_limit=None
    )  # one at a time computes all the same: see `Turns`


def _answers(
    updates: Generator[RunUpdate, None, None], task: Task
) -> Generator[dict[str, Any], None, None]:
    """What the endpoint yields of a run: the text so far whenever there is more, then the whole."""
    text = ""
    with closing(updates):
        for update in updates:
            match update:
                case Progress(texts=texts):
                    text += "".join(texts)
                    yield {"text": text, "done": False}
                case Finished():
                    yield _whole_answer(update, task)


def _whole_answer(run: Finished, task: Task) -> dict[str, Any]:
    """The last value of the endpoint."""
    import json

    from ouroboros_core.decoding import metrics

    trace, baseline, difference = run.trace, run.baseline, run.difference
    answer = {
        "text": trace.text,
        "done": True,
        "tokens_per_second": metrics.tokens_per_second(trace),
        "speedup": run.speedup.median if run.speedup else None,
        "speedups": list(run.speedup.each) if run.speedup else [],
        "identical": None,
        "difference": None,
        "trace": json.loads(trace.to_json()),
    }
    if baseline is not None:
        if task.sampling.repeats_plain_text:
            answer["identical"] = trace.tokens == baseline.tokens
        if difference is not None:
            answer["difference"] = difference.sentence(trace.pieces | baseline.pieces)
    return answer
