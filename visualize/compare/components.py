"""The component that plans and shows a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.settings import AUTO, Setting, Value
from visualize.compare.view import recorded_view
from visualize.kit import labels
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.kit.plot_view import PLOTLY
from visualize.run.view import legend
from visualize.watch.examples import EXAMPLES
from visualize.what_if.view import clock_names

COMPARE_VIEW = markup("compare/compare_view", "measure", "stop_measuring", "open_run", "save_table")
LADDER = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Whole numbers that a visitor can compare, as far as they are within a setting's bounds."""
FIRST = (1, 2, 4, 6, 8)
"""The numbers that are chosen at first."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The same of a setting that is no whole number, as shares of the way between its bounds."""


class CompareView(JsonHTML):
    """Rows of a comparison on one axis of time, their trade-off, and the texts of two of them.

    Triggers `measure` with {prompts, method, axes, others, tokens}, `stop_measuring`, `open_run`
    with {lane, prompt}, and `save_table`.

    Value: a `visualize.compare.view.begun`; then {seq, rows, figure, theory} with the rows that
    changed; {seq, status, left, running, done} at every update; {seq, fault, done}; or
    {seq, file}."""

    def __init__(
        self, value: dict[str, Any] | None = None, *, most_tokens: int, **options: Any
    ) -> None:
        super().__init__(
            recorded_view() if value is None else value,
            COMPARE_VIEW,
            plotly=PLOTLY,
            padding=False,
            **facts(most_tokens),
            **options,
        )


def facts(most_tokens: int, kinds: Iterable[type[Method]] | None = None) -> dict[str, Any]:
    """Return the facts of the view: looks, clocks, and the choices of a plan among some methods, or
    all of the page."""
    if kinds is None:
        kinds = labels.offered()
    return {
        "looks": legend(),
        "clocks": clock_names(),
        "methods": [_declared(kind) for kind in kinds if kind.proposes],
        "examples": [{"label": chip.label, "prompt": chip.prompt} for chip in EXAMPLES],
        "most": most_tokens,
    }


def _declared(kind: type[Method]) -> dict[str, Any]:
    """Return a method with the settings that can vary, and their values."""
    varied = {name: values(kind, name) for name in kind.Hyperparameters.settings()}
    return {
        "id": kind.id,
        "name": kind.name,
        "settings": [
            {
                "name": name,
                "label": labels.setting(name),
                "values": [str(value).lower() for value in choices],
                "first": [str(value).lower() for value in choices if _is_first(value)],
            }
            for name, choices in varied.items()
            if len(choices) > 1
        ],
    }


def _is_first(value: Value) -> bool:
    """Return whether a value is chosen at first: words are, unlike most numbers, all shown."""
    return isinstance(value, str | bool) or value in FIRST


def values(kind: type[Method], name: str) -> list[Value]:
    """Return the values of a setting that can be compared while others have their defaults."""

    def valid(value: Value) -> bool:
        try:
            kind.Hyperparameters.parse({name: value})
        except InvalidInput:
            return False
        return True

    return [
        value for value in _declared_values(kind.Hyperparameters.settings()[name]) if valid(value)
    ]


def _declared_values(setting: Setting) -> list[Value]:
    """Return values within the bounds of a setting, with its default."""
    if setting.kind is bool:
        return [False, True]
    if setting.choices:
        return list(setting.choices)
    low, high = setting.low, setting.high
    if setting.kind is str or low is None:
        return []
    declared = {value for value in (setting.default, setting.fixed) if value not in (None, AUTO)}
    if setting.kind is int:
        within: set[float] = {n for n in LADDER if n >= low and (high is None or n <= high)}
    else:
        within = {round(low + share * ((high or 1) - low), 3) for share in SHARES}
        within -= {low} if setting.low_is_open else set()
    automatic = [AUTO] if setting.fixed is not None else []
    return [*sorted(within | declared), *automatic]
