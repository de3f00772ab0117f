"""A page for strangers: pairs from a list, a budget, nothing by path, nothing of one visitor for
another. Real clients."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser import chromium, server, wait_until_ready
from tests.folders import save
from tests.visitor import (
    ask,
    choose,
    client,
    generate,
    has,
    open_settings,
    preset,
    switch,
)

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

SECRETS = ("xylophone-quokka-7781", "marmalade-axolotl-4242")
"""Words that stand in one visitor's prompt, and nowhere else."""

FEW = """
import dataclasses, runpy
from visualize.server import limits
limits.PUBLIC = dataclasses.replace(limits.PUBLIC, tokens=410)
runpy.run_path("app.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("public")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A public page with two pairs, the second one of tiny models."""
    save(folder / "target")
    save(folder / "draft")
    tiny = {"name": "tiny", "target": str(folder / "target"), "draft": str(folder / "draft")}
    (folder / "pairs.json").write_text(json.dumps([{"name": "small"}, tiny]), encoding="utf-8")
    (folder / "files").mkdir()
    homes = {"TMPDIR": str(folder / "files"), "GRADIO_TEMP_DIR": str(folder / "files" / "gradio")}
    flags = "--dtype", "float32", "--public", "--pairs", str(folder / "pairs.json")
    with server(*flags, program=FEW, environment=homes, log_file=folder / "log") as address:
        wait_until_ready(address)
        yield address
    assert "Traceback" not in (folder / "log").read_text(encoding="utf-8")


def refused(url: str, **more: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - gradio_client's own class
        client(url).predict(
            "Hello", **{"max_new_tokens": 4, "compare": False, **more}, api_name="/generate"
        )
    return str(caught.value)


def run(page: Any, prompt: str) -> dict[str, Any]:
    """Generate from a visitor's own phrases, too; the trace that the page then hands over. With
    fixed settings, so that phrases hang in its trees whatever a draft pass costs here."""
    choose(page, "Ouroboros")
    preset(page, "fixed", "ouroboros")
    ask(page, prompt, 48)
    switch(page, "warm")
    generate(page)
    with page.expect_download() as download:
        page.locator('#save-view [data-kind="json"]').click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    trace: dict[str, Any] = json.loads(text)
    return trace


def remembered(trace: dict[str, Any]) -> int:
    """Nodes of trees that come from an earlier run."""
    return json.dumps(trace).count('"learned": "history"') + json.dumps(trace).count('"history"')


@pytest.mark.browser
def test_nothing_of_one_visitor_reaches_another_a_log_or_a_file(url: str, folder: Path) -> None:
    """Three visitors in turn. That phrases are remembered at all is seen at the first one's second
    run."""
    first, second = (f"The {secret} sings: {secret} sings, {secret}" for secret in SECRETS)
    with chromium() as browser:
        pages = [
            browser.new_context(
                viewport={"width": 1440, "height": 1000}, reduced_motion="reduce"
            ).new_page()
            for _ in range(3)
        ]
        for page in pages:
            page.goto(url)
            page.wait_for_selector("#token-view .ouro-token")
            open_settings(page)
            page.get_by_text("Ready:").first.wait_for(timeout=120_000)
        a, b, c = pages
        traces = [run(a, first), run(b, second), run(a, first)]
        assert SECRETS[0] not in b.content()
        assert SECRETS[1] not in a.content()
        traces.append(run(c, first))
        assert [SECRETS[0] in json.dumps(trace) for trace in traces] == [True, False, True, True]
        assert remembered(traces[2]) > 0, (
            "the first visitor's second run knows phrases of the first"
        )
        assert remembered(traces[3]) == 0, "the same prompt, but from another visitor"
        for page, count in ((a, 2), (b, 1), (c, 1)):
            cards = page.locator(".ouro-visit-card")
            has(cards, count)  # of this visitor's own runs, and no others
            assert all(SECRETS[0] in text for text in cards.all_text_contents()) == (page is not b)
        for page in pages:
            page.close()
    written = (folder / "log").read_text(encoding="utf-8")
    assert written.count('"method": "ouroboros"') == 4
    assert all(secret not in written for secret in SECRETS)
    kept = [path for path in (folder / "files").rglob("*") if path.is_file()]
    assert [
        path for path in kept if any(secret.encode() in path.read_bytes() for secret in SECRETS)
    ] == []


def test_a_visitor_chooses_among_the_pairs_of_the_list_and_names_no_others(
    url: str, folder: Path
) -> None:
    def target(**more: Any) -> str:
        answer = client(url).predict(
            "Hello",
            **{"chat": False, "max_new_tokens": 4, "compare": False, **more},
            api_name="/generate",
        )
        return str(answer["trace"]["target"])

    assert target() == target(pair="small") == "SmolLM2-135M-Instruct"
    assert target(pair="tiny") == "target"
    for name in (str(folder / "target"), "HuggingFaceTB/SmolLM2-360M-Instruct", "../target"):
        assert "is not offered here; choose one of: small, tiny" in refused(url, pair=name)


def test_an_answer_is_bounded_and_so_is_what_a_visitor_has_in_an_hour(url: str) -> None:
    assert "max_new_tokens must be a whole number between 1 and 256, got 257" in refused(
        url, max_new_tokens=257
    )
    client(url).predict(
        "Once upon a time", chat=False, max_new_tokens=160, compare=False, api_name="/generate"
    )
    assert "may have 410 tokens in an hour; you have had" in refused(url, max_new_tokens=256)
    client(url).predict("Hi.", max_new_tokens=4, compare=False, api_name="/generate")


def test_files_neither_come_in_nor_go_out(url: str) -> None:
    with httpx.Client(base_url=url) as visitor:
        assert visitor.post("/gradio_api/upload", files={"files": b"x"}).status_code == 403
        for path in (
            "/etc/passwd",
            "app.py",
            "requirements.txt",
            "../../etc/passwd",
            str(Path.home() / ".bashrc"),
        ):
            assert visitor.get(f"/gradio_api/file={path}").status_code in (403, 404)
        assert visitor.get(
            "/gradio_api/file=assets/models/smollm2-draft/model.safetensors"
        ).status_code in (403, 404)
