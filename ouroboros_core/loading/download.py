"""Download models from the Hub: what is missing on this disk, its size, and its progress."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from tqdm import tqdm  # type: ignore[import-untyped]

from ouroboros_core.errors import WeightsUnavailable

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
"""One of them is in every repository of a model."""
FILES = ("*.json", "*.jinja", "*.txt", "tokenizer.model", "model*.safetensors")
"""Files that are downloaded from the top folder of a repository."""
TIMEOUT = 3
"""Seconds that the Hub may take to say the size of a model."""
INTERVAL = 0.5
"""Seconds between two reports of progress."""


def missing(*names: str | None) -> list[str]:
    """Return which of these models must be downloaded from the Hub: None and 'none' are none, and a
    local path is not looked for there."""
    return [name for name in dict.fromkeys(names) if name not in (None, "none") and _absent(name)]


def _absent(name: str) -> bool:
    if name.startswith((".", "/", "~")) or os.path.exists(name):
        return False
    repository, _, file = name.partition(":")
    needed = [[file]] if file else [[CONFIG], WEIGHTS]
    try:
        return not all(any(_is_cached(repository, name) for name in names) for names in needed)
    except HFValidationError:  # `size` says so
        return True


def size(names: Sequence[str], known: int | None = None) -> int:
    """Return the bytes to download for these models, as the Hub says, or `known` where the Hub
    cannot be reached.

    Raises WeightsUnavailable, with the remedy, if nobody knows, if a model is not there, or if the
    disk has too little room.
    """
    needed = 0
    for name in names:
        try:
            needed += sum(_files(name).values())
        except Exception as error:  # of the network, in any way
            certain = isinstance(error, RepositoryNotFoundError | OfflineModeIsEnabled)
            if certain or not known:
                raise WeightsUnavailable(_explained(error, name)) from None
            needed = known
            break
    folder = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if needed > free:
        raise WeightsUnavailable(
            f"These models need {in_words(needed)} in {folder}, {in_words(free)} are free: free "
            "some, or choose another folder with HF_HOME and start the page again"
        )
    return needed


def download(names: Sequence[str]) -> Iterator[int]:
    """Download these models in a process of its own, and yield the bytes that have arrived; twice a
    second at least. A generator that is closed ends the download.

    Raises WeightsUnavailable, with the remedy.
    """
    context = multiprocessing.get_context("spawn")
    received, sent = context.Pipe(duplex=False)
    process = context.Process(target=_download, args=(names, sent), daemon=True)
    process.start()
    sent.close()
    arrived = 0
    try:
        with suppress(EOFError):  # it has ended
            while True:
                yield arrived
                if received.poll(INTERVAL):
                    message = received.recv()
                    if isinstance(message, str):
                        raise WeightsUnavailable(message)
                    arrived += message
    finally:
        process.terminate()
        process.join(5)
        process.kill()
        received.close()
    if absent := missing(*names):
        raise WeightsUnavailable(
            f"{absent[0]} has not arrived whole, or has no safetensors: try again, or choose a "
            "model with model.safetensors"
        )


def _download(names: Sequence[str], pipe: Connection) -> None:
    # As with Ctrl-C, huggingface_hub removes the files that are not complete.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    name = fault = ""
    try:
        for name in names:
            # The configuration comes last: a model without it is missing.
            for file in sorted(_files(name), key=lambda file: file == CONFIG):
                bar = type("Bar", (_Bar,), {"pipe": pipe})
                hf_hub_download(name.partition(":")[0], file, tqdm_class=bar)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        fault = _explained(error, name)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the process ends by itself now
    if fault:
        with suppress(OSError):  # nobody listens any more
            pipe.send(fault)


class _Bar(tqdm):  # type: ignore[misc]
    """A progress bar of huggingface_hub that sends the bytes of each update."""

    pipe: Connection

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "disable": True})

    def update(self, n: float | None = 1) -> None:
        self.pipe.send(int(n or 0))

    def update_transfer(self, n: float | None = 1) -> None:
        """Ignore bytes of the network, which may be packed."""

    def set_transfer_postfix_str(self, *_: Any, **__: Any) -> None:
        """Ignore the rate of the network."""


def _files(name: str) -> dict[str, int]:
    """Return the bytes of each file of a model that is not on this disk, by its name."""
    repository, _, file = name.partition(":")
    facts = HfApi().model_info(repository, timeout=TIMEOUT, files_metadata=True)
    return {
        sibling.rfilename: sibling.size or 0
        for sibling in facts.siblings or ()
        if (sibling.rfilename == file if file else _is_read(sibling.rfilename))
        and not _is_cached(repository, sibling.rfilename)
    }


def _is_read(file: str) -> bool:
    return "/" not in file and any(fnmatch(file, kind) for kind in FILES)


def _is_cached(repository: str, file: str) -> bool:
    return isinstance(try_to_load_from_cache(repository, file), str)


def in_words(size: int) -> str:
    """Return bytes in GB, or in MB below a tenth of it."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def _explained(error: Exception, name: str) -> str:
    """Return what failed at a model, and the remedy."""
    page = f"{constants.ENDPOINT}/{name.partition(':')[0]}"
    match error:
        case HFValidationError():
            return f"{name} is no folder, no GGUF file and no name of the Hub, such as owner/model"
        case OfflineModeIsEnabled():
            return (
                f"{name} is not on this disk, and nothing is downloaded offline: start the page "
                "without --offline and HF_HUB_OFFLINE, or choose a model that is there"
            )
        case GatedRepoError():
            return (
                f"{name} is only for those who accept its terms: accept them on {page}, log in "
                "where the page runs with `hf auth login` or the variable HF_TOKEN, and try again"
            )
        case RepositoryNotFoundError():
            return (
                f"There is no model {name} on the Hub, or it is private: check the name, or log in "
                "where the page runs with `hf auth login` or the variable HF_TOKEN"
            )
        case OSError(errno=int(), strerror=reason):
            return (
                f"{name} cannot be written to {constants.HF_HUB_CACHE} ({reason}): make room there "
                "and make it writable, or choose another folder with HF_HOME and start the page "
                "again"
            )
    reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
    return (
        f"The model hub does not send {name} ({reason}): check the network of the machine that "
        "serves the page, and try again"
    )
