"""The layers that `train skip` has found for a target, in one JSON file per target in the cache
folder."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.locations import cache_folder, write_atomically
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.self_draft import SelfDraft
from ouroboros_core.models.skips import Skips, generic

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Search:
    """The result of a search.

    skips    the layers to skip
    speed    tokens per second with the layers skipped in the draft
    plain    tokens per second of plain decoding
    tried    number of measured choices
    seconds  duration of the search
    """

    skips: Skips
    speed: float
    plain: float
    tried: int
    seconds: float


def skips_file(target: CausalLM) -> Path:
    """Return the file for a target's name and shape.

    Another target of the same name may share the file: the layers are a guess for it, and no text
    depends on them.
    """
    config = target.model.config.get_text_config(decoder=True)
    facts = (target.name, config.model_type, config.num_hidden_layers, config.hidden_size)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    return cache_folder() / "skips" / f"{key}.json"


def keep(target: CausalLM, found: Search) -> Path:
    """Write the result of a search where `self_draft` looks for it; the file."""
    file = skips_file(target)
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "target": target.name,
        "attention": sorted(found.skips.attention),
        "mlp": sorted(found.skips.mlp),
        "tokens_per_second": round(found.speed, 2),
        "plain_tokens_per_second": round(found.plain, 2),
        "tried": found.tried,
        "seconds": round(found.seconds, 1),
    }
    write_atomically(file, json.dumps(data, indent=1) + "\n")
    return file


def saved(target: CausalLM) -> Skips | None:
    """Return the layers that a search has found for a target, or None if there was no search or its
    file is damaged."""
    file = skips_file(target)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        skips = Skips(frozenset(data["attention"]), frozenset(data["mlp"]))
        if not all(n in range(target.layers) for n in skips.attention | skips.mlp):
            raise ValueError(f"there are {target.layers} layers")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s is not used, and can be removed: %s", file, error)
        return None
    return skips


def self_draft(target: CausalLM) -> SelfDraft | None:
    """Return the target with layers skipped, or None if its layers cannot be skipped."""
    try:
        return SelfDraft(target, saved(target) or generic(target.layers))
    except UnsupportedModel as error:
        log.info("%s", error)
        return None
