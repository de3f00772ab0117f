"""Serve the page with two prompts that run until Stop on any machine: a program for
`tests.browser.server`."""

import runpy
import time
from collections.abc import Iterator
from typing import Any

PROGRAM = "from tests import endless_runs\nendless_runs.serve()\n"
LONG_ANSWER = "Tell me everything about bread."
"""A prompt whose answer pauses after 32 tokens until Stop."""
LONG_COMPARISON = "Count from one to ten, and take your time."
"""A prompt whose answer is written, but whose timing lasts until the next run."""
PAUSE = 0.05


def serve() -> None:
    """Run app.py."""
    from visualize.run import live as pace
    from visualize.watch.job import Live

    progress, silently = Live.progress, pace.silently

    def progress_or_wait(live: Any) -> Iterator[Any]:
        for update in progress(live):
            yield update
            while live.generation.task.prompt == LONG_ANSWER and len(live.generation.texts) > 32:
                time.sleep(PAUSE)
                yield live._new_steps()

    def silently_or_wait(make: Any, turn: Any) -> Any:
        while make().task.prompt == LONG_COMPARISON:
            time.sleep(PAUSE)
            yield pace.Comparing()
        return (yield from silently(make, turn))

    Live.progress = progress_or_wait  # type: ignore[method-assign,assignment]
    pace.silently = silently_or_wait
    runpy.run_path("app.py", run_name="__main__")
