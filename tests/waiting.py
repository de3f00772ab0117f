"""The page, with two prompts that wait for Stop, however fast the machine is: a program for
`tests.browser.server`."""

from __future__ import annotations

import runpy
import time
from collections.abc import Iterator
from typing import Any

PROGRAM = "from tests import waiting\nwaiting.serve()\n"
LONG_ANSWER = "Tell me everything about bread."
"""After 32 tokens no other is written until Stop."""
LONG_COMPARISON = "Count from one to ten, and take your time."
"""The answer is written, and the plain run to compare with does not end until Stop."""
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
                yield live._new_steps({})

    def silently_or_wait(generation: Any) -> Any:
        while generation.task.prompt == LONG_COMPARISON:
            time.sleep(PAUSE)
            yield pace.Comparing()
        return (yield from silently(generation))

    Live.progress = progress_or_wait  # type: ignore[method-assign,assignment]
    pace.silently = silently_or_wait
    runpy.run_path("app.py", run_name="__main__")
