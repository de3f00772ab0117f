"""The layers that `train skip` has found for a target, one file of JSON for each in the cache
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
    """What a search has found.

    speed, plain  tokens per second with these layers skipped in the draft, and by plain decoding
    tried         choices that were measured
    seconds       that the search took
    """

    skips: Skips
    speed: float
    plain: float
    tried: int
    seconds: float


def skips_file(target: CausalLM) -> Path:
    """Where the layers of a target are kept, by its name and shape. What another target of the same
    name finds there is no worse than a guess, and no text depends on it."""
    config = target.model.config.get_text_config(decoder=True)
    facts = (target.name, config.model_type, config.num_hidden_layers, config.hidden_size)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    return cache_folder() / "skips" / f"{key}.json"


def keep(target: CausalLM, found: Search) -> Path:
    """Write what a search has found where `self_draft` looks for it; the file."""
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


def kept(target: CausalLM) -> Skips | None:
    """The layers that a search has found for a target; None where there was none, or its file is
    damaged."""
    file = skips_file(target)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        found = Skips(frozenset(data["attention"]), frozenset(data["mlp"]))
        if not all(n in range(target.layers) for n in found.attention | found.mlp):
            raise ValueError(f"there are {target.layers} layers")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s is not used, and can be removed: %s", file, error)
        return None
    return found


def self_draft(target: CausalLM) -> SelfDraft | None:
    """The target with layers skipped; None where they cannot be."""
    try:
        return SelfDraft(target, kept(target) or generic(target.layers))
    except UnsupportedModel as error:
        log.info("%s", error)
        return None
