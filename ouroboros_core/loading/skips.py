"""The layers that a target skips when it drafts for itself: those of a JSON file in the cache
folder, or a generic choice."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.locations import cache_folder
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.self_draft import SelfDraft
from ouroboros_core.models.skips import Skips, generic

log = logging.getLogger(__name__)


def skips_file(target: CausalLM) -> Path:
    """Return the file for a target's name and shape.

    Another target of the same name may share the file: the layers are a guess for it, and no text
    depends on them.
    """
    config = target.model.config.get_text_config(decoder=True)
    facts = (target.name, config.model_type, config.num_hidden_layers, config.hidden_size)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    return cache_folder() / "skips" / f"{key}.json"


def saved(target: CausalLM) -> Skips | None:
    """Return the layers of a target's file, or None if it is missing or damaged."""
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
