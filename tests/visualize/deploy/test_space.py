"""The folder for a Space is what Spaces accepts, complete, and holds nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from huggingface_hub import SpaceCard, SpaceHardware
from packaging.requirements import Requirement

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.allowed import read_pairs
from tests import ROOT
from visualize.deploy import space

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {
        hardware: tmp_path_factory.mktemp("spaces") / hardware for hardware in ("cpu", "zero")
    }
    for hardware, folder in folders.items():
        space.write_space(folder, hardware)
    return folders


@pytest.fixture(scope="module", params=["cpu", "zero"])
def hardware(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(hardware: str, folders: dict[str, Path]) -> Path:
    return folders[hardware]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project, not under git."""
    files = {
        "app.py": "print('a page')\n",
        "README.md": "# A page\n\nSee [the data](assets/data.json).\n",
        "requirements.txt": "gradio>=6.31,<6.32\ntorch>=2.8,<=2.13.0\n",
        "assets/data.json": "{}",
        "assets/pairs/cpu.json": '[{"name": "own", "target": null, "draft": null}]',
        "assets/screenshots/page.png": "\0picture",
        "visualize/__init__.py": "",
    }
    root = tmp_path / "checkout"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_front_matter_of_every_space_is_valid(folder: Path, hardware: str) -> None:
    space.check_front_matter(
        (folder / "README.md").read_text(encoding="utf-8"),
        (folder / "requirements.txt").read_text(encoding="utf-8"),
    )
    front = space.read_front_matter((folder / "README.md").read_text(encoding="utf-8"))
    assert front.items() >= space.SPACES[hardware].items()
    assert front["suggested_hardware"] in {
        kind.value for kind in SpaceHardware if hardware in kind.value
    }
    assert front["python_version"].startswith("3.12")  # which ZeroGPU has
    assert {name: value for name, value in front.items() if name in space.FRONT} == {
        **space.FRONT,
        "models": front["models"],
    }
    assert len(front["short_description"]) <= 60, "the Hub says so on a push"
    assert front["sdk_version"] == version("gradio"), "the one that is tested here"
    assert f"gradio=={front['sdk_version']}\n" in (ROOT / "requirements.txt").read_text(
        encoding="utf-8"
    )


def test_the_readme_of_the_repository_has_no_front_matter_and_that_of_a_space_one(
    folder: Path,
) -> None:
    ours, theirs = ((one / "README.md").read_text(encoding="utf-8") for one in (ROOT, folder))
    assert ours.partition("\n")[0].endswith("> Ouroboros"), "a title, without front matter"
    _, front, body = theirs.split("---\n", 2)
    assert "sdk: gradio\n" in front
    introduction = re.sub(r"\[([^]]+)\]\(docs/[^)]+\)", r"\1", ours.split("\n## ")[0])
    assert body.strip().startswith(introduction.strip()), "without links to what is not there"


@pytest.mark.parametrize("gradio", ["6.30.0", "6.32.0", None])
def test_the_version_of_gradio_must_be_one_that_the_requirements_allow(gradio: str | None) -> None:
    front = f"---\nsdk: gradio\nsdk_version: {gradio or 'null'}\n---\n"
    with pytest.raises(InvalidInput, match=rf"sdk_version must be in gradio.*got {gradio}"):
        space.check_front_matter(front, "gradio>=6.31,<6.32\n")
    space.check_front_matter("---\nsdk_version: 6.31.0\n---\n", "gradio>=6.31,<6.32\n")


def test_the_hub_is_asked_about_the_front_matter_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(card: SpaceCard) -> None:
        raise ValueError(f"{card.data['title']} is no title")

    monkeypatch.setattr(SpaceCard, "validate", refuse)
    with pytest.raises(SystemExit, match="the Hub refuses the front matter: Ouroboros is no title"):
        space.main([str(tmp_path / "out"), "--validate"])


def test_every_file_fits_and_none_is_a_by_product(folder: Path) -> None:
    found = names(folder)
    assert {
        "app.py",
        "requirements.txt",
        "README.md",
        "LICENSE",
        "pairs.json",
        "visualize/kit/dom.js",
        "ouroboros_core/models/engines/native/blocks.h",
        "ouroboros_core/models/engines/native/decoder.cpp",
        "ouroboros_core/models/engines/native/choose.h",
        "ouroboros_core/models/engines/native/rows.h",
        "ouroboros_core/models/engines/native/threads.h",
        "ouroboros_core/models/engines/native/amx.h",
        "ouroboros_core/models/engines/native/vectors.h",
    } <= found
    assert (folder / "packages.txt").read_text(encoding="utf-8") == "g++\n", (
        "what compiles the native pass"
    )
    assert not {name.split("/")[0] for name in found} & {
        "tests",
        ".git",
        ".ci",
        "Makefile",
        "Dockerfile",
        "pyproject.toml",
    }
    assert not [name for name in found if "__pycache__" in name or name.endswith((".pyi", ".pyc"))]
    assert max((folder / name).stat().st_size for name in found) <= 10_000_000
    shown = {
        link
        for link in space.links((folder / "README.md").read_text(encoding="utf-8"))
        if link.startswith("assets/screenshots/")
    }
    assert {name for name in found if name.startswith("assets/screenshots/")} == shown
    for kind in ("safetensors", "npz", "gif", "woff2"):
        assert f"*.{kind} filter=lfs" in (folder / ".gitattributes").read_text(encoding="utf-8")


def test_every_link_of_the_readme_leads_somewhere(folder: Path) -> None:
    linked = space.links((folder / "README.md").read_text(encoding="utf-8"))
    assert "LICENSE" in linked
    assert [link for link in linked if not (folder / link).exists()] == []


def test_torch_is_what_zerogpu_supports_and_the_rest_is_as_it_was(folder: Path) -> None:
    ours, theirs = (
        (one / "requirements.txt").read_text(encoding="utf-8").splitlines()
        for one in (ROOT, folder)
    )
    assert [line for line in ours if not line.startswith("torch>")] == [
        line for line in theirs if not line.startswith("torch>")
    ]
    needed = {
        wanted.name: wanted.specifier for wanted in map(Requirement, theirs[1:])
    }  # behind the comment
    tried = ("2.7.1", "2.8", "2.8.0", "2.9.1", "2.11.0", "2.12", "2.12.1")
    assert [version for version in tried if version in needed["torch"]] == [
        "2.8",
        "2.8.0",
        "2.9.1",
        "2.11.0",
    ]
    assert "spaces" not in needed


def test_the_pairs_on_offer_are_the_models_that_are_preloaded(folder: Path, hardware: str) -> None:
    assert (folder / "pairs.json").read_text(encoding="utf-8") == (
        ROOT / "assets" / "pairs" / f"{hardware}.json"
    ).read_text(encoding="utf-8")
    pairs = read_pairs(folder / "pairs.json")
    ids = {
        name for pair in pairs for name in (pair.target, pair.draft) if name not in (None, "none")
    }
    front = space.read_front_matter((folder / "README.md").read_text(encoding="utf-8"))
    assert {entry.split()[0] for entry in front["preload_from_hub"]} == ids
    assert ids and ids <= set(front["models"])
    files = [
        entry.split()[1].split(",") for entry in front["preload_from_hub"] if "SmolLM2" in entry
    ]
    assert all(
        {"config.json", "model.safetensors", "tokenizer.json"} <= set(names) for names in files
    )  # and not all of onnx
    assert [pair.target is None for pair in pairs] == (
        [True, False] if hardware == "cpu" else [False, True]
    )


def test_the_page_of_the_folder_starts_without_the_repository(folders: dict[str, Path]) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-B", "app.py", "--help"]
    ended = subprocess.run(
        command,
        cwd=folders["cpu"],
        env=plain,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert ended.returncode == 0, ended.stderr
    assert "--port" in ended.stdout


def test_a_file_beyond_ten_megabytes_is_refused_by_name_and_nothing_is_written(
    checkout: Path, tmp_path: Path
) -> None:
    with (checkout / "assets" / "big.bin").open("wb") as file:
        file.truncate(10_400_000)
    with pytest.raises(InvalidInput, match=r"assets/big\.bin has 10\.4 MB"):
        space.write_space(tmp_path / "out", source=checkout)
    assert not (tmp_path / "out").exists()


def test_a_link_to_what_is_not_copied_is_refused(checkout: Path, tmp_path: Path) -> None:
    with (checkout / "README.md").open("a", encoding="utf-8") as file:
        file.write("[tests](tests/visualize/deploy/test_space.py)")
    with pytest.raises(InvalidInput, match=r"tests/visualize/deploy/test_space\.py"):
        space.write_space(tmp_path / "out", source=checkout)


def test_without_git_all_but_by_products_is_copied(checkout: Path, tmp_path: Path) -> None:
    for name in (
        "visualize/__pycache__/a.pyc",
        "visualize/a.pyi",
        "assets/.cache/x",
        "tests/test_a.py",
        "notes.txt",
    ):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("left", encoding="utf-8")
    space.write_space(tmp_path / "out", source=checkout)
    made = {"README.md", "requirements.txt", "packages.txt", "pairs.json", ".gitattributes"}
    assert (
        names(tmp_path / "out")
        == {"app.py", "assets/data.json", "assets/pairs/cpu.json", "visualize/__init__.py"} | made
    )


def test_what_git_does_not_track_stays_behind(checkout: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    subprocess.run(["git", "-C", str(checkout), "add", "."], check=True)
    (checkout / "assets" / "private.txt").write_text("mine", encoding="utf-8")
    (checkout / "visualize" / "__init__.py").unlink()
    space.write_space(tmp_path / "out", source=checkout)
    assert {"app.py", "assets/data.json"} <= names(tmp_path / "out")
    assert not {"assets/private.txt", "visualize/__init__.py"} & names(tmp_path / "out")


def test_an_earlier_space_is_replaced_and_other_files_never_are(
    checkout: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    space.write_space(out, source=checkout)
    (out / "assets" / "old.txt").write_text("of an earlier version", encoding="utf-8")
    space.write_space(out, source=checkout)
    assert "assets/old.txt" not in names(out)
    (out / ".git").mkdir()
    with pytest.raises(InvalidInput, match="holds other files"):
        space.write_space(out, source=checkout)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InvalidInput, match="holds other files"):
        space.write_space(tmp_path / "thesis", source=checkout)
    with pytest.raises(InvalidInput, match="is a file"):
        space.write_space(tmp_path / "thesis" / "thesis.txt", source=checkout)
    assert (tmp_path / "thesis" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize("folder", [".", "..", "assets", "visualize/space"])
def test_a_space_is_never_written_over_what_it_is_copied_from(checkout: Path, folder: str) -> None:
    (checkout / "pairs.json").write_text("[]", encoding="utf-8")
    before = names(checkout)
    with pytest.raises(InvalidInput, match="holds what is copied"):
        space.write_space(checkout / folder, source=checkout)
    assert names(checkout) == before


def test_a_space_is_written_from_a_space(
    folders: dict[str, Path], folder: Path, hardware: str, tmp_path: Path
) -> None:
    """Who duplicates one has what it takes to write another."""
    space.write_space(tmp_path / "again", hardware, source=folder)
    assert names(tmp_path / "again") == names(folder)
    assert (tmp_path / "again" / "README.md").read_text(encoding="utf-8") == (
        folder / "README.md"
    ).read_text(encoding="utf-8")
    space.write_space(tmp_path / "other", hardware, source=folders["zero"])
    front = space.read_front_matter((tmp_path / "other" / "README.md").read_text(encoding="utf-8"))
    assert (
        front.keys()
        == space.read_front_matter((folder / "README.md").read_text(encoding="utf-8")).keys()
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"requirements.txt": "gradio>=6.31,<6.32\ntorchvision\n"}, "0 lines for torch"),
        ({"requirements.txt": "torch>=2.8\n"}, "no gradio"),
        ({"assets/pairs/cpu.json": '[{"name": "a", "target": "/home/me/model"}]'}, "owner/model"),
        ({"assets/pairs/cpu.json": "[]"}, "lists no pair"),
        ({"README.md": "---\ntitle: A page\n"}, "must begin with"),
    ],
)
def test_a_checkout_that_cannot_be_a_space_is_refused(
    checkout: Path, tmp_path: Path, change: dict[str, str], said: str
) -> None:
    for name, text in change.items():
        (checkout / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=said):
        space.write_space(tmp_path / "out", source=checkout)
    assert not (tmp_path / "out").exists()


def test_a_pair_of_one_gguf_file_preloads_that_file_alone(checkout: Path, tmp_path: Path) -> None:
    pairs = [
        {"name": "a", "target": "owner/model:q4.gguf", "draft": "none"},
        {"name": "b", "target": "owner/other"},
    ]
    (checkout / "assets" / "pairs" / "cpu.json").write_text(json.dumps(pairs), encoding="utf-8")
    space.write_space(tmp_path / "out", source=checkout)
    front = space.read_front_matter((tmp_path / "out" / "README.md").read_text(encoding="utf-8"))
    assert front["preload_from_hub"] == ["owner/model q4.gguf", "owner/other"]
    assert front["models"] == [*space.FRONT["models"], "owner/model", "owner/other"]


def test_the_command_says_what_it_wrote_and_ends_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space.main([str(tmp_path / "out"), "--hardware", "zero"])
    assert "MB, in" in capsys.readouterr().out
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"error: .*is a file"):
        space.main([str(tmp_path / "file")])
