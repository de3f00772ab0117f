"""What is trained for a target and read from a folder: the EAGLE head, and heads of other kinds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import HeldDrafter
from ouroboros_core.loading import embedded
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.eagle import signature
from ouroboros_core.models.heads.glide import GlideDraft, GlideDrafter
from ouroboros_core.models.heads.medusa import MedusaDrafter, MedusaHeads
from ouroboros_core.models.heads.parallel import ParallelDrafter, ParallelHead
from ouroboros_core.models.heads.trained import ABOUT

EAGLE = "eagle"
KINDS: dict[str, tuple[Any, Any]] = {
    "medusa": (MedusaHeads, MedusaDrafter),
    "glide": (GlideDraft, GlideDrafter),
    "parallel": (ParallelHead, ParallelDrafter),
}
"""Of each kind beside the EAGLE head, the weights and what drafts with them."""

NONE = "none"


def kind_of(folder: Path) -> str:
    """The kind that a folder says it holds; an EAGLE head where it says none."""
    try:
        kind = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return EAGLE
    return kind if kind in KINDS else EAGLE


def chosen_folders(named: str | Sequence[str] | None, shipped: bool) -> dict[str, str]:
    """The folder of each kind: those named, and those that are shipped for the embedded target
    where none of their kind is named. 'none' leaves the shipped ones out.

    Raises InvalidInput where two are of one kind.
    """
    names = [named] if isinstance(named, str) else list(named or ())
    folders: dict[str, str] = {}
    for name in names:
        if name == NONE:
            continue
        kind = kind_of(Path(name).expanduser())
        if kind in folders:
            raise InvalidInput(
                f"{folders[kind]} and {name} are both of the kind {kind}: name one of them"
            )
        folders[kind] = name
    if shipped and NONE not in names:
        for kind in (EAGLE, *KINDS):
            folder = embedded.head_folder(kind)
            if folder.exists():
                folders.setdefault(kind, str(folder))
    return folders


def load_others(folders: dict[str, str], target: CausalLM) -> dict[str, HeldDrafter]:
    """The heads of other kinds, by kind; errors are those of `TrainedHead.load`."""
    found: dict[str, HeldDrafter] = {}
    own = signature(target.model) if folders.keys() & KINDS.keys() else ()
    for kind, (weights, drafter) in KINDS.items():
        if kind in folders:
            path = Path(folders[kind]).expanduser()
            found[kind] = drafter(weights.load(path, target.model, own), target, path.name)
    return found
