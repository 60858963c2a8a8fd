"""Random draws of a model that belong to records. If one record is removed, all other records still draw the same numbers.

An audit runs the same steps with one record and without it (replay/program.py). It compares the two sums of each step, so the draws of the
other records, such as those of dropout, must not differ. program.py replaces the loss by one under `OwnDraws`.

Under `OwnDraws`, a random operator runs once for each record of the batch. Its seed is computed from the step, the content of the record
and the number of earlier draws in the forward pass. It does not depend on the other records or on the size of a micro-batch. A draw for the
whole batch, such as one coin, is made once, with the key SHARED in place of the content of a record. Under torch's vmap, a program seems to
run for one record at a time, but its operators draw for all records at once.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.draws import RecordDim, SameDraws, generators, seed_all
from dpcli.train.engine.method import Loss
from dpcli.train.torch_internals import (
    TorchDispatchMode,
    dispatch_modes,
    functorch,
    temporarily_clear_interpreter_stack,
    tree_leaves,
    tree_map,
)

SHARED = b"no record's own"  # key of the draws that all records share: any text but a hash of a record (16 bytes)


@dataclass(slots=True)
class PossiblePositions:
    """The positions that the records may have in a draw, as far as the forward passes so far show.

    Attributes:
        positions: Positions that fit the shape of the draw in all of these passes.
        sizes: Batch sizes of these passes.
    """

    positions: set[RecordDim]
    sizes: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class BatchKeys:
    """Keys of the records of a batch.

    Attributes:
        keys: Key of each record. It depends on the content of the record only.
        mapped: Whether the program runs under vmap, which puts the records first in every drawn tensor.
    """

    keys: tuple[bytes, ...]
    mapped: bool


class OwnDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode for a whole run, under which each record has its own draws.

    In all runs with the same seed, a record has the same draws in a step.

    Attributes:
        step: Number of the current step, from 1; 0 before the first. program.py sets it.
        batch: Records of the current forward pass; None outside of one.
        keys: Keys of these records; None before the first draw.
        draw_count: Number of draws so far in the forward pass.
        forward_key: Hash of the seed, the step and torch's seed, from which the seeds of draws are computed.
        possible: Possible positions of the records, by the number of the draw in the forward pass and its number of dimensions.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed = seed
        self.step = 0
        self.batch: Batch | None = None
        self.keys: BatchKeys | None = None
        self.draw_count = 0
        self.forward_key = b""
        self.possible: dict[tuple[int, int], PossiblePositions] = {}

    def loss(self, plain: Loss) -> Loss:
        """Return a loss that computes the loss `plain` with separate draws for each record."""
        return OwnDrawsLoss(plain, self)

    @contextmanager
    def forward(self, batch: Batch) -> Iterator[None]:
        """Give each record of a batch its own draws within the block, which runs one forward pass.

        The draws also depend on torch's seed. A probe that sets this seed therefore gets the same draws each time.
        """
        self.batch, self.keys, self.draw_count = batch, None, 0
        self.forward_key = digest(repr((self.seed, self.step, torch.initial_seed())).encode())
        states = [generator.get_state() for generator in generators()]
        try:
            yield
        finally:
            # The values are reset, because the check of isolation would report remaining values as changed state.
            self.batch, self.keys, self.draw_count, self.forward_key = None, None, 0, b""
            for generator, state in zip(generators(), states, strict=False):
                generator.set_state(state)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        options = dict(kwargs or {})
        if self.batch is None or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **options)
        if options.get("generator") is not None:  # the state of another generator would depend on earlier draws
            device = options["generator"].device
            options["generator"] = next(generator for generator in generators() if generator.device == device)
        self.keys = self.keys or batch_keys(self.batch)
        self.draw_count += 1
        position = self.position_of_records(drawn_shape(args), self.keys)
        if position is not None:
            parts = [self.draw_part(func, args, options, position, record) for record in range(len(self.keys.keys))]
            in_place = func._schema.name.endswith("_")  # torch's convention for operators that write into their first argument
            drawn = args[0] if in_place and parts else join(parts, position)
            if drawn is not None:
                return drawn
        self.seed_draw(SHARED)
        return func(*args, **options)

    def draw_part(self, func: Any, args: tuple[Any, ...], options: dict[str, Any], position: RecordDim, record: int) -> Any:
        """Return the part of a draw that belongs to one record. The key of the record seeds it."""
        assert self.keys is not None
        self.seed_draw(self.keys.keys[record])
        count, dimensions = len(self.keys.keys), len(drawn_shape(args))
        args_of_record = [record_part(value, position, count, dimensions, record) for value in args]
        return func(*args_of_record, **options)

    def seed_draw(self, key: bytes) -> None:
        """Seed torch's generators from a key and the number of the draw."""
        seed = hashlib.blake2b(key + self.draw_count.to_bytes(4, "little"), digest_size=8, key=self.forward_key).digest()
        seed_all(int.from_bytes(seed, "little") >> 1)  # 63 bits

    def position_of_records(self, shape: Sequence[int], keys: BatchKeys) -> RecordDim | None:
        """Return the position of the records in a draw that agrees with all earlier forward passes; None if there is none.

        A position is a dimension and the number of indices that each record has in it. Several indices for each record, such as attention
        heads, are accepted only after two different batch sizes agree on them.
        """
        count = len(keys.keys)
        if keys.mapped:
            return RecordDim(0, 1) if shape and shape[0] == count else None
        fitting = {RecordDim(d, length // count) for d, length in enumerate(shape) if length and length % count == 0}
        possible = self.possible.setdefault((self.draw_count, len(shape)), PossiblePositions(fitting))
        possible.positions &= fitting
        possible.sizes.add(count)
        certain = [position for position in possible.positions if position.per_record == 1 or len(possible.sizes) > 1]
        # One index for each record is the most likely, and then the first dimension.
        return min(certain, key=lambda position: (position.per_record != 1, position), default=None)


class OwnDrawsLoss:
    """A loss under `OwnDraws`.

    It has slots and no __dict__, so that its own state does not count as the user's state, which a forward pass must not change.
    """

    __slots__ = ("draws", "plain")

    def __init__(self, plain: Loss, draws: OwnDraws) -> None:
        self.plain, self.draws = plain, draws

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        has_fake_tensors = any(type(leaf) is not Tensor for leaf in tree_leaves(batch))  # the check of isolation is running
        # Under SameDraws, a probe gives the same numbers to all records.
        probed = any(isinstance(mode, SameDraws) for mode in dispatch_modes())
        if has_fake_tensors or probed:
            return self.plain(model, batch)
        with self.draws.forward(batch), only_torch_draws():
            return self.plain(model, batch)


def drawn_shape(args: Sequence[Any]) -> Sequence[int]:
    """Return the shape of the first tensor among the arguments of an operator.

    Without a tensor, return the first list or tuple, which is the size of the output; without both, ().
    """
    for value in args:
        if isinstance(value, Tensor):
            return value.shape
    return next((value for value in args if isinstance(value, list | tuple)), ())


def record_part(value: Any, position: RecordDim, count: int, dimensions: int, record: int) -> Any:
    """Return the part of an argument that belongs to one record. Arguments without records are returned unchanged.

    An argument is a tensor with `dimensions` dimensions, or the size of one: [64, 10] becomes [1, 10] for 64 records along dimension 0.
    """
    dim, per_record = position
    if isinstance(value, Tensor) and value.dim() == dimensions and value.shape[dim] == count * per_record:
        return value.narrow(dim, record * per_record, per_record)
    if isinstance(value, list | tuple) and len(value) == dimensions:
        return [per_record if d == dim else length for d, length in enumerate(value)]
    return value


def join(parts: Sequence[Any], position: RecordDim) -> Any:
    """Return the draws of all records as one tensor; None if a draw has no rows of records. A permutation of the batch has none."""

    def has_rows(tensor: Tensor) -> bool:
        return tensor.dim() > position.dim and tensor.shape[position.dim] == position.per_record

    def concatenate(*leaves: Tensor) -> Tensor:
        return torch.cat(leaves, position.dim) if has_rows(leaves[0]) else leaves[0]

    first_output = tree_leaves(parts[0])[0]
    return tree_map(concatenate, parts[0], *parts[1:]) if has_rows(first_output) else None


def batch_keys(batch: Batch) -> BatchKeys:
    """Return a key for each record. It is a hash of the record's content and does not depend on its position."""
    with temporarily_clear_interpreter_stack():  # without this, vmap would intercept operators on the underlying tensors
        leaves = [underlying(leaf) for leaf in tree_leaves(batch)]
        mapped = any(leaf.mapped for leaf in leaves)
        parts = [leaf.tensor.detach().contiguous().cpu() for leaf in leaves]
        contents = [part.reshape(len(part), math.prod(part.shape[1:])).view(torch.uint8).numpy() for part in parts]
    keys = tuple(digest(*(content[record].tobytes() for content in contents)) for record in range(len(parts[0])))
    return BatchKeys(keys, mapped)


def digest(*parts: bytes) -> bytes:
    """Return a hash of 16 bytes of the concatenated parts."""
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


class UnderlyingTensor(NamedTuple):
    """The tensor of all records that underlies a tensor under vmap. The records are in its first dimension.

    Attributes:
        mapped: Whether vmap is in use. Without it, the tensor underlies itself.
    """

    tensor: Tensor
    mapped: bool


def underlying(leaf: Tensor) -> UnderlyingTensor:
    """Return the tensor of all records that underlies a tensor."""
    mapped = False
    while functorch.is_functorch_wrapped_tensor(leaf):
        dimension = functorch.maybe_get_bdim(leaf)
        leaf = functorch.get_unwrapped(leaf)
        if dimension >= 0:
            leaf, mapped = leaf.movedim(dimension, 0), True
    return UnderlyingTensor(leaf, mapped)


@contextmanager
def only_torch_draws() -> Iterator[None]:
    """Raise InputError after the block if Python or numpy drew random numbers in it. Such numbers cannot be assigned to records.

    An error within the block is raised as it is.
    """
    python_before, numpy_before = random.getstate(), np.random.get_state(legacy=False)
    yield
    if python_before != random.getstate() or not _equal(numpy_before, np.random.get_state(legacy=False)):
        raise InputError(
            "replay: expected a model and a loss that draw random numbers by torch alone, found one that uses Python's or numpy's "
            "generator: its numbers cannot be assigned to records"
        )


def _equal(a: Any, b: Any) -> bool:
    """Return whether two states of numpy's generator are equal."""
    return bool(np.array_equal(a["state"]["key"], b["state"]["key"]) and a["state"]["pos"] == b["state"]["pos"])
