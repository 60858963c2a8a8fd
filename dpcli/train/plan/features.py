"""What [train.columns] declares of a column: how its values become inputs, whatever the data hold. Nothing here needs torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from dpcli.base.fields import Key, Reader
from dpcli.file.toml.findings import Problem

MOST = 10_000  # values of a category: each is an input of the model
# What a writer puts after a whole number, or a day, because of another record: one that is missing, has a fraction or a time of day.
OF_ANOTHER = re.compile(r"(-?[0-9]+)\.0*|([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00:00(\.0*)?", re.ASCII)
OF_NUMBERS = Reader("min and max", lambda feature: feature.domain is None)
OF_CATEGORIES = Reader("domain", lambda feature: feature.domain is not None)


def plain(text: str) -> str:
    """A value without what does not tell it from others: space around it, .0 after a whole number, midnight after a day.

    So that what a record becomes does not depend on how the rest of its column had to be written.
    """
    found = OF_ANOTHER.fullmatch(text := text.strip())
    return (found[1] or found[2]) if found else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A column that the model reads: a number of a declared range, or a category of a declared domain.

    Numbers are scaled from [min, max] to [-1, 1]; a category becomes one input for each value of its domain, 1 for its own and 0 for the
    others. Each record is encoded by itself and by what is declared, so that records stay as separate as they were.
    """

    min: Annotated[float | None, Key("least value that counts: what is below it counts as it", reader=OF_NUMBERS)] = None
    max: Annotated[float | None, Key("largest value that counts: what is above it counts as it", reader=OF_NUMBERS)] = None
    missing: Annotated[
        float | None,
        Key("what a missing number counts as; where absent, a missing number needs indicator or is refused", reader=OF_NUMBERS),
    ] = None
    domain: Annotated[tuple[str, ...] | None, Key("every value of a category, in place of min and max")] = None
    other: Annotated[
        Literal["code", "refuse"],
        Key(
            "a category that is not in domain, or is missing without indicator, gets an input of its own, or stops the run",
            reader=OF_CATEGORIES,
        ),
    ] = "code"
    indicator: Annotated[bool, Key("a further input, 1 where the value is missing and 0 elsewhere")] = False

    @property
    def middle(self) -> float:
        """Of the declared range, which becomes 0."""
        assert self.min is not None and self.max is not None
        return self.min / 2 + self.max / 2

    @property
    def half(self) -> float:
        """Half of the declared range's width, which becomes 1; 0 where min and max are too near."""
        assert self.min is not None and self.max is not None
        return self.max / 2 - self.min / 2

    @property
    def fill(self) -> float | None:
        """What a missing number counts as: as declared, or the middle of the range beside an indicator; None where it is refused."""
        return self.middle if self.missing is None and self.indicator else self.missing

    def inputs(self, name: str) -> Iterator[str]:
        """The names of the inputs that the column of this name becomes."""
        if self.domain is None:
            yield name
        else:
            yield from (f"{name}={value}" for value in self.domain)
            if self.other == "code":
                yield f"{name}: other"
        if self.indicator:
            yield f"{name}: missing"

    def problems(self) -> Iterator[Problem]:
        """What the keys do not agree on."""
        if self.domain is not None:
            if len({plain(value) for value in self.domain}) < len(self.domain):
                yield ("domain",), "values that are all different", "the same twice"
            if not 1 <= len(self.domain) <= MOST:
                yield ("domain",), f"from 1 to {MOST:,} values", f"{len(self.domain):,}"
        elif self.min is None or self.max is None:
            yield (
                (),
                "min and max of a number, or the domain of a category",
                "one of the two" if self.min != self.max else "neither",
            )
        elif not self.half > 0:
            yield ("max",), f"a number above min = {self.min:g}", f"{self.max:g}"
        elif self.missing is not None and not self.min <= self.missing <= self.max:
            yield ("missing",), "a number from min to max", f"{self.missing:g}"
