"""Random numbers that a model draws: each record's are its own, whoever else is in the batch.

Under `keyed`, the numbers that record r is given depend on its key and on nothing else, so that two runs that share r's key share its
dropout; under `alike`, all records are given the same. Under `remembered`, what one record was given is kept, and given to it again when
it is taken alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    """`torch.manual_seed` of the devices that are in use: for each of the others that one keeps the seed, and the stack as text, for good,
    which takes most of the time of a model with dropout."""
    for generator in generators():
        generator.manual_seed(seed)


def place(shape: Sequence[int], size: int) -> tuple[int, int] | None:
    """(dimension, entries of one record) in a tensor of `size` records; None if it has none.

    The first dimension of that many entries, else the first with several for each record, one record after the other.
    """
    exact = [(dim, 1) for dim, length in enumerate(shape) if length == size]
    merged = [(dim, length // size) for dim, length in enumerate(shape) if size > 1 and length and length % size == 0]
    return next(iter((*exact, *merged)), None)


@contextmanager
def keyed(keys: Sequence[int], seed: int) -> Iterator[None]:
    """Random operators draw each record's numbers from (seed, its key, how many operators drew before).

    Edge cases: what has no dimension of records is drawn from the seed alone. A tensor whose dimensions happen to be as long as the
    batch may be cut along a wrong one: two runs then differ where they need not.

    Args:
        keys: Keys of the batch's records, in its order; a record keeps its key in whatever batch it is.
        seed: Seed of the step.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), Keyed(keys, seed):
        yield


@contextmanager
def alike(size: int, seed: int) -> Iterator[None]:
    """Random operators give every record the same numbers, whatever was drawn before.

    So a record has in a batch what it has alone, whether the program draws for all records at once, for one after the other in a loop, or
    one number for all of them. After many draws each is another, for a program that draws until it likes what it gets.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), Keyed([None] * size, seed, repeats=MANY):
        yield


class Keyed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """See `keyed` and `alike`.

    Attributes:
        repeats: How many draws at first get the same numbers.
    """

    def __init__(self, keys: Sequence[int | None], seed: int, repeats: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.seed, self.repeats, self.done = list(keys), seed, repeats, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if not draws(func, args, kwargs):
            return func(*args, **kwargs)
        if func is torch.ops.aten.randperm.default and self.repeats and args[0] == len(self.keys) > 1:
            line = own_line()
            raise InputError(f"loss: {SEPARATE}, found randperm over the records{' at ' if line else ''}{line}")
        self.done += 1
        seed_all(self.mixed(None))
        drawn = func(*args, **kwargs)
        if self.repeats and not any(place(tensor.shape, len(self.keys)) for tensor in tensors(drawn)):
            return drawn  # one for all
        for row, key in enumerate(self.keys):
            seed_all(self.mixed(key))
            self.draw_row(row, drawn, func, args, kwargs)
        return drawn

    def mixed(self, key: int | None) -> int:
        """Return a seed of everything that a draw depends on."""
        of = repr((self.seed, key, max(0, self.done - self.repeats))).encode()
        return int.from_bytes(hashlib.blake2b(of, digest_size=8).digest(), "little") >> 1

    def draw_row(self, row: int, batch: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Draws one record's part anew, into its place in the whole."""
        size = len(self.keys)
        narrowed = [rows(value, row, size) if torch.is_tensor(value) else lengths(value, size) for value in args]
        drawn = func(*narrowed, **tree_map(lambda v: rows(v, row, size) if torch.is_tensor(v) else v, kwargs))
        for target, source in zip(*(value if isinstance(value, tuple) else (value,) for value in (batch, drawn)), strict=True):
            if place(target.shape, size) is not None and (own := rows(target, row, size)).shape == source.shape:
                own.copy_(source)  # a permutation of all records has no part that is one's own


def rows(value: Tensor, row: int, size: int) -> Tensor:
    """A view of one record's part; of a tensor without records, the whole."""
    at = place(value.shape, size)
    return value if at is None else value.narrow(at[0], row * at[1], at[1])


def lengths(value: Any, size: int) -> Any:
    """A shape for one record."""
    if not isinstance(value, list | tuple) or not all(isinstance(length, int) for length in value):
        return value
    at = place(value, size)
    return value if at is None else [at[1] if dim == at[0] else length for dim, length in enumerate(value)]


@contextmanager
def remembered(row: int, size: int) -> Iterator[list[list[Tensor]]]:
    """Keeps what one record of a batch is given, operator after operator: read along the first dimension of that length, and along the
    last, which is another where a tensor has two."""
    kept: list[list[Tensor]] = [[], []]
    with Remembered(row, size, kept):
        yield kept


class Remembered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """See `remembered`."""

    def __init__(self, row: int, size: int, kept: list[list[Tensor]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.row, self.size, self.kept = row, size, kept

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        drawn = func(*args, **(kwargs or {}))
        if draws(func, args, kwargs or {}):
            for value in tensors(drawn):
                self.kept[0].append(rows(value, self.row, self.size).clone())
                dims = [dim for dim, length in enumerate(value.shape) if length == self.size]
                self.kept[1].append(value.narrow(dims[-1], self.row, 1).clone() if len(dims) > 1 else self.kept[0][-1])
        return drawn


@contextmanager
def repeated(kept: Sequence[Tensor]) -> Iterator[None]:
    """Gives a record that is taken alone what was kept of it."""
    with Repeated(kept):
        yield


class Repeated(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """See `repeated`; draws afresh if nothing of that size was kept."""

    def __init__(self, kept: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept = list(kept)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        drawn = func(*args, **(kwargs or {}))
        if draws(func, args, kwargs or {}):
            for value in tensors(drawn):
                if self.kept and self.kept[0].numel() == value.numel():
                    value.copy_(self.kept.pop(0).reshape(value.shape))
        return drawn


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors of one output or several."""
    return [one for one in (value if isinstance(value, tuple) else (value,)) if torch.is_tensor(one)]
