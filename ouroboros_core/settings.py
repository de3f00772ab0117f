"""Settings, each declared once as a field of a pydantic model with bounds, default and help; every
user interface reads them from there."""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from ouroboros_core.errors import InvalidInput

Value = bool | int | float | str

Auto = Literal["auto"]
"""The value of a setting that the method chooses step by step."""

AUTO: Auto = "auto"


def upto(value: int | Auto, largest: int) -> int:
    """Return a setting's value, or for 'auto' the largest value that the method may choose."""
    return largest if value == AUTO else value


def fixed_values(**settings: Any) -> Mapping[str, Any]:
    """Return settings by name as a mapping that nobody can change."""
    return types.MappingProxyType(settings)


class Grammar(ABC):
    """Rule for a setting that is written as a text of a fixed form; a method that needs one
    declares it in its own file."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The allowed texts in words."""

    @property
    @abstractmethod
    def samples(self) -> tuple[str, ...]:
        """Some allowed texts."""

    @abstractmethod
    def check(self, text: str) -> str:
        """Return a valid text in its usual form; raise ValueError for any other."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def read_settings(text: str) -> dict[str, str]:
    """Read `gamma=6, top_k_suffixes=3` as names and values, not yet checked; raise InvalidInput for
    a text of another form."""
    values: dict[str, str] = {}
    for assignment in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in assignment.partition("="))
        if not equals:
            raise InvalidInput(f"expected setting=value, got {assignment}")
        if name in values:
            raise InvalidInput(f"{name} is set twice")
        values[name] = value
    return values


@dataclass(frozen=True)
class Setting:
    """One field, as a user interface needs it."""

    name: str
    kind: type
    default: Value
    help: str
    low: float | None
    high: float | None
    low_is_open: bool = False
    choices: tuple[str, ...] = ()
    fixed: Value | None = None
    """For a setting that may be 'auto', the value that a slider begins at; None for others."""
    grammar: Grammar | None = None

    @property
    def allowed(self) -> str:
        """Return the allowed values in words, such as 'between 1 and 16'."""
        return f"auto, or {self._range}" if self.fixed is not None else self._range

    @property
    def _range(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.grammar:
            return self.grammar.allowed
        kind = "a whole number" if self.kind is int else "a number"
        low, high = _short(self.low), _short(self.high)
        if self.low is not None and self.high is not None:
            if self.low_is_open:
                return f"above {low} and at most {high}"
            return f"between {low} and {high}"
        return f"{kind} of at least {low}" if self.low is not None else kind


def _short(bound: float | None) -> str:
    if bound is None:
        return ""
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


class Hyperparameters(BaseModel):
    """The base of every method's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return the settings by name, in the order of declaration."""
        return {name: setting_of(name, info) for name, info in cls.model_fields.items()}

    @classmethod
    def fixed(cls, **settings: Any) -> dict[str, Any]:
        """Return values for a run in which nothing adapts: `settings`, and a fixed value for every
        other setting whose default is 'auto'."""
        return {
            name: setting.fixed
            for name, setting in cls.settings().items()
            if setting.default == AUTO
        } | settings

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Return validated settings; raise InvalidInput with the problem, the value and the allowed
        values."""
        settings = by_name(values)
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            raise InvalidInput(
                "; ".join(dict.fromkeys(_explain(cls, e) for e in error.errors()))
            ) from None


def by_name(values: Any) -> dict[str, Any]:
    """Return settings by their names; raise InvalidInput for anything else."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidInput(
            f'settings must be given by name, as in {{"gamma": 4}}, got {str(values)[:80]}'
        )
    return dict(values)


def setting_of(name: str, info: FieldInfo) -> Setting:
    """Return a field as a user interface needs it; a tuple of numbers is a text."""
    low: Any = None
    high: Any = None
    is_open = False
    kind: Any = info.annotation
    rules = list(info.metadata)
    fixed = None
    if get_origin(kind) in (Union, types.UnionType) and Auto in get_args(kind):
        kind, *bounds = get_args(get_args(kind)[0])
        rules += bounds
        fixed = info.examples[0] if info.examples else None
        assert fixed is not None, (
            f"{name}: a setting that may be auto names a fixed value in `examples`"
        )
    for rule in rules:
        if isinstance(rule, annotated_types.Ge):
            low = rule.ge
        elif isinstance(rule, annotated_types.Gt):
            low, is_open = rule.gt, True
        elif isinstance(rule, annotated_types.Le):
            high = rule.le
    grammar = next((rule for rule in rules if isinstance(rule, Grammar)), None)
    choices: tuple[str, ...] = ()
    if get_origin(kind) is Literal:
        kind, choices = str, get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple:
        kind = str
    assert kind in (bool, int, float, str), f"{name}: a setting is a bool, int, float or str"
    about = info.description or ""
    return Setting(name, kind, info.default, about, low, high, is_open, choices, fixed, grammar)


def _explain(cls: type[Hyperparameters], error: Any) -> str:
    settings = cls.settings()
    name = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return f"{name} is not a setting here; the settings are {', '.join(settings) or 'none'}"
    if name not in settings:
        return str(error["msg"]).removeprefix("Value error, ")
    return f"{name} must be {settings[name].allowed}, got {error['input']}"
