"""What `pip install` gives: the wheel holds what the page and the command line need, and is the
same wherever it is built."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import transformers

from scripts import fresh
from tests import ROOT
from tests.commands import finished
from tests.folders import save

pytestmark = pytest.mark.slow

LARGEST = 50_000_000
"""Bytes of the wheel; PyPI takes twice as many."""
SHIPPED = {
    "ouroboros_core": "ouroboros_core",
    "visualize": "visualize",
    "assets": "ouroboros_core/assets",
}


def sources(*folders: str) -> list[str]:
    """What is in git or could be: all but what is ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    found = finished([*command, *folders], check=True)
    return [name for name in found.stdout.split("\0") if (ROOT / name).is_file()]


def build(checkout: Path, out: Path) -> tuple[Path, Path]:
    """The sources' archive, and the wheel that is made of it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*command, str(checkout)], check=True, capture_output=True, timeout=240)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, Path]) -> Path:
    return built[1]


def test_the_wheel_holds_every_file_of_packages_and_assets_and_is_small(
    wheel: Path,
) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        name.replace(folder, inside, 1)
        for folder, inside in SHIPPED.items()
        for name in sources(folder)
        if not name.startswith("assets/screenshots/")
    }
    assert wanted - names == set()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "ouroboros_core",
        "visualize",
    }
    assert wheel.stat().st_size < LARGEST


def test_equal_sources_make_equal_bytes_whatever_the_time_the_folder_and_the_umask(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere"
    for name in sources("."):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
        os.utime(copy / name, (1_000_000_000, 1_000_000_000))
        (copy / name).chmod(0o600)
    for mine, theirs in zip(build(copy, tmp_path / "dist"), built, strict=True):
        assert mine.read_bytes() == theirs.read_bytes(), mine.name


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel; what it needs is this one's."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", str(wheel)], check=True, timeout=120)
    home = next(folder.glob("lib/*/site-packages"))
    beside = [one for one in sys.path if one.endswith("site-packages")]
    (home / "beside.pth").write_text("\n".join(beside), encoding="utf-8")
    return folder / "bin"


def ask(
    program: Path, *arguments: str, folder: Path, line: str = ""
) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return finished([str(program), *arguments], cwd=folder, env=bare, input=line, timeout=600)


def test_the_command_works_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    where = ask(
        installed / "python", "-c", "import ouroboros_core as o; print(o.__file__)", folder=tmp_path
    )
    assert Path(where.stdout.strip()).is_relative_to(installed.parent), where
    listed = ask(installed / "ouroboros", "methods", folder=tmp_path)
    assert listed.returncode == 0 and "ouroboros: " in listed.stdout, listed.stderr
    told = ask(installed / "ouroboros", "generate", "--no-such-flag", folder=tmp_path)
    assert "ouroboros generate --help" in told.stderr


@pytest.mark.embedded
def test_text_is_written_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    said = ask(
        *(installed / "ouroboros", "generate", "--prompt", "Count to five."),
        *("--max-new-tokens", "8"),
        folder=tmp_path,
    )
    assert said.returncode == 0 and said.stdout.strip(), said.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.embedded
@pytest.mark.skipif("CI" in os.environ, reason="test_fresh does so in an environment of its own")
def test_the_page_is_served_out_of_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    fresh.serve(installed / "python", fresh.PACKAGE, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_other_commands_work_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """With a tiny pair from elsewhere, one prompt and a few tokens."""
    target = save(tmp_path / "target")
    words = transformers.AutoTokenizer.from_pretrained(target)
    words.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    words.save_pretrained(target)
    folder = tmp_path / "empty"
    folder.mkdir()
    on = ("--target", target, "--dtype", "float32", "--device", "cpu")
    pair = (*on, "--draft", save(tmp_path / "draft", seed=1))
    few = ("--limit", "1", "--max-new-tokens", "4")
    data = ("--tokens", "40", "--answer-tokens", "4", "--out", str(tmp_path / "data"))
    asked = [
        ("doctor", "--facts"),
        ("chat", *pair, "--max-new-tokens", "4"),
        ("bench", "--methods", "speculative", *pair, *few),
        ("sweep", "--method", "speculative", "--grid", "gamma=1,2", *pair, *few),
        ("train", "data", *on, *data),
    ]
    for arguments in asked:
        said = ask(installed / "ouroboros", *arguments, folder=folder, line="the cat")
        assert said.returncode == 0 and said.stdout.strip(), said.stderr
    assert list((tmp_path / "data").glob("*.npz"))
    assert list(folder.iterdir()) == []


@pytest.mark.embedded
def test_three_lines_show_a_trace_in_a_page_of_ones_own(installed: Path, tmp_path: Path) -> None:
    """Those of the documentation, but for the start of the server."""
    manual = (ROOT / "docs" / "component.md").read_text("utf-8")
    lines = re.findall(r"^```python\n(.*?)^```$", manual, re.M | re.S)[0]
    trace = ROOT / "assets" / "traces" / "library-union.json"
    made = lines.replace('"trace.json"', repr(str(trace)))
    made += "print(*(type(one).__name__ for one in demo.blocks.values()))"
    said = ask(installed / "python", "-c", made, folder=tmp_path)
    assert "OuroborosView" in said.stdout.split(), said.stderr
