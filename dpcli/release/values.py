"""A column that is added up: clamped to what is declared, in whole steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.file.toml.findings import Problem
from dpcli.release.answers.additive import on_grid
from dpcli.release.columns import LARGEST, NUMERIC
from dpcli.release.settings import Source


@dataclass(frozen=True, slots=True)
class Stepped:
    """The values of a column as whole numbers of steps, from least to most."""

    column: str
    least: int
    most: int
    step: float

    def value(self, number: int) -> float:
        """A whole number of steps in units of the column, as it is written."""
        return number if self.step == 1.0 else on_grid(number, self.step)

    @property
    def middle(self) -> int:
        """A whole number in the middle of the range."""
        return (self.least + self.most) // 2


def stepped(source: Source, name: str) -> Stepped:
    """The range of a column that `number_problems` has nothing against; 2^53 steps either way where none is declared."""
    column = source.columns[name]
    step = column.unit_step
    assert step is not None
    least = -LARGEST if column.min is None else column.steps(column.min)
    return Stepped(name, least, LARGEST if column.max is None else column.steps(column.max), step)


def furthest_of(values: Stepped) -> int:
    """The largest distance from the middle, in steps."""
    return max(values.most - values.middle, values.middle - values.least)


def number_problems(source: Source, key: str, name: str) -> Iterator[Problem]:
    """What keeps a column from being counted in whole steps."""
    column = source.columns.get(name)
    if column is not None and column.type not in NUMERIC:
        yield (key,), "a column of numbers", f'"{name}", which is {column.type}'
    elif column is not None and column.unit_step is None:
        yield (key,), f"step in [source.columns.{name}]: values are exact, in whole steps", f'"{name}", which declares none'


def value_problems(source: Source, key: str, name: str, rows: int) -> Iterator[Problem]:
    """What keeps a column from being added up. rows: of one unit in a key."""
    column = source.columns.get(name)
    lacking = tuple(number_problems(source, key, name))
    yield from lacking
    if column is None or lacking:
        return
    if not column.bounded:
        yield (key,), f"min and max in [source.columns.{name}]: what one row may add", f'"{name}", which declares none'
    elif stepped(source, name).least == stepped(source, name).most:
        yield (key,), f"a step smaller than the range from min to max in [source.columns.{name}]", f"{column.unit_step:g}"
    elif column.unit_step and math.log2(max(map(abs, (column.min or 0.0, column.max or 0.0))) / column.unit_step * rows) > 62:
        yield (key,), "rows x range below 2^62 steps", f"{rows:,} rows of up to {max(abs(column.min or 0), abs(column.max or 0)):g}"
