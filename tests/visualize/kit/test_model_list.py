"""The models in the header: one name or a list, and the download of a pair that is not on the disk,
from a hub on this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.loading.download import in_words
from tests.browser import server, wait_until_ready
from tests.commands import wait_until
from tests.folders import chatting_pair
from tests.hub import Hub, hub
from tests.visitor import answer, ask, generate, saved, visit
from visualize.launch import is_loopback

pytestmark = [pytest.mark.browser, pytest.mark.slow]

THERE = "tiny/there"
ARRIVES = "document.querySelector('#download progress')?.value > 20000"
visitor = contextmanager(visit)


@pytest.fixture
def tiny_hub(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path) as made:
        made.add(THERE)
        yield made


def entries(page: Any) -> list[str]:
    """The labels of the list."""
    page.locator("#pair input").click()
    options = page.locator("#pair").get_by_role("option")
    options.first.wait_for()
    labels = [label.removeprefix("✓").strip() for label in options.all_inner_texts()]
    page.keyboard.press("Escape")
    return labels


def choose_models(page: Any, name: str) -> None:
    """Write a name into the list, or the beginning of one that it has."""
    page.locator("#pair input").fill(name)
    page.keyboard.press("Enter")


def says(page: Any, words: str) -> None:
    """Wait until the panel below the header has these words."""
    from playwright.sync_api import expect

    expect(page.locator("#download")).to_contain_text(words, timeout=30_000)


def has_chosen(page: Any, name: str) -> None:
    from playwright.sync_api import expect

    expect(page.locator("#pair input")).to_have_value(name, timeout=30_000)


def press(page: Any, button: str) -> None:
    page.locator("#download").get_by_role("button", name=button, exact=True).click()


def begin(page: Any, made: Hub) -> None:
    """Choose the models of the hub, and wait until they arrive."""
    made.open.clear()
    choose_models(page, THERE)
    says(page, "Download 0.")
    press(page, "Download")
    wait_until(lambda: bool(made.incomplete))


def target(page: Any) -> str:
    """Generate a few tokens; the target of the run that is shown."""
    ask(page, "abc", 4)
    generate(page)
    return str(json.loads(saved(page))["target"])


def test_a_public_page_fetches_a_pair_of_the_list_and_refuses_another(
    browser: Any, tiny_hub: Hub, tmp_path: Path
) -> None:
    """The oracle of the size is the model's folder."""
    tiny_hub.add("tiny/secret")
    kinds = ("*.json", "*.jinja", "*.safetensors")
    files = [file for kind in kinds for file in (tiny_hub.root / THERE).glob(kind)]
    size = in_words(sum(file.stat().st_size for file in files))
    here = {"name": "here", "target": chatting_pair(tmp_path)[1]}
    there = {"name": "there", "target": THERE, "size": 123_456_789}
    (tmp_path / "pairs.json").write_text(json.dumps([here, there]), encoding="utf-8")
    flags = "--public", "--dtype", "float32", "--pairs", str(tmp_path / "pairs.json")
    with server(*flags, environment=tiny_hub.variables) as url, visitor(browser, url) as page:
        wait_until_ready(url)
        with pytest.raises(Exception, match="is not offered here; choose one of: here, there"):
            answer(url, "a", pair="tiny/secret")
        assert entries(page) == ["here", "there (0.12 GB download)"]
        assert tiny_hub.asked == []
        tiny_hub.open.clear()
        choose_models(page, "there")
        says(page, f"there is not on this disk. Download {size}?")
        has_chosen(page, "here")
        press(page, "Download")
        page.wait_for_function(ARRIVES, timeout=30_000)
        assert page.locator("#download progress").evaluate("bar => bar.value < bar.max")
        assert target(page) == "target", "the models before it go on"
        tiny_hub.open.set()
        has_chosen(page, "there")
        page.locator("#download").wait_for(state="hidden")
        assert target(page) == THERE
        assert entries(page) == ["here", "there"]


def test_on_ones_own_machine_a_download_can_be_stopped_and_each_fault_says_what_to_do(
    browser: Any, tiny_hub: Hub, tmp_path: Path
) -> None:
    tiny_hub.add("tiny/gated")
    tiny_hub.gated.add("tiny/gated")
    flags = chatting_pair(tmp_path)
    with server(*flags, environment=tiny_hub.variables) as url:
        with visitor(browser, url) as page:
            wait_until_ready(url)
            here, *shipped = entries(page)
            assert "SmolLM2-360M with SmolLM2-135M (0.99 GB download)" in shipped
            begin(page, tiny_hub)
            press(page, "Stop")
            says(page, f"Stopped. {here} goes on writing.")
            has_chosen(page, here)
            wait_until(lambda: not tiny_hub.incomplete)
            choose_models(page, "tiny/gated")
            says(page, "Download 0.2 MB?")
            press(page, "Download")
            says(page, "only for those who accept its terms")
            choose_models(page, "tiny/nowhere")
            says(page, "There is no model tiny/nowhere on the Hub")
            press(page, "Close")
            assert target(page) == "target"
        with visitor(browser, url) as page:
            begin(page, tiny_hub)
        wait_until(lambda: not tiny_hub.incomplete)  # its tab is closed
        with visitor(browser, url) as page:
            begin(page, tiny_hub)
            tiny_hub.open.set()
            has_chosen(page, THERE)


def test_other_machines_reach_a_page_with_one_pair_and_its_name_is_no_list(
    browser: Any, tiny_hub: Hub, tmp_path: Path
) -> None:
    flags = chatting_pair(tmp_path)
    address = ("--host", "0.0.0.0")
    with (
        server(*flags, *address, environment=tiny_hub.variables) as url,
        visitor(browser, url) as page,
    ):
        assert (
            page.locator("#only-pair").inner_text()
            == f"Model for your runs {flags[1]} + {flags[3]}"
        )
        assert page.locator("#pair").count() == 0
        with pytest.raises(Exception, match="is not offered here"):
            answer(url, "a", pair=THERE)
        assert tiny_hub.asked == []
    hosts = {"127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.0.2", "example.org"}
    assert {host for host in hosts if is_loopback(host)} == {"127.0.0.1", "::1", "localhost"}
