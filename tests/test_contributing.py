"""CONTRIBUTING.md is followed to the letter: in a copy of the repository its rule and its method
are written, and its commands are run."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.cli import build_parser
from tests import ROOT
from tests.commands import Answer, finished, missing_targets, sources
from tests.test_architecture import GROUND, MAY_USE, TORCH_PACKAGES

pytestmark = pytest.mark.slow

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", GUIDE, flags=re.MULTILINE | re.DOTALL)
EXAMPLES = GUIDE.split("## How to add a rule in one file\n")[1]
PYTHON = ".venv/bin/python"
NAMED = re.compile(r"`(.+?)`")
METHOD, NAME = "echo", "Echo"
"""The guide's method; it has one setting."""
SETTING: dict[str, Any] = {"default": 3, "min": 1, "max": 16}
SETTING["help"] = "Tokens copied from each position."
PAGE = """
import json
from ouroboros_core import methods
from visualize.watch.settings_view import declaration
from visualize.watch.families import families
offered = [[one["name"], one["id"]] for family in families() for one in family["methods"]]
(setting,) = declaration(methods.get("echo"))["settings"]
shown = [setting[part] for part in ("name", "label", "low", "high", "value", "help")]
print(json.dumps({"methods": offered, "setting": shown}))
"""
"""Prints what a visitor may choose, as JSON."""


def commands(text: str) -> list[str]:
    """The lines of the blocks of shell commands, without their comments; `ouroboros` as a module
    of the virtual environment's Python, which needs no installed command."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    module = [PYTHON, "-m", "ouroboros_core"]
    return [shlex.join(module + words[1:] if words[0] == "ouroboros" else words) for words in lines]


def example_files() -> dict[str, str]:
    """Names and contents of the files that the guide writes: a rule, and a method."""
    named = r"`([^`]+\.py)`:\n\n```python\n(.*?)^```$"
    blocks = re.findall(named, EXAMPLES, re.MULTILINE | re.DOTALL)
    assert len(blocks) == EXAMPLES.count("```python") == 2, "each has its file's name before it"
    return dict(blocks)


class Copy:
    """A copy of the repository, and what its commands have answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answers: dict[str, Answer] = {}

    def python(self, *arguments: str) -> Answer:
        """The answer of this Python in the copy. Tests have one core: tiny models are slow with
        more."""
        cores = os.sched_getaffinity(0)
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTEST_ADDOPTS": "-v"}
        os.sched_setaffinity(0, {max(cores)} if "pytest" in arguments else cores)
        try:
            command = [sys.executable, *arguments]
            return finished(command, cwd=self.folder, env=environment, timeout=900)
        finally:
            os.sched_setaffinity(0, cores)

    def follow(self, command: str) -> Answer:
        """The answer to a command of the guide, with this process's Python instead of the virtual
        environment's."""
        if command not in self._answers:
            program, *arguments = shlex.split(command)
            assert program == PYTHON
            self._answers[command] = self.python(*arguments)
        return self._answers[command]

    def answer(self, part: str) -> Answer:
        """The answer to the one command of the examples that has `part` in it."""
        (command,) = (command for command in commands(EXAMPLES) if part in command)
        return self.follow(command)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """With the guide's method in it."""
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs to the repository is known to git, and this is no checkout")
    folder = tmp_path_factory.mktemp("checkout")
    for name in sources():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for name, content in example_files().items():
        file = folder / name
        tried = not file.exists() or file.read_text(encoding="utf-8") == content
        assert tried, f"{name} is in the repository, and not the guide's: let it write another"
        file.write_text(content, encoding="utf-8")
    checked = ROOT / ".mypy_cache"  # of the files that are the same
    if checked.exists():
        shutil.copytree(checked, folder / checked.name)
    yield Copy(folder)
    shutil.rmtree(folder)


def test_what_runs_in_the_copy_is_the_copy(copy: Copy) -> None:
    names = ["ouroboros_core", "tests", "visualize", f"ouroboros_core.methods.{METHOD}"]
    code = f"from importlib import import_module as i; print(*(i(n).__file__ for n in {names}))"
    found = copy.python("-c", code).stdout.split()
    assert len(found) == len(names)
    assert all(Path(file).is_relative_to(copy.folder) for file in found)


EMBEDDED = [pytest.mark.embedded]


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=EMBEDDED if "generate" in c else ()) for c in commands(EXAMPLES)],
)
def test_every_command_of_the_examples_succeeds(copy: Copy, command: str) -> None:
    answer = copy.follow(command)
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]


def test_the_method_is_listed_with_its_setting(copy: Copy) -> None:
    answer = copy.python("-m", "ouroboros_core", "methods", "--json")
    listed = {m["id"]: m for m in json.loads(answer.stdout)}
    assert listed.keys() == {*methods.available(), METHOD}
    same = {"type": "int", "choices": [], "auto": False, "fixed": None}
    assert listed[METHOD]["settings"] == {"num_tokens": same | SETTING}
    assert f"{METHOD}: {NAME}" in copy.answer("ouroboros_core methods").stdout


def test_ruff_has_nothing_to_say(copy: Copy) -> None:
    for verb in (("check",), ("format", "--check")):
        answer = copy.python("-m", "ruff", *verb, *example_files())
        assert answer.returncode == 0, answer.stdout


def test_the_page_lists_it_and_has_a_slider_for_its_setting(copy: Copy) -> None:
    answer = copy.python("-c", PAGE)
    assert answer.returncode == 0, answer.stderr
    page = json.loads(answer.stdout)
    assert [NAME, METHOD] in page["methods"]
    values = [SETTING[part] for part in ("min", "max", "default", "help")]
    assert page["setting"] == ["num_tokens", "Tokens copied (num_tokens)", *values]


def test_the_tests_of_all_methods_are_run_on_it(copy: Copy) -> None:
    """Greedy and matched its text is that of plain decoding, and under rejection sampling counts
    have their probabilities."""
    imports = copy.python("-m", "pytest", "tests/test_architecture.py", "-k", METHOD)
    own = copy.answer(f"-k {METHOD}")
    for answer, least in ((own, 30), (imports, 2)):
        passed = re.search(r"(\d+) passed", answer.stdout)
        assert passed and int(passed[1]) >= least and answer.returncode == 0, answer.stdout[-3000:]
    cases = set(re.findall(r"::(\w+)\[(\S+)\] PASSED", own.stdout))
    plain = [case for name, case in cases if name == "test_the_text_is_that_of_plain_decoding"]
    samplings = {"greedy", "rejection", "seed1", "seed2", "seed3"}
    assert {case.rpartition("-")[2] for case in plain} == samplings
    slots = "test_every_slot_follows_the_targets_distribution"
    rules = {case.partition("-")[0] for name, case in cases if name == slots}
    assert {"match", "rejection"} <= rules
    assert ("test_whole_texts_have_their_probability_under_rejection", METHOD) in cases


@pytest.mark.embedded
def test_its_text_is_that_of_plain_decoding(copy: Copy) -> None:
    answer = copy.answer(f"ouroboros_core generate --method {METHOD}")
    assert "identical to plain decoding, token by token" in answer.stderr
    assert "speedup" in answer.stderr
    assert len(answer.stdout.strip()) > 20, "a text long enough to be compared"


def test_the_documents_are_right_once_they_are_generated_anew(copy: Copy) -> None:
    """Nothing was measured of the method, as the benchmark says below its table. Its page is begun
    and stands in the navigation. The bound of the documents' length is of this repository alone."""
    assert copy.answer("scripts.documents").returncode == 0
    names = ("mkdocs.yml", "docs/methods/index.md", "docs/benchmarks.md")
    said = {name: (copy.folder / name).read_text(encoding="utf-8") for name in names}
    assert f"| [`{METHOD}`]({METHOD}.md): {NAME}" in said["docs/methods/index.md"]
    assert f"- {NAME}: methods/{METHOD}.md\n" in said["mkdocs.yml"]
    (left_out,) = re.findall("^Not in this run: .*", said["docs/benchmarks.md"], re.MULTILINE)
    assert f"`{METHOD}`" in left_out
    page = (copy.folder / "docs" / "methods" / f"{METHOD}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {NAME}\n") and "| `num_tokens` |" in page
    tests = ("tests/test_readme.py", "tests/test_docs.py")
    length = "tests/test_docs.py::test_the_documents_are_short"
    answer = copy.python("-m", "pytest", *tests, "-m", "not slow", "--deselect", length)
    assert answer.returncode == 0, answer.stdout[-3000:]


@pytest.mark.parametrize("command", commands(GUIDE))
def test_every_command_names_what_there_is(command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert missing_targets(arguments) == []
        return
    assert program == PYTHON and arguments[0] == "-m", "a command is make, or Python with a module"
    assert importlib.util.find_spec(arguments[1])
    if arguments[1] == "ouroboros_core" and command not in commands(EXAMPLES):
        build_parser().parse_args(arguments[2:])  # those of the section are run in the copy
    named = {one for one in arguments[2:] if one.endswith(".py") or one.startswith("tests/")}
    assert {name for name in named - {*example_files()} if not (ROOT / name).exists()} == set()


def test_what_the_guide_names_is_there() -> None:
    paths = set(re.findall(r"`([^`\s]+/[^`\s]*)`", PROSE)) - {*example_files()}
    assert len(paths) > 10
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    words = json.loads((ROOT / "assets" / "words" / "en.json").read_text(encoding="utf-8"))
    assert {*re.findall(r'`say\("(.+?)"\)`', PROSE)} <= words.keys()
    assert "speculative" in (ROOT / "assets/benched.txt").read_text(encoding="utf-8").split()


def test_the_table_of_packages_is_that_of_the_imports_that_are_checked() -> None:
    rows = dict(re.findall(r"^\| (.+?) \|(.*)\|$", PROSE, re.MULTILINE))
    (ground,) = (name for name in rows if name.startswith("ground floor"))
    assert set(NAMED.findall(ground)) == GROUND
    del rows[ground]
    cells = {package: cell for name, cell in rows.items() for package in NAMED.findall(name)}
    beside = {package: allowed - GROUND - {package} for package, allowed in MAY_USE.items()}
    assert {package: set(NAMED.findall(cell)) for package, cell in cells.items()} == beside
    assert all("ground floor" in cell for cell in cells.values())
    (torch,) = re.findall(r"Torch is imported at the top of a file only in (.+?)\.", PROSE)
    assert set(NAMED.findall(torch)) == TORCH_PACKAGES


OLDER = """#!{python}
import sys
sys.version_info = {version}
assert sys.argv.pop(1) == "-c", "nothing else is asked of it"
sys.path.insert(0, "")
exec(sys.argv[1])
"""
"""An interpreter that says it has another version."""


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 10, 99), "the one before"])
def test_an_older_python_is_refused_in_a_sentence_before_anything_is_installed(
    version: tuple[int, int, int] | str, tmp_path: Path
) -> None:
    """`requires-python` in pyproject.toml is the oracle."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    major, minor = map(int, project["requires-python"].removeprefix(">=").split("."))
    version = (major, minor - 1, 0) if isinstance(version, str) else version
    for name in ("app.py", "Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "python"
    old.write_text(OLDER.format(python=sys.executable, version=version), encoding="utf-8")
    old.chmod(0o755)
    result = finished(["make", "--silent", "setup", f"BASE_PYTHON={old}"], cwd=tmp_path)
    assert result.returncode
    sentence, *others = result.stderr.splitlines()
    assert f"needs Python {major}.{minor} or newer, but" in sentence
    assert sentence.count(f" is {'.'.join(map(str, version))}: install a newer one") == 1
    assert all(line.startswith("make: ***") for line in others)
    assert not (tmp_path / ".venv").exists()


def test_the_oldest_python_that_is_allowed_is_let_in() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = (*map(int, project["requires-python"].removeprefix(">=").split(".")), 0)
    program = f"import sys; sys.version_info = {oldest}; import app"
    finished([sys.executable, "-c", program], check=True)
