"""Random numbers that a model draws, so that a record has in a batch what it has alone.

Under `alike`, all records are given the same. Under `remembered`, the numbers that one record was given are kept, and under `repeated`
they are given to it again when it is taken alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from dpcli.audit.own_code import own_line
from dpcli.base.errors import InputError

MANY = 2048
SEPARATE = "expected a loss for each example that depends on it alone"


def draws(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator draws random numbers, by torch's own tag; attention and dropout that drop nothing draw none."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    names = [argument.name for argument in func._schema.arguments]
    values = {
        **{argument.name: argument.default_value for argument in func._schema.arguments},
        **dict(zip(names, args, strict=False)),
    }
    values |= kwargs
    return values.get("dropout_p") != 0.0 and values.get("train") is not False


def generators() -> tuple[torch.Generator, ...]:
    """Return the generators that an operator draws from by default."""
    return (torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ()))  # type: ignore[no-untyped-call]


def seed_all(seed: int) -> None:
    """Seed the devices in use: for the others, `torch.manual_seed` keeps the seed and the stack as text, most of the time of dropout."""
    for generator in generators():
        generator.manual_seed(seed)


def place(shape: Sequence[int], size: int) -> tuple[int, int] | None:
    """Return (dimension, entries of one record) in a tensor of `size` records; None if it has none.

    The first dimension of that many entries, else the first with several for each record, one record after the other.
    """
    return next(iter(places(shape, size)), None)


def places(shape: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Return all of them, the likeliest first."""
    exact = [(dim, 1) for dim, length in enumerate(shape) if length == size]
    return exact + [(dim, length // size) for dim, length in enumerate(shape) if length > size > 1 and length % size == 0]


@contextmanager
def alike(size: int, seed: int) -> Iterator[None]:
    """Random operators give every record the same numbers, whatever was drawn before.

    So a record has in a batch what it has alone, whether the program draws for all records at once, for one after the other in a loop, or
    one number for all of them. After many draws each is another, for a program that draws until it likes what it gets.

    Edge cases: a tensor whose dimensions happen to be as long as the batch may be cut along a wrong one.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), Alike(size, seed):
        yield


class Alike(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The mode of `alike`."""

    def __init__(self, size: int, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size, self.seed, self.done = size, seed, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if not draws(func, args, kwargs):
            return func(*args, **kwargs)
        if func is torch.ops.aten.randperm.default and args[0] == self.size > 1:
            line = own_line()
            raise InputError(f"loss: {SEPARATE}, found randperm over the records{' at ' if line else ''}{line}")
        self.done += 1
        self.seed_draw()
        drawn = func(*args, **kwargs)
        if any(place(tensor.shape, self.size) for tensor in tensors(drawn)):  # else one for all
            for row in range(self.size):
                self.seed_draw()
                self.draw_row(row, drawn, func, args, kwargs)
        return drawn

    def seed_draw(self) -> None:
        """Seed torch's generators by the seed, and by the number of the draw once there were many."""
        digest = hashlib.blake2b(repr((self.seed, max(0, self.done - MANY))).encode(), digest_size=8).digest()
        seed_all(int.from_bytes(digest, "little") >> 1)

    def draw_row(self, row: int, batch: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Draw one record's part anew, into its place in the batch's."""
        narrowed = [rows(value, row, self.size) if torch.is_tensor(value) else lengths(value, self.size) for value in args]
        drawn = func(*narrowed, **tree_map(lambda v: rows(v, row, self.size) if torch.is_tensor(v) else v, kwargs))
        for target, source in zip(*(value if isinstance(value, tuple) else (value,) for value in (batch, drawn)), strict=True):
            if place(target.shape, self.size) is not None and (own := rows(target, row, self.size)).shape == source.shape:
                own.copy_(source)  # a permutation of all records has no part that is one's own


def rows(value: Tensor, row: int, size: int) -> Tensor:
    """Return a view of one record's part; of a tensor without records, all of it."""
    at = place(value.shape, size)
    return value if at is None else value.narrow(at[0], row * at[1], at[1])


def lengths(value: Any, size: int) -> Any:
    """Return the shape for one record."""
    if not isinstance(value, list | tuple) or not all(isinstance(length, int) for length in value):
        return value
    at = place(value, size)
    return value if at is None else [at[1] if dim == at[0] else length for dim, length in enumerate(value)]


@dataclass(frozen=True, slots=True)
class DrawnNumbers:
    """A tensor that was drawn for a batch: its shape, and one record's part of it along each dimension that may hold the records.

    before: states of the generators, from which it can be drawn again.
    """

    shape: torch.Size
    parts: list[Tensor]
    before: list[Tensor]

    def of(self, shape: torch.Size) -> Tensor | None:
        """Return the part of this shape, else one of as many numbers."""
        fits = [part for part in self.parts if part.shape == shape] or [p for p in self.parts if p.numel() == shape.numel()]
        return fits[0] if fits else None


@contextmanager
def remembered(row: int, size: int) -> Iterator[list[DrawnNumbers]]:
    """Keep what one record of a batch is given, operator after operator."""
    kept: list[DrawnNumbers] = []
    with Remembered(row, size, kept):
        yield kept


class Remembered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The mode of `remembered`."""

    def __init__(self, row: int, size: int, kept: list[DrawnNumbers]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.row, self.size, self.kept = row, size, kept

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if not draws(func, args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        before = [generator.get_state() for generator in generators()]
        drawn = func(*args, **(kwargs or {}))
        for value in tensors(drawn):
            parts = [value.narrow(dim, self.row * each, each).clone() for dim, each in places(value.shape, self.size)]
            self.kept.append(DrawnNumbers(value.shape, parts, before))
        return drawn


@contextmanager
def repeated(kept: Sequence[DrawnNumbers]) -> Iterator[None]:
    """Give a record that is taken alone what was kept of it; the generators are afterwards as before."""
    with torch.random.fork_rng(devices=range(len(generators()) - 1)), Repeated(kept):
        yield


class Repeated(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The mode of `repeated`.

    Whatever has the same shape for one record as for the batch is shared by all, however long it is, and drawn again from the same state;
    a part of that many numbers is given; other draws are left as they are.
    """

    def __init__(self, kept: Sequence[DrawnNumbers]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept = list(kept)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        random = draws(func, args, kwargs or {})
        if random and self.kept:
            for generator, state in zip(generators(), self.kept[0].before, strict=False):
                generator.set_state(state)
        drawn = func(*args, **(kwargs or {}))
        for value in tensors(drawn) if random else []:
            part = self.kept[0].of(value.shape) if self.kept else None
            if self.kept and value.shape == self.kept[0].shape:
                self.kept.pop(0)
            elif part is not None:
                value.copy_(part.reshape(value.shape))
                self.kept.pop(0)
        return drawn


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors of one output or several."""
    return [one for one in (value if isinstance(value, tuple) else (value,)) if torch.is_tensor(one)]
