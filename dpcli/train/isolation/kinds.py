"""What a tensor holds of the records of a batch, as far as it can be followed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Shared:
    """Nothing: weights, constants, random numbers for all."""


@dataclass(frozen=True, slots=True)
class AlongRecords:
    """Each number is of one record alone: along `dim`, of length outer * B * inner, place (o * B + b) * inner + i is record b's.

    call: of which batch; no tensor of one may meet another's. alike: whether all records have the same, which then is of none.
    """

    dim: int
    outer: int = 1
    inner: int = 1
    call: int = 0
    alike: bool = field(default=False, compare=False)

    def at(self, dim: int) -> AlongRecords:
        """The same along another dimension."""
        return replace(self, dim=dim)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The places 0, 1, ... of the batch's records along `dim`: good for picking each record's own row, and for nothing else."""

    dim: int
    call: int = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """Made of several records, or of how many there are. how: by what, and where."""

    how: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Of an operator without a rule."""

    operator: str


Kind = Shared | AlongRecords | Numbers | Merged | Unknown
SHARED = Shared()
Kinds = Kind | list[Kind]


class Mixed(Exception):
    """Records meet; the words say by what."""
