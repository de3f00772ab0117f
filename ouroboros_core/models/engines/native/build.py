"""Compiles the native pass once for this processor, with any C++ compiler.

The library is in the cache folder. Its name is a hash of the source, the compiler's flags and the
processor, so another processor or version has a different library.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
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

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import cache_folder

log = logging.getLogger(__name__)

SOURCES = ("decoder.cpp", "blocks.h", "vectors.h", "choose.h", "rows.h", "amx.h", "threads.h")
FLAGS: tuple[str, ...] = (
    *("-O3", "-march=native", "-std=c++20", "-shared", "-fPIC"),
    # No sum may be rearranged, and no product fused with a sum, unless the source says so.
    *("-ffp-contract=off", "-fno-math-errno", "-Wno-psabi"),
)
BROWSER_SOURCES = ("web.cpp", "draw.h", "memory.h", *SOURCES)
BROWSER_FLAGS: tuple[str, ...] = (
    *("-c", "-target", "wasm32-wasi", "-O3", "-g0", "-std=c++20", "-mbulk-memory"),
    *("-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-fno-math-errno"),
    "-D_LIBCPP_VERBOSE_ABORT(...)=__builtin_trap()",
)
BROWSER_LINK = ("--no-entry", "--stack-first", "-zstack-size=1048576", "--allow-undefined", "-s")
"""The headers of the C++ library suffice, so no library is compiled; pass.js has the logarithms and
sines."""

BROWSER_BUILDS = {"simd": ("-msimd128",), "relaxed": ("-msimd128", "-mrelaxed-simd")}
"""Builds of the pass for a browser with the flags of their instructions; a browser takes `relaxed`
if it can, see pass.js."""

SWITCH = "OUROBOROS_NATIVE"
"""Environment variable; 0 computes without the native pass."""

TIME_LIMIT = 300
"""Seconds that the compiler may take."""

_LOOKING = threading.Lock()
"""Lock of the thread that looks for the library and may compile it."""

_REFUSED: dict[tuple[str, ...], str] = {}
"""Errors of compilers by file: they are not tried again, which would take as long."""


def compilers() -> list[list[str]]:
    """Return the commands that may compile C++ here, the likeliest first."""
    named = [os.environ.get("CXX"), "c++", "g++", "clang++"]
    commands = [[path] for name in named if name and (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang"):
        commands.append([sys.executable, "-m", "ziglang", "c++"])
    return commands


def browser_builds() -> dict[str, Path]:
    """Return the pass compiled to WebAssembly, by BROWSER_BUILDS; each is compiled once into the
    cache folder.

    Raises InvalidInput without the package ziglang, whose compiler knows WebAssembly.
    """
    if not importlib.util.find_spec("ziglang"):
        raise InvalidInput("the pass for a browser needs a compiler: pip install ziglang")
    folder = Path(__file__).parent
    text = "\n".join((folder / name).read_text("utf-8") for name in BROWSER_SOURCES)
    files = {}
    for name, instructions in BROWSER_BUILDS.items():
        flags = *BROWSER_FLAGS, *instructions
        parts = text, *flags, *BROWSER_LINK, importlib.metadata.version("ziglang")
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
        file = files[name] = cache_folder() / "native" / f"{digest}.wasm"
        if file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            object_file, linked = (Path(scratch) / f"pass.{suffix}" for suffix in ("o", "wasm"))
            _zig("c++", *flags, str(folder / BROWSER_SOURCES[0]), "-o", str(object_file))
            _zig("wasm-ld", *BROWSER_LINK, str(object_file), "-o", str(linked))
            linked.replace(file)
    return files


def _zig(*arguments: str) -> None:
    """Run the compiler; raise InvalidInput with its last line if it fails."""
    command = [sys.executable, "-m", "ziglang", *arguments]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, encoding="utf-8")
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:]
        raise InvalidInput(f"the pass for a browser cannot be compiled: {' '.join(last)}")


def _processor() -> str:
    """Return a description of the processor's instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def begin() -> threading.Thread:
    """Compile in the background if there is no library yet, while files are fetched and read.
    Return the thread, which ends after success or failure."""
    compiling = threading.Thread(target=_library, daemon=True)
    compiling.start()
    return compiling


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled pass; None, with a sentence in the log, if there is none."""
    loaded = _library()
    if isinstance(loaded, str):
        if os.environ.get(SWITCH) != "0":
            log.warning("torch computes all passes instead of the native one: %s", loaded)
        return None
    return loaded


def name() -> str:
    """Return a name of the compiled pass by its source, flags, processor and use of AMX; '' if
    there is none."""
    loaded = library()
    if loaded is None:
        return ""
    stem = Path(loaded._name).stem
    return f"{stem}-amx" if loaded.ouroboros_amx() else stem


def missing() -> str:
    """Return the reason for a missing compiled pass; '' if there is one."""
    if library() is not None:
        return ""
    reason = _library()
    return reason if isinstance(reason, str) else ""


def _library() -> ctypes.CDLL | str:
    """Return the compiled pass, or the reason for its absence."""
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
        loaded = ctypes.CDLL(str(file))
        if not loaded.ouroboros_wide():
            raise OSError("it was compiled without this processor's wide instructions")
        return loaded
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def _compile(source: Path, file: Path) -> None:
    """Compile a library and move it into place; raise OSError if no compiler can."""
    tried: list[str] = []
    attempt = str(file), *(" ".join(compiler) for compiler in compilers())
    if attempt in _REFUSED:
        raise OSError(_REFUSED[attempt])
    file.parent.mkdir(parents=True, exist_ok=True)
    for compiler in compilers():
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            output = Path(scratch) / file.name
            command = [*compiler, *FLAGS, str(source), "-o", str(output)]
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
                output.replace(file)
                return
            if done.returncode < 0:
                raise OSError(f"{' '.join(compiler)} was interrupted")
            tried.append(f"{' '.join(compiler)}: {done.stderr.strip()[-300:]}")
    why = "there is no C++ compiler: install g++ or clang, or pip install ziglang"
    _REFUSED[attempt] = "; ".join(tried) or why
    raise OSError(_REFUSED[attempt])


@cache
def openmp() -> ctypes.CDLL | None:
    """Return torch's OpenMP library; a second one would compete with it for the cores."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = {line.split()[-1] for line in lines if "omp" in Path(line.split()[-1]).name}
    for name in sorted(names):
        if Path(name).name.startswith(("libgomp", "libomp", "libiomp")):
            loaded = ctypes.CDLL(name)
            if all(hasattr(loaded, call) for call in ("GOMP_parallel", "omp_get_thread_num")):
                return loaded
    return None
