"""Write the folder to push as a Hugging Face Space with the Gradio SDK.

python -m visualize.deploy.space FOLDER [--hardware cpu|zero] [--validate]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import SpaceCard, SpaceCardData
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.allowed import PairChoice, read_pairs
from ouroboros_core.locations import assets
from ouroboros_core.progress import accept_any_text
from visualize.deploy.static_site import make_way

PARTS = ("app.py", "LICENSE", "ouroboros_core", "visualize", "assets")
"""What is copied as it is; of assets/screenshots only the pictures that the Space's README
shows."""
MARK = "pairs.json"
"""The pairs on offer, which app.py reads; a folder that has it was written by this module."""
FRONT: dict[str, Any] = {
    "title": "Ouroboros",
    "emoji": "🐍",
    "colorFrom": "blue",
    "colorTo": "green",
    "sdk": "gradio",
    "sdk_version": version("gradio"),
    "python_version": "3.12",
    "app_file": "app.py",
    "short_description": "See speculative decoding, token by token",
    "license": "apache-2.0",
    "models": ["HuggingFaceTB/SmolLM2-135M-Instruct"],
    "tags": [
        "speculative-decoding",
        "lookahead-decoding",
        "text-generation",
        "visualization",
    ],
}
"""The front matter of every Space; hardware and pairs add to it."""
TORCH = "torch>=2.8,<2.12"
"""Versions that ZeroGPU supports."""
PACKAGES = "g++\n"
"""Debian packages of the Space: what compiles the native pass."""
LARGEST = 10_000_000
"""Bytes of a file; beyond it the git repository of a Space takes it through LFS alone."""
SPACES: dict[str, dict[str, str]] = {
    "cpu": {"suggested_hardware": "cpu-basic"},
    "zero": {"suggested_hardware": "zero-a10g", "startup_duration_timeout": "1h"},
}
"""Hardware -> fields of the front matter. They suggest; the hardware is chosen in the settings of
the Space."""
FILES = "config.json,generation_config.json,model.safetensors,tokenizer.json,tokenizer_config.json"
PRELOADED = {f"HuggingFaceTB/SmolLM2-{size}-Instruct": FILES for size in ("135M", "360M")}
"""Hub id -> the files to preload, where the repository holds the same weights in other formats,
too; else all are."""
SECTION = """## This Space

It offers these pairs of a target and a draft model; visitors choose among them and cannot name others.

| pair | target | draft |
|---|---|---|
{rows}

The folder was written by `python -m visualize.deploy.space FOLDER --hardware {hardware}`. To run the same on your own machine:
`pip install --requirement requirements.txt`, then `python app.py`, and the page is on http://127.0.0.1:7860.

"""
REPOSITORY = "[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*"


def check_front_matter(text: str, requirements: str) -> None:
    """Raise InvalidInput unless the sdk_version of a README is a gradio that its requirements
    allow."""
    allowed, gradio = _gradio_range(requirements), read_front_matter(text).get("sdk_version")
    if gradio is None or gradio not in allowed:
        raise InvalidInput(
            f"front matter: sdk_version must be in gradio{allowed} of requirements.txt, got "
            f"{gradio}"
        )


def read_front_matter(text: str) -> dict[str, Any]:
    """Return the fields of a README's front matter."""
    return dict(SpaceCard(text).data.to_dict())  # type: ignore[no-untyped-call]


def _block(text: str) -> re.Match[str]:
    block = re.match(r"---\n(.*?\n)---(\n|$)", text, re.DOTALL)
    if not block:
        raise InvalidInput(
            "front matter: a README must begin with lines between two lines `---`, got "
            f"{text[:40]!r}"
        )
    return block


def validate(folder: Path) -> None:
    """Ask the Hub whether it accepts the front matter; raise InvalidInput if it does not."""
    try:
        SpaceCard.load(folder / "README.md").validate()
    except ValueError as error:
        raise InvalidInput(f"the Hub refuses the front matter: {error}") from None


def _gradio_range(requirements: str) -> SpecifierSet:
    line = re.search(r"^gradio(?![\w.-])[^#\n]*", requirements, re.MULTILINE)
    if not line:
        raise InvalidInput(
            "requirements.txt names no gradio: add it, with the range that the page was tested with"
        )
    return Requirement(line[0]).specifier


def write_space(folder: Path, hardware: str = "cpu", source: Path | None = None) -> list[Path]:
    """Write the folder to push; the files written.

    hardware  cpu, or zero for ZeroGPU: decides which pairs are offered and preloaded
    source    the checkout to copy from; None is the one that this module lies in

    An earlier Space there is replaced. Raises InvalidInput for a folder that holds anything else,
    for front matter that Spaces would refuse, for a link of the README to what is not in the
    folder, and for a file of more than 10 MB.
    """
    root = (source or assets().parent).resolve()
    target = folder.resolve()
    if hardware not in SPACES:
        raise InvalidInput(f"hardware must be one of {', '.join(SPACES)}, got {hardware!r}")
    if not (root / "app.py").is_file():
        raise InvalidInput(f"{root} has no app.py: a Space is written from a checkout")
    if (
        target == root
        or target in root.parents
        or any(target.is_relative_to(root / part) for part in PARTS)
    ):
        raise InvalidInput(f"{folder} holds what is copied: name another folder, as in build/space")
    pairs = root / "assets" / "pairs" / f"{hardware}.json"
    requirements = _requirements((root / "requirements.txt").read_text(encoding="utf-8"))
    original = (root / "README.md").read_text(encoding="utf-8")
    readme = _readme(original, hardware, read_pairs(pairs))
    check_front_matter(readme, requirements)
    files = _files(root, links(readme))
    made = {
        "README.md": readme,
        "requirements.txt": requirements,
        "packages.txt": PACKAGES,
        ".gitattributes": _attributes(root, files),
    }
    made[MARK] = pairs.read_text(encoding="utf-8")
    make_way(folder, MARK)
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    return sorted(folder / name for name in (*files, *made))


def _requirements(text: str) -> str:
    changed, count = re.subn(r"^torch(?![\w.-]).*$", TORCH, text, flags=re.MULTILINE)
    if count != 1:
        raise InvalidInput(
            f"requirements.txt has {count} lines for torch: it must have one, which becomes {TORCH}"
        )
    return changed


def _readme(text: str, hardware: str, pairs: Sequence[PairChoice]) -> str:
    """The repository's introduction, what this Space offers, and the citations, under the front
    matter of the Space. The front matter of a README that was written for a Space is replaced."""
    preloaded = [
        _preload(name)
        for pair in pairs
        for name in (pair.target, pair.draft)
        if name not in (None, "none")
    ]
    models = [*FRONT["models"], *(entry.split()[0] for entry in preloaded)]
    front = {
        **FRONT,
        "models": list(dict.fromkeys(models)),
        **SPACES[hardware],
        "preload_from_hub": list(dict.fromkeys(preloaded)),
    }
    body = text[_block(text).end() :] if text.startswith("---\n") else text
    introduction, *sections = re.split(r"^(?=## )", body.strip(), flags=re.MULTILINE)
    introduction = re.sub(r"\[([^]]+)\]\(docs/[^)]+\)", r"\1", introduction)  # none in a Space
    citation = next((section for section in sections if section.startswith("## Citation\n")), "")
    shown = [
        (p.name, p.target or "embedded", p.draft or ("none" if p.target else "embedded"))
        for p in pairs
    ]
    section = SECTION.format(
        rows="\n".join(f"| {' | '.join(row)} |" for row in shown), hardware=hardware
    )
    block = SpaceCardData(**front).to_yaml()
    return f"---\n{block}\n---\n\n{introduction.strip()}\n\n{section}{citation.strip()}\n"


def _preload(name: str | None) -> str:
    """The entry of preload_from_hub for a Hub id or `repository:file.gguf`."""
    repository, _, file = str(name).partition(":")
    if not re.fullmatch(REPOSITORY, repository):
        raise InvalidInput(
            f"a Space offers the embedded pair and models of the Hub, named owner/model, got {name}"
        )
    return f"{repository} {file or PRELOADED.get(repository, '')}".strip()


def links(markdown: str) -> list[str]:
    """Return the relative paths that a README links to or shows."""
    return [
        link.split("#")[0]
        for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"\s]+)", markdown)
        if not re.match(r"\w+:|#", link)
    ]


def _files(root: Path, linked: Sequence[str]) -> list[str]:
    """The names of the files to copy, checked: those that git tracks, or all but by-products where
    there is no git."""
    shots = Path("assets", "screenshots")
    files = {name for name in _candidates(root) if not Path(name).is_relative_to(shots)}
    files |= {
        link for link in linked if Path(link).is_relative_to(shots) and (root / link).is_file()
    }
    for link in linked:
        if not any(name == link or name.startswith(link.rstrip("/") + "/") for name in files):
            raise InvalidInput(
                f"the README links to {link}, which is not in the folder: mend the link, or add "
                "the file"
            )
    for name in sorted(files):
        size = (root / name).stat().st_size
        if size > LARGEST:
            raise InvalidInput(
                f"{name} has {size / 1e6:.1f} MB, a Space takes up to {LARGEST / 1e6:.0f} without "
                "LFS: split it"
            )
    return sorted(files)


def _candidates(root: Path) -> list[str]:
    """Names of files, without caches, hidden files, and the stubs that Gradio writes beside
    components."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--", *PARTS]
    try:
        found = subprocess.run(git, capture_output=True, encoding="utf-8", check=True).stdout.split(
            "\0"
        )[:-1]
    except (OSError, subprocess.CalledProcessError):
        found = []
    if not found:
        found = [
            path.relative_to(root).as_posix()
            for part in PARTS
            for path in (root / part, *(root / part).rglob("*"))
        ]
    by_product = re.compile(r"(^|/)(\.|__pycache__/)|\.py[ci]$")
    return [name for name in found if (root / name).is_file() and not by_product.search(name)]


def _attributes(root: Path, files: Sequence[str]) -> str:
    """The Hub refuses a push of binary files that are not in LFS or Xet, whatever their size."""
    kinds = {Path(name).suffix for name in files if b"\0" in (root / name).read_bytes()[:8000]}
    return "".join(f"*{kind} filter=lfs diff=lfs merge=lfs -text\n" for kind in sorted(kinds))


def main(argv: Sequence[str] | None = None) -> None:
    """The command; a refusal ends it with its message and status 1."""
    accept_any_text()
    parser = argparse.ArgumentParser(
        prog="python -m visualize.deploy.space",
        description="Write a folder to push.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", type=Path, help="empty, missing, or an earlier Space")
    parser.add_argument(
        "--hardware", choices=list(SPACES), default="cpu", help="default: cpu; zero is ZeroGPU"
    )
    parser.add_argument(
        "--validate", action="store_true", help="ask the Hub whether it accepts the front matter"
    )
    arguments = parser.parse_args(argv)
    try:
        written = write_space(arguments.folder, arguments.hardware)
        if arguments.validate:
            validate(arguments.folder)
    except InvalidInput as error:
        sys.exit(f"error: {error}")
    print(
        f"{len(written)} files, {sum(file.stat().st_size for file in written) / 1e6:.1f} MB, in "
        f"{arguments.folder}"
    )


if __name__ == "__main__":
    main()
