"""Control of the random numbers that a model draws, so that a record receives the same numbers in a batch and alone.

A comparison of a record in a batch with the record alone (engine/choice.py, isolation/checked_sums.py) would otherwise fail for a model
with dropout. The modes below intercept torch's random operators and guess which part of their numbers belongs to a record. Within
`same_draws`, all records receive the same numbers. Within `recorded_draws`, the numbers of one record are recorded. Within
`replayed_draws`, that record receives the recorded numbers again when it is processed alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpcli.audit.own_code import own_line
from dpcli.base.errors import InputError
from dpcli.train.torch_internals import TorchDispatchMode, tree_map

# Number of draws after which each further draw has new numbers. A program that repeats a draw until it is accepted then ends. Arbitrary.
MOST_EQUAL_DRAWS = 2048
EXPECTED_LOSS = "expected a loss for each example that depends on it alone"  # beginning of several messages
# Advice for programs that compare examples.
REMEDY = "what an example is compared with, such as negatives, must be part of the example or public"

# Operators that draw for dropout. Their probability is a number, so nothing but the dropout depends on what is drawn.
DROPOUT = frozenset({torch.ops.aten.native_dropout.default, torch.ops.aten.bernoulli_.float})

# A function (tensor, dimension, record, number of records) that returns a view of one record's part along a dimension.
RecordPart = Callable[[Tensor, int, int, int], Tensor]


def draws_numbers(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call draws random numbers, as torch's tag of the operator states. Dropout with probability zero draws none."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    defaults = {argument.name: argument.default_value for argument in func._schema.arguments}
    values = {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}
    return values.get("dropout_p") != 0.0 and values.get("train") is not False  # `train` is an argument of dropout


def generators() -> tuple[torch.Generator, ...]:
    """Return the default generators of the CPU and of the GPUs in use."""
    return (torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ()))  # type: ignore[no-untyped-call]


def seed_all(seed: int) -> None:
    """Seed the default generators of the devices in use.

    `torch.manual_seed` would also store the seed and a formatted stack trace for the other devices. That takes longer than dropout itself.
    """
    for generator in generators():
        generator.manual_seed(seed)


class RecordDim(NamedTuple):
    """The dimension of a tensor that holds the records of a batch.

    Attributes:
        per_record: Number of indices for each record in this dimension.
    """

    dim: int
    per_record: int


def record_dim(shape: Sequence[int], size: int) -> RecordDim | None:
    """Return the dimension of a tensor that probably holds `size` records; None if there is none.

    This is the first dimension of length `size`, or else the first whose length is a multiple of it.
    """
    return next(iter(record_dims(shape, size)), None)


def record_dims(shape: Sequence[int], size: int) -> list[RecordDim]:
    """Return every dimension that may hold `size` records. The likeliest is first."""
    exact = [RecordDim(dim, 1) for dim, length in enumerate(shape) if length == size]
    multiples = [RecordDim(dim, length // size) for dim, length in enumerate(shape) if length > size > 1 and length % size == 0]
    return exact + multiples


def adjacent(value: Tensor, dim: int, row: int, size: int) -> Tensor:
    """Return the part of a record whose indices follow one another, such as the attention heads of a record."""
    indices_per_record = value.shape[dim] // size
    return value.narrow(dim, row * indices_per_record, indices_per_record)


def strided(value: Tensor, dim: int, row: int, size: int) -> Tensor:
    """Return the part of a record that has an index in each of several copies of the batch, such as after torch.cat of two inputs."""
    return value[(slice(None),) * dim + (slice(row, None, size),)]


def adjacent_in_copies(copies: int, value: Tensor, dim: int, row: int, size: int) -> Tensor:
    """Return the part of a record that has several adjacent indices in each of several copies of the batch.

    The attention heads of pairs are an example, where the first texts of all records are followed by the second texts. The result has a
    dimension for the copies in front of `dim`. If the indices of a record cannot be divided among the copies, the result is `adjacent`.
    """
    indices_per_copy, remainder = divmod(value.shape[dim] // size, copies)
    if remainder:
        return adjacent(value, dim, row, size)
    return value.view(*value.shape[:dim], copies, size, indices_per_copy, *value.shape[dim + 1 :]).select(dim + 1, row)


# The positions that a record may have where a dimension has several indices for each record. A program may use any of them. Further
# positions would cost time where a program is refused.
RECORD_PARTS: tuple[RecordPart, ...] = (
    adjacent,
    strided,
    partial(adjacent_in_copies, 2),  # pairs, such as a chosen and a rejected answer
    partial(adjacent_in_copies, 3),  # triplets, such as an anchor with a positive and a negative
)


@contextmanager
def same_draws(
    size: int, seed: int, part: RecordPart = adjacent, refuses_orders: bool = False, undropped: set[int] | None = None
) -> Iterator[None]:
    """Make every random operator give the same numbers to every record, whatever was drawn before.

    A record then receives the same numbers in a batch and alone. This holds if the program draws for all records at once, for one record
    after the other, or one number for all records.

    Args:
        part: Position of a record where a dimension has several indices for each record.
        refuses_orders: Whether a random order of as many things as there are records raises InputError. The isolation check asks for it,
            with numbers of records that are no length of anything else; three records could be mistaken for three colours.
        undropped: Numbers of the draws of dropout, counted from 1, that keep everything. Draws of several numbers that have no dimension as
            long as the batch are added to it. None for no such draws. Dropout in packed sequences draws for the places of all records
            together, and a record would receive other numbers beside longer records.

    Edge cases: if another dimension of a tensor is as long as the batch, the numbers may be repeated along the wrong dimension.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), SameDraws(size, seed, part, refuses_orders, undropped):
        yield


class SameDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The dispatch mode of `same_draws`."""

    def __init__(self, size: int, seed: int, part: RecordPart, refuses_orders: bool, undropped: set[int] | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size, self.seed, self.part, self.refuses_orders, self.undropped = size, seed, part, refuses_orders, undropped
        self.draw_count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if not draws_numbers(func, args, kwargs):
            return func(*args, **kwargs)
        if self.refuses_orders and func is torch.ops.aten.randperm.default and args[0] == self.size > 1:
            line = own_line()
            raise InputError(f"loss: {EXPECTED_LOSS}, found randperm over the records{' at ' if line else ''}{line}")
        self.draw_count += 1
        self.seed_draw()
        drawn = func(*args, **kwargs)
        if self.is_undropped(func, drawn):
            return keep_all(func, args, drawn)
        if any(record_dim(tensor.shape, self.size) for tensor in tensors(drawn)):  # otherwise all records share the numbers
            for row in range(self.size):
                self.seed_draw()
                self.draw_row(row, drawn, func, args, kwargs)
        return drawn

    def is_undropped(self, func: Any, drawn: Any) -> bool:
        """Return whether the present draw keeps everything. After many draws, a program may repeat one until it is accepted."""
        if self.undropped is None or func not in DROPOUT or self.draw_count > MOST_EQUAL_DRAWS:
            return False
        if self.size > 1 and any(value.numel() > 1 and self.size not in value.shape for value in tensors(drawn)):
            self.undropped.add(self.draw_count)
        return self.draw_count in self.undropped

    def seed_draw(self) -> None:
        """Seed torch's generators from the seed and, after `MOST_EQUAL_DRAWS` draws, also from the number of the draw."""
        number = max(0, self.draw_count - MOST_EQUAL_DRAWS)
        digest = hashlib.blake2b(repr((self.seed, number)).encode(), digest_size=8).digest()
        seed_all(int.from_bytes(digest, "little") >> 1)  # 63 bits

    def draw_row(self, row: int, batch: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Draw the numbers of one record, and write them to its part of the batch's numbers."""

        def narrow(value: Any) -> Any:
            return record_view(value, row, self.size, self.part) if torch.is_tensor(value) else value

        row_args = [narrow(value) if torch.is_tensor(value) else record_shape(value, self.size) for value in args]
        drawn = func(*row_args, **tree_map(narrow, kwargs))
        for target, source in zip(outputs_of(batch), outputs_of(drawn), strict=True):
            part = record_view(target, row, self.size, self.part)
            if record_dim(target.shape, self.size) is None:
                continue
            if part.shape == source.shape:  # also if `func` wrote to the part in place
                part.copy_(source)
            elif part.numel() == source.numel():  # the part has a dimension for copies
                part.copy_(source.reshape(part.shape))
            # In a permutation of all records, a record has another number of numbers. Such a permutation has no part of one record.


def keep_all(func: Any, args: tuple[Any, ...], drawn: Any) -> Any:
    """Return the result of a call that draws for dropout, as if nothing was dropped."""
    return func(args[0], 0.0, True) if func is torch.ops.aten.native_dropout.default else drawn.fill_(1)


def record_view(value: Tensor, row: int, size: int, part: RecordPart) -> Tensor:
    """Return a view of one record's part of a tensor; the tensor itself if it holds no records."""
    records = record_dim(value.shape, size)
    return value if records is None else part(value, records.dim, row, size)


def record_shape(value: Any, size: int) -> Any:
    """Return the shape for one record, given an argument that is a shape for the batch. Return other arguments unchanged."""
    if not isinstance(value, list | tuple) or not all(isinstance(length, int) for length in value):
        return value
    records = record_dim(value, size)
    if records is None:
        return value
    return [records.per_record if dim == records.dim else length for dim, length in enumerate(value)]


def record_numbers(value: Tensor, dim: int, row: int, size: int, part: RecordPart) -> Tensor:
    """Return a copy of one record's part of a drawn tensor, in the shape that the record alone would draw."""
    shape_alone = adjacent(value, dim, row, size).shape
    return part(value, dim, row, size).clone().reshape(shape_alone)


@dataclass(frozen=True, slots=True)
class DrawnNumbers:
    """The part of a drawn tensor that belongs to one record of a batch.

    Attributes:
        shape: Shape of the tensor that was drawn for the batch.
        parts: The record's part of the tensor along each dimension that may hold the records, for each function of `RECORD_PARTS`.
        generator_states: States of the generators before the draw.
    """

    shape: torch.Size
    parts: dict[RecordPart, list[Tensor]]
    generator_states: list[Tensor]

    def for_shape(self, shape: torch.Size, part: RecordPart) -> Tensor | None:
        """Return a part of this shape, or else a part with as many numbers; None if there is neither."""
        same_shape = [numbers for numbers in self.parts[part] if numbers.shape == shape]
        same_count = [numbers for numbers in self.parts[part] if numbers.numel() == shape.numel()]
        return next(iter(same_shape + same_count), None)


@contextmanager
def recorded_draws(row: int, size: int) -> Iterator[list[DrawnNumbers]]:
    """Record the random numbers that one record of a batch receives within the block, and yield their list."""
    recorded: list[DrawnNumbers] = []
    with RecordedDraws(row, size, recorded):
        yield recorded


class RecordedDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The dispatch mode of `recorded_draws`."""

    def __init__(self, row: int, size: int, recorded: list[DrawnNumbers]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.row, self.size, self.recorded = row, size, recorded

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if not draws_numbers(func, args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        states = [generator.get_state() for generator in generators()]
        drawn = func(*args, **(kwargs or {}))
        for value in tensors(drawn):
            dims = record_dims(value.shape, self.size)
            parts = {part: [record_numbers(value, dim, self.row, self.size, part) for dim, _ in dims] for part in RECORD_PARTS}
            self.recorded.append(DrawnNumbers(value.shape, parts, states))
        return drawn


@contextmanager
def replayed_draws(recorded: Sequence[DrawnNumbers], part: RecordPart = adjacent) -> Iterator[None]:
    """Give recorded numbers to a record that is processed alone. The generators are restored afterwards.

    Args:
        part: Position of the record where a dimension had several indices for each record.
    """
    with torch.random.fork_rng(devices=range(len(generators()) - 1)), ReplayedDraws(recorded, part):
        yield


class ReplayedDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The dispatch mode of `replayed_draws`.

    Each recorded draw is replayed once, in order. A tensor that has the same shape for one record as for the batch is shared by all
    records, and the recorded state of the generator draws it again. Any other draw is replaced by the record's part of the recorded draw.
    """

    def __init__(self, recorded: Sequence[DrawnNumbers], part: RecordPart) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorded, self.part = list(recorded), part

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if not draws_numbers(func, args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        if self.recorded:
            for generator, state in zip(generators(), self.recorded[0].generator_states, strict=False):
                generator.set_state(state)
        drawn = func(*args, **(kwargs or {}))
        for value in tensors(drawn):
            self.replay(value)
        return drawn

    def replay(self, value: Tensor) -> None:
        """Write the next recorded numbers to a drawn tensor. Leave the tensor unchanged if they do not fit it."""
        if not self.recorded:
            return
        recorded = self.recorded[0]
        numbers = recorded.for_shape(value.shape, self.part)
        if value.shape == recorded.shape:
            self.recorded.pop(0)
        elif numbers is not None:
            value.copy_(numbers.reshape(value.shape))
            self.recorded.pop(0)


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors among the outputs of an operator."""
    return [output for output in outputs_of(value) if torch.is_tensor(output)]


def outputs_of(value: Any) -> tuple[Any, ...]:
    """Return the outputs of an operator as a tuple."""
    return value if isinstance(value, tuple) else (value,)
