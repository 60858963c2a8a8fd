"""Layouts: where a tensor holds the records of a batch, as far as that can be followed; and calls of operators on such tensors.

A length counts records if it is a multiple of the symbol that stands for the batch's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Shared:
    """No record: weights, constants, random numbers for all."""


@dataclass(frozen=True, slots=True)
class AlongRecords:
    """Each number is of one record alone: along `dim`, of length outer * B * inner, place (o * B + b) * inner + i is record b's.

    Attributes:
        alike: Every record has the same numbers, which then are nobody's.
    """

    dim: int
    outer: int = 1
    inner: int = 1
    alike: bool = field(default=False, compare=False)

    def at(self, dim: int) -> AlongRecords:
        """Return this layout along another dimension."""
        return replace(self, dim=dim)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The places 0, 1, ... of the batch's records along `dim`: good for picking each record's own row, and for nothing else."""

    dim: int


@dataclass(frozen=True, slots=True)
class Merged:
    """Numbers made of several records, or of how many there are.

    Attributes:
        how: The operator, and its line.
    """

    how: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The result of an operator without a rule."""

    operator: str


Kind = Shared | AlongRecords | Numbers | Merged | Unknown
SHARED = Shared()
Kinds = Kind | list[Kind]


class Mixed(Exception):
    """Records meet; the message names the operator."""


def records(value: Any) -> bool:
    """Return whether a length or a number depends on how many records there are."""
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) and bool(value.node.expr.free_symbols)


def coefficient(value: Any) -> int | None:
    """Return c if a length is c times the batch's size, else None."""
    if not isinstance(value, torch.SymInt) or len(symbols := value.node.expr.free_symbols) != 1:
        return None
    ratio = value.node.expr / next(iter(symbols))
    return int(ratio) if ratio.is_Integer else None


def stride(lengths: Sequence[Any], dim: int) -> int | None:
    """Return how many numbers one step along a dimension passes over; None if that depends on the batch."""
    rest = lengths[dim + 1 :]
    return None if any(records(length) for length in rest) else prod(int(length) for length in rest)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an aten operator.

    Attributes:
        values: Arguments by their schema's names, defaults included.
    """

    name: str
    values: Mapping[str, Any]
    outputs: Sequence[Tensor]
    kind: Callable[[Tensor], Kind]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def tensors(self) -> Iterator[Tensor]:
        return leaves(self.values.values())

    def of(self, name: str) -> Kind | None:
        """Return what an argument holds; None if there is none."""
        value = self.values.get(name)
        return self.kind(value) if torch.is_tensor(value) else None

    def rows(self) -> list[tuple[Tensor, AlongRecords]]:
        """Return the arguments that hold records."""
        return [(tensor, kind) for tensor in self.tensors() if isinstance(kind := self.kind(tensor), AlongRecords)]

    def one(self) -> tuple[Tensor, AlongRecords]:
        """Return the first argument that holds records."""
        return self.rows()[0]

    def agreed(self, along_records: AlongRecords) -> bool:
        """Return whether all arguments that hold records have them in this layout."""
        return all(kind == along_records for _, kind in self.rows())

    def everywhere(self, along_records: AlongRecords) -> list[Kind]:
        """Return this layout for each output that has records."""
        return [fitting(output, along_records) for output in self.outputs]

    def merged(self, how: str) -> Merged:
        return Merged(f"{self.name} {how}")


def has_records_at(output: Tensor, kind: AlongRecords) -> bool:
    """Return whether a tensor's length along the layout's dimension is the layout's."""
    return kind.dim < output.dim() and coefficient(output.shape[kind.dim]) == kind.outer * kind.inner


def fitting(output: Tensor, along_records: AlongRecords) -> Kind:
    """Return the layout if the output has that dimension with records in it."""
    if not any(records(length) for length in output.shape):
        return SHARED
    return along_records if has_records_at(output, along_records) else Unknown("an output whose records are elsewhere")


def consistent(output: Tensor, kind: Kind, name: str) -> Kind:
    """Return the layout where the output's shape confirms it: records along that dimension and no other; else Unknown."""
    lengths = [dim for dim, length in enumerate(output.shape) if records(length)]
    if isinstance(kind, AlongRecords):
        fits = lengths == [kind.dim] and has_records_at(output, kind)
    else:
        fits = not isinstance(kind, Shared) or not lengths
    return kind if fits else Unknown(name)


def dims_of(value: Any, count: int) -> list[int]:
    """Return dimensions counted from the front; all if none is named."""
    if value is None or value == []:
        return list(range(count))
    return [dim % max(1, count) for dim in (value if isinstance(value, list | tuple) else [value])]


def leaves(values: Any) -> Iterator[Tensor]:
    for value in values:
        if torch.is_tensor(value):
            yield value
        elif isinstance(value, list | tuple):
            yield from leaves(value)


def pair(along_records: Sequence[AlongRecords], name: str) -> AlongRecords:
    """Return the layout that all share.

    Raises:
        Mixed: They have their records along different dimensions, so that each meets each.
    """
    first = along_records[0]
    if any(other.dim != first.dim for other in along_records):
        raise Mixed(f"{name}, which pairs each record with every other")
    return first
