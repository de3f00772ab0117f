"""All settings of a run as one component: the method with its own settings, and those of every run.
As separate components they were half of the page's components, and Gradio's script visits all
components again and again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Setting
from visualize.kit import labels
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.run.permalink import FEWEST, MOST
from visualize.run.view import NEW_TOKENS

NOTHING_YET = "Nothing has run yet."
"""Where a run would be."""
CHAT_TEMPLATE = (
    "Put the model's chat template around the prompt; without it the model goes on with the text "
    "as it stands."
)
"""The action of the box beside a prompt."""
TEXT = 40
"""Characters of a setting that is a text."""
RUN = (
    {
        "name": "max_new_tokens",
        "label": "Maximum new tokens",
        "help": "How far to go on.",
        "value": NEW_TOKENS,
        "low": FEWEST,
        "high": MOST,
        "step": 8,
        "group": "Prompt and length",
    },
    {
        "name": "chat",
        "label": "Chat template",
        "help": CHAT_TEMPLATE,
        "value": True,
        "group": "Prompt and length",
    },
    {
        "name": "generation_config",
        "label": "Checkpoint's settings",
        "help": "Apply the penalties, bans and lengths of the model's generation_config.json.",
        "value": True,
        "group": "Prompt and length",
    },
    {
        "name": "record",
        "label": "Record probabilities",
        "help": "Keep what both models thought at each position; not timed.",
        "value": True,
        "group": "Recording",
        "silent": True,
    },
    {
        "name": "warm",
        "label": "Warm start",
        "help": "Begin with what the method kept of your own earlier runs.",
        "value": False,
        "group": "Recording",
        "silent": True,
        "memory": True,
    },
)
"""The settings that every run has, besides those of sampling. A silent one says nothing of the
text; one of memory belongs to the methods that have a memory."""


class RunSettings(JsonHTML):
    """The method and all settings of a run.

    Value: {method, of, run}: the chosen method; by method {values, predicted}; and the values of
    every run. A setting that is left out has its default. With `merge`, the named method, settings
    and values are replaced, and the others stay.
    """

    VIEW = markup("watch/settings_view")

    def __init__(
        self, kinds: Sequence[type[Method]], method: str, most_tokens: int, **options: Any
    ) -> None:
        """
        method       the id of the one that is chosen first
        most_tokens  of an answer
        """
        value = {"method": method, "of": {}, "run": {}}
        declared = [declaration(kind) for kind in kinds]
        run = run_settings(most_tokens)
        super().__init__(value, methods=declared, run=run, padding=False, **options)


def run_settings(most_tokens: int) -> list[dict[str, Any]]:
    """Return the view's data of the settings that every run has. What is `sampled` does nothing at
    temperature 0; a seed does: a lookahead window begins with random tokens."""
    sampling = [
        {**_declared(setting), "group": "Sampling", "sampled": name not in ("temperature", "seed")}
        for name, setting in Sampling.settings().items()
    ]
    first, *others = RUN
    length = first | {"high": min(MOST, most_tokens)}
    by_group: dict[str, list[dict[str, Any]]] = {}
    for setting in (length, *others[:2], *sampling, *others[2:]):
        by_group.setdefault(setting["group"], []).append(setting)
    return [setting for group in by_group.values() for setting in group]


def declaration(kind: type[Method]) -> dict[str, Any]:
    """Return a method for the view; a preset has the values that differ from defaults."""
    settings = kind.Hyperparameters.settings()
    fixed = kind.Hyperparameters.fixed()
    presets: list[dict[str, Any]] = [
        {"id": "auto", "label": "Automatic" if fixed else "Defaults", "values": {}}
    ]
    if fixed:
        presets.append({"id": "fixed", "label": "Fixed amounts", "values": fixed})
    if kind.published:
        published = {
            name: value for name, value in kind.published.items() if value != settings[name].default
        }
        presets.append({"id": "published", "label": "As published", "values": published})
    return {
        "id": kind.id,
        "name": kind.name,
        "summary": kind.summary,
        "presets": presets if settings else [],
        "predicted": Need.PREDICTED_OUTPUT in kind.uses,
        "memory": Need.MEMORY in kind.uses,
        "settings": [_declared(setting) for setting in settings.values()],
    }


def _declared(setting: Setting) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "name": setting.name,
        "label": labels.label(setting.name),
        "help": setting.help,
        "value": setting.default,
    }
    if setting.choices:
        return declared | {"choices": list(setting.choices)}
    if setting.kind in (bool, str):
        return declared | ({"most": TEXT} if setting.kind is str else {})
    step = 1 if setting.kind is int else 0.05
    low = step if setting.low_is_open else setting.low
    range_ = {"low": low, "high": setting.high, "step": step}
    return declared | range_ | ({"auto": True} if setting.fixed is not None else {})


@dataclass(frozen=True)
class RunChoice:
    """A visitor's unchecked choice: method, its settings, prediction, values of every run."""

    method: str
    settings: dict[str, Any]
    predicted: str
    run: dict[str, Any]

    @property
    def sampling(self) -> dict[str, Any]:
        return {name: self.run[name] for name in Sampling.settings()}


def run_choice(value: Any) -> RunChoice:
    """Return the choice in the component's value; raises InvalidInput for another value."""
    try:
        sent = json.loads(value) if isinstance(value, str) else value
        method, run = sent["method"], sent.get("run", {})
        own = sent["of"].get(method, {})
        values, predicted = own.get("values", {}), own.get("predicted", "")
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        method, values, predicted, run = None, None, "", {}
    well_formed = isinstance(values, dict) and isinstance(run, dict) and isinstance(method, str)
    if not well_formed or not isinstance(predicted, str):
        raise InvalidInput("the page sent no settings: reload it")
    defaults = {setting["name"]: setting["value"] for setting in run_settings(MOST)}
    settings = methods.get(method).Hyperparameters().model_dump() | values
    return RunChoice(
        method, settings, predicted, {name: run.get(name, defaults[name]) for name in defaults}
    )


def merged(
    kind: type[Method], settings: Mapping[str, Any], run: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a value that replaces method, settings and named run values, and no others."""
    of = {kind.id: {"values": dict(settings)}}
    return {"merge": True, "method": kind.id, "of": of, "run": dict(run)}
