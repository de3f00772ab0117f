"""The view of a run as a part of other people's apps."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.file import MAX_BYTES
from ouroboros_core.trace.trace import Trace
from tests import ROOT
from tests.browser import server
from tests.traces import typed_trace
from tests.visitor import has, insist, watch
from visualize.components import OuroborosView, StepShown, TokenSelected
from visualize.gallery import runs as gallery
from visualize.kit import palette
from visualize.kit.ouroboros_view import Given

RULE = re.compile(r"(?:^|[{}])\s*([^{}@]+?)\s*\{")
OURS = re.compile(r"[.#]ouro-|\[data-look=")
QUIET = {"GRADIO_ANALYTICS_ENABLED": "False"}
MARKUP = "<img src=x onerror=document.title='got'>"
TRAPS = ("</script>", MARKUP, "${1+1}", "{{value}}", "C:\\users")


def trapped() -> Trace:
    """A trace by hand; what its tokens say would be markup or code, were it not text."""
    trace = typed_trace()
    return replace(trace, texts=(*TRAPS, *trace.texts[len(TRAPS) :]))


def selectors(style: str) -> list[str]:
    """Of all rules; brackets are kept together."""
    plain = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    while re.search(r"\([^()]*\)", plain):
        plain = re.sub(r"\(([^()]*)\)", lambda found: f"[{found[1].replace(',', ' ')}]", plain)
    return [one.strip() for listed in RULE.findall(plain) for one in listed.split(",")]


def test_the_styles_of_a_run_name_nothing_of_the_page_around_it() -> None:
    """The oracle is each selector: it has a class of ours, so it cannot fit a stranger's element;
    those of the page itself may."""
    opening, style = palette.run_style().split("{", 1)
    assert opening == ":root:root " and style.count("{") == style.count("}") - 1
    found = selectors(style)
    assert len(found) > 150 and [one for one in found if not OURS.search(one)] == []
    assert [one for one in selectors(palette.style()) if not OURS.search(one)] != []


def test_a_run_is_shown_as_trace_file_text_and_object_alike(tmp_path: Path) -> None:
    """The oracle is the view of the trace itself: all ways lead to its texts, its prompt and its
    plain run."""
    trace, plain = trapped(), typed_trace()
    text = trace.to_json()
    file = tmp_path / "run.json"
    file.write_text(
        json.dumps(json.loads(text) | {"baseline": json.loads(plain.to_json())}), encoding="utf-8"
    )
    ways: list[Given] = [trace, (trace, plain), file, str(file), text, json.loads(text)]
    views = [json.loads(OuroborosView(way).value) for way in ways]
    for view in views:
        texts = [token["text"] for step in view["steps"] for token in step["tokens"]]
        assert texts == list(trace.texts) and view["prompt"] == trace.prompt.text
    compared = [view["tiles"][-1]["value"] for view in views]
    assert compared == ["–", "yes", "yes", "yes", "–", "–"]
    assert len({view["run"] for view in views}) == len(views), "no run is taken for another one"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Path("none.json"), "none.json cannot be read: No such file"),
        (Path(), "cannot be read: Is a directory"),
        ("none.json", "none.json cannot be read"),
        ("{", "must be JSON"),
        ("{}", "method: Field required"),
        ({"version": 99}, "schema version 99"),
        ({"a": object()}, "must be JSON: Object of type object"),
        (b" " * (MAX_BYTES + 1), "at most 16 MB are read"),
        (17, "shows a Trace, a Path of its file, or its JSON as text or parsed, got a int"),
        (("a", "b"), "got a tuple"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_no_run_is_refused_with_a_sentence(given: Any, said: str) -> None:
    """Where the view is made as InvalidInput, in an event as an error that Gradio shows."""
    with pytest.raises(InvalidInput, match=re.escape(said)):
        OuroborosView(given)
    if given != "none.json":
        with pytest.raises(gr.Error, match=re.escape(said)):
            OuroborosView().postprocess(given)


def test_a_text_of_a_visitor_opens_no_file(tmp_path: Path) -> None:
    """In an event a string is JSON, even where it names a file with a trace in it."""
    file = tmp_path / "run.json"
    file.write_text(trapped().to_json(), encoding="utf-8")
    view = OuroborosView(str(file))
    with pytest.raises(gr.Error, match="must be JSON"):
        view.postprocess(str(file))


def test_the_view_is_an_output_and_has_no_events_but_its_own() -> None:
    view = OuroborosView(trapped())
    assert view.preprocess(view.value) is None
    assert all(callable(getattr(view, name)) for name in ("select", "step"))
    with pytest.raises(AttributeError, match="no attribute 'timeline'"):
        view.timeline  # noqa: B018 - a word of its scripts


TOKEN = {"index": 3, "step": 1, "source": "target", "kind": "bonus", "text": " x"}
SHOWN = {"step": 2, "tokens": 9, "seconds": 1}


def test_events_are_typed() -> None:
    token, step = TokenSelected(None, TOKEN), StepShown(None, SHOWN)
    assert {name: getattr(token, name) for name in TOKEN} == TOKEN
    assert {name: getattr(step, name) for name in SHOWN} == SHOWN


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (TokenSelected, {"index": "3"}, "sent no index"),
        (TokenSelected, {"index": -1}, "index must be at least 0, got -1"),
        (TokenSelected, {"index": True}, "at least 0, got True"),
        (TokenSelected, {"source": "nobody"}, "source must be one of context, "),
        (TokenSelected, {"kind": 4}, "sent no kind"),
        (StepShown, {"seconds": None}, "sent no seconds"),
        (StepShown, {"tokens": 1.5}, "sent no tokens"),
    ],
)
def test_an_event_that_the_view_never_sends_is_refused(
    kind: Any, change: dict[str, Any], said: str
) -> None:
    whole = TOKEN if kind is TokenSelected else SHOWN
    with pytest.raises(gr.Error, match=said):
        kind(None, whole | change)


def text_of(page: Any) -> str:
    """The answer up to the moment; later text is pale."""
    written = "nodes => nodes.filter(n => !n.closest('.ouro-step[data-later]'))"
    return str(
        page.eval_on_selector_all(".ouro-token", f"{written}.map(n => n.textContent).join('')")
    )


LAUNCH = "import sys\ndemo.launch(server_port=int(sys.argv[2]))\n"
UPLOAD = f"""
from pathlib import Path
with demo:
    file = gr.File()
    file.upload(Path, file, view)
{LAUNCH}"""
"""Upload a file to the view of an app, and start the app."""


def manual_code(number: int) -> str:
    """An example of the manual."""
    manual = (ROOT / "docs" / "component.md").read_text("utf-8")
    code: str = re.findall(r"^```python\n(.*?)^```$", manual, re.MULTILINE | re.DOTALL)[number]
    return code


@pytest.mark.browser
def test_three_lines_in_an_app_of_its_own_show_a_run_that_is_stepped_by_keyboard(
    browser: Any, tmp_path: Path
) -> None:
    """The lines are those of the manual; the oracle is the trace in the file."""
    lines = manual_code(0)
    assert len([line for line in lines.splitlines() if line]) == 4, "what imports gradio, and three"
    trace = trapped()
    (tmp_path / "trace.json").write_text(trace.to_json(), encoding="utf-8")
    program = lines.replace("trace.json", str(tmp_path / "trace.json"))
    with server(program=program + LAUNCH, environment=QUIET) as url:
        page = browser.new_page()
        faults, asked = watch(page)
        page.goto(url)
        page.wait_for_selector(".ouro-token")
        assert text_of(page) == trace.text
        page.locator(".ouro-token").nth(1).click()
        assert MARKUP in page.locator(".ouro-card").inner_text()
        page.get_by_label("Moment of the run").focus()
        page.keyboard.press("Home")
        assert text_of(page) == "".join(trace.texts[:2])
        page.keyboard.press("ArrowRight")
        assert text_of(page) == "".join(trace.texts[:5])
        has(page.locator(".ouro-tree .ouro-node"), 3)
        assert page.title() != "got" and faults == []
        here = (url, url.replace("http", "ws"), "data:", "blob:")
        others = [address for address in asked if not address.startswith(here)]
        # Gradio's own theme asks for fonts.
        assert [one for one in others if "fonts.g" not in one] == []
        page.close()


@pytest.mark.browser
@pytest.mark.slow
def test_events_reach_python_and_another_run_the_view(browser: Any, tmp_path: Path) -> None:
    """In the app of the manual, with server-side rendering, as on Spaces. The oracle is the
    recorded run."""
    name = "java-union"
    trace = gallery.trace(name)
    program = manual_code(1).replace("trace.json", str(gallery.FOLDER / f"{name}.json")) + UPLOAD
    (tmp_path / "bad.json").write_text('{"version": 1, "method": 3}', encoding="utf-8")
    (tmp_path / "own.json").write_text(trapped().to_json(), encoding="utf-8")
    with server(program=program, environment={**QUIET, "GRADIO_SSR_MODE": "true"}) as url:
        page = browser.new_page(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
        faults, _ = watch(page)
        page.goto(url)
        page.wait_for_selector(".ouro-token")
        assert text_of(page) == trace.text
        page.locator(".ouro-token").nth(7).click()
        field = "document.querySelector('textarea').value"
        said = f"{trace.texts[7]!r} is token 7, of step "
        page.wait_for_function(f"t => {field}.startsWith(t)", arg=said)
        page.get_by_label("Moment of the run").focus()

        def to_step_2() -> None:
            page.keyboard.press("Home")
            page.wait_for_timeout(300)  # one at a time is heard
            page.keyboard.press("ArrowRight")

        count = len(trace.steps[0].tokens) + len(trace.steps[1].tokens)
        said = f"step 1: {count} tokens after "
        insist(page, to_step_2, f"{field}.startsWith({said!r})", timeout=3_000)
        for file in ("own.json", "bad.json"):
            page.locator("input[type=file]").set_input_files(tmp_path / file)
            if file == "bad.json":
                page.get_by_text("this is not a trace").wait_for()
            page.wait_for_function(
                "t => [...document.querySelectorAll('.ouro-token')]"
                ".map(n => n.textContent).join('') === t",
                arg=trapped().text,
            )
            page.get_by_label("Clear").first.click()
        assert faults == []
        page.close()
