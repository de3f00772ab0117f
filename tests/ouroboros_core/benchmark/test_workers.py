"""Several processes that share the work of a measurement, and what becomes of it where one is
lost."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from ouroboros_core.benchmark import store
from ouroboros_core.benchmark.store import Share, Store
from ouroboros_core.benchmark.workers import LOST_S, Workers
from ouroboros_core.cli import measuring
from ouroboros_core.cli import options as flags
from ouroboros_core.errors import InvalidInput
from tests import ROOT
from tests.commands import Ask, running
from tests.folders import save
from tests.ouroboros_core.benchmark.test_benchmark import (
    facts,
    free_port,
    make_settings,
    options,
    run_of,
    write_prompts,
)

QUESTIONS = 48
METHODS = ("--methods", "prompt_lookup[num_tokens=3]")


@pytest.fixture(scope="module")
def pair_on_disk(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("pair")
    return save(folder / "target"), save(folder / "draft")


def changed(folder: Path, rank: int, silent: float, **facts: Any) -> None:
    """A process's file as that of another machine, which was silent for so many seconds."""
    file = folder / f"process-{rank}.json"
    file.write_text(
        json.dumps({**json.loads(file.read_text(encoding="utf-8")), **facts}), encoding="utf-8"
    )
    now = time.time()
    os.utime(file, (now - silent, now - silent))


def test_a_unit_is_taken_once_and_once_more_where_its_process_is_lost(tmp_path: Path) -> None:
    """The oracle is the rule itself: of all that ask for a unit, one gets it; so again with those
    that ask for a lost one's."""
    first, second, third = (Workers(tmp_path / "shared", rank, 3) for rank in range(3))
    asked = [worker.take(7) for worker in (second, first, third, second)]
    assert asked == [True, False, False, False]
    assert first.lost() == {}
    second.leave(done=True)
    lost = first.lost()
    assert lost == third.lost() == {7: second.me.token}
    assert [worker.take_over(7, lost[7]) for worker in (third, first)] == [True, False]
    assert first.lost() == {}
    third.leave(done=True)
    assert first.lost() == {7: third.me.token} and first.take_over(7, third.me.token)
    first.clear()
    assert not (tmp_path / "shared").exists() and not second.take(8)


@pytest.mark.parametrize(
    ("silent", "change", "lives"),
    [
        (LOST_S / 2, {"place": "elsewhere", "pid": 1}, True),
        (LOST_S * 2, {"place": "elsewhere", "pid": 1}, False),
        (LOST_S * 2, {"place": "", "pid": 1}, False),
        (LOST_S * 2, {}, True),
        (0, {"pid": 2**22 + 1}, False),
        (0, {"state": "done"}, False),
        (0, {"state": "stopped"}, False),
    ],
)
def test_a_process_lives_as_long_as_it_runs_here_or_speaks_elsewhere(
    tmp_path: Path, silent: float, change: dict[str, Any], lives: bool
) -> None:
    first, _ = (Workers(tmp_path / "shared", rank, 2) for rank in range(2))
    changed(tmp_path / "shared", 1, silent, **change)
    assert [worker.rank for worker in first.there()] == ([0, 1] if lives else [0])


def test_machines_of_different_kinds_do_not_meet(tmp_path: Path) -> None:
    """Both ends say which fact differs, and whose is which."""
    environments = [{"processor": name, "threads": 2} for name in ("an Epyc", "a Xeon")]
    workers = [Workers(tmp_path / "shared", rank, 2) for rank in range(2)]
    with ThreadPoolExecutor() as pool:
        met = [
            pool.submit(one.meet, {"environment": of})
            for one, of in zip(workers, environments, strict=True)
        ]
    said = [str(one.exception()) for one in met]
    for rank, words in enumerate(said):
        mine, other = (environments[n]["processor"] for n in (rank, 1 - rank))
        assert f"process {1 - rank} on " in words and f"has processor {other}, process" in words
        assert f"{mine}: numbers of different machines" in words


def test_the_same_kind_of_machines_meet_when_all_are_there(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        begun = pool.submit(Workers(tmp_path / "shared", 0, 2).meet, {"environment": {}})
        time.sleep(0.6)
        assert not begun.done(), "the other one has not come"
        Workers(tmp_path / "shared", 1, 2).meet({"environment": {}})
        assert begun.result(5) is None


@pytest.mark.parametrize("end", ["done", "stopped", "all cleared away"])
def test_one_that_is_quickly_gone_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The second process meets the first, and has ended before the first looks again."""
    first, second = (Workers(tmp_path / "shared", rank, 2) for rank in range(2))

    def meanwhile(_: float) -> None:
        monkeypatch.setattr(time, "sleep", pytest.fail)
        second.meet({"environment": {}})
        second.clear() if end == "all cleared away" else second.leave(done=end == "done")

    monkeypatch.setattr(time, "sleep", meanwhile)
    first.meet({"environment": {}})
    assert first.cleared() == (end == "all cleared away")


def test_several_processes_need_a_place_that_all_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(InvalidInput, match=r"4 processes keep .* name it with --json"):
        store.share(None)


def test_a_launchers_numbers_are_this_processs_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = {"WORLD_SIZE": "many", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}
    for name, value in said.items():  # what is no number is skipped
        monkeypatch.setenv(name, value)
    mine = store.share(tmp_path / "a.json")
    assert (mine.rank, mine.count, mine.main) == (3, 4, False) and mine.workers is not None
    assert [mine.may(number) for number in range(4)] == [True] * 4
    mine.leave(done=True)
    assert not store.restarted()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert store.restarted()


def measured(path: Path, *, fixed: bool = False) -> list[tuple[Share, Store]]:
    """Two processes that have met, each with a finished question of its own number."""
    folder = path.with_name("shared")
    shares = [Share(rank, 2, None, Workers(folder, rank, 2), fixed) for rank in range(2)]
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(one.open, make_settings(), path, resume=False) for one in shares]
        stores = [one.result(20) for one in found]
    for rank, one in enumerate(stores):
        one.add((0, rank), [run_of("autoregressive", rank, 1.0)])
    return list(zip(shares, stores, strict=True))


def finish(path: Path, mine: Share, kept: Store, work: Any = (), then: Any = None) -> None:
    """The end of a measurement, as the commands have it: the file, then what may fail."""

    def end(complete: bool) -> None:
        measuring.save(kept, mine, {}, complete)
        if then is not None:
            raise then

    given = argparse.Namespace(json=path, resume=False)
    run = lambda _: iter(work)  # noqa: E731
    measuring.measure(given, kept, mine, (2, 1, run), end, flags.notes(quiet=True))


def questions(path: Path) -> list[int]:
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["complete"]
    return sorted(run["question"] for run in data["runs"])


@pytest.mark.parametrize("fixed", [False, True])
def test_what_fails_behind_the_complete_file_takes_nothing_from_it(
    tmp_path: Path, fixed: bool
) -> None:
    """A broken pipe, or a figure that cannot be written. The oracle is what both have measured,
    also when the other process ends after it."""
    path = tmp_path / "out.json"
    first, second = measured(path, fixed=fixed)
    if fixed:
        finish(path, *second)
    with pytest.raises(BrokenPipeError):
        finish(path, *first, then=BrokenPipeError())
    if not fixed:
        finish(path, *second)
    assert questions(path) == [0, 1]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.json"]


def test_what_a_process_has_finished_before_it_was_killed_counts(tmp_path: Path) -> None:
    """Killed between the complete file and clearing up; what it replaces does not count. The
    oracle is what the two have measured."""
    path = tmp_path / "out.json"
    earlier = Store(make_settings(max_new_tokens=13), path, complete=True)
    earlier.add((0, 5), [run_of("autoregressive", 5, 1.0)])
    (_, first), second = measured(path)
    store.gather(first)
    first.complete = True
    first.save({})
    changed(tmp_path / "shared", 0, 0, pid=2**22 + 1)
    finish(path, *second)
    assert questions(path) == [0, 1]


def test_without_a_stopped_processs_share_nothing_is_complete(tmp_path: Path) -> None:
    """The main process says who was stopped, and both keep what they have."""
    path = tmp_path / "out.json"
    first, (mine, kept) = measured(path, fixed=True)

    def stopped() -> Any:
        raise InvalidInput("a prompt is too long")
        yield

    with pytest.raises(InvalidInput, match="too long"):
        finish(path, mine, kept, stopped())
    with pytest.raises(InvalidInput, match=r"process 1 was lost or stopped: .* --resume goes on"):
        finish(path, *first)
    assert units(path) == units(tmp_path / "out.json.part1") == 1


def test_a_folder_that_stays_behind_keeps_nobody_waiting(tmp_path: Path) -> None:
    """As on network file systems; that the process's own file is gone says that all is done."""
    path = tmp_path / "out.json"
    _, (mine, second) = measured(path)
    shutil.rmtree(tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    with ThreadPoolExecutor() as pool:
        assert pool.submit(mine.finishes).result(20) is False
        left = pool.submit(lambda: list(mine.take(second, lambda: [0], lambda unit: unit)))
        assert left.result(20) == [0], "nobody has taken it here, and then nothing more"
    mine.leave(done=True)
    assert [one.name for one in (tmp_path / "shared").iterdir()] == ["0.taken"]


def test_a_file_that_was_just_made_is_young_whatever_this_machines_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner has not yet written its name. The oracle is the file system's own time."""
    first, _ = (Workers(tmp_path / "shared", rank, 2) for rank in range(2))
    taken = tmp_path / "shared" / "7.taken"
    taken.touch()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * LOST_S)
    assert first.lost() == {}
    os.utime(taken, (now - 2 * LOST_S, now - 2 * LOST_S))
    assert first.lost() == {7: ""}


def until(there: Any, process: subprocess.Popen[str]) -> None:
    for _ in range(2400):
        if there():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not come so far in two minutes")


def units(path: Path) -> int:
    """Of a store that is being written."""
    return len(json.loads(path.read_text(encoding="utf-8"))["units"]) if path.exists() else 0


@pytest.mark.slow
def test_where_one_of_two_processes_is_killed_the_other_one_does_the_rest(
    ouroboros: Ask, pair_on_disk: tuple[str, str], tmp_path: Path
) -> None:
    """Even where it is the first, which brings all together. The oracle is a measurement that
    nothing disturbed: its counts, its texts, and each run once."""
    common = ("--prompts", str(write_prompts(tmp_path / "p.jsonl", QUESTIONS)), *METHODS)
    path = tmp_path / "b.json"
    command = [sys.executable, "-m", "ouroboros_core", *options(pair_on_disk, *common)]
    places = {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    with ExitStack() as stack:
        both = [
            stack.enter_context(
                running(
                    [*command, "--json", str(path)],
                    env={**os.environ, **places, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                )
            )
            for rank in range(2)
        ]
        until(lambda: units(path) > 1 and units(tmp_path / "b.json.part1") > 1, both[0])
        both[0].send_signal(signal.SIGKILL)
        both[0].communicate()
        done = units(path)
        out, err = both[1].communicate(timeout=200)
        assert both[1].returncode == 0, err
    assert "prompt_lookup" in out, "the one that is left reports"
    assert 1 < done < QUESTIONS - 1, "killed in the middle"
    alone = ouroboros(*options(pair_on_disk, *common, "--json", str(tmp_path / "a.json")))
    assert alone.returncode == 0, alone.stderr
    assert facts(path)[1] == facts(tmp_path / "a.json")[1]
    data = json.loads(path.read_text(encoding="utf-8"))
    keys = [(run["method"], run["question"]) for run in data["runs"]]
    assert len(keys) == len(set(keys)) == 2 * QUESTIONS
    assert (
        data["environment"]["hosts"]
        == [os.uname().nodename]
        == [*{r["host"] for r in data["runs"]}]
    )
    assert sorted(one.name for one in tmp_path.glob("b.json*")) == ["b.json"]


@pytest.mark.slow
def test_a_launched_sweep_that_lost_a_process_is_resumed(
    pair_on_disk: tuple[str, str], tmp_path: Path, ouroboros: Ask
) -> None:
    """By accelerate, from the config file of the manual, on this machine alone; the launcher ends
    where one of its processes is killed. The oracle is a sweep that nothing disturbed."""
    manual = (ROOT / "docs" / "large-sweeps.md").read_text("utf-8")
    config = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```$", manual, re.M | re.S)[0])
    config |= {"num_machines": 1, "num_processes": 2, "main_process_port": free_port()}
    (tmp_path / "accelerate.yaml").write_text(
        yaml.safe_dump(config | {"main_process_ip": "127.0.0.1"}), encoding="utf-8"
    )
    path = tmp_path / "b.json"
    asked = ["--target", pair_on_disk[0], "--draft", pair_on_disk[1], "--dtype", "float32"]
    asked += ["--method", "speculative", "--grid", "gamma=1,4", "--repeats", "1"]
    asked += ["--device", "cpu", "--prompts"]
    asked += [str(write_prompts(tmp_path / "p.jsonl", QUESTIONS)), "--max-new-tokens", "24"]
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file"]
    launch += [str(tmp_path / "accelerate.yaml"), "-m", "ouroboros_core", "sweep", *asked]
    launch += ["--json", str(path)]
    with running(launch) as first:
        until(lambda: units(path) > 1 and units(tmp_path / "b.json.part1") > 1, first)
        other = json.loads(
            (tmp_path / "b.json.shared" / "process-1.json").read_text(encoding="utf-8")
        )
        os.kill(other["pid"], signal.SIGKILL)
        first.communicate(timeout=120)
    assert first.returncode != 0 and not json.loads(path.read_text(encoding="utf-8"))["complete"]
    with running([*launch, "--resume"]) as again:
        _, said = again.communicate(timeout=200)
        assert again.returncode == 0, said
    alone = ouroboros("sweep", *asked, "--json", str(tmp_path / "a.json"))
    assert alone.returncode == 0, alone.stderr
    assert json.loads(path.read_text(encoding="utf-8"))["environment"]["processes"] == 2
    timed = {"seconds", "plain_seconds", "host"}
    found, wanted = (
        [
            {name: value for name, value in point.items() if name not in timed}
            for point in json.loads(one.read_text(encoding="utf-8"))["points"]
        ]
        for one in (path, tmp_path / "a.json")
    )
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert len(found) == len({(p["cell"], p["question"]) for p in found}) == 2 * QUESTIONS
    assert sorted(one.name for one in tmp_path.glob("b.json*")) == ["b.json"]
