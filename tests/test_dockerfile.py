"""The Dockerfile: the rules of hadolint, its own facts, and the image where a daemon runs."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradio_client import Client
from pathspec import GitIgnoreSpec

from ouroboros_core.cli import build_parser
from scripts import fresh
from tests import ROOT
from tests.browser import free_port, wait_until_ready
from tests.commands import finished
from visualize.deploy.space import FRONT

pytestmark = pytest.mark.slow

SOURCE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n", "", re.sub(r"(?m)^\s*#.*\n", "", SOURCE)).splitlines()
INSTRUCTIONS = [re.sub(r"\s+", " ", line.strip()) for line in LINES if line.strip()]
"""Each instruction on one line, without comments."""
WEIGHTS = "RUN python -m ouroboros_core.loading.embedded"


def engine() -> str | None:
    """Return the first container program whose daemon answers."""
    for program in ("docker", "podman"):
        if shutil.which(program):
            answer = subprocess.run([program, "info"], capture_output=True, check=False)
            if answer.returncode == 0:
                return program
    return None


def arguments_of(name: str) -> list[str]:
    """Return the arguments of each instruction of that name."""
    return [line.removeprefix(f"{name} ") for line in INSTRUCTIONS if line.startswith(f"{name} ")]


def kept_out() -> GitIgnoreSpec:
    """Return the patterns of .dockerignore, which begin at the root, as patterns of git."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    return GitIgnoreSpec.from_lines(f"/{line}" for line in lines)


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("hadolint")
    answer = finished([program, "Dockerfile"])
    assert answer.returncode == 0, answer.stdout


def test_the_image_serves_the_page_as_user_1000_on_its_port() -> None:
    assert re.search(r"useradd .*--uid 1000 user\b", SOURCE)
    assert arguments_of("USER") == ["user"] and arguments_of("WORKDIR") == ["/home/user/app"]
    program, script, *flags = json.loads(arguments_of("CMD")[0])
    assert (program, script) == ("python", "app.py")
    served = build_parser().parse_args(["serve", *flags])
    assert served.host == "0.0.0.0" and arguments_of("EXPOSE") == [str(served.port)]
    assert f"http://127.0.0.1:{served.port}/healthz" in arguments_of("HEALTHCHECK")[0]


def test_the_python_is_the_one_the_space_runs() -> None:
    assert arguments_of("FROM") == [f"python:{FRONT['python_version']}-slim"]


def test_torch_comes_from_the_default_index_unless_another_is_named() -> None:
    assert arguments_of("ARG") == ['TORCH_INDEX=""']
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    torch_lines = [line for line in requirements if line.startswith("torch")]
    assert len(torch_lines) == 1, "the Dockerfile asks for the line that begins with torch"
    assert "torch>" not in SOURCE, "requirements.txt alone says which torch"


def test_no_layer_keeps_what_pip_fetched() -> None:
    """The step of the weights calls pip, so that a flag on the other calls is not enough."""
    assert "PIP_NO_CACHE_DIR=1" in arguments_of("ENV")[-1].split()


def test_files_that_change_often_are_copied_last() -> None:
    """Oracle: requirements, then weights, then everything; neither slow step is repeated."""
    steps = [line for line in INSTRUCTIONS if line.startswith(("RUN", "COPY"))]
    requirements = next(n for n, line in enumerate(steps) if "--requirement" in line)
    everything = steps.index("COPY --chown=user . .")
    assert requirements < steps.index(WEIGHTS) < everything == len(steps) - 1


def test_the_files_that_the_step_of_the_weights_gets_can_be_imported(tmp_path: Path) -> None:
    """Oracle: Python imports them in a folder that has nothing else."""
    for line in INSTRUCTIONS[: INSTRUCTIONS.index(WEIGHTS)]:
        if line.startswith("COPY"):
            *sources, target = line.split()[2:]
            (tmp_path / target).mkdir(parents=True, exist_ok=True)
            for source in sources:
                shutil.copy(ROOT / source, tmp_path / target)
    code = "import ouroboros_core.loading.embedded as embedded; print(embedded.__file__)"
    command = [sys.executable, "-c", code]
    printed = finished(command, cwd=tmp_path, check=True)
    assert Path(printed.stdout.strip()).is_relative_to(tmp_path)


def test_the_build_gets_the_program_and_nothing_else() -> None:
    ignored = kept_out()
    served = "app.py requirements.txt LICENSE visualize/kit/base.css assets/words/en.json"
    assert not list(ignored.match_files(served.split()))
    private = ".git/config .ci/run tests/x.py scripts/x.py assets/screenshots/x.png .venv/x"
    assert list(ignored.match_files(private.split())) == private.split()


@pytest.mark.parametrize("line", (ROOT / ".gitignore").read_text(encoding="utf-8").split())
def test_the_build_gets_nothing_that_git_ignores(line: str) -> None:
    example = line.strip("/").replace("**", "a").replace("*", "x")
    assert kept_out().match_file(example + ("/file" if line.endswith("/") else ""))


@pytest.fixture(scope="module")
def image() -> Iterator[tuple[str, str]]:
    program = engine()
    if program is None:
        pytest.skip("no daemon of docker or podman answers here, and an image is built by one")
    name = "ouroboros-test"
    subprocess.run([program, "build", "--tag", name, "."], cwd=ROOT, check=True)
    yield program, name
    subprocess.run([program, "rmi", "--force", name], check=True)


@pytest.mark.timeout(1800)
def test_the_image_serves_the_page_and_ends_in_order(image: tuple[str, str]) -> None:
    """Nothing is fetched while it runs; it becomes healthy, and SIGTERM ends it with 0."""
    program, name = image
    port = free_port()
    options = ["--name", name, "--env", "HF_HUB_OFFLINE=1", "--publish", f"{port}:7860"]
    with subprocess.Popen([program, "run", *options, name]) as container:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url)
            fresh.look(url)
            client = Client(url, verbose=False)
            answer = client.predict("Count to five.", max_new_tokens=16, api_name="/generate")
            assert answer["text"]
            uid = [program, "exec", name, "stat", "--format", "%u", "/proc/1"]
            assert subprocess.check_output(uid, encoding="utf-8").strip() == "1000"
            subprocess.run([program, "stop", "--time", "10", name], check=True)
            assert container.wait(30) == 0
        finally:
            subprocess.run([program, "rm", "--force", name], check=False)
