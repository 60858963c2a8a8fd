"""One call of an operator: its arguments by name, what each holds of the records, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpcli.train.isolation.kinds import AlongRecords, Kind, Merged, Mixed
from dpcli.train.isolation.lengths import coefficient, records


@dataclass(frozen=True, slots=True)
class Call:
    """Of an aten operator. values: arguments by their schema's names, defaults included."""

    name: str
    values: Mapping[str, Any]
    outputs: Sequence[Tensor]
    kind: Callable[[Tensor], Kind]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor that goes in."""
        return leaves(self.values.values())

    def of(self, name: str) -> Kind | None:
        """What an argument holds; None where there is none."""
        value = self.values.get(name)
        return self.kind(value) if torch.is_tensor(value) else None

    def rows(self) -> list[tuple[Tensor, AlongRecords]]:
        """The arguments that hold records."""
        return [(tensor, kind) for tensor in self.tensors() if isinstance(kind := self.kind(tensor), AlongRecords)]

    def one(self) -> tuple[Tensor, AlongRecords]:
        """The only such layout; of operators whose arguments must agree in it."""
        found = self.rows()
        return found[0]

    def everywhere(self, along_records: AlongRecords) -> list[Kind]:
        """For each output that has records: along this dimension."""
        return [fitting(output, along_records) for output in self.outputs]

    def merged(self, how: str) -> Merged:
        return Merged(f"{self.name} {how}".strip())


def fitting(output: Tensor, along_records: AlongRecords) -> Kind:
    """The layout where the output has that dimension with records in it, else nothing."""
    from dpcli.train.isolation.kinds import SHARED, Unknown

    if not any(records(length) for length in output.shape):
        return SHARED
    if (
        along_records.dim < output.dim()
        and coefficient(output.shape[along_records.dim]) == along_records.outer * along_records.inner
    ):
        return along_records
    return Unknown("an output whose records are elsewhere")


def dims_of(value: Any, count: int) -> list[int]:
    """Dimensions counted from the front; all where none is named."""
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
    """The layout that all share.

    Raises:
        Mixed: they have their records along different dimensions, so that each meets each.
    """
    first = along_records[0]
    if any(other.dim != first.dim for other in along_records):
        raise Mixed(f"{name}, which pairs each record with every other")
    return first
