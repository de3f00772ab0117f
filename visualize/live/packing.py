"""The files with which the static site is live: Python, the core, the tokenizer and the models.

Everything comes from packages that the project names: `package.json`, `wheels.txt`. The folder
needs no other server.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sources import Source

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PYODIDE = (
    *("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm"),
    *("pyodide-lock.json", "python_stdlib.zip"),
)
PLATFORM = ("--platform", "pyemscripten_2026_0_wasm32", "--python-version", "3.14")
LEFT_OUT = tuple(
    f"ouroboros_core/{room}" for room in ("training", "cli", "integrations", "notebook")
)
"""Folders of code that no run reads."""
DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file in an archive, so that equal code makes equal bytes."""
HAS = {Need.DRAFT_MODEL, Need.EAGLE3, Need.MEMORY, Need.PREDICTED_OUTPUT}
"""Resources of a browser besides the target."""
LICENCES = (
    ("Pyodide, with CPython and Emscripten", "MPL-2.0, PSF-2.0, MIT", "https://pyodide.org"),
    ("pydantic, pydantic-core, annotated-types", "MIT", "https://pydantic.dev"),
    ("typing-inspection", "MIT", "https://github.com/pydantic/typing-inspection"),
    ("typing-extensions", "PSF-2.0", "https://github.com/python/typing_extensions"),
    ("@huggingface/tokenizers", "Apache-2.0", "https://github.com/huggingface/tokenizers.js"),
    ("plotly.js", "MIT", "https://plotly.com/javascript"),
    ("SmolLM2-135M-Instruct", "Apache-2.0", "https://hf.co/HuggingFaceTB/SmolLM2-135M-Instruct"),
    ("Ouroboros, with its draft model and head", "Apache-2.0", "LICENSE of this folder"),
)
"""Packed software: licence, licence text and source."""


def runs_in_browser(kind: type[Method]) -> bool:
    """Return whether the models of the page have all that a method needs; their passes return only
    the likeliest tokens."""
    needed = methods.needed(kind, kind.Hyperparameters())
    return needed <= HAS and not kind.reads_distributions and kind.writer is Source.TARGET


def pack(site: Path) -> dict[str, Any]:
    """Write the folder `live` of a site, and return what its page must know: version, bytes.
    The version names the folder of the files, so that no page mixes two versions."""
    folder = site / "live" / "new"
    (folder / "pyodide").mkdir(parents=True)
    pyodide, tokenizers = _package("pyodide"), _package("@huggingface/tokenizers")
    for name in PYODIDE:
        content = (pyodide / name).read_bytes()
        if name.endswith(".mjs"):  # some servers send this ending as no script
            content = content.replace(b"pyodide.asm.mjs", b"pyodide.asm.js")
        (folder / "pyodide" / name.replace(".mjs", ".js")).write_bytes(content)
    shutil.copyfile(tokenizers / "dist" / "tokenizers.min.mjs", folder / "tokenizers.min.js")
    for name in ("worker.js", "pass.js"):
        shutil.copyfile(HERE / name, folder / name)
    _wheels(folder)
    _core(folder / "core.whl")
    from ouroboros_core.loading import browser  # loads torch

    browser.write(folder)
    return _listed(folder)


def _listed(folder: Path) -> dict[str, Any]:
    """Write the list of files that the worker reads, and the licences; name the folder."""
    words = _words(folder)

    def packed(path: str, **fields: str) -> dict[str, Any]:
        return {"path": path, "bytes": (folder / path).stat().st_size, **fields}

    archives = sorted(path.name for path in folder.glob("*.whl"))
    libraries = [*folder.glob("*.js"), *folder.glob("pyodide/*")]
    files = {
        "rest": sum(path.stat().st_size for path in libraries),
        "archives": [packed(name) for name in archives],
        "models": {
            "target": packed("target.bin", name="SmolLM2-135M-Instruct"),
            "draft": packed("draft.bin", name="smollm2-draft"),
            "eagle3": packed("eagle3.bin", name="smollm2-eagle3"),
        },
        "passes": {build: packed(f"pass-{build}.wasm") for build in ("simd", "relaxed")},
        "tokenizer": packed("tokenizer.json"),
        "facts": json.dumps(words),
    }
    (folder / "files.json").write_text(json.dumps(files), encoding="utf-8")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    version = digest.hexdigest()[:16]
    size = sum(path.stat().st_size for path in paths if "simd" not in path.name)
    folder = folder.rename(folder.with_name(version))
    shutil.copyfile(ROOT / "LICENSE", folder.with_name("LICENSE"))
    lines = [f"| {name} | {licence} | {where} |" for name, licence, where in LICENCES]
    table = ["| packed | licence | source |", "|---|---|---|", *lines]
    folder.with_name("LICENCES.md").write_text("\n".join(table) + "\n", encoding="utf-8")
    return {"version": version, "bytes": size}


def service_worker(packed: dict[str, Any]) -> str:
    """Return the script that keeps the files of one version of the site."""
    script = (HERE / "service_worker.js").read_text("utf-8")
    return script.replace("VERSION", str(packed["version"]))


def _package(name: str) -> Path:
    """Return the folder of a package of package.json; raise InvalidInput if it is missing."""
    folder = ROOT / "node_modules" / name
    if not folder.is_dir():
        raise InvalidInput(f"the package {name} is missing in {ROOT / 'node_modules'}: run npm ci")
    return folder


def _wheels(folder: Path) -> None:
    """Fetch pydantic for Pyodide from the package index, with the hashes of wheels.txt."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", *PLATFORM]
    command += ["--dest", str(folder), "--requirement", str(HERE / "wheels.txt")]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, encoding="utf-8")
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:]
        raise InvalidInput(f"pydantic for a browser cannot be fetched: {' '.join(last)}")


def _core(file: Path) -> None:
    """Write the code that a run needs into an archive."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for pattern in ("ouroboros_core/**/*.py", "visualize/**/*.py", "assets/machines.json"):
            for path in sorted(ROOT.glob(pattern)):
                name = path.relative_to(ROOT).as_posix()
                if not name.startswith(LEFT_OUT):
                    entry = zipfile.ZipInfo(name, DATE)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(entry, path.read_bytes())


def _words(folder: Path) -> dict[str, Any]:
    """Write tokenizer.json; return control tokens, chat template and stop tokens."""
    from ouroboros_core.loading import embedded  # these load torch
    from ouroboros_core.loading.chat_template import ChatTemplate
    from ouroboros_core.loading.weights import load_tokenizer

    tokenizer: Any = load_tokenizer(str(embedded.target_folder()))
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    template = ChatTemplate(tokenizer)
    before, after = template.around
    plain = {"add_special_tokens": False}
    return {
        "special": sorted(tokenizer.all_special_tokens),
        "before": tokenizer(before, **plain).input_ids,
        "after": tokenizer(after, **plain).input_ids,
        "stops": sorted({int(tokenizer.eos_token_id), *template.ends}),
    }
