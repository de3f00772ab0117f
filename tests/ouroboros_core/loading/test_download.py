"""Models that are downloaded from the Hub: a real huggingface_hub, and a hub on this machine."""

import json
import os
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.loading import download
from tests.commands import finished
from tests.hub import Hub, hub

NAME = "tiny/target"


@pytest.fixture
def tiny_hub(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path) as made:
        made.add(NAME)
        yield made


def answer(made: Hub, expression: str, **variables: str) -> Any:
    """Return what an expression is in a process that has this hub: huggingface_hub reads its
    variables when it is imported."""
    code = f"""
import itertools, json
from ouroboros_core.errors import WeightsUnavailable
from ouroboros_core.loading import download
try:
    print(json.dumps({expression}))
except WeightsUnavailable as error:
    print(json.dumps(str(error)))
"""
    environment = {**os.environ, **made.variables, **variables}
    result = finished([sys.executable, "-c", code], env=environment)
    assert not result.stderr, result.stderr
    return json.loads(result.stdout)


def needed(folder: Path) -> dict[str, bytes]:
    """The files that transformers reads of a model's folder."""
    kinds = ("*.json", "*.safetensors", "*.jinja")
    files = [path for path in folder.iterdir() if any(fnmatch(path.name, kind) for kind in kinds)]
    return {path.name: path.read_bytes() for path in files}


def test_the_files_that_are_read_arrive_whole_and_no_others(tiny_hub: Hub) -> None:
    """The oracle: the model's own folder."""
    files = needed(tiny_hub.root / NAME)
    total = sum(map(len, files.values()))
    assert len([name for name in files if name.endswith(".safetensors")]) > 2
    asked = f"[download.missing({NAME!r}, None, 'none'), download.size([{NAME!r}])]"
    assert answer(tiny_hub, asked) == [[NAME], total]
    arrived = answer(tiny_hub, f"list(download.download([{NAME!r}]))")
    assert arrived == sorted(arrived) and arrived[0] == 0 and arrived[-1] == total
    (snapshot,) = tiny_hub.home.glob("hub/models--tiny--target/snapshots/*")
    assert {path.name: path.read_bytes() for path in snapshot.iterdir()} == files
    assert answer(tiny_hub, f"download.missing({NAME!r})") == []
    assert tiny_hub.incomplete == []


def test_a_download_that_is_closed_leaves_no_half_file_and_the_model_is_still_missing(
    tiny_hub: Hub,
) -> None:
    tiny_hub.open.clear()
    until = "next(a for a, b in itertools.pairwise(arriving) if a == b > 20_000)"
    closed = f"(arriving := download.download([{NAME!r}])) and [{until}, arriving.close()]"
    assert answer(tiny_hub, closed)[1] is None
    assert tiny_hub.incomplete == []
    assert list(tiny_hub.home.rglob("model-00001*")), "what is whole stays"
    assert answer(tiny_hub, f"download.missing({NAME!r})") == [NAME]


def test_each_hindrance_says_what_to_do(tiny_hub: Hub) -> None:
    size = f"download.size([{NAME!r}])"
    tiny_hub.gated.add(NAME)
    gated = answer(tiny_hub, f"list(download.download([{NAME!r}]))")
    assert "only for those who accept its terms" in gated and f"{tiny_hub.address}/{NAME}" in gated
    assert "There is no model tiny/other" in answer(tiny_hub, "download.size(['tiny/other'])")
    assert "no name of the Hub" in answer(tiny_hub, "download.size(['a b'])")
    (tiny_hub.root / "tiny" / "bin").mkdir()
    (tiny_hub.root / "tiny" / "bin" / "config.json").write_text("{}", encoding="utf-8")
    assert "has no safetensors" in answer(tiny_hub, "list(download.download(['tiny/bin']))")
    offline = answer(tiny_hub, f"download.size([{NAME!r}], 7)", HF_HUB_OFFLINE="1")
    assert "without --offline" in offline
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert "check the network" in answer(tiny_hub, size, **nowhere)
    assert answer(tiny_hub, f"download.size([{NAME!r}], 7)", **nowhere) == 7
    full = answer(tiny_hub, f"download.size([{NAME!r}], 10**18)", **nowhere)
    assert "1000000000.00 GB" in full and "HF_HOME" in full


def test_a_cache_that_cannot_be_written_is_named(tiny_hub: Hub) -> None:
    tiny_hub.home.write_text("no folder", encoding="utf-8")
    said = answer(tiny_hub, f"list(download.download([{NAME!r}]))")
    assert f"cannot be written to {tiny_hub.home}" in said


def test_a_folder_of_this_machine_is_never_looked_for_on_the_hub(tmp_path: Path) -> None:
    assert download.missing(str(tmp_path), "./nowhere", None, "none") == []
