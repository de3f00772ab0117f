"""The README is short, and what it says is so: commands exist, pictures are there, numbers are
those of the documentation. Its table of methods is held by `tests/test_docs.py`."""

import re
import shlex
import shutil
import tomllib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import ouroboros_core
from ouroboros_core.cli import build_parser
from tests import ROOT, tiny
from tests.commands import Answer, finished, missing_targets

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_of_the_readme_are_understood() -> None:
    joined = re.sub(r" \\\n +", " ", README)  # a command may go on in the next line
    lines = re.findall(r"^    ouroboros (.*)$", joined, re.MULTILINE)
    assert lines
    for line in lines:
        build_parser().parse_args(shlex.split(line))
    targets = re.findall(r"(?:`|^    )make ([\w-]+)", README, re.MULTILINE)
    assert {"run", "test", "docs"} <= set(targets)
    assert missing_targets(targets) == []


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r'src(set)?="(assets/screenshots/[\w./-]+)"', README)
    assert len(pictures) == 2 * 4 + 2 * 2, "each in light and dark, the wide ones for phones, too"
    assert [name for _, name in pictures if not (ROOT / name).is_file()] == []


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 110
    assert README.count("|---|") - README.count("| | |") <= 3, "one table of numbers"


def test_its_script_writes_the_text_of_plain_decoding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tiny pair on the processor stands for the models that the script names; the oracle is its
    own call without our loop."""
    words = tiny.letters()
    words.chat_template = "{{ messages[0]['content'] }}"
    for size, make in (("7B", tiny.target), ("0.5B", tiny.draft)):
        make("llama", "sdpa", torch.float32).save_pretrained(tmp_path / f"Qwen2.5-{size}-Instruct")
        words.save_pretrained(tmp_path / f"Qwen2.5-{size}-Instruct")
    (script,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(script.split("\n\n")[1].splitlines()) <= 9
    here = script.replace("Qwen/", f"{tmp_path}/").replace("cuda", "cpu")
    plain = here.replace(", **loop", "")
    assert plain != here, "the oracle has no loop of ours"
    exec(here, {})
    exec(plain, {})
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and len(first) > 128


def test_it_links_to_every_page_of_the_documentation_but_those_of_single_methods() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages - {"docs/index.md"} if f"({page})" not in README} == set()


def test_it_names_the_version_and_so_do_the_other_files() -> None:
    assert f"version = {{{ouroboros_core.__version__}}}" in README
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == ouroboros_core.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (newest, *_) = re.findall(r"^## (.+)", changes, re.MULTILINE)
    assert newest == f"{ouroboros_core.__version__} - {citation['date-released']}"


def test_a_version_lists_at_most_forty_changes() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version_changes in re.split(r"^## ", changes, flags=re.MULTILINE)[1:]:
        assert 1 <= len(re.findall(r"^\* ", version_changes, re.MULTILINE)) <= 40


def test_a_release_is_a_commit_that_is_tested_before_it_is_tagged(tmp_path: Path) -> None:
    """In a repository of its own; a command that ends as wanted stands for the tests."""

    def command(*words: str) -> Answer:
        return finished(words, cwd=tmp_path)

    def release(tests: str) -> tuple[int, str, list[str]]:
        answer = command("make", "release", f"MAKE={tests}")
        tags = command("git", "tag").stdout.split()
        return answer.returncode, answer.stdout + answer.stderr, tags

    (tmp_path / "ouroboros_core").mkdir()
    for name in ("Makefile", "ouroboros_core/version.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    command("git", "init", "--quiet")
    code, output, tags = release("echo ran")
    assert code == 2 and "commit first" in output and "wheel" not in output and tags == []
    command("git", "add", ".")
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    assert command("git", *person, "commit", "--quiet", "--message", "Begin").returncode == 0
    assert release("false")[::2] == (2, [])
    tag = f"v{ouroboros_core.__version__}"
    code, output, tags = release("echo ran")
    assert code == 0 and "ran test check exact wheel" in output and tags == [tag]
    code, output, tags = release("echo ran")
    assert code == 2 and f"the tag {tag} exists" in output and "wheel" not in output


def test_continuous_integration_runs_what_the_script_for_it_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    made = set(re.findall(r"^make (\w+)$", script, re.MULTILINE))
    assert made == {"test", "check"}
    assert {step for step in steps if step.startswith("make ")} == {f"make {one}" for one in made}


def test_every_file_is_small_enough_for_a_space() -> None:
    files = [path for folder in ("assets", "docs") for path in (ROOT / folder).rglob("*")]
    for path in files:
        assert path.is_dir() or path.stat().st_size < 10_000_000, path


def specifiers(lines: Iterable[str]) -> dict[str, SpecifierSet]:
    return {one.name: one.specifier for one in map(Requirement, lines)}


def test_everybody_gets_the_same_versions_but_of_torch_and_each_is_one_the_package_allows() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = specifiers(line for line in text.splitlines() if not line.startswith("#"))
    project = tomllib.loads(Path(ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    allowed = specifiers(project["project"]["dependencies"])
    assert pinned.keys() == allowed.keys()
    assert pinned.pop("torch") == allowed.pop("torch")
    for name, specifier in pinned.items():
        (exact,) = specifier
        assert exact.operator == "==", name
        assert allowed[name].contains(exact.version), name
        assert version(name) == exact.version, f"{name}: not what is tested here"
    for needed in map(Requirement, project["dependency-groups"]["dev"]):
        assert version(needed.name) in needed.specifier, f"{needed}: not what is tested here"
