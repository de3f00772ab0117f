"""CONTRIBUTING.md is followed to the letter: in a copy of the repository its rule and its methods
are written, and its commands are run."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.cli import build_parser
from tests import ROOT
from tests.commands import finished, missing_targets
from tests.test_architecture import GROUND, MAY_USE, TORCH_PACKAGES

pytestmark = pytest.mark.slow

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", GUIDE, flags=re.MULTILINE | re.DOTALL)
EXAMPLES = GUIDE.split("## How to add a rule in one file\n")[1]
PYTHON = ".venv/bin/python"
NAMED = re.compile(r"`(.+?)`")
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "echo": {
        "num_tokens": {
            "default": 3,
            "min": 1,
            "max": 16,
            "help": "Tokens copied from each position.",
        }
    },
}
"""The guide's method by id, and its settings by name."""

NAMES = {"echo": "Echo"}
PAGE = """
import json
from ouroboros_core import methods
from visualize.kit.settings_view import declaration
from visualize.watch.families import families
offered = [[one["name"], one["id"]] for family in families() for one in family["methods"]]
settings = {}
for method in ("echo",):
    for one in declaration(methods.get(method))["settings"]:
        shown = [one[part] for part in ("label", "low", "high", "value", "help")]
        settings[f"{method}.{one['name']}"] = shown
print(json.dumps({"methods": offered, "settings": settings}))
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
    """Names and contents of the files that the guide writes: a rule, and the methods."""
    blocks = re.findall(
        r"`([^`]+\.py)`:\n\n```python\n(.*?)^```$", EXAMPLES, re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == EXAMPLES.count("```python") == 1 + len(SETTINGS), (
        "every block of Python has its file's name right before it"
    )
    return dict(blocks)


def files() -> list[str]:
    """Return the files that git tracks or would track, from the working tree."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = finished(command, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


class Copy:
    """A copy of the repository, and what its commands have answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answers: dict[str, subprocess.CompletedProcess[str]] = {}

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
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

    def follow(self, command: str) -> subprocess.CompletedProcess[str]:
        """The answer to a command of the guide, with this process's Python instead of the virtual
        environment's."""
        if command not in self._answers:
            program, *arguments = shlex.split(command)
            assert program == PYTHON
            self._answers[command] = self.python(*arguments)
        return self._answers[command]

    def answer(self, part: str) -> subprocess.CompletedProcess[str]:
        """The answer to the one command of the examples that has `part` in it."""
        (command,) = (command for command in commands(EXAMPLES) if part in command)
        return self.follow(command)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """With the guide's methods in it."""
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs to the repository is known to git, and this is no checkout")
    folder = tmp_path_factory.mktemp("checkout")
    for name in files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for name, content in example_files().items():
        file = folder / name
        tried = not file.exists() or file.read_text(encoding="utf-8") == content
        assert tried, (
            f"{name} is in the repository already, and is not the guide's: let the guide write "
            "another"
        )
        file.write_text(content, encoding="utf-8")
    checked = ROOT / ".mypy_cache"  # of the files that are the same
    if checked.exists():
        shutil.copytree(checked, folder / checked.name)
    yield Copy(folder)
    shutil.rmtree(folder)


def test_what_runs_in_the_copy_is_the_copy(copy: Copy) -> None:
    names = ["ouroboros_core", "tests", "visualize"]
    names += [f"ouroboros_core.methods.{method}" for method in SETTINGS]
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


def test_the_methods_are_listed_with_their_settings(copy: Copy) -> None:
    answer = copy.python("-m", "ouroboros_core", "methods", "--json")
    listed = {m["id"]: m for m in json.loads(answer.stdout)}
    assert listed.keys() == methods.available().keys() | SETTINGS.keys()
    same = {"type": "int", "choices": [], "auto": False, "fixed": None}
    for method, settings in SETTINGS.items():
        expected = {name: same | setting for name, setting in settings.items()}
        assert listed[method]["knobs"] == expected
        assert f"{method}: {NAMES[method]}" in copy.answer("ouroboros_core methods").stdout


def test_ruff_has_nothing_to_say(copy: Copy) -> None:
    for verb in (("check",), ("format", "--check")):
        answer = copy.python("-m", "ruff", *verb, *example_files())
        assert answer.returncode == 0, answer.stdout


LABELS = {"num_tokens": "Tokens copied (num_tokens)"}


def test_the_page_lists_them_and_has_a_slider_for_each_setting(copy: Copy) -> None:
    answer = copy.python("-c", PAGE)
    assert answer.returncode == 0, answer.stderr
    page = json.loads(answer.stdout)
    shown = {}
    for method, settings in SETTINGS.items():
        assert [NAMES[method], method] in page["methods"]
        for name, setting in settings.items():
            label = LABELS[name]
            values = [setting[part] for part in ("min", "max", "default", "help")]
            shown[f"{method}.{name}"] = [label, *values]
    assert page["settings"] == shown


@pytest.mark.parametrize("method", SETTINGS)
def test_the_tests_of_all_methods_are_run_on_it(copy: Copy, method: str) -> None:
    """Greedy and matched its text is that of plain decoding, and under rejection sampling counts
    have their probabilities."""
    imports = copy.python("-m", "pytest", "tests/test_architecture.py", "-k", method)
    own = copy.answer(f"-k {method}")
    for answer, least in ((own, 30), (imports, 2)):
        passed = re.search(r"(\d+) passed", answer.stdout)
        assert passed and int(passed[1]) >= least and answer.returncode == 0, answer.stdout[-3000:]
    cases = set(re.findall(r"::(\w+)\[(\S+)\] PASSED", own.stdout))
    plain = [case for name, case in cases if name == "test_the_text_is_that_of_plain_decoding"]
    assert {case.rpartition("-")[2] for case in plain} == {
        *("greedy", "rejection", "seed1", "seed2", "seed3")
    }
    slots = "test_every_slot_follows_the_targets_distribution"
    rules = {case.partition("-")[0] for name, case in cases if name == slots}
    assert {"match", "rejection"} <= rules
    assert ("test_whole_texts_have_their_probability_under_rejection", method) in cases


@pytest.mark.embedded
@pytest.mark.parametrize("method", SETTINGS)
def test_its_text_is_that_of_plain_decoding(copy: Copy, method: str) -> None:
    answer = copy.answer(f"ouroboros_core generate --method {method}")
    assert "identical to plain decoding, token by token" in answer.stderr
    assert "speedup" in answer.stderr
    assert len(answer.stdout.strip()) > 20, "a text long enough to be compared"


def test_the_documents_are_right_once_they_are_generated_anew(copy: Copy) -> None:
    """Nothing was measured of the methods: the benchmark's table has dashes. Their pages are begun
    and stand in the navigation. The bound of the documents' length is of this repository alone."""
    assert copy.answer("scripts.documents").returncode == 0
    names = ("mkdocs.yml", "docs/methods/index.md", "docs/benchmarks.md")
    said = {name: (copy.folder / name).read_text(encoding="utf-8") for name in names}
    for method, name in NAMES.items():
        assert f"| [`{method}`]({method}.md): {name}" in said["docs/methods/index.md"]
        assert f"- {name}: methods/{method}.md\n" in said["mkdocs.yml"]
        assert f"| `{method}` | – | – | – |" in said["docs/benchmarks.md"]
        page = (copy.folder / "docs" / "methods" / f"{method}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name}\n")
        assert all(f"| `{setting}` |" in page for setting in SETTINGS[method])
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


def test_what_the_guide_links_to_and_names_is_there() -> None:
    for link in re.findall(r"\]\(((?!http)[^)]+)\)", PROSE):
        assert (ROOT / link).exists(), link
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
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
