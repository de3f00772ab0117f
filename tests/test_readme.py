"""The README says what the program does: tables are generated, commands exist, pictures are there.

python -m tests.test_readme     writes the generated tables anew
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterable
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

from ouroboros_core import methods
from ouroboros_core.benchmark import draft_shapes, peers, prompts, report
from ouroboros_core.benchmark.report import Row
from ouroboros_core.cli import build_parser
from ouroboros_core.cli.methods import describe
from ouroboros_core.training.record import agreement_of
from tests import ROOT
from visualize.palette import LOOKS
from visualize.tabs.drafts import records

README = ROOT / "README.md"


def section(name: str) -> str:
    found = re.search(
        rf"<!-- {name}: begin .*?-->\n(.*?)<!-- {name}: end -->", README.read_text(), re.DOTALL
    )
    assert found, f"the README has no section {name}"
    return found[1]


def methods_table() -> str:
    """The table of methods and settings, from the one declaration of each setting."""
    lines = ["| method | needs | what it does | settings (default; allowed) |", "|---|---|---|---|"]
    for method in describe():
        settings = []
        for name, setting in method["knobs"].items():
            default = (
                str(setting["default"]).lower() if setting["type"] == "bool" else setting["default"]
            )
            bounds = f"; {setting['min']}-{setting['max']}" if setting["min"] is not None else ""
            if setting["type"] == "str" and setting["auto"]:
                bounds = f"; such as {setting['fixed']}"
            bounds = f"{bounds} or auto" if setting["auto"] else bounds
            bounds = f"; {', '.join(setting['choices'])}" if setting["choices"] else bounds
            settings.append(f"`{name}` ({default}{bounds})")
        name = f"[{method['name']}]({method['paper']})" if method["paper"] else method["name"]
        mark = " (default)" if method["default"] else ""
        lines.append(
            f"| `{method['id']}`{mark}: {name} | {', '.join(method['needs'])} | "
            f"{method['summary']} | {', '.join(settings)} |"
        )
    return "\n".join(lines) + "\n"


def bench_section() -> str:
    """The benchmark's table with its command and environment, from the file that `make bench`
    wrote."""
    data = json.loads((ROOT / "assets" / "benchmark.json").read_text())
    table = [Row(**{**row, "ci95": tuple(row["ci95"])}) for row in data["rows"]]
    environment = data["environment"]
    where = (
        f"{environment['processor']}, {environment['threads']} threads, {environment['dtype']}, "
        f"torch {environment['torch']}, transformers {environment['transformers']}, "
        f"Python {environment['python']}; "
        f"{data['settings']['max_new_tokens']} new tokens at most"
    )
    shown = report.markdown(table, unmeasured(row.method for row in table))
    return f"{shown}\n`{data['command']}` - {where}.\n"


def unmeasured(measured: Iterable[str]) -> list[str]:
    """The methods that have no row, under any setting."""
    known = {name.partition("[")[0] for name in measured}
    return [name for name in methods.available() if name not in known]


SEED_TABLE = {
    "PLD": "prompt_lookup",
    "SAM": "sam[auxiliary=none]",
    "Token Recycling": "token_recycling",
    "SAM[Token Recycling]": "sam",
    "EAGLE-2": "eagle2",
    "SAM[EAGLE-2]": "sam[auxiliary=eagle2]",
}
"""The methods of SAM-Decoding's table, and what they are called here."""


def sam_section() -> str:
    """SAM-Decoding's table on our pair, from the file that `make bench` wrote."""
    data = json.loads((ROOT / "assets" / "benchmark.json").read_text())
    found = {(row["method"], row["group"]): row for row in data["rows"]}
    lines = [
        "| SAM-Decoding's name | here | tokens per pass | rows per token | speedup [95%] | over "
        "hf-greedy "
        "| tokens per pass, summarization |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, method in SEED_TABLE.items():
        row, summaries = found[method, report.OVERALL], found[method, "summarization"]
        low, high = row["ci95"]
        lines.append(
            f"| {name} | `{method}` | {row['tokens_per_pass']:.2f} | {row['rows_per_token']:.1f} | "
            f"{row['speedup']:.2f} "
            f"[{low:.2f}, {high:.2f}] | {row['speedup_hf']:.2f} | "
            f"{summaries['tokens_per_pass']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def drafts_section() -> str:
    """The drafts that ship, from the records of their training, and the table of shapes."""
    lines = [
        "| folder | what | answer tokens trained on | held-out agreement, 1, 2, 3 tokens ahead | "
        "MB |",
        "|---|---|---:|---:|---:|",
    ]
    for name, record in records().items():
        folder = ROOT / "assets" / "models" / name
        last = record["curve"][-1]
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        agreement = ", ".join(f"{share:.0%}" for share in agreement_of(last))
        lines.append(
            f"| [{name}](assets/models/{name}/README.md) | {record['shape']} | {last['tokens']:,} "
            f"| {agreement} | {size:.1f} |"
        )
    measured = ROOT / "assets" / "models" / "shapes.json"
    return "\n".join(
        [
            *lines,
            *(["", draft_shapes.table(draft_shapes.read(measured))] if measured.exists() else []),
            "",
        ]
    )


def test_the_tables_of_drafts_are_generated() -> None:
    assert section("drafts") == drafts_section(), "run: python -m tests.test_readme"
    assert len(draft_shapes.read(ROOT / "assets" / "models" / "shapes.json")) >= 5
    sizes = [
        file.stat().st_size for file in (ROOT / "assets" / "models").rglob("*") if file.is_file()
    ]
    assert sum(sizes) < 40_000_000


def test_the_benchmarks_table_is_generated_from_a_whole_benchmark() -> None:
    assert section("bench") == bench_section(), "run: python -m tests.test_readme"
    data = json.loads((ROOT / "assets" / "benchmark.json").read_text())
    assert data["complete"]
    groups = {row["group"] for row in data["rows"]}
    measured = [question for question in prompts.own_prompts() if question.group in groups]
    assert groups >= set(prompts.SPEC_BENCH)
    assert data["settings"]["prompts"] == prompts.digest(measured), (
        "the prompts have changed: make bench"
    )
    overall = {row["method"]: row for row in data["rows"] if row["group"] == report.OVERALL}
    assert set(overall) >= {methods.DEFAULT, *peers.SETTINGS}
    assert not any(row["differences"] for row in overall.values()), "more than a rounding tie"


def test_a_method_that_was_not_measured_has_dashes_in_the_benchmarks_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oracle is the table of those that were: it loses no line and gets one."""
    there = bench_section().splitlines()
    known = methods.available()
    monkeypatch.setattr(methods, "available", lambda: {**known, "new": known[methods.DEFAULT]})
    with_one = bench_section().splitlines()
    (added,) = (line for line in with_one if line not in there)
    assert [line for line in with_one if line != added] == there
    assert added.startswith("| `new` | – |") and added.count("|") == there[0].count("|")
    assert set(added.split(" | ")[1:-1]) == {"–"}
    assert with_one[with_one.index(added) + 1].startswith("| `hf-"), "the peers come last"


def test_the_table_of_sam_decoding_is_generated() -> None:
    assert section("sam") == sam_section(), "run: python -m tests.test_readme"


def test_the_table_of_methods_is_generated() -> None:
    assert section("methods") == methods_table(), "run: python -m tests.test_readme"


@pytest.mark.parametrize("name", ["phrases", "exact"])
def test_measured_sections_are_filled(name: str) -> None:
    assert len(section(name).strip()) > 80


def test_the_commands_of_the_readme_are_understood() -> None:
    lines = re.findall(
        r"^    \.venv/bin/python -m ouroboros_core (.*)$", README.read_text(), re.MULTILINE
    )
    assert len(lines) >= 3
    for line in lines:
        build_parser().parse_args(shlex.split(line.split(" > ")[0]))
    for target in re.findall(r"make ([\w-]+)", README.read_text()):
        if target not in ("sure",):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                f"make {target}"
            )


def test_what_the_readme_links_to_is_there() -> None:
    for link in re.findall(r"\]\(((?!http)[^)]+)\)", README.read_text()):
        assert (ROOT / link).exists(), link


def test_the_legend_is_that_of_the_page() -> None:
    rows = dict(re.findall(r"^\| (\W) ([^|]+?) \|", README.read_text(), re.MULTILINE))
    assert rows == {look.glyph: look.label for look in LOOKS.values()}


def test_the_front_matter_is_what_a_space_needs() -> None:
    front = README.read_text().split("---")[1]
    values = dict(re.findall(r"^(\w+): (.+)$", front, re.MULTILINE))
    assert values["sdk"] == "gradio"
    assert values["app_file"] == "app.py"
    assert len(values["short_description"]) <= 60
    assert f"gradio=={values['sdk_version']}\n" in (ROOT / "requirements.txt").read_text()


def test_every_file_is_small_enough_for_a_space() -> None:
    for path in (ROOT / "assets").rglob("*"):
        assert path.is_dir() or path.stat().st_size < 10_000_000, path


if __name__ == "__main__":
    text = README.read_text()
    for name, make in (
        ("methods", methods_table),
        ("bench", bench_section),
        ("sam", sam_section),
        ("drafts", drafts_section),
    ):
        content = make()
        text = text.replace(section(name) + f"<!-- {name}: end", content + f"<!-- {name}: end")
    README.write_text(text)


def test_everybody_gets_the_same_versions_but_of_torch_and_each_is_one_the_package_allows() -> None:
    lines = [
        line
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    pinned = {requirement.name: requirement.specifier for requirement in map(Requirement, lines)}
    ranges = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    allowed = {requirement.name: requirement.specifier for requirement in map(Requirement, ranges)}
    assert pinned.keys() == allowed.keys()
    assert pinned.pop("torch") == allowed.pop("torch")
    for name, specifier in pinned.items():
        (exact,) = specifier
        assert exact.operator == "==", name
        assert allowed[name].contains(exact.version), name
        assert version(name) == exact.version, f"{name}: not what is tested here"
