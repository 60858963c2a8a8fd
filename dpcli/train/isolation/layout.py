"""Layouts of tensors, and calls of operators on tensors with layouts.

They serve the proof that a *program* (a model with its loss) isolates records: each record's loss depends on that record alone. A layout
states along which dimension a tensor holds the records of a batch. The batch size B is a symbol (isolation/batch_size.py). A dimension
counts records if its length is a multiple of this symbol. tracker.py follows a program and asks a rule (operators.py, moves.py) for the
layouts of the outputs of each `Call`, given those of its arguments.

A result that depends on several records is `Merged`. That is allowed if it does not enter a loss: the gradient of a weight is such a
result. `Mixed` is the exception that refuses the program at once. `Unknown` proves nothing: records must then be processed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

PAIRED = "which pairs each record with every other"  # end of the messages to which tracker.py adds the advice for such programs


@dataclass(frozen=True, slots=True)
class Shared:
    """The layout of a tensor that depends on no record, such as a weight, a constant, or random numbers that all records share."""


@dataclass(frozen=True, slots=True)
class AlongRecords:
    """The layout of a tensor in which each number depends on one record alone.

    Dimension `dim` has length outer * B * inner, where B is the batch size. Index (o * B + b) * inner + i belongs to record b, for every
    o < outer and i < inner. A batch of shape (B, 3, 8) has dim = 0. As a view of shape (B * 3, 8) it has inner = 3, because each record has
    three successive rows.

    Attributes:
        identical: Whether every record has the same numbers. The numbers then reveal nothing about any record.
    """

    dim: int
    outer: int = 1
    inner: int = 1
    identical: bool = field(default=False, compare=False)

    def at(self, dim: int) -> AlongRecords:
        """Return the same layout along another dimension."""
        return replace(self, dim=dim)


@dataclass(frozen=True, slots=True)
class RecordIndices:
    """The layout of the record indices 0, 1, ..., B - 1 along `dim`. The only use that a rule covers selects each record's own row."""

    dim: int


@dataclass(frozen=True, slots=True)
class Merged:
    """The layout of a tensor whose numbers depend on several records, or on the number of records.

    Attributes:
        how: Description of the operator that merged the records, with its line in the user's code.
    """

    how: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The layout of the result of an operator that has no rule.

    Attributes:
        operator: Name of the operator, or a description of the tensor.
    """

    operator: str


Layout = Shared | AlongRecords | RecordIndices | Merged | Unknown
SHARED = Shared()
Layouts = Layout | list[Layout]  # the layout of all outputs of an operator, or a layout for each


class Mixed(Exception):
    """An operator combines numbers of different records, so the program is refused. The message names the operator."""


def is_symbolic(value: Any) -> bool:
    """Return whether a length or a number depends on the batch size."""
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) and bool(value.node.expr.free_symbols)


def coefficient(value: Any) -> int | None:
    """Return c if a length is c times the batch size; None otherwise."""
    if not isinstance(value, torch.SymInt) or len(symbols := value.node.expr.free_symbols) != 1:
        return None
    ratio = value.node.expr / next(iter(symbols))
    return int(ratio) if ratio.is_Integer else None


def stride(lengths: Sequence[Any], dim: int) -> int | None:
    """Return the stride of a dimension in a contiguous tensor, in numbers; None if it depends on the batch size."""
    later_lengths = lengths[dim + 1 :]
    return None if any(is_symbolic(length) for length in later_lengths) else prod(int(length) for length in later_lengths)


class RecordArgument(NamedTuple):
    """A tensor argument of an operator that holds records along a dimension."""

    tensor: Tensor
    layout: AlongRecords


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an aten operator, an operator of torch's internal library.

    Attributes:
        name: Name of the operator without the underscore that marks a write in place.
        values: Arguments, including defaults, by their names in the operator's schema.
        layout_of: Function that returns the layout of a tensor.
    """

    name: str
    values: Mapping[str, Any]
    outputs: Sequence[Tensor]
    layout_of: Callable[[Tensor], Layout]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors among the arguments."""
        return leaves(self.values.values())

    def layout_of_argument(self, name: str) -> Layout | None:
        """Return the layout of an argument; None if it is missing or no tensor."""
        value = self.values.get(name)
        return self.layout_of(value) if torch.is_tensor(value) else None

    def record_arguments(self) -> list[RecordArgument]:
        """Return the tensor arguments that hold records along a dimension."""
        layouts = ((tensor, self.layout_of(tensor)) for tensor in self.tensors())
        return [RecordArgument(tensor, layout) for tensor, layout in layouts if isinstance(layout, AlongRecords)]

    def first_record_argument(self) -> RecordArgument:
        """Return the first tensor argument that holds records along a dimension. A rule is called only if there is one."""
        return self.record_arguments()[0]

    def records_agree_on(self, layout: AlongRecords) -> bool:
        """Return whether all arguments that hold records have the given layout."""
        return all(argument.layout == layout for argument in self.record_arguments())

    def output_layouts(self, layout: AlongRecords) -> list[Layout]:
        """Return the layout of each output, if every output that holds records has the given layout."""
        return [layout_in_shape(output, layout) for output in self.outputs]

    def merged_layout(self, how: str = "over the records") -> Merged:
        """Return the layout of a result in which this operator merged records."""
        return Merged(f"{self.name} {how}")


def has_records_at(output: Tensor, layout: AlongRecords) -> bool:
    """Return whether a tensor has the dimension of a layout, with the length that the layout states."""
    return layout.dim < output.dim() and coefficient(output.shape[layout.dim]) == layout.outer * layout.inner


def layout_in_shape(output: Tensor, layout: AlongRecords) -> Layout:
    """Return the layout if the output's shape agrees with it.

    Return SHARED if no length of the shape depends on the batch size, and Unknown if the records are along another dimension.
    """
    if not any(is_symbolic(length) for length in output.shape):
        return SHARED
    return layout if has_records_at(output, layout) else Unknown("an output with records along another dimension")


def layout_if_consistent(output: Tensor, layout: Layout, name: str) -> Layout:
    """Return the layout if the output's shape confirms it, and Unknown otherwise.

    The shape must count records along the layout's dimension and along no other.
    """
    symbolic_dims = [dim for dim, length in enumerate(output.shape) if is_symbolic(length)]
    if isinstance(layout, AlongRecords):
        fits = symbolic_dims == [layout.dim] and has_records_at(output, layout)
    elif isinstance(layout, Shared):
        fits = not symbolic_dims
    else:
        fits = True
    return layout if fits else Unknown(name)


def dims_of(value: Any, count: int) -> list[int]:
    """Return the dimensions that an argument names, as indices that are not negative; all dimensions if it names none.

    Args:
        count: Number of dimensions of the tensor.
    """
    if value is None or value == []:
        return list(range(count))
    dims = value if isinstance(value, list | tuple) else [value]
    return [dim % max(1, count) for dim in dims]


def leaves(values: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested lists and tuples."""
    for value in values:
        if torch.is_tensor(value):
            yield value
        elif isinstance(value, list | tuple):
            yield from leaves(value)


def require_same_dim(layouts: Sequence[AlongRecords], operator: str) -> AlongRecords:
    """Return the first of several layouts of arguments.

    Raises Mixed if the layouts have different dimensions, because the operator then pairs each record with every other record.
    """
    first = layouts[0]
    if any(layout.dim != first.dim for layout in layouts):
        raise Mixed(f"{operator}, {PAIRED}")
    return first
