"""The axes of a sweep: one or two settings of a method or of the sampling, or the draft model. Each
combination is a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import product

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import BASELINE, Spec
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Value, read_settings

DRAFT = "draft"
"""The axis whose values name draft models."""

ACCEPTANCE = "acceptance"
"""The setting of the sampling that plain decoding does not have."""

MOST_CELLS = 100

TOKENS, QUESTIONS = 64, 6
"""Defaults: new tokens per run, and how many of the project's own prompts."""


@dataclass(frozen=True)
class Axis:
    """A name and its values in order; str() is what `read_axis` reads."""

    name: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.name}={','.join(map(show, self.values))}"


@dataclass(frozen=True)
class Cell:
    """One combination of values.

    index        in the grid, row by row
    coordinates  the value on each axis
    spec         the method with its settings, and the plain decoding that it is compared with
    draft        the draft model, where that is an axis; None is the pair's own
    """

    index: int
    coordinates: tuple[Value, ...]
    spec: Spec
    draft: str | None = None


def show(value: Value) -> str:
    """A value as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(method: str, settings: Mapping[str, Value]) -> str:
    """Return a method with settings in brackets, as a benchmark names it."""
    values = ",".join(f"{name}={show(value)}" for name, value in settings.items())
    return f"{method}[{values}]" if values else method


def read_axis(text: str) -> Axis:
    """Read `gamma=2,4,6` or ranges with their ends, `gamma=2:8:2`; values stay text here."""
    name, equals, rest = (item.strip() for item in text.partition("="))
    items = [item for item in (piece.strip() for piece in rest.split(",")) if item]
    if not (name and equals and items):
        raise InvalidInput(f"expected name=value,value or name=first:last:step, got {text}")
    if name == DRAFT:
        return Axis(name, tuple(items))
    return Axis(
        name,
        tuple(value for item in items for value in (_range(name, item) if ":" in item else [item])),
    )


def _range(name: str, text: str) -> list[str]:
    """The values of first:last or first:last:step, in decimal arithmetic: 0:1:0.1 ends at 1."""
    try:
        first, last, step = (
            Decimal(piece) for piece in (text if text.count(":") > 1 else f"{text}:1").split(":")
        )
        count = int((last - first) / step) + 1
    except (ArithmeticError, ValueError):
        raise InvalidInput(
            f"{name}: expected first:last or first:last:step in numbers, got {text}"
        ) from None
    if step <= 0 or last < first:
        raise InvalidInput(f"{name}: a range goes upwards by a step above 0, got {text}")
    if count > MOST_CELLS:
        raise InvalidInput(
            f"{name}: {text} are {count} values; a grid has at most {MOST_CELLS} cells: take a "
            "larger step"
        )
    return [str(first + number * step) for number in range(count)]


@dataclass(frozen=True)
class Grid:
    """A method with one or two axes. Raises InvalidInput for what could not run under any model.

    axes      settings of the method, of Sampling, or `draft` (folder, GGUF file, Hub id, 'none')
    settings  values of settings that are not varied; those left out have their defaults
    sampling  of settings that are not varied; an axis takes precedence
    """

    method: str
    axes: tuple[Axis, ...]
    settings: Mapping[str, Value] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)

    @classmethod
    def read(
        cls, method: str, axes: tuple[Axis, ...], settings: str, sampling: Sampling | None = None
    ) -> Grid:
        """The grid of a method as a person names it, `lookahead[published]`, and of settings such
        as `published, ngram_size=4`; of a preset the settings count that are not varied."""
        name, _, inside = method.partition("[")
        text = ",".join(filter(None, (inside.removesuffix("]"), settings.strip())))
        chosen, values = methods.split_preset(text)
        begun = methods.preset(methods.get(name), chosen)
        varied = {axis.name for axis in axes}
        fixed = {setting: value for setting, value in begun.items() if setting not in varied}
        return cls(name, axes, fixed | read_settings(values), sampling or Sampling())

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        self._check(names)
        cells = self.cells
        columns = zip(*(cell.coordinates for cell in cells), strict=True)
        axes = tuple(
            Axis(name, tuple(dict.fromkeys(column)))
            for name, column in zip(names, columns, strict=True)
        )
        for axis, axis_given in zip(axes, self.axes, strict=True):
            if len(axis.values) < len(axis_given.values):
                raise InvalidInput(
                    f"{axis_given} has a value twice: name each once (see --repeats)"
                )
        chosen = cells[0].spec.hyperparameters.model_dump()
        object.__setattr__(self, "axes", axes)  # from here on numbers are numbers, not text
        object.__setattr__(self, "settings", {name: chosen[name] for name in self.settings})

    def _check(self, names: list[str]) -> None:
        if len(names) not in (1, 2):
            raise InvalidInput(
                f"a sweep varies one or two settings, got {len(names)}: name them as gamma=2,4,6"
            )
        varied_names = self.names
        for name in names:
            if name not in varied_names:
                raise InvalidInput(
                    f"{name} is nothing to vary for {self.method}; there is "
                    f"{', '.join(varied_names)}"
                )
            if name in self.settings:
                raise InvalidInput(
                    f"{name} is varied and has a fixed value, {show(self.settings[name])}: leave "
                    "one out"
                )
        if len(set(names)) < len(names):
            raise InvalidInput(
                f"{names[0]} is on both axes: vary two different hyperparameters, or one"
            )
        count = 1
        for axis in self.axes:
            count *= len(axis.values)
        if not 1 <= count <= MOST_CELLS:
            raise InvalidInput(
                f"a grid has between 1 and {MOST_CELLS} cells, got {count}: name fewer values"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that can be varied for this method."""
        return *self.kind.Hyperparameters.settings(), *Sampling.settings(), DRAFT

    @property
    def label(self) -> str:
        """Return the method, and the preset of the settings that are not varied."""
        published, varied = self.kind.published, {axis.name for axis in self.axes}
        chosen = self.cells[0].spec.hyperparameters.model_dump()
        fixed = {name: value for name, value in chosen.items() if name not in varied}
        same = all(published.get(name) == value for name, value in fixed.items())
        return f"{self.method}[published]" if published and fixed and same else self.method

    @property
    def kind(self) -> type[Method]:
        return methods.get(self.method)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, the last axis varying fastest."""
        return tuple(self._cells())

    def _cells(self) -> Iterator[Cell]:
        settings, names = self.kind.Hyperparameters.settings(), [axis.name for axis in self.axes]
        for index, values in enumerate(product(*(axis.values for axis in self.axes))):
            chosen = dict(zip(names, values, strict=True))
            method_values = {name: value for name, value in chosen.items() if name in settings}
            sampling_values = {
                name: value
                for name, value in chosen.items()
                if name in Sampling.settings() and name not in settings
            }
            hyperparameters = self.kind.Hyperparameters.parse({**self.settings, **method_values})
            sampling = Sampling.parse({**self.sampling.model_dump(), **sampling_values})
            checked = (
                sampling.model_dump() | hyperparameters.model_dump() | {DRAFT: chosen.get(DRAFT)}
            )
            coordinates = {name: checked[name] for name in names}
            plain = {name: coordinates[name] for name in sampling_values if name != ACCEPTANCE}
            spec = Spec(
                _text(self.method, {name: checked[name] for name in (*self.settings, *names)}),
                self.method,
                hyperparameters,
                sampling,
                plain=_text(BASELINE, plain),
            )
            draft = str(chosen[DRAFT]) if DRAFT in chosen else None
            yield Cell(index, tuple(coordinates.values()), spec, draft)

    @property
    def plain(self) -> list[Spec]:
        """Return plain decoding, once for all cells that are compared with the same."""
        settings = methods.get(BASELINE).Hyperparameters()
        plain = {cell.spec.plain: cell.spec.sampling.plain() for cell in self.cells}
        return [Spec(text, BASELINE, settings, plain[text], plain=text) for text in plain]

    def describe(self, coordinates: tuple[Value, ...]) -> str:
        """`gamma=4, top_k_suffixes=3`."""
        return ", ".join(
            f"{axis.name}={show(value)}" for axis, value in zip(self.axes, coordinates, strict=True)
        )
