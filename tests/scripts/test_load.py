"""Many visitors at once, and whatever one can send, in small: the full ones are `make soak` and
`make fuzz`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import fuzz, soak
from tests import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


Served = tuple[str, Path]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with fuzz.serving("--max-queue", "1") as url_and_log:
        yield url_and_log


def test_visitors_who_come_at_once_stop_and_leave_get_their_own_texts_and_clear_refusals(
    served: Served,
) -> None:
    url, log = served
    known = log.stat().st_size
    figures = soak.measured(soak.Page(url), 3, soak.plan(runs=10, seed=1, counts=(4, 8)))
    assert not figures["failures"], "\n".join(figures["failures"])
    assert not fuzz.faults(log.read_bytes()[known:])
    ended = figures["ended"]
    assert ended["finished"] >= 6 and sum(ended.values()) - ended[soak.FULL] == 10
    assert sum(count for end, count in ended.items() if end.startswith("refused")) == 1
    assert all(waits["times"] for waits in figures["page seconds"].values())


def test_no_payload_raises_an_error_in_this_projects_code_hangs_or_ends_the_server_or_is_served_a_file(
    served: Served,
) -> None:
    figures = fuzz.measure(*served, range(150), seed=1)
    assert not figures["failures"], "\n".join(figures["failures"])
    assert not figures["ours"]
    assert figures["payloads"] == sum(figures["outcomes"].values()) == 150
    assert figures["outcomes"]["complete"] and figures["outcomes"]["error with words"]


def test_tracebacks_of_this_project_are_told_from_gradios() -> None:
    head = "Traceback (most recent call last):\n"
    frame = '  File "{}", line 7, in work\n    work()\n'
    gradio, ours = (
        frame.format(path)
        for path in ("/x/site-packages/gradio/queueing.py", ROOT / "visualize/run/view.py")
    )
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    above = '  |   File "/x/site-packages/anyio/a.py", line 1, in b\n  | G: 1\n'
    group = (
        f"  + Exception Group {head}{above}  +-+---------------- 1 -----\n    | {head}    | {ours} "
        "   | KeyError: 1\n    +----\n"
    )
    log = (
        f"{head}{gradio}ValueError: no\nmore of it\n{head}{ours}{gradio}TypeError: "
        f"x\n{chain}{head}{gradio}OSError: y\n"
    )
    passed = frame.format(ROOT / "visualize/server/service.py").replace(
        "    work()", "    await self.app(scope, receive, send)"
    )
    log += f"{group}ERROR fault 1a2b, Traceback of a MemoryError:\n{ours}the next line\n{head}{passed}{gradio}OSError: z\n"
    found = fuzz.faults(log.encode())
    assert [fault.ours for fault in found] == [False, True, True, True, False]
    assert found[0].kind == "ValueError in gradio/queueing.py work"
    assert found[1].kind == "TypeError in visualize/run/view.py:7:work"
    assert found[3].kind == "MemoryError in visualize/run/view.py:7:work"
