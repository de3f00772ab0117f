"""The endpoint /generate, for programs: a run as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from ouroboros_core import methods
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import by_name
from ouroboros_core.trace import metrics
from visualize.run.request import RunRequest
from visualize.server.limits import flag
from visualize.server.runner import Runner
from visualize.watch.job import Finished, Progress, RunJob


def answers(runner: Runner, values: dict[str, Any], visitor: str) -> Iterator[dict[str, Any]]:
    """Run the request of a program; yield the text so far, then the whole answer.

    values  the endpoint's arguments, by name
    """
    knobs = {} if values["knobs"] is None else by_name(values["knobs"])
    method, settings = methods.with_preset(values["method"])
    request = RunRequest(
        values["prompt"],
        method.id,
        settings | knobs,
        values["chat"],
        values["max_new_tokens"],
        {name: values[name] for name in Sampling.settings()},
        values["prediction"],
        values["record"],
    )
    job = RunJob(
        request.task(runner.limits.new_tokens), flag("compare", values["compare"]), charts=False
    )
    text = ""
    with closing(runner.submit(job, pair=values["pair"], visitor=visitor)) as updates:
        for update in updates:
            if isinstance(update, Progress):
                text += "".join(update.new_texts)
            if isinstance(update, Finished):
                yield _whole_answer(update, job.task.sampling.repeats_plain_text)
            else:  # also while it waits or is timed, so that a program that leaves ends it
                yield {"text": text, "done": False}


def _whole_answer(run: Finished, repeats_plain_text: bool) -> dict[str, Any]:
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
        if repeats_plain_text:
            answer["identical"] = trace.tokens == baseline.tokens
        if difference is not None:
            answer["difference"] = difference.sentence(trace.pieces | baseline.pieces)
    return answer
