"""The documentation says what the program does: generated parts are fresh, commands are understood,
links lead somewhere, and the site asks no other machine for anything."""

import argparse
import ast
import functools
import importlib.util
import json
import re
import shlex
import statistics
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

import ouroboros_core
from ouroboros_core import cli, methods
from ouroboros_core.benchmark import peers, prompts, report
from ouroboros_core.cli import build_parser
from ouroboros_core.cli.methods import describe
from ouroboros_core.notebook.tree_svg import parse, picture
from scripts import documents, mkdocs_hooks
from scripts.documents import measured
from scripts.documents.command_line import ON_OTHER_PAGES
from tests import ROOT
from tests.commands import finished, missing_targets
from visualize.learn import lessons

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in PAGES}
BY_NAME = pytest.mark.parametrize("name", TEXTS)
PYTHON = ".venv/bin/python"


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command in the blocks of shell commands."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            for part in line.split(" && "):
                words = shlex.split(part.split(" > ")[0], comments=True)
                while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                    words.pop(0)
                if words:
                    yield words


def test_no_generated_part_is_stale() -> None:
    assert documents.stale() == {}, f"run: {documents.COMMAND}"


def test_a_stale_part_is_found_and_written_anew(tmp_path: Path) -> None:
    """In a copy: a row is taken from a table, a page is removed, a picture is changed."""
    made = documents.documents()
    for name, text in made.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert documents.stale(tmp_path) == {}
    page = made["docs/page.md"]
    shorter = re.sub(r"^\| ● .*\n", "", page, flags=re.MULTILINE)
    (tmp_path / "docs/page.md").write_text(shorter, encoding="utf-8")
    (tmp_path / "docs/methods/cape.md").unlink()
    (tmp_path / "docs/methods/sam.svg").write_text("<svg/>", encoding="utf-8")
    changed = {"docs/page.md", "docs/methods/cape.md", "docs/methods/sam.svg"}
    anew = documents.stale(tmp_path)
    assert set(anew) == changed
    assert anew["docs/page.md"] == page
    assert anew["docs/methods/sam.svg"] == made["docs/methods/sam.svg"]
    stub = anew["docs/methods/cape.md"]
    assert stub.startswith("# CaPE\n") and "| `max_candidates` | `8` | 1 to 8 |" in stub


def test_every_method_has_a_page_and_every_page_a_method() -> None:
    pages = {path.stem for path in (DOCS / "methods").glob("*.md")} - {"index"}
    assert pages == set(methods.available()), f"run: {documents.COMMAND}; remove what is left over"
    pictures = {path.stem for path in (DOCS / "methods").glob("*.svg")}
    shown = {page for page in pages if f"]({page}.svg)" in TEXTS[f"docs/methods/{page}.md"]}
    assert pictures == shown


def test_the_lesson_plans_name_chapters_that_there_are_and_all_of_their_ids() -> None:
    text = TEXTS["docs/teaching.md"]
    ids = re.search(r"The ids, in order: ([^.]+)\.", text)
    assert ids and re.findall(r"`(\w+)`", ids[1]) == [one["id"] for one in lessons.chapters()]
    plans = re.findall(r"\| (Learn, [^|]+?) \|", text)
    named = {title for plan in plans for title in re.findall(r"\*([^*]+)\*", plan)}
    assert len(plans) > 8 and named <= {one["title"] for one in lessons.chapters()}


def test_the_documents_are_short() -> None:
    texts = ((ROOT / "README.md").read_text("utf-8"), *TEXTS.values())
    assert sum(len(text.split()) for text in texts) <= 35_000


def test_every_screenshot_is_shown_by_a_document() -> None:
    """`make screenshots` also writes dark and narrow ones: delete those that nothing shows."""
    texts = "".join(((ROOT / "README.md").read_text("utf-8"), *TEXTS.values()))
    pictures = {path.name for path in (ROOT / "assets" / "screenshots").iterdir()}
    assert {name for name in pictures if not re.search(f'screenshots/{name}[)"]', texts)} == set()


NUMBERED = [
    *("README.md", "docs/faq.md", "docs/limits.md", "docs/benchmarks.md"),
    *(name for name in TEXTS if name.startswith("docs/methods/")),
]
"""Documents whose numbers with two decimals come from the files of benchmarks or of papers."""
SETTLED = {
    "docs/methods/speculative.md": {"0.75", "0.15"},
    "docs/methods/multi_candidate.md": {"0.03", "0.04", "1.37"},
}
"""Amounts of a rule of a paper, and those of one measurement whose commit stands beside."""


@functools.cache
def measured_numbers() -> dict[str, set[str]]:
    """Return what the files say of each method: speedups, intervals, tokens per pass."""
    numbers: dict[str, set[str]] = {}
    for file in sorted((ROOT / "assets").glob("benchmark*.json")):
        for row in report.read_rows(json.loads(file.read_text("utf-8"))["rows"]):
            values = (row.speedup, row.speedup_hf, row.tokens_per_pass, *row.ci95)
            cells = {f"{value:.2f}" for value in values if value is not None}
            numbers.setdefault(row.method.partition("[")[0], set()).update(cells)
    for row in json.loads((ROOT / "assets" / "published.json").read_text("utf-8"))["rows"]:
        numbers.setdefault(row["method"], set()).add(f"{row['speedup']:.2f}")
    return numbers


@pytest.mark.parametrize("name", NUMBERED)
def test_its_numbers_are_those_of_the_data_of_the_methods_beside_them(name: str) -> None:
    """In each paragraph outside generated parts and code, which tests above hold."""
    numbers = measured_numbers()
    text = re.sub(r"^<!-- (\w+): begin.*?<!-- \1: end", "", read(name), flags=re.DOTALL | re.M)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    called = {kind["name"].lower(): kind["id"] for kind in describe()}
    for paragraph in text.split("\n\n"):
        ids = {Path(name).stem, *re.findall(r"`([a-z_0-9]+)", paragraph)}
        ids |= {one for title, one in called.items() if title in paragraph.lower()}
        allowed = set().union(SETTLED.get(name, ()), *(numbers.get(one, ()) for one in ids))
        found = set(re.findall(r"(?<![\d./])(?<!Python )\d+\.\d\d(?![\d.])", paragraph))
        assert found - allowed == set(), paragraph


@functools.cache
def recorded_medians() -> dict[str, float]:
    """Return the median speedup of the three rounds of each recorded run."""
    file = ROOT / "assets" / "traces" / "measured.json"
    runs = json.loads(file.read_text(encoding="utf-8"))
    return {name: statistics.median(run["speedups"]) for name, run in runs.items()}


def test_sampling_gains_what_the_documents_say() -> None:
    """The oracle is the rows of the benchmarks' files."""
    reached = []
    for rule in ("match", "rejection"):
        file = ROOT / "assets" / f"benchmark-sampled-{rule}.json"
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
        overall = [row for row in rows if (row["method"], row["group"]) == ("union", "overall")]
        reached.append(f"{overall[0]['speedup']:.2f} times")
    text = f"{reached[0]} by `match` and {reached[1]} by `rejection`"
    assert text in " ".join(read("docs/faq.md").split())


def test_the_recorded_runs_are_as_fast_as_the_documents_say() -> None:
    """The oracle is the speedups of the recorded rounds, and the steps in the runs' files; plain
    decoding writes a token in each."""
    folder = ROOT / "assets" / "traces"
    passes, tokens = (
        len(json.loads((folder / f"stack-{method}.json").read_text("utf-8"))["steps"])
        for method in ("union", "autoregressive")
    )
    caption = "Qwen2.5-Coder-1.5B, with drafts by the 0.5B model, "
    caption += f"writes {tokens} tokens in {passes} passes, "
    caption += f"{recorded_medians()['stack-union']:.2f} times as fast as plain decoding"
    assert caption in " ".join(read("README.md").split())
    data = json.loads((ROOT / "assets" / "benchmark-qwen.json").read_text(encoding="utf-8"))
    (usual,) = (
        row["speedup"]
        for row in data["rows"]
        if (row["method"], row["group"]) == ("union", "overall")
    )
    settings = data["settings"]
    usually = f"On another machine, over {settings['questions']} prompts, "
    assert f"{usually}it reaches {usual:.2f} times" in read("README.md")


def test_the_picture_of_compare_shows_what_the_readme_says_of_it() -> None:
    """The oracle is the rounds and the steps of the recorded runs that are in the picture."""
    shown = {name: speed for name, speed in recorded_medians().items() if "palindrome-" in name}
    passes = {name: len(json.loads(read(f"assets/traces/{name}.json"))["steps"]) for name in shown}
    one, *longer = (name for name in sorted(shown) if re.search(r"speculative-\d$", name))
    longest = longer[-1]
    assert len(longer) == 4 and shown[longest] < shown[one] and passes[longest] < passes[one]
    plain = len(json.loads(read("assets/traces/palindrome-autoregressive.json"))["steps"])
    fastest = max(shown, key=shown.__getitem__).removeprefix("palindrome-")
    text = (
        f"draft length 8 writes {plain / passes[longest]:.2f} and reaches {shown[longest]:.2f} "
        f"times, draft length 1 writes {plain / passes[one]:.2f} and reaches {shown[one]:.2f}. "
        f"`{fastest}` is fastest."
    )
    assert text in read("README.md")


def test_what_a_run_gains_with_passes_timed_on_a_gpu_is_calculated_from_their_table() -> None:
    """The oracle is the arithmetic by hand: milliseconds read off docs/gpu.md, and the steps,
    draft passes and tokens of the run."""
    fast = 128 * 6.6 / (27 * 7.0 + 104 * 2.3), 128 * 8.0 / (27 * 9.3 + 104 * 3.0)
    slow = 128 * 32.5 / (27 * 31.7 + 104 * 19.6), 128 * 38.9 / (27 * 40.5 + 104 * 13.9)
    text = (
        f"a speedup of {fast[0]:.2f} after 100 tokens and {fast[1]:.2f} after 2,000 for 8B with "
        f"1B; with transformers' passes {slow[0]:.2f} and {slow[1]:.2f}."
    )
    assert text in documents.section(TEXTS["docs/models.md"], "predictions")
    ((ours, theirs),) = re.findall(
        r"qwen2.5-7b.*\| ([\d.]+) \| ([\d.]+) \|", TEXTS["docs/models.md"]
    )
    text = (
        f"{float(theirs):.1f} times the speed of plain decoding in this script, {float(ours):.1f}"
    )
    assert text in read("README.md")


def test_numbers_that_documents_repeat_are_those_of_their_tables() -> None:
    """The oracles are the tables of passes on a GPU and of trained drafts, and the benchmark."""
    readme = read("README.md")
    short = re.search(r"takes \[([\d.]+) ms on an H200, against about (\d+) in", readme)
    gpu = re.search(
        r"\| Llama-3 8B \| transformers \| ([\d.]+) .*\n.*\n\| \| CUDA graphs \| ([\d.]+) ",
        TEXTS["docs/gpu.md"],
    )
    assert short and gpu and short[1] == gpu[2] and abs(int(short[2]) - float(gpu[1])) <= 5
    rows = json.loads(read("assets/benchmark.json"))["rows"]
    (plain,) = (
        row["speedup_hf"]
        for row in rows
        if (row["method"], row["group"]) == ("autoregressive", "overall")
    )
    assert f"a factor of {plain:.1f} belongs to the native pass" in TEXTS["docs/benchmarks.md"]
    families = re.search(r"\[(\d+) of (\d+) families\]", readme)
    assert families
    refused, built = map(int, families.groups())
    counts = f"models of {built}, .*, {built - refused} write .*; {refused} are refused"
    assert re.search(counts, TEXTS["docs/models.md"])
    drafts = re.findall(
        r"\| \[smollm2-(\w+)\].* \| ([\d,]+) \| \d+ \| (.*) \| [\d.]+ \|$",
        TEXTS["docs/training.md"],
        re.M,
    )
    trained = {name: int(tokens.replace(",", "")) / 1e6 for name, tokens, _ in drafts}
    agreement = {name: shares.split(", ") for name, _, shares in drafts}
    text = " ".join(TEXTS["docs/methods/dspark.md"].split())
    first, second = agreement["dspark"][:2]
    assert f"right in {first} of cases, and its second, given the text's own first" in text
    assert f"token, in {second} (an EAGLE-3 head's: {agreement['eagle3'][1]})" in text
    assert f"Its {trained['dspark']:.1f} million tokens of training" in text
    assert f"the {trained['eagle3']:.1f} million of the EAGLE-3 head" in text


def test_the_first_page_links_to_every_other_but_those_of_single_methods() -> None:
    links = set(re.findall(r"\]\(([\w-]+\.md)\)", TEXTS["docs/index.md"]))
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} <= links


def test_every_page_is_in_the_navigation() -> None:
    nav = set(re.findall(r": (\S+\.md)$", read("mkdocs.yml"), re.MULTILINE))
    assert nav == {path.relative_to(DOCS).as_posix() for path in PAGES}


@BY_NAME
def test_its_commands_are_understood(name: str) -> None:
    for words in commands(TEXTS[name]):
        program, *arguments = words
        if program == "make":
            assert missing_targets(arguments[:1]) == []
        elif program == PYTHON and arguments[0] == "app.py":
            build_parser().parse_args(["serve", *arguments[1:]])
        elif program in ("ouroboros", "elsewhere/bin/ouroboros"):
            build_parser().parse_args(arguments)
        elif program == PYTHON:
            assert arguments[0] == "-m" and importlib.util.find_spec(arguments[1]), words
            assert arguments[1].partition(".")[0] != "ouroboros_core", "the command is ouroboros"
        elif program in (".venv/bin/torchrun", ".venv/bin/accelerate"):
            build_parser().parse_args(arguments[arguments.index("ouroboros_core") + 1 :])
        else:
            known = ("python3", ".venv/bin/pip", "elsewhere/bin/pip", "docker", "hf", "git")
            assert program in (*known, "cd", "grep", "rm"), words
    assert missing_targets(re.findall(r"`make ([\w-]+)", TEXTS[name])) == []
    assert sum(1 for text in TEXTS.values() for _ in commands(text)) > 40


def spelled_as_a_module(code: str) -> list[int]:
    """Return the lines of strings, without docstrings, that name our module as a command."""
    nodes = list(ast.walk(ast.parse(code)))
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Constant) and node not in docstrings
        if "python -m ouroboros_core" in str(node.value)
    ]


def test_messages_spell_the_command_as_people_type_it() -> None:
    """Two files are run as a module, and name themselves."""
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in ("ouroboros_core", "visualize")
        for path in (ROOT / folder).rglob("*.py")
        if "python -m" in (code := path.read_text("utf-8")) and spelled_as_a_module(code)
    }
    assert files == {"ouroboros_core/cli/__init__.py", "ouroboros_core/loading/browser.py"}


def test_the_page_of_the_command_line_describes_every_flag_of_a_command() -> None:
    """The oracle: the usage line of a command's own --help."""
    shared, *sections = TEXTS["docs/command-line.md"].split("\n## ")
    assert len(sections) == len(cli.commands()) - len(ON_OTHER_PAGES)
    settings = {name for m in methods.available().values() for name in m.Hyperparameters.settings()}
    for section in sections:
        name = section.partition("\n")[0]
        parser = argparse.ArgumentParser(add_help=False)
        cli.commands()[name].add(parser)
        flags = {*re.findall(r"--(?:no-)?([a-z][a-z-]+)", parser.format_usage())}
        flags -= {setting.replace("_", "-") for setting in settings}
        lines = re.findall(r"^  (--\S.*)", f"{shared}\n{section}", re.MULTILINE)
        assert flags <= {*re.findall(r"--([a-z][a-z-]+)", "\n".join(lines))}, name


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *TEXTS])
def test_its_links_lead_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(((?!http)[^)\s]+)\)", read(name)):
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in {slugify(title, "-") for title in titles}, link


@BY_NAME
def test_the_files_it_names_are_there(name: str) -> None:
    folders = ("ouroboros_core", "visualize", "tests", "scripts", "assets", "docs")
    named = re.findall(rf"`((?:{'|'.join(folders)})/[\w./*-]*)`", TEXTS[name])
    missing = {one for one in named if not [*ROOT.glob(one.rstrip("/"))]}
    assert missing <= {"ouroboros_core/methods/ID.py"}


@BY_NAME
def test_its_python_is_python(name: str) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", TEXTS[name], re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)


@pytest.mark.parametrize("name", ["benchmarks", "performance"])
def test_what_was_measured_says_of_which_version_it_is(name: str) -> None:
    """Each section with a table of numbers."""
    for section in re.split(r"^##+ ", TEXTS[f"docs/{name}.md"], flags=re.MULTILINE):
        if re.search(r"\| [\d.]+ \|", section) and "from the same run" not in section:
            assert re.search(r"Version\s+\d+\.\d+\.\d+", section), section.splitlines()[0]


def test_the_benchmark_is_whole_and_of_todays_prompts() -> None:
    data = json.loads((ROOT / "assets" / "benchmark.json").read_text(encoding="utf-8"))
    assert data["complete"]
    groups = {row["group"] for row in data["rows"]}
    measured = [q for q in prompts.own_prompts() if q.group in groups]
    measured = prompts.spread(measured, data["settings"]["questions"])
    assert groups >= set(prompts.SPEC_BENCH)
    same = data["settings"]["prompts"] == prompts.digest(measured)
    assert same, "the prompts have changed: make bench"
    overall = {row["method"]: row for row in data["rows"] if row["group"] == report.OVERALL}
    assert set(overall) >= {methods.DEFAULT, *peers.SETTINGS}
    assert not any(row["differences"] for row in overall.values()), "more than a rounding tie"


def test_the_prompts_of_spec_bench_are_those_that_the_documents_choose() -> None:
    """The oracle is the questions of the measured runs."""
    runs = json.loads(read("assets/benchmark-spec-bench.json"))["runs"]
    page = TEXTS["docs/benchmarks.md"]
    (pattern,) = re.findall(r"^grep -E '(.+)' question\.jsonl > ", page, re.MULTILINE)
    lines = {number: f'{{"question_id": {number}, "category": "qa"}}' for number in range(81, 561)}
    chosen = {number for number, line in lines.items() if re.search(pattern, line)}
    assert {run["question"] for run in runs} == chosen == set(range(84, 555, 10))


def test_the_processor_of_the_benchmarks_is_the_one_that_the_documents_name() -> None:
    files = (ROOT / "assets").glob("benchmark*.json")
    environments = [json.loads(file.read_text("utf-8"))["environment"] for file in files]
    assert {one["processor"] for one in environments} == {"AMD EPYC (avx512_bf16)"}
    assert "all tests; benchmarks only on AVX512-BF16 |" in TEXTS["docs/getting-started.md"]


def test_a_method_that_was_not_measured_is_named_below_the_benchmarks_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oracle is the text without it: only one line changes, by its name."""
    there = measured.bench_section().splitlines()
    known = methods.available()
    monkeypatch.setattr(methods, "available", lambda: {**known, "new": known[methods.DEFAULT]})
    with_one = measured.bench_section().splitlines()
    ((before, after),) = ((a, b) for a, b in zip(there, with_one, strict=True) if a != b)
    assert after == before.replace(".", ", `new`.") and before.startswith("Not in this run: ")


def test_every_benchmark_is_a_column_and_a_file_with_all_its_rows(tmp_path: Path) -> None:
    """The oracle is the embedded pair's own file, and a part of it under another name."""
    data = json.loads((ROOT / "assets" / "benchmark.json").read_text(encoding="utf-8"))
    (tmp_path / "benchmark.json").write_text(json.dumps(data), encoding="utf-8")
    part = [row for row in data["rows"] if row["method"] in ("autoregressive", "union")]
    data |= {"rows": part, "settings": data["settings"] | {"target": "big", "draft": "small"}}
    (tmp_path / "benchmark-big.json").write_text(json.dumps(data), encoding="utf-8")
    section = measured.pairs_section(tmp_path)
    assert "| big |" in section and "big with small" in section
    (union,) = (row for row in part if (row["method"], row["group"]) == ("union", "overall"))
    speedups = f"{union['speedup']:.2f} / {union['speedup_hf']:.2f}"
    assert f"| `union` | {speedups} | {speedups} |" in section
    assert re.search(r"\| `eagle3` \| [\d.]+ / [\d.]+ \| – \|", section), "not measured there"
    tables = measured.csv_files(tmp_path)
    assert len(tables["benchmark-big.csv"].splitlines()) == 1 + len(part)


def test_the_drafts_are_small() -> None:
    files = [file for file in (ROOT / "assets" / "models").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 55_000_000


def test_a_tree_is_drawn_with_every_node_its_edge_and_its_mark() -> None:
    drawn = picture(parse("root:a(draft+:b(draft:c correction+:<d>) copy:e)"), "A tree")
    assert drawn.count("<rect") == 5 and drawn.count("<path") == 4
    assert "▲ &lt;d&gt;" in drawn
    assert drawn.count('rx="6" fill') == 5 and len(re.findall("<rect.*dasharray", drawn)) == 2


@pytest.mark.parametrize(
    ("notation", "said"),
    [
        ("root:a(draft:b", "closed brackets"),
        ("root:a)", "bracket too many"),
        ("root:a root:b", "one root"),
        ("root:a(guess:b)", "guess is neither"),
        ("root", "not the notation"),
    ],
)
def test_what_is_no_tree_is_refused(notation: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(notation)


@pytest.mark.parametrize(
    ("link", "page", "path"),
    [
        ("../assets/a.png", "page.md", "assets/a.png"),
        ("../../assets/a.png", "methods/sam.md", "assets/a.png"),
        ("../tuning.md", "methods/sam.md", None),
        ("../SECURITY.md#x", "deployment.md", "SECURITY.md"),
    ],
)
def test_links_out_of_the_documentation_are_known(link: str, page: str, path: str | None) -> None:
    assert mkdocs_hooks.outside(link, page) == path


class _Loaded(HTMLParser):
    """What a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(values.get("src") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.found.append(values.get("href") or "")


@pytest.mark.slow
def test_the_site_is_built_strictly_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = finished(command)
    assert built.returncode == 0, built.stderr[-3000:]
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        reader = _Loaded()
        reader.feed(page.read_text(encoding="utf-8"))
        assert [one for one in reader.found if re.match(r"(\w+:)?//", one)] == [], page.name
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", sheet.read_text(encoding="utf-8"))
    api = (tmp_path / "python-api.html").read_text(encoding="utf-8")
    for name, home in ouroboros_core._HOMES.items():
        assert f'id="ouroboros_core.{home}.{name}"' in api, name
    assert (tmp_path / "assets" / "screenshots" / "watch-1440-light.png").exists()


MODES = {
    "vLLM": (
        *("a draft model", "a length that adapts", "EAGLE", "MTP", "Medusa", "PARD", "DFlash"),
        *("DSpark", "LiLiCorr", "FLy", "n-grams", "suffix decoding", "adaptive verification"),
        "your own proposer",
    ),
    "SGLang": ("a draft model", "EAGLE-3", "NEXTN", "DFlash", "`NGRAM`", "a grammar forces"),
    "llama.cpp": (
        *("a draft model", "EAGLE-3", "draft-mtp", "DFlash", "DSpark", "`lookup`", "lookahead"),
        *("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"),
    ),
    "TensorRT-LLM": (
        *("a draft model", "EAGLE-3", "MTP", "Medusa", "PARD", "DFlash", "DSpark", "`SA`"),
        *("n-grams", "lookahead", "ReDrafter", "relaxed acceptance", "your own proposer"),
    ),
    "mlx-lm": ("a draft model",),
}
"""Modes that were read in the documentation of each engine, in November 2026."""


@pytest.mark.parametrize("engine", MODES)
def test_every_mode_of_an_engine_has_a_row_on_the_page_of_the_field(engine: str) -> None:
    """The oracle is a list that was read from the engines' documentation."""
    rows = [line for line in TEXTS["docs/field.md"].splitlines() if line.startswith("|")]
    parts = [part for row in rows for part in row.split("; ")]
    names = {engine} if engine == "mlx-lm" else {engine, ": all"}
    for mode in MODES[engine]:
        assert any(mode in part and any(name in part for name in names) for part in parts), mode


def test_the_page_on_the_field_names_methods_that_there_are() -> None:
    known = set(methods.available())
    rows = re.findall(r"^\| ([^|]+) \|[^|\n]*\|$", TEXTS["docs/field.md"], re.M)
    here = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}
    assert len(here) > 10 and here <= known | {"NEXTN"}
