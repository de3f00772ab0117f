"""What goes wrong while the page computes: it is said, logged without a visitor's words, and the
next click works."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser import server, wait_until_ready
from tests.visitor import client

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

SECRET = "xylophone-quokka-7781"
BROKEN = """
import runpy, torch
from ouroboros_core import methods
def wrong(context):
    raise KeyError("-".join(("xylophone", "quokka", "7781")))
def hungry(context):
    torch.empty(2**48)
def breaking(whole, fault):
    def propose(self, context):
        if context.step == 2 and len(context.tokens) > 20:  # and not while the models warm up
            fault(context)
        return whole(self, context)
    return propose
for name, fault in (("speculative", wrong), ("ouroboros", hungry)):
    kind = methods.get(name)
    kind.propose = breaking(kind.propose, fault)
runpy.run_path("app.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults") / "log"


@pytest.fixture(scope="module")
def url(log: Path) -> Iterator[str]:
    """A page on which `speculative` raises and `ouroboros` asks for 2^50 bytes, both in their third
    step."""
    with server("--dtype", "float32", program=BROKEN, log_file=log) as address:
        wait_until_ready(address)
        yield address


def generate(url: str, method: str = "union", **more: Any) -> Any:
    asked = {"max_new_tokens": 12, "compare": False, **more}
    return client(url).predict(
        f"Write down {SECRET} three times.", method, **asked, api_name="/generate"
    )


def lines(log: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in log.read_text(encoding="utf-8").splitlines()
        if line.startswith("{")
    ]


def test_an_exception_in_a_method_and_a_full_memory_are_said_and_the_next_run_works(
    url: str, log: Path
) -> None:
    """The words of the exception are a visitor's."""
    earlier = len(lines(log))
    before = generate(url)["text"]
    with pytest.raises(
        Exception,
        match=r"went wrong \(KeyError\); your next click works as before.* fault [0-9a-f]{8}",
    ):
        generate(url, "speculative")
    assert generate(url)["text"] == before
    with pytest.raises(
        Exception, match="did not fit into the memory of this machine; it was given back"
    ):
        generate(url, "ouroboros")
    assert generate(url)["text"] == before
    new = lines(log)[earlier:]
    assert [line["ending"] for line in new] == ["budget", "failed", "budget", "failed", "budget"]
    assert [line.get("error") for line in new][1::2] == ["KeyError", "RuntimeError"]
    written = log.read_text(encoding="utf-8")
    assert "in wrong" in written, "the place of the fault is in the log"
    assert SECRET not in written


def test_a_run_writes_one_line_and_nothing_that_the_visitor_wrote(url: str, log: Path) -> None:
    earlier = len(lines(log))
    answer = generate(url)
    with pytest.raises(Exception, match="method"):
        generate(url, SECRET)
    (line,) = lines(log)[earlier:]
    assert SECRET not in log.read_text(encoding="utf-8")
    trace = answer["trace"]
    assert line["tokens"] == len(trace["texts"])
    assert line["steps"] == len(trace["steps"])
    assert line["prompt_tokens"] == len(trace["prompt"]["tokens"])
    assert (line["kind"], line["method"], line["ending"]) == ("run", "union", trace["ending"])
    assert line["ran_s"] > 0


@pytest.mark.parametrize("how", ["stop", "hang up"])
def test_a_visitor_who_stops_or_hangs_up_frees_the_lane(url: str, log: Path, how: str) -> None:
    earlier = len(lines(log))
    if how == "stop":
        job = client(url).submit(
            "Count to a thousand.", max_new_tokens=1000, compare=False, api_name="/generate"
        )
        while len(job.outputs()) < 3:
            time.sleep(0.1)
        job.cancel()
    else:
        hang_up(url)
    assert generate(url)["done"]
    first, second = lines(log)[earlier:]
    assert first["ending"] == "stopped"
    assert 0 < first["tokens"] < 1000
    assert second["ending"] in ("budget", "stop token")


def hang_up(url: str) -> None:
    """Ask, read a few values, close the connection."""
    asked = {
        "data": [
            "Count to a thousand.",
            "union",
            {},
            True,
            1000,
            0.0,
            0,
            1.0,
            0,
            False,
            "match",
            "",
            False,
            "",
        ]
    }
    event = httpx.post(f"{url}/gradio_api/call/generate", json=asked).json()["event_id"]
    with httpx.stream("GET", f"{url}/gradio_api/call/generate/{event}", timeout=60) as stream:
        seen = 0
        for line in stream.iter_lines():
            seen += line.startswith("data:")
            if seen == 3:
                return
    raise AssertionError("the run ended before the connection was closed")


def test_two_visitors_at_once_are_served_in_turn_and_each_has_the_own_text(url: str) -> None:
    """Oracle: each text alone."""
    prompts = ["Name three birds.", "Name three rivers."]

    def ask(prompt: str) -> str:
        return str(
            client(url).predict(prompt, max_new_tokens=24, compare=False, api_name="/generate")[
                "text"
            ]
        )

    alone = [ask(prompt) for prompt in prompts]
    together: dict[str, str] = {}
    visitors = [
        threading.Thread(target=lambda p=prompt: together.update({p: ask(p)})) for prompt in prompts
    ]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(120)
    assert [together[prompt] for prompt in prompts] == alone
