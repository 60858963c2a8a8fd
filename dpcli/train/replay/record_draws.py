"""The random draws of a model, given to records and not to places: without a record, all others draw what they drew with it.

Under `OwnDraws` a random operator is run once for each record of the batch, from a seed that follows from the step, the record's own
numbers and the count of draws before it in the forward. Neither the batch, nor its order, nor the size of a micro-batch matters. What has
no dimension of records (a coin for the whole batch) is drawn once, from the step's seed.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.draws import generators, seed_all
from dpcli.train.engine.method import Loss

Place = tuple[int, int]  # the dimension of the records, and how many rows of it each has
SHARED = b"no record's own"


@dataclass(frozen=True, slots=True)
class BatchKeys:
    """A key for each record of a batch; mapped: whether vmap puts the records first, in whatever is drawn."""

    keys: tuple[bytes, ...]
    mapped: bool


class OwnDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode for one run, around all that it does; `seed` and the step in hand are those of the other run too."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed = seed
        self.step = 0
        self.batch: Batch | None = None
        self.rows: BatchKeys | None = None
        self.done = 0
        self.origin = b""
        self.places: dict[tuple[int, int], tuple[set[Place], set[int]]] = {}

    def loss(self, plain: Loss) -> Loss:
        """Return the loss, in whose forward each record draws for itself."""
        return Owned(plain, self)

    @contextmanager
    def of(self, batch: Batch) -> Iterator[None]:
        """Enclose the forward of this batch. torch's own seed counts too: a probe that sets it sees the same draws each time."""
        self.batch, self.rows, self.done = batch, None, 0
        self.origin = hashlib.blake2b(repr((self.seed, self.step, torch.initial_seed())).encode(), digest_size=16).digest()
        states = [generator.get_state() for generator in generators()]
        try:
            yield
        finally:
            self.batch, self.rows, self.done, self.origin = None, None, 0, b""  # nothing is left that a rehearsal would see
            for generator, state in zip(generators(), states, strict=False):
                generator.set_state(state)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        if self.batch is None or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **given)
        if given.get("generator") is not None:  # whose state would depend on who drew before
            given["generator"] = next(one for one in generators() if one.device == given["generator"].device)
        self.rows = self.rows or rows(self.batch)
        self.done += 1
        place = self.place(drawn_shape(args), self.rows)
        parts = [self.part(func, args, given, place, i) for i in range(len(self.rows.keys))] if place is not None else []
        if func._schema.name.endswith("_") and parts:
            return args[0]
        drawn = None if place is None else joined(parts, place)
        if drawn is None:
            self.begin(SHARED)
            return func(*args, **given)
        return drawn

    def part(self, func: Any, args: tuple[Any, ...], given: dict[str, Any], place: Place, i: int) -> Any:
        """Return what record i is given."""
        assert self.rows is not None
        self.begin(self.rows.keys[i])
        count, dimensions = len(self.rows.keys), len(drawn_shape(args))
        return func(*(own(value, place, count, dimensions, i) for value in args), **given)

    def begin(self, key: bytes) -> None:
        """Draw everything that comes next from this key."""
        digest = hashlib.blake2b(key + self.done.to_bytes(4, "little"), digest_size=8, key=self.origin).digest()
        seed_all(int.from_bytes(digest, "little") >> 1)

    def place(self, shape: Sequence[int], keys: BatchKeys) -> Place | None:
        """Return where the records are: what all calls of this draw agree on, whatever the size of the batch; None where nowhere.

        Several rows a record (attention heads) are believed once two sizes of the batch agree on them.
        """
        count = len(keys.keys)
        if keys.mapped:
            return (0, 1) if shape and shape[0] == count else None
        now = {(d, length // count) for d, length in enumerate(shape) if length and length % count == 0}
        known, sizes = self.places.get((self.done, len(shape)), (now, set()))
        left, seen = known & now, sizes | {count}
        self.places[self.done, len(shape)] = left, seen
        sure = [place for place in left if place[1] == 1 or len(seen) > 1]
        return min(sure, key=lambda place: (place[1] != 1, place), default=None)


class Owned:
    """A loss. It has slots and no __dict__: what it counts is not the user's state, which a forward must leave alone."""

    __slots__ = ("draws", "plain")

    def __init__(self, plain: Loss, draws: OwnDraws) -> None:
        self.plain, self.draws = plain, draws

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        followed = any(type(leaf) is not Tensor for leaf in tree_leaves(batch))  # a program as such has no records
        keyed = any(hasattr(mode, "keys") for mode in _get_current_dispatch_mode_stack())  # a probe gives them their draws itself
        if followed or keyed:
            return self.plain(model, batch)
        with self.draws.of(batch), only_torch():
            return self.plain(model, batch)


def drawn_shape(args: Sequence[Any]) -> Sequence[int]:
    """Return the shape of the first tensor that an operator is given, or the size; () where there is neither."""
    for value in args:
        if isinstance(value, Tensor):
            return value.shape
    return next((value for value in args if isinstance(value, list | tuple)), ())


def own(value: Any, place: Place, count: int, dimensions: int, i: int) -> Any:
    """Return record i's part of an argument."""
    dimension, each = place
    if isinstance(value, Tensor) and value.dim() == dimensions and value.shape[dimension] == count * each:
        return value.narrow(dimension, i * each, each)
    if isinstance(value, list | tuple) and len(value) == dimensions:
        return [each if d == dimension else length for d, length in enumerate(value)]
    return value


def joined(parts: Sequence[Any], place: Place) -> Any:
    """Return what all records were given; None for an operator whose draws are no rows of records (an order of the batch)."""
    dimension, each = place
    main = next(iter(tree_leaves(parts[0])))
    if main.dim() <= dimension or main.shape[dimension] != each:
        return None

    def together(*same: Tensor) -> Tensor:
        fits = same[0].dim() > dimension and same[0].shape[dimension] == each
        return torch.cat(same, dimension) if fits else same[0]

    return tree_map(together, parts[0], *parts[1:])


def rows(batch: Batch) -> BatchKeys:
    """Return a key for each record: what it holds, and not where it stands."""
    with temporarily_clear_interpreter_stack():  # else vmap would take what is done to the tensors behind it for the model's work
        leaves = [physical(leaf) for leaf in tree_leaves(batch)]
        mapped = any(was for _, was in leaves)
        parts = [leaf.detach().contiguous().cpu() for leaf, _ in leaves]
        contents = [part.reshape(len(part), math.prod(part.shape[1:])).view(torch.uint8).numpy() for part in parts]
    return BatchKeys(tuple(digest(*(part[i].tobytes() for part in contents)) for i in range(len(parts[0]))), mapped)


def digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def physical(leaf: Tensor) -> tuple[Tensor, bool]:
    """Return the tensor of all records behind one that vmap shows record by record, records first; and whether there is such a one."""
    mapped = False
    while functorch.is_functorch_wrapped_tensor(leaf):
        dimension = functorch.maybe_get_bdim(leaf)
        leaf = functorch.get_unwrapped(leaf)
        if dimension >= 0:
            leaf, mapped = leaf.movedim(dimension, 0), True
    return leaf, mapped


@contextmanager
def only_torch() -> Iterator[None]:
    """Raise InputError where numbers were drawn that cannot be told apart by record."""
    before = random.getstate(), np.random.get_state(legacy=False)
    yield
    after = random.getstate(), np.random.get_state(legacy=False)
    if before[0] != after[0] or not _equal(before[1], after[1]):
        raise InputError(
            "replay: expected a model and a loss that draw random numbers by torch alone, found one that uses Python's or numpy's: nobody "
            "can tell which record these are for"
        )


def _equal(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one["state"]["key"], other["state"]["key"]) and one["state"]["pos"] == other["state"]["pos"])
