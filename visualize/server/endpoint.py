"""The endpoint /generate, for programs, and the checks that it shares with the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.words import say
from visualize.server.faults import told
from visualize.server.limits import Limits, who
from visualize.server.runner import Studio

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task

LONGEST_PREDICTION = 100_000


def make_task(
    prompt: str,
    method: str,
    knobs: dict[str, Any],
    chat: bool,
    count: Any,
    sampling: dict[str, Any],
    prediction: str = "",
    record: bool = False,
    most: int = Limits.new_tokens,
) -> Task:
    """What is asked for, checked; raises InvalidInput. most: tokens of an answer."""
    from ouroboros_core.decoding.generation import Task

    if not isinstance(prompt, str) or not prompt:
        raise InvalidInput(say("generate.empty"))
    if not isinstance(prediction, str) or len(prediction) > LONGEST_PREDICTION:
        known = isinstance(prediction, str)
        what = (
            say("generate.characters", n=len(prediction))
            if known
            else say("generate.type", type=type(prediction).__name__)
        )
        raise InvalidInput(say("generate.toolong", most=LONGEST_PREDICTION, what=what))
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
        kind.Hyperparameters.parse(knobs),
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
        raise InvalidInput(say("generate.wrongcount", name=name, count=str(count)[:40], most=most))
    return int(count)


def flag(name: str, value: Any) -> bool:
    """True or false, or InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(say("generate.wrongflag", name=name, value=str(value)[:40]))
    return value


def add_endpoint(studio: Studio) -> None:
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
        measured (null without compare); identical (to plain decoding; null under
        rejection sampling); difference (where, and whether rounding explains it); and trace, one
        JSON object with `steps`.
        """
        import json

        from ouroboros_core.decoding import metrics

        sampling = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "acceptance": acceptance,
        }
        with told():
            text = ""
            most = studio.limits.new_tokens
            task = make_task(
                prompt,
                method,
                knobs or {},
                chat,
                max_new_tokens,
                sampling,
                prediction,
                record,
                most,
            )
            for update in studio.run(
                task, flag("compare", compare), charts=False, pair=pair, visitor=who(request)
            ):
                if "trace" in update:
                    trace, baseline, difference = (
                        update[name] for name in ("trace", "baseline", "difference")
                    )
                    comparable = baseline is not None and not task.sampling.rejects
                    yield {
                        "text": trace.text,
                        "done": True,
                        "tokens_per_second": metrics.tokens_per_second(trace),
                        "speedup": metrics.speedup(trace, baseline) if baseline else None,
                        "identical": trace.tokens == baseline.tokens if comparable else None,
                        "difference": difference.sentence(trace.pieces | baseline.pieces)
                        if difference
                        else None,
                        "trace": json.loads(trace.to_json()),
                    }
                elif update.get("view", {}).get("steps") and not update["view"].get("tiles"):
                    text += "".join(
                        token["text"]
                        for step in update["view"]["steps"]
                        for token in step["tokens"]
                    )
                    yield {"text": text, "done": False}

    gr.api(
        generate, api_name="generate", concurrency_limit=None
    )  # one at a time computes all the same: see `lane`
