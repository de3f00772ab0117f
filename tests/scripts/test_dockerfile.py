"""The Dockerfile: how it is read, against readings written out by hand; and facts it has to keep.
make docker-check builds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import dockerfile_build
from scripts.dockerfile_build import copy, folders
from scripts.dockerfile_parser import (
    Image,
    Instruction,
    context,
    ignored,
    parse,
    seconds,
    words,
)
from tests import ROOT
from visualize.deploy.space import FRONT

pytestmark = pytest.mark.slow

SMALL = r"""# syntax=docker/dockerfile:1
FROM python:3.12-slim

ARG COLOUR=blue
ENV A=1 B="two words" \
    # a comment within

    C=$COLOUR PATH=/mine:$PATH
user nobody
WORKDIR /srv
WORKDIR deeper
COPY --chown=nobody:nogroup a.txt b/ ./
RUN if true; then echo "$A"; fi \
 && echo '#no comment'
EXPOSE 80 81
HEALTHCHECK --interval=5s --retries=2 \
  CMD wget -q localhost
CMD ["serve", "--port", "80"]
"""
WRITTEN_OUT = [
    Instruction("FROM", "python:3.12-slim"),
    Instruction("ARG", "COLOUR=blue"),
    Instruction("ENV", 'A=1 B="two words"     C=$COLOUR PATH=/mine:$PATH'),
    Instruction("USER", "nobody"),
    Instruction("WORKDIR", "/srv"),
    Instruction("WORKDIR", "deeper"),
    Instruction("COPY", "a.txt b/ ./", {"chown": "nobody:nogroup"}),
    Instruction("RUN", "if true; then echo \"$A\"; fi  && echo '#no comment'"),
    Instruction("EXPOSE", "80 81"),
    Instruction("HEALTHCHECK", "wget -q localhost", {"interval": "5s", "retries": "2"}),
    Instruction("CMD", '["serve", "--port", "80"]'),
]


def settled(source: str, **given: str) -> Image:
    image = Image(given)
    for instruction in parse(source):
        image.settle(instruction)
    return image


@pytest.fixture
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_a_small_dockerfile_is_read_as_written_out() -> None:
    read = parse(SMALL)
    assert [(i.name, i.text.split(), dict(i.flags)) for i in read] == [
        (i.name, i.text.split(), i.flags) for i in WRITTEN_OUT
    ]


def test_what_a_small_dockerfile_settles() -> None:
    image = settled(SMALL)
    assert {name: image.env[name] for name in "ABC"} == {"A": "1", "B": "two words", "C": "blue"}
    assert image.env["PATH"] == "/mine:" + Image().env["PATH"]
    assert (image.user, image.folder, image.ports, image.command) == (
        "nobody",
        "/srv/deeper",
        ["80", "81"],
        ["serve", "--port", "80"],
    )
    assert image.health == WRITTEN_OUT[-2]
    assert settled(SMALL, COLOUR="red").env["C"] == "red", "--build-arg goes before ARG's default"
    assert settled("FROM x\nARG A\nENV B=${A:-unset}").env["B"] == "unset"
    assert settled("FROM x\nCMD serve --fast").command == ["/bin/sh", "-c", "serve --fast"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  b", ["a", "b"]),
        ("$X/y ${X}y", ["1/y", "1y"]),
        ("${X:-z} ${Y:-z} ${X:+z} ${Y:+z}", ["1", "z", "z"]),
        (r"\$X '$X' ", ["$X", "$X"]),
        ('a="$S" b="${S} $X"', ["a=two words", "b=two words 1"]),
        ("$S", ["two words"]),
        ('A=""', ["A="]),
        ("$Y", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text, {"X": "1", "S": "two words"}) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ENTRYPOINT x", "ENTRYPOINT is not"),
        ("ADD a b", "ADD is not"),
        ("COPY --from=other a b", "--from is not a flag of COPY"),
        ("RUN --mount=type=cache,target=/x true", "--mount is not a flag of RUN"),
        ("RUN <<EOF", "here-document"),
        ("HEALTHCHECK NONE", "CMD only"),
    ],
)
def test_what_is_not_understood_is_refused(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(f"FROM x\n{line}")


def test_durations() -> None:
    assert [seconds(text) for text in ("30s", "1m30s", "2h")] == [30, 90, 7200]


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("tests/a.py", "tests", True),
        ("tests/a.py", "tests/", True),
        ("mytests/a.py", "tests", False),
        ("a/tests/b.py", "tests", False),
        ("a/b/__pycache__/c.pyc", "**/__pycache__", True),
        ("__pycache__/c.pyc", "**/__pycache__", True),
        (".mypy_cache/x/y", ".*_cache", True),
        ("a/.mypy_cache/x", ".*_cache", False),
        ("xmypy_cache/y", ".*_cache", False),
        ("a.md", "*.md\n!a.md", False),
        ("a.md", "!a.md\n*.md", True),
        ("a.md", "# a.md", False),
    ],
)
def test_what_dockerignore_keeps_out(path: str, pattern: str, expected: bool) -> None:
    assert ignored(path, pattern.splitlines()) is expected


def test_copy_puts_files_where_docker_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, root, me = tmp_path / "project", tmp_path / "root", (os.getuid(), os.getgid())
    files = ["one.txt", "room/two.txt", "room/inner/three.txt", "rooms.txt"]
    for name in files:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name, encoding="utf-8")
    (project / "one.txt").chmod(0o750)
    root.mkdir()
    monkeypatch.setattr(dockerfile_build, "ROOT", project)
    copy(files, ["./one.txt"], root, "/.", me)
    copy(files, ["one.txt"], root, "/renamed", me)
    copy(files, ["room"], root, "/moved", me)
    copy(files, ["one.txt", "rooms.txt"], root, "/both/", me)
    copy(files, ["."], root, "/everything/../../all", me)
    found = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }
    assert found == {
        "one.txt": "one.txt",
        "renamed": "one.txt",
        "moved/two.txt": "room/two.txt",
        "moved/inner/three.txt": "room/inner/three.txt",
        "both/one.txt": "one.txt",
        "both/rooms.txt": "rooms.txt",
        **{f"all/{name}": name for name in files},
    }
    assert (root / "one.txt").stat().st_mode & 0o777 == 0o750
    with pytest.raises(SystemExit, match="nothing of that name"):
        copy(files, ["missing"], root, "/.", me)


def test_the_folders_that_pip_settings_name(tmp_path: Path) -> None:
    for name in ("wheels", "index/simple"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "wheels" / "bundle.pem").touch()
    settings = {
        "PIP_FIND_LINKS": f"{tmp_path}/wheels /missing relative",
        "PIP_EXTRA_INDEX_URL": f"file://{tmp_path}/index/simple https://index.invalid/simple",
        "PIP_CERT": f"{tmp_path}/wheels/bundle.pem",
    }
    assert folders(settings) == [tmp_path / "index", tmp_path / "wheels"]


def test_the_image_serves_the_page_as_user_1000_on_its_port(dockerfile: str) -> None:
    from ouroboros_core.cli import build_parser

    image = settled(dockerfile)
    assert any(
        i.name == "RUN" and re.search(r"useradd .*--uid 1000 user\b", i.text)
        for i in parse(dockerfile)
    )
    assert (image.user, image.folder, image.ports) == ("user", "/home/user/app", ["7860"])
    assert image.command[:2] == ["python", "app.py"]
    flags = build_parser().parse_args(["serve", *image.command[2:]])
    assert (flags.host, str(flags.port)) == ("0.0.0.0", "7860")
    assert image.health and "http://127.0.0.1:7860/healthz" in image.health.text


def test_the_python_is_the_one_the_space_runs(dockerfile: str) -> None:
    version = FRONT["python_version"]
    assert parse(dockerfile)[0] == Instruction("FROM", f"python:{version}-slim")


def test_torch_comes_from_the_default_index_unless_another_is_named(dockerfile: str) -> None:
    assert settled(dockerfile).arguments["TORCH_INDEX"] == ""
    assert (
        settled(dockerfile, TORCH_INDEX="https://index.invalid").arguments["TORCH_INDEX"]
        == "https://index.invalid"
    )
    named = [
        line
        for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
        if line.startswith("torch")
    ]
    assert len(named) == 1, "the Dockerfile asks for the line that begins with torch"
    assert "torch>" not in dockerfile, "requirements.txt alone says which torch"


def test_no_layer_keeps_what_pip_fetched(dockerfile: str) -> None:
    """The weights step calls pip itself, so that a flag on the other calls would not do."""
    assert settled(dockerfile).env["PIP_NO_CACHE_DIR"] == "1"


def test_what_changes_often_is_copied_last(dockerfile: str) -> None:
    """Requirements, then weights, then everything: a change of the page repeats neither of the slow
    steps."""
    texts = [f"{i.name} {i.text}" for i in parse(dockerfile) if i.name in ("RUN", "COPY")]
    requirements = next(
        n for n, text in enumerate(texts) if "--requirement requirements.txt" in text
    )
    weights = texts.index("RUN python -m ouroboros_core.loading.embedded")
    assert requirements < weights < texts.index("COPY . .") == len(texts) - 1


def test_what_is_copied_before_the_weights_step_can_be_imported(
    dockerfile: str, tmp_path: Path
) -> None:
    """Its imports at the top of files; that the step itself runs is shown by the build."""
    files = [
        "requirements.txt",
        *(str(path.relative_to(ROOT)) for path in (ROOT / "ouroboros_core").rglob("*.py")),
    ]
    for instruction in parse(dockerfile):
        if instruction.text == "python -m ouroboros_core.loading.embedded":
            break
        if instruction.name == "COPY":
            *sources, target = instruction.text.split()
            copy(files, sources, tmp_path, f"/{target}", (os.getuid(), os.getgid()))
    code = "import ouroboros_core.loading.embedded as e; print(e.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert Path(ran.stdout.strip()).is_relative_to(tmp_path)


def test_the_build_gets_what_runs_and_no_more() -> None:
    files = context()
    assert {
        "app.py",
        "requirements.txt",
        "LICENSE",
        "visualize/kit/base.css",
        "assets/words/en.json",
    } <= set(files)
    assert not [
        name
        for name in files
        if name.startswith((".git/", ".ci/", "tests/", "scripts/", "assets/screenshots/"))
    ]


@pytest.mark.parametrize(
    "line",
    [line for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines() if line],
)
def test_what_git_ignores_no_build_gets(line: str) -> None:
    example = line.strip("/").replace("**", "a").replace("*", "x") + (
        "/file" if line.endswith("/") else ""
    )
    assert ignored(example, (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
