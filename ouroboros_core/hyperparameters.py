"""A setting is declared once, as a field of a pydantic model: bounds, default, help; every user
interface reads it from there."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from ouroboros_core.errors import InvalidInput

Value = bool | int | float | str

Auto = Literal["auto"]
"""The value of a setting that the method sets by itself, step by step."""

AUTO: Auto = "auto"


def upto(value: int | Auto, most: int) -> int:
    """A setting's value, or where the method sets it by itself, the most that it may choose."""
    return most if value == AUTO else value


def fixed_values(**settings: Any) -> Mapping[str, Any]:
    """Settings by name that nobody can change."""
    return types.MappingProxyType(settings)


@dataclass(frozen=True)
class Counts:
    """Rule for a setting that is a list of whole numbers in a text, such as `4,2,2`: the branches
    of a tree, level by level. `4x2x2` is read, too, where commas separate other things.

    length  numbers at most
    most    each of them is between 1 and this
    nodes   of the tree at most, the root left out
    """

    length: int
    most: int
    nodes: int

    @property
    def allowed(self) -> str:
        """The allowed texts in words."""
        return (
            f"one to {self.length} numbers between 1 and {self.most} for at most {self.nodes} "
            "nodes, as in 4,2,2"
        )

    @property
    def samples(self) -> tuple[str, ...]:
        """Some texts that are allowed."""
        return "4,2,2", "1,1"

    @staticmethod
    def read(text: str) -> tuple[int, ...]:
        """The numbers of a valid text."""
        return tuple(int(part) for part in text.split(","))

    def check(self, text: str) -> str:
        """The text with commas; raises ValueError."""
        parts = [part.strip() for part in text.replace("x", ",").split(",")]
        if not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
            raise ValueError("not a list of whole numbers")
        numbers = [int(part) for part in parts]
        level, nodes = 1, 0
        for number in numbers:
            level *= number
            nodes += level
        if len(numbers) > self.length or not all(1 <= n <= self.most for n in numbers):
            raise ValueError("too many numbers, or one that is too large or too small")
        if nodes > self.nodes:
            raise ValueError("too large a tree")
        return ",".join(map(str, numbers))

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True)
class Matrix:
    """Rule for a setting that is a matrix of two rows of two whole numbers in a text, such as
    `13,10;0,10`, with 0 below the diagonal. `13x10;0x10` is read, too, where commas separate other
    things.

    most  each of them is at most this, and the first of a row in the diagonal at least 1
    """

    most: int

    @property
    def allowed(self) -> str:
        """The allowed texts in words."""
        return (
            f"two rows of two numbers up to {self.most}, on the diagonal at least 1 and below it "
            "0, as in 13,10;0,10"
        )

    @property
    def samples(self) -> tuple[str, ...]:
        """Some texts that are allowed."""
        return "13,10;0,10", "2,0;0,1"

    @staticmethod
    def read(text: str) -> tuple[tuple[int, ...], ...]:
        """The rows of a valid text."""
        return tuple(tuple(int(part) for part in row.split(",")) for row in text.split(";"))

    def check(self, text: str) -> str:
        """The text with commas; raises ValueError."""
        rows = [
            [part.strip() for part in row.replace("x", ",").split(",")] for row in text.split(";")
        ]
        if [len(row) for row in rows] != [2, 2]:
            raise ValueError("not two rows of two numbers")
        if not all(p.isascii() and p.isdigit() and len(p) < 4 for row in rows for p in row):
            raise ValueError("not a matrix of whole numbers")
        (first, beside), (below, last) = (map(int, row) for row in rows)
        if below or not (1 <= first <= self.most and 1 <= last <= self.most):
            raise ValueError("a number that is too large or too small")
        if beside > self.most:
            raise ValueError("a number that is too large")
        return f"{first},{beside};{below},{last}"

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def read_settings(text: str) -> dict[str, str]:
    """`gamma=6, top_k_suffixes=3` as names and values, not yet checked; raises InvalidInput for
    what is not written so."""
    found: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InvalidInput(f"expected setting=value, got {part}")
        if name in found:
            raise InvalidInput(f"{name} is set twice")
        found[name] = value
    return found


@dataclass(frozen=True)
class Setting:
    """What a user interface needs to know of one field."""

    name: str
    kind: type
    default: Value
    help: str
    low: float | None
    high: float | None
    low_is_open: bool = False
    choices: tuple[str, ...] = ()
    fixed: Value | None = None
    """Of a setting that may be 'auto': the value that a slider begins at; None for one that may
    not."""
    counts: Counts | Matrix | None = None
    """For a setting that is a list of whole numbers in a text, or a matrix: what it may hold."""

    @property
    def allowed(self) -> str:
        """The allowed values in words, such as 'between 1 and 16'."""
        return f"auto, or {self._range}" if self.fixed is not None else self._range

    @property
    def _range(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.counts:
            return self.counts.allowed
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
        """The settings by name, in the order of declaration."""
        return {name: setting_of(name, info) for name, info in cls.model_fields.items()}

    @classmethod
    def fixed(cls, **settings: Any) -> dict[str, Any]:
        """Values for a run in which nothing adapts: those given, and one for every setting that
        would be 'auto' otherwise."""
        return {
            name: setting.fixed
            for name, setting in cls.settings().items()
            if setting.default == AUTO
        } | settings

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Hyperparameters:
        """Validated settings; raises InvalidInput with what is wrong, the value and what is
        allowed."""
        given = by_name(values)
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise InvalidInput(
                "; ".join(dict.fromkeys(_explain(cls, e) for e in error.errors()))
            ) from None


def by_name(values: Any) -> dict[str, Any]:
    """Settings by their names; raises InvalidInput for anything else."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidInput(
            f'settings must be given by name, as in {{"gamma": 4}}, got {str(values)[:80]}'
        )
    return dict(values)


def setting_of(name: str, info: FieldInfo) -> Setting:
    """Return what a user interface needs to know of a field; a tuple of numbers is a text."""
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
    counts = next((rule for rule in rules if isinstance(rule, Counts | Matrix)), None)
    choices: tuple[str, ...] = ()
    if get_origin(kind) is Literal:
        kind, choices = str, get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple:
        kind = str
    assert kind in (bool, int, float, str), f"{name}: a setting is a bool, int, float or str"
    about = info.description or ""
    return Setting(name, kind, info.default, about, low, high, is_open, choices, fixed, counts)


def _explain(cls: type[Hyperparameters], error: Any) -> str:
    settings = cls.settings()
    name = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return f"{name} is not a setting here; the settings are {', '.join(settings) or 'none'}"
    if name not in settings:
        return str(error["msg"]).removeprefix("Value error, ")
    return f"{name} must be {settings[name].allowed}, got {error['input']}"
