"""The values that a column of [source.columns] declares: its keys, and its range in whole steps.

A *key* is a value by which answers are grouped, such as a state; a *step* is the unit of rounding of a numeric column, so that sums are
exact integers. Queries ask here before any data are read: `declared_keys_of` lists the keys of their answers, and `value_problems` refuses
a column whose values cannot be summed exactly. Nothing here depends on the private data; a *domain file*, which lists the keys of a column,
is public. data_source.py has the class `Column` of a [source.columns] entry.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.limits import read_bytes
from dpcli.release.answers.intervals import steps_value
from dpcli.release.data_source import MOST_KEYS, MOST_STEPS, NUMBER_TYPES, Column, Source

# Logarithm of the largest sum, in steps, of the rows of one unit in a key. The sensitivity of the sum then fits into 64 bits.
MOST_SUM_BITS = 62


@dataclass(frozen=True, slots=True)
class SteppedRange:
    """The range of a numeric column in whole steps.

    least, most: smallest and largest number of steps.
    step: size of a step in units of the column.
    """

    least: int
    most: int
    step: float

    def value(self, number: int) -> float:
        """Return the value, in units of the column, of a whole number of steps."""
        return steps_value(number, self.step)

    @property
    def middle(self) -> int:
        """The middle of the range in whole steps, rounded down."""
        return (self.least + self.most) // 2

    @property
    def furthest(self) -> int:
        """The largest distance of a value from the middle of the range, in steps."""
        return max(self.most - self.middle, self.middle - self.least)


def declared_keys_of(column: Column, name: str, folder: str) -> tuple[str | int | bool, ...] | None:
    """Return all keys that a column may have, in the declared order; None if the column does not declare them.

    The keys are the column's domain, false and true, or the integers from min to max. The path of a domain file starts from `folder`.

    Raises InputError if a domain file is refused by `values_in`.
    """
    if not column.declares_keys:
        return None
    if column.type == "boolean":
        return (False, True)
    if column.type == "integer":
        return tuple(column.whole_numbers)
    if column.domain_file is not None:
        return values_in(column.domain_file, f"source.columns.{name}.domain_file", folder, MOST_KEYS)
    return column.domain


def values_in(path: str, key: str, folder: str, most: int) -> tuple[str, ...]:
    """Return the lines of a public UTF-8 file in order, without line ends, at most `most` of them. Messages name `key`.

    Raises InputError if the file cannot be read, is not UTF-8, is empty, repeats a value or has too many lines.
    """
    try:
        text = read_bytes(os.path.join(folder, path), "a file of values").decode("utf-8-sig")  # -sig: without a byte order mark
    except UnicodeDecodeError:
        raise InputError(f"{key}: {path} is not UTF-8 text") from None
    # Not by splitlines, which would also split a value at other characters, such as a form feed.
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    if not lines or len(lines) > most:
        raise InputError(f"{key}: expected 1 to {most:,} values in {path}, found {len(lines):,}")
    repeated = len(lines) - len(set(lines))
    if repeated:
        raise InputError(f"{key}: expected different values in {path}, found {repeated:,} repeated")
    return tuple(lines)


def folder_of(path: str) -> str:
    """Return the folder from which relative paths in a pipeline file start; the current folder for "-", the standard input."""
    return os.path.dirname(os.path.abspath(path)) if path != "-" else os.getcwd()


def stepped_range(source: Source, name: str) -> SteppedRange:
    """Return the range of a column that declares numbers and a step. An end that is not declared is MOST_STEPS from 0."""
    column = source.columns[name]
    step = column.rounding_step
    assert step is not None
    least = -MOST_STEPS if column.min is None else column.steps(column.min)
    most = MOST_STEPS if column.max is None else column.steps(column.max)
    return SteppedRange(least, most, step)


def number_problems(source: Source, key: str, name: str) -> Iterator[Problem]:
    """Yield a problem if a column has no numbers or no step. For a column that is not declared, `Query.needs` yields the problem.

    key: setting of the query that names the column, here and in `value_problems`.
    """
    column = source.columns.get(name)
    if column is not None and column.type not in NUMBER_TYPES:
        hint = f'; expression = "cast({name} as bigint)" makes an integer column of it, from 0 to 1'
        yield (key,), "a column of numbers", f'"{name}", which is {column.type}{hint if column.type == "boolean" else ""}'
    elif column is not None and column.rounding_step is None:
        yield (key,), f"step in [source.columns.{name}], since values are added in whole steps", f'"{name}", which declares none'


def value_problems(source: Source, key: str, name: str, rows: int) -> Iterator[Problem]:
    """Yield the problems because of which the values of a column cannot be summed exactly in 64 bits.

    rows: largest number of rows of one unit that count in a key.
    """
    column = source.columns.get(name)
    problems = tuple(number_problems(source, key, name))
    yield from problems
    if column is None or problems:
        return
    if column.min is None or column.max is None:
        declared = "neither"
        if column.min is not None or column.max is not None:
            declared = "only max" if column.min is None else "only min"
        bounds = f"min and max in [source.columns.{name}], which bound what one row adds"
        yield (key,), bounds, f'"{name}", which declares {declared}'
        return
    values, largest = stepped_range(source, name), max(abs(column.min), abs(column.max))
    if values.least == values.most:
        yield (key,), f"a step smaller than the range from min to max in [source.columns.{name}]", f"{values.step:g}"
    elif math.log2(largest / values.step * rows) > MOST_SUM_BITS:
        yield (key,), "rows x range below 2^62 steps", f"{rows:,} rows of up to {largest:g}"
