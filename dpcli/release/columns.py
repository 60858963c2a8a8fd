"""What [source] declares of a column: its type, and the values that it may have whatever the data hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import POSITIVE, Key, Note, Reader
from dpcli.file.toml.findings import Problem

NUMERIC = ("integer", "decimal")
KEYED = ("text", "integer", "boolean")  # whose values are keys of an answer
WORDS = frozenset({"text"})
LARGEST = 2**53  # steps from 0 that a double still counts one by one
MOST = 1_000_000  # values of a declared domain

OF_NUMBERS = Reader('type = "integer" or "decimal"', lambda column: column.type in NUMERIC)
OF_TEXT = Reader('type = "text"', lambda column: column.type in WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table, or one that is computed from others by `expression`. What it may hold is declared, never read off the data."""

    type: Annotated[
        Literal["text", "integer", "decimal", "boolean", "date"],
        Key("what it holds; a value of another kind counts as missing"),
    ]
    min: Annotated[float | None, Key("least value that counts: what is below it counts as it", reader=OF_NUMBERS)] = None
    max: Annotated[float | None, Key("largest value that counts: what is above it counts as it", reader=OF_NUMBERS)] = None
    step: Annotated[
        float | None,
        Key("values are rounded to whole multiples of it and added as such; 1 for integers", POSITIVE, reader=OF_NUMBERS),
    ] = None
    missing: Annotated[
        float | None,
        Key("what a missing value, NaN or infinity counts as; where absent, its row is out of the query", reader=OF_NUMBERS),
    ] = None
    domain: Annotated[tuple[str, ...] | None, Key("every value that it may have, as keys of by", reader=OF_TEXT)] = None
    domain_file: Annotated[str | None, Key("file with one such value on each line, in place of domain", reader=OF_TEXT)] = None
    expression: Annotated[Note | None, Key("SQL scalar over other columns that it is computed from")] = None

    @property
    def bounded(self) -> bool:
        return self.min is not None and self.max is not None

    @property
    def unit_step(self) -> float | None:
        """The stated step, 1 for integers; None where a decimal states none."""
        return 1.0 if self.step is None and self.type == "integer" else self.step

    @property
    def declares_keys(self) -> bool:
        """Whether every key that it may have is known without the data, and there are few enough to list them."""
        stated = self.domain is not None or self.domain_file is not None
        return self.type == "boolean" or stated or 0 < len(self.whole_numbers) <= MOST

    @property
    def whole_numbers(self) -> range:
        """Those from min to max, of a bounded column of integers."""
        if self.type != "integer" or self.min is None or self.max is None or self.unit_step != 1.0:
            return range(0)
        return range(math.ceil(self.min), math.floor(self.max) + 1)

    def steps(self, value: float) -> int:
        """A value as a whole number of steps, the nearest."""
        step = self.unit_step
        if step is None:
            raise InputError("expected a step, found none")
        return math.floor(value / step + 0.5)

    def problems(self) -> Iterator[Problem]:
        """What the keys do not agree on."""
        if self.min is not None and self.max is not None and not self.min < self.max:
            yield ("max",), f"a number above min = {self.min:g}", f"{self.max:g}"
        for name in ("min", "max"):
            value, step = getattr(self, name), self.unit_step
            if value is not None and step is not None and abs(value) / step > LARGEST:
                yield (name,), f"at most 2^53 steps of {step:g} from 0", f"{value!r}"
        if self.missing is not None and not self.bounded:
            yield ("missing",), "min and max with it", "none"
        elif self.missing is not None and not (self.min or 0.0) <= self.missing <= (self.max or 0.0):
            yield ("missing",), "a number from min to max", f"{self.missing:g}"
        if self.domain is not None and self.domain_file is not None:
            yield ("domain_file",), "domain or domain_file", "both"
        if self.domain is not None and len(set(self.domain)) < max(1, len(self.domain)):
            yield ("domain",), "at least one value, all different", "the same twice" if self.domain else "none"


def domain_of(column: Column, name: str, folder: str) -> tuple[str | int | bool, ...] | None:
    """Every key that a column may have, in the declared order: its domain, false and true, or the whole numbers from min to max.

    None where nothing declares them. Raises InputError where a domain file cannot be read or says the same twice.
    """
    if not column.declares_keys:
        return None
    if column.type == "boolean":
        return (False, True)
    if column.type == "integer":
        return tuple(column.whole_numbers)
    if column.domain_file is not None:
        from dpcli.release.domain_file import values_in

        return values_in(column.domain_file, f"source.columns.{name}.domain_file", folder, MOST)
    return column.domain
