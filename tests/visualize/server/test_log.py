"""What goes wrong while the page computes: it is said, logged without a visitor's words, and the
next click works."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.browser import server, wait_until_ready
from tests.calls import Page, follow
from tests.visitor import answer, client

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


def generate(url: str, method: str = "union") -> Any:
    return answer(url, f"Write down {SECRET} three times.", method, max_new_tokens=12)


def lines(log: Path) -> list[dict[str, Any]]:
    written = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in written if line.startswith("{")]


def test_an_exception_in_a_method_and_a_full_memory_are_said_and_the_next_run_works(
    url: str, log: Path
) -> None:
    """The words of the exception are a visitor's."""
    earlier = len(lines(log))
    before = generate(url)["text"]
    wrong = r"went wrong \(KeyError\); your next click works as before.* fault [0-9a-f]{8}"
    full = "did not fit into the memory of this machine; it was given back"
    for method, message in (("speculative", wrong), ("ouroboros", full)):
        with pytest.raises(Exception, match=message):
            generate(url, method)
        assert generate(url)["text"] == before
    new = lines(log)[earlier:]
    assert [line["ending"] for line in new] == ["budget", "failed", "budget", "failed", "budget"]
    assert [line.get("error") for line in new][1::2] == ["KeyError", "RuntimeError"]
    written = log.read_text(encoding="utf-8")
    assert "in wrong" in written, "the place of the fault is in the log"
    assert SECRET not in written


def test_a_run_writes_one_line_and_nothing_that_the_visitor_wrote(url: str, log: Path) -> None:
    earlier = len(lines(log))
    trace = generate(url)["trace"]
    with pytest.raises(Exception, match="method"):
        generate(url, SECRET)
    (line,) = lines(log)[earlier:]
    assert SECRET not in log.read_text(encoding="utf-8")
    assert (line["tokens"], line["steps"]) == (len(trace["texts"]), len(trace["steps"]))
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
    asked = {"prompt": "Count to a thousand.", "max_new_tokens": 1000, "compare": False}
    with closing(follow(url, Page(url).join(asked), "")) as messages:
        working = (stage for stage, _ in messages if stage == "working")
        assert len([*islice(working, 3)]) == 3, "the run ended before the connection was closed"
