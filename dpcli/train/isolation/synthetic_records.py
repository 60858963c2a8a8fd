"""Synthetic records, on which a program is checked before it reads the private ones (isolation/rehearsal.py).

They have the shapes and types of the real records and random contents. Of the records' values, only the ranges of integers are used,
because a program that looks up a table fails outside it. Several kinds of numbers (KINDS) are tried, because a program may branch or fail
on some. A task may draw synthetic records of its own; `draws_like` is for all others.

A batch is a tensor whose first dimension counts the records, or a container of such tensors (engine/batches.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpcli.train.engine.batches import Batch
from dpcli.train.torch_internals import tree_leaves, tree_map

LARGEST_RANGE = 2**52  # number of integers that random numbers in double precision can distinguish
# Scalar integers with at most this number of values are drawn so that every value occurs before one is repeated. Arbitrary.
FEW_VALUES = 1000
SPECIAL_SHARE = 0.1  # probability of a negative smallest integer, such as padding; arbitrary

# A function that draws the given number of synthetic records. Every call draws new records.
Draw = Callable[[int], Batch]


@dataclass(frozen=True, slots=True)
class NumberKind:
    """A kind of floating-point numbers that synthetic records may hold.

    Attributes:
        of_normal: Function that returns numbers of this kind, given standard normal ones.
        scales: Factors of the numbers, to reach branches that depend on magnitudes. The products are numbers of the kind.
    """

    of_normal: Callable[[Tensor], Tensor]
    scales: tuple[float, ...]


# Kinds of numbers, the most general first: standard normal numbers, probabilities, and zeros and ones (which are also counts). The scales
# are a choice of magnitudes. A branch that none of them reaches is not tested.
KINDS = (
    NumberKind(lambda normal: normal, (1.0, 1e-3, 30.0, 1e3, 1e6)),
    NumberKind(torch.special.ndtr, (1.0, 0.5, 1e-3)),
    NumberKind(lambda normal: (normal > 0.0).to(normal.dtype), (1.0,)),
)


def draw_kind(kind: NumberKind, draw: Draw) -> Draw:
    """Return a function that draws records with numbers of a kind, given a function that draws standard normal numbers."""
    return lambda count: convert_to_kind(kind, draw(count))


def convert_to_kind(kind: NumberKind, batch: Batch) -> Batch:
    """Return the batch with numbers of a kind in place of its floating-point numbers, which must be standard normal."""
    return tree_map(lambda leaf: kind.of_normal(leaf) if leaf.is_floating_point() else leaf, batch)  # type: ignore[no-any-return]


def to_double(batch: Batch) -> Batch:
    """Return the batch with its floating-point numbers in double precision."""
    return tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, batch)  # type: ignore[no-any-return]


def draws_like(records: Batch) -> Draw:
    """Return a function that draws synthetic records with the shapes and types of some records.

    Floating-point numbers are standard normal. Integers are uniform over their range in the given records, so that labels and tokens are
    valid. Each place in a record has its own range, because columns of a table may be categories of different sizes. Nothing else depends
    on the values of the given records.
    """
    forms = tree_map(form_of, records)
    return lambda count: tree_map(lambda form: form.draw(count), forms)


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The form of one tensor of the records.

    Attributes:
        shape: Shape of one record's part.
        dtype, device: Type and device of the numbers.
        low, high: Smallest and largest integer at each place, of shape `shape`; zeros and ones for other types.
    """

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    low: Tensor
    high: Tensor

    def draw(self, count: int) -> Tensor:
        """Draw the part of `count` synthetic records."""
        size = (count, *self.shape)
        if self.dtype == torch.bool:
            values = torch.rand(size, device=self.device) < 0.5
            if values.dim() > 1:
                values[:, 0] = True  # a padding mask that masks everything would make the loss of a record infinite or NaN
            return values
        if self.dtype.is_floating_point or self.dtype.is_complex:
            is_short = self.dtype.is_floating_point and self.dtype.itemsize < 4  # torch does not draw numbers of 8 bits
            dtype = torch.float32 if is_short else torch.promote_types(self.dtype, torch.float32)
            return torch.randn(size, dtype=dtype, device=self.device).to(self.dtype)
        return self.integers(size).to(self.dtype)

    def integers(self, size: tuple[int, ...]) -> Tensor:
        """Draw integers. A negative smallest integer is assumed to be a special value, such as padding, and is drawn separately."""
        smallest = self.low.clamp(min=0)
        value_counts = (self.high - smallest).clamp(0, LARGEST_RANGE) + 1
        if not self.shape and int(value_counts) <= FEW_VALUES:  # labels and lengths: even few records have many different values
            count, value_count = size[0], int(value_counts)
            permutations = [torch.randperm(value_count, device=self.device) for _ in range(0, count, value_count)]
            numbers = smallest + torch.cat([*permutations, smallest.new_zeros(0)])[:count]
        else:
            fractions = torch.rand(size, dtype=torch.float64, device=self.device)
            numbers = smallest + torch.minimum((fractions * value_counts).long(), value_counts - 1)
        padding = (self.low < 0) & (torch.rand(size, device=self.device) < SPECIAL_SHARE)
        return torch.where(padding, self.low, numbers)


def form_of(leaf: Tensor) -> RecordForm:
    """Return the form of one tensor of the records."""
    integers = not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool)
    if integers and len(leaf):
        # A copy of all records in wide integers may not fit in memory, but torch computes no limits of wide unsigned ones.
        values = leaf.long() if leaf.dtype in (torch.uint16, torch.uint32, torch.uint64) else leaf
        low, high = (limit.long() for limit in values.aminmax(dim=0))
    else:
        low, high = (torch.full(leaf.shape[1:], limit, device=leaf.device) for limit in (0, 1))
    return RecordForm(leaf.shape[1:], leaf.dtype, leaf.device, low, high)


def scale_numbers(batch: Batch, scale: float) -> Batch:
    """Return the batch with its floating-point numbers multiplied by a factor. Torch does not multiply numbers of 8 bits."""
    return tree_map(lambda leaf: leaf * scale if leaf.is_floating_point() and leaf.dtype.itemsize > 1 else leaf, batch)  # type: ignore[no-any-return]


def has_floats(batch: Batch) -> bool:
    """Return whether a tensor of the batch holds real floating-point numbers."""
    return any(leaf.is_floating_point() for leaf in tree_leaves(batch))
