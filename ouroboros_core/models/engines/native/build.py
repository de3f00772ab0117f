"""Compiles the native pass once for this processor, with whatever C++ compiler there is.

The library lies in the cache folder under a name made of the source, the compiler's flags and the
processor, so that another processor or another version has one of its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

from ouroboros_core.locations import cache_folder

log = logging.getLogger(__name__)

SOURCES = ("decoder.cpp", "blocks.h", "vectors.h", "choose.h", "rows.h", "amx.h", "threads.h")
FLAGS: tuple[str, ...] = (
    *("-O3", "-march=native", "-std=c++20", "-shared", "-fPIC"),
    # No sum may be rearranged, and no product fused with a sum, but where the source says so.
    *("-ffp-contract=off", "-fno-math-errno", "-Wno-psabi"),
)
SWITCH = "OUROBOROS_NATIVE"
"""Environment variable; 0 computes without the native pass."""

TIME_LIMIT = 300
"""Seconds that the compiler may take."""

_LOOKING = threading.Lock()
"""Held by the thread that looks for the library and perhaps compiles it."""

_REFUSED: dict[tuple[str, ...], str] = {}
"""Why a file could not be made by some compilers: to try again would take as long."""


def compilers() -> list[list[str]]:
    """The commands that may compile C++ here, the likeliest first."""
    named = [os.environ.get("CXX"), "c++", "g++", "clang++"]
    found = [[path] for name in named if name and (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang"):
        found.append([sys.executable, "-m", "ziglang", "c++"])
    return found


def _processor() -> str:
    """What says which instructions there are."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def begin() -> threading.Thread:
    """Compile in the background where nothing is compiled yet, beside what has to be fetched and
    read before the library is asked for; the thread ends when it is compiled or cannot be."""
    compiling = threading.Thread(target=_library, daemon=True)
    compiling.start()
    return compiling


@cache
def library() -> ctypes.CDLL | None:
    """The compiled pass; None, with a sentence in the log, where there is none."""
    found = _library()
    if isinstance(found, str):
        if os.environ.get(SWITCH) != "0":
            log.warning("torch computes all passes instead of the native one: %s", found)
        return None
    return found


def name() -> str:
    """The name of the compiled pass, of which another source, compiler flag or processor has
    another, and one that may not use AMX; empty where there is none."""
    found = library()
    if found is None:
        return ""
    stem = Path(found._name).stem
    return f"{stem}-amx" if found.ouroboros_amx() else stem


def missing() -> str:
    """Why there is no compiled pass; empty where there is one."""
    if library() is not None:
        return ""
    found = _library()
    return found if isinstance(found, str) else ""


def _library() -> ctypes.CDLL | str:
    """The compiled pass, or why there is none."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH} is 0"
    folder = Path(__file__).parent
    try:
        sources = [(folder / name).read_text("utf-8") for name in SOURCES]
        made_of = "\n".join([*sources, *FLAGS, _processor()])
        name = hashlib.sha256(made_of.encode()).hexdigest()[:16]
        file = cache_folder() / "native" / f"{name}.so"
        with _LOOKING:
            if not file.exists():
                _compile(folder / SOURCES[0], file)
        found = ctypes.CDLL(str(file))
        if not found.ouroboros_wide():
            raise OSError("it was compiled without this processor's wide instructions")
        return found
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def _compile(source: Path, file: Path) -> None:
    """Whole or not at all, also where two processes compile; raises OSError where nobody can."""
    tried: list[str] = []
    asked = str(file), *(" ".join(compiler) for compiler in compilers())
    if asked in _REFUSED:
        raise OSError(_REFUSED[asked])
    file.parent.mkdir(parents=True, exist_ok=True)
    for compiler in compilers():
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            made = Path(scratch) / file.name
            command = [*compiler, *FLAGS, str(source), "-o", str(made)]
            try:
                done = subprocess.run(
                    command,
                    check=False,
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    timeout=TIME_LIMIT,
                )
            except subprocess.TimeoutExpired:
                tried.append(f"{' '.join(compiler)}: not done within {TIME_LIMIT} s")
                continue
            if done.returncode == 0:
                made.replace(file)
                return
            if done.returncode < 0:
                raise OSError(f"{' '.join(compiler)} was interrupted")
            tried.append(f"{' '.join(compiler)}: {done.stderr.strip()[-300:]}")
    why = "there is no C++ compiler: install g++ or clang, or pip install ziglang"
    _REFUSED[asked] = "; ".join(tried) or why
    raise OSError(_REFUSED[asked])


@cache
def openmp() -> ctypes.CDLL | None:
    """The OpenMP library that torch computes with; a second one would spin against it."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = {line.split()[-1] for line in lines if "omp" in Path(line.split()[-1]).name}
    for name in sorted(names):
        if Path(name).name.startswith(("libgomp", "libomp", "libiomp")):
            found = ctypes.CDLL(name)
            if all(hasattr(found, part) for part in ("GOMP_parallel", "omp_get_thread_num")):
                return found
    return None
