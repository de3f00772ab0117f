"""A measurement that the workers of a Ray cluster share, and the loss of a worker."""

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from ouroboros_core.benchmark.cluster import Opened, Worker, check_alike
from ouroboros_core.benchmark.store import Store
from ouroboros_core.errors import InvalidInput
from tests.browser import free_port
from tests.commands import Ask, running, wait_until
from tests.ouroboros_core.benchmark import test_benchmark as bench

QUESTIONS = 24


folders = bench.folders


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, psutil.Process]]:
    """The address of a Ray cluster on this machine that counts two GPUs, and its process."""
    pytest.importorskip("ray", reason="Ray is the optional extra `cluster`")
    port, folder = free_port(), tempfile.mkdtemp(prefix="ray-")  # sockets need a short path
    ray = Path(sys.executable).with_name("ray")
    start = [str(ray), "start", "--head", "--block", "--num-cpus", "2", "--num-gpus", "2"]
    start += ["--port", str(port), "--temp-dir", folder]
    start += ["--include-dashboard=false", "--disable-usage-stats"]
    log = Path(folder, "log")
    command = ["sh", "-c", f"exec {shlex.join(start)} > {log} 2>&1"]
    with running(command, env=environment()) as process:
        said = "Ray runtime started"
        wait_until(lambda: log.exists() and said in log.read_text("utf-8"), process)
        yield f"127.0.0.1:{port}", psutil.Process(process.pid)
    shutil.rmtree(folder, ignore_errors=True)


def environment() -> dict[str, str]:
    """Return variables under which workers are as fast as this process and keep no token."""
    ray = {"RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **ray, "OMP_NUM_THREADS": "1"}


def busy_workers(cluster: psutil.Process) -> list[psutil.Process]:
    """Return the workers that are within a task, whose title Ray sets."""
    found = []
    for process in cluster.children(recursive=True):
        with suppress(psutil.Error):
            found += [process] if process.cmdline()[:1] == ["ray::Worker.measure"] else []
    return found


COMMAND = [sys.executable, "-m", "ouroboros_core"]


def units(path: Path) -> int:
    """Return the number of units in a store that is being written."""
    return len(json.loads(path.read_text(encoding="utf-8"))["units"]) if path.exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_where_one_of_two_workers_is_killed_the_other_one_does_the_rest(
    cluster: tuple[str, psutil.Process],
    ouroboros: Ask,
    folders: tuple[str, str],
    tmp_path: Path,
) -> None:
    """The oracle is a measurement in one process: its counts, its texts, and each run once."""
    address, process = cluster
    prompts = str(bench.write_prompts(tmp_path / "p.jsonl", QUESTIONS))
    common = bench.options(
        folders, "--prompts", prompts, "--methods", "prompt_lookup[num_tokens=3]"
    )
    path, alone = tmp_path / "b.json", tmp_path / "a.json"
    command = [*COMMAND, *common, "--json", str(path), "--cluster", address]
    with running(command, env=environment()) as measuring:
        wait_until(lambda: busy_workers(process), measuring)[0].kill()
        done = units(path)
        out, err = measuring.communicate(timeout=400)
    assert measuring.returncode == 0, err
    assert done < QUESTIONS - 1, "killed in the middle"
    assert "prompt_lookup" in out
    single = ouroboros(*common, "--json", str(alone))
    assert single.returncode == 0, single.stderr
    assert bench.facts(path) == bench.facts(alone)
    data = json.loads(path.read_text(encoding="utf-8"))
    keys = [(run["method"], run["question"]) for run in data["runs"]]
    assert len(keys) == len(set(keys)) == 2 * QUESTIONS
    host = os.uname().nodename
    assert data["environment"]["processes"] == 2 and data["environment"]["hosts"] == [host]


def points(path: Path) -> list[dict[str, Any]]:
    """Return the points of a sweep in a certain order, without clocks and hosts."""
    found = json.loads(path.read_text(encoding="utf-8"))["points"]
    for point in found:
        for name in ("seconds", "first_seconds", "peak_memory_mb", "host"):
            point.pop(name)
    return sorted(found, key=str)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_sweep_that_lost_all_workers_is_resumed(
    cluster: tuple[str, psutil.Process],
    ouroboros: Ask,
    folders: tuple[str, str],
    tmp_path: Path,
) -> None:
    """The oracle is a sweep in one process."""
    address, process = cluster
    path, alone = tmp_path / "b.json", tmp_path / "a.json"
    common = ["sweep", "--target", folders[0], "--draft", folders[1]]
    common += ["--dtype", "float32", "--device", "cpu", "--max-new-tokens", "24"]
    common += ["--method", "speculative", "--grid", "gamma=1,4", "--repeats", "1", "--prompts"]
    common += [str(bench.write_prompts(tmp_path / "p.jsonl", QUESTIONS))]
    command = [*COMMAND, *common, "--json", str(path), "--cluster", address]
    with running(command, env=environment()) as first:
        wait_until(lambda: units(path) > 1, first)
        while first.poll() is None:
            for worker in busy_workers(process):
                worker.kill()
        _, err = first.communicate(timeout=400)
    assert first.returncode == 2 and "--resume continues" in err, err
    assert 1 < units(path) < QUESTIONS
    with running([*command, "--resume"], env=environment()) as second:
        _, err = second.communicate(timeout=400)
    assert second.returncode == 0, err
    single = ouroboros(*common, "--json", str(alone))
    assert single.returncode == 0, single.stderr
    assert points(path) == points(alone)
    assert len(points(path)) == 3 * QUESTIONS


def opened(host: str, processor: str) -> Opened:
    settings = bench.make_settings(environment={"dtype": "float32", "processor": processor})
    return Opened(host, settings, 1, [], [], [])


def test_machines_of_different_kinds_are_refused() -> None:
    first, other = opened("a", "a Xeon"), opened("b", "an Epyc")
    check_alike(first, opened("c", "a Xeon"))
    said = "worker on b has processor an Epyc, the one on a has a Xeon: numbers of different"
    with pytest.raises(InvalidInput, match=said):
        check_alike(first, other)


class Counting:
    """Work of three tasks; the second one cannot be run."""

    notes: list[str] = []  # noqa: RUF012
    remarks: list[str] = []  # noqa: RUF012
    host = ""
    total = 3

    def __init__(self) -> None:
        self.store = Store(bench.make_settings())

    @property
    def tasks(self) -> list[int]:
        return [number for number in range(3) if (0, number) not in self.store.units]

    def run_task(self, number: int, progress: Any = None) -> Iterator[object]:
        if number == 1:
            self.store.leave_out(1, 0, "it is too long")
        else:
            self.store.add((0, number), [bench.run_of("autoregressive", number, 1.0)])
            yield number


def test_a_worker_returns_the_results_of_a_task_alone() -> None:
    worker = Worker()
    work: Any = Counting()
    worker.open(lambda path, resume: work)
    assert worker.resume([(0, 2)], []) == [0, 1]
    first, second = worker.measure(0), worker.measure(1)
    assert (first.units, [run.question for run in first.records]) == ([(0, 0)], [0])
    assert (second.units, second.records) == ([], [])
    assert [one.reason for one in second.left_out] == ["it is too long"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "sam[warm=true]"], "learns from prompt to prompt in one process"),
        (["--methods", "ngram"], r"--cluster needs Ray: pip install 'ouroboros-core[cluster]'"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(
    ouroboros: Ask,
    folders: tuple[str, str],
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = ouroboros(*bench.options(folders, *arguments, "--cluster", "auto"))
    assert (result.returncode, message in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("name", ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_processes_of_a_launcher_do_not_write_one_file(
    ouroboros: Ask, folders: tuple[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "2")
    result = ouroboros(*bench.options(folders, "--methods", "ngram"))
    assert result.returncode == 2 and "share the work with --cluster auto" in result.stderr
