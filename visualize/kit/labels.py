"""Methods and their settings in the words of a reader, not by the names they have in code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ouroboros_core import methods, rules
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO

SETTINGS = {
    "gamma": "draft length",
    "k_config": "guesses per position",
    "max_ngram": "longest n-gram",
    "min_ngram": "shortest n-gram",
    "max_suffix": "longest suffix",
    "min_suffix": "shortest suffix",
    "n_predicts": "tokens copied",
    "num_tokens": "tokens copied",
    "stop": "stopping rule",
    "top_k_suffixes": "candidate suffixes",
}
"""Names of settings in sentences, where the name in code says too little."""

PUBLISHED = "as published"
"""The words for the settings of a method's paper."""


def setting(name: str) -> str:
    return SETTINGS.get(name, name.replace("_", " ").replace("ngram", "n-gram"))


def named(name: str) -> str:
    """Return a setting with its name in code: `draft length (gamma)`."""
    words = setting(name)
    return f"{words} ({name})" if name in SETTINGS else words


def label(name: str) -> str:
    """Return the label of a setting: `Draft length (gamma)`."""
    words = named(name)
    return words[:1].upper() + words[1:]


def offered() -> list[type[Method]]:
    """Return the methods of the page: all but those that need an object of a program."""
    return [kind for kind in methods.available().values() if Need.CANDIDATES not in kind.needs]


def method(name: str) -> str:
    """Return the name of a method by its id, or the id of an unknown method."""
    kind = methods.available().get(name)
    return name if kind is None else kind.name


def acceptance_rules() -> dict[str, str]:
    """Return the label of each acceptance rule by id, for Proof: first the rules that compare p
    with q, since their proof is the least obvious."""
    ordered = sorted(rules.available().values(), key=lambda rule: not rule.needs_probabilities)
    return {rule.id: rule.name + ("" if rule.lossless else " (not lossless)") for rule in ordered}


def run(name: str, settings: Mapping[str, Any]) -> str:
    """Return a method with the settings that are not its defaults: `Speculative decoding, draft
    length 4`."""
    return ", ".join(filter(None, (method(name), changes(name, settings))))


def changes(name: str, settings: Mapping[str, Any]) -> str:
    """Return the settings of a method that are not its defaults: `draft length 4, without
    copying`; empty if there are none."""
    kind = methods.available().get(name)
    published = kind is not None and kind.published and dict(kind.published) == dict(settings)
    defaults = kind.Hyperparameters().model_dump() if kind else {}
    changed = {key: value for key, value in settings.items() if value != defaults.get(key, AUTO)}
    extended = changed.pop(methods.EXTENDED, False) is True
    first = [PUBLISHED] * bool(published) + [methods.EXTENDED] * extended
    return ", ".join([*first, *(_in_words(*item) for item in changed.items())])


def _in_words(name: str, value: Any) -> str:
    """Return a setting with its value: `draft length 4`, `without copying`."""
    if isinstance(value, bool):
        return f"{'with' if value else 'without'} {setting(name)}"
    words = method(value).replace("_", " ") if isinstance(value, str) else str(value)
    return f"{setting(name)} {words}"
