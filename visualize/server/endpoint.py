"""The endpoint /generate, for programs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods, rules
from ouroboros_core.settings import by_name
from visualize.server.errors import errors_on_page
from visualize.server.limits import flag, who
from visualize.server.runner import Runner, make_task
from visualize.server.updates import Finished, Progress, RunUpdate

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task


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
        acceptance: str = rules.DEFAULT,
        prediction: str = "",
        record: bool = False,
        pair: str = "",
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Continue a prompt. Values arrive while it runs; the last one contains the trace.

        Each value is {text, done}. The last adds tokens_per_second; speedup over plain decoding,
        measured: the median of the rounds in speedups (null and empty without compare);
        identical (to plain decoding; null under a rule that does not repeat its text);
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
        with errors_on_page():
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
    )  # one at a time computes all the same: see `runner.Turns`


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

    from ouroboros_core.trace import metrics

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
