"""A run on several processes: torchrun --nproc-per-node N -m dpcli train FILE.

Each step has one sample, drawn by the first process and shared out; each process clips and sums its part; the first adds the noise, once
in total, and everybody steps with the same noisy sum. Everybody takes part in every step, also where its part is empty, so that
nobody waits for one who does not come. A sample is row numbers, which mean the same records everywhere: each process loads the data
itself, and where one of them comes out with other records, or another order of them, all take those of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpcli.train.engine.batches import Batch
from dpcli.train.run.processes import several_processes

T = TypeVar("T")
PART = 2**26  # bytes of records that are read or sent at a time


class Ranks(Protocol):
    """The processes of a run."""

    @property
    def first(self) -> bool:
        """Return whether this process draws, charges and writes."""

    def same(self, value: T | None) -> T:
        """Return the first one's value, everywhere."""

    def same_records(self, batch: Batch) -> Batch:
        """Return the first one's records, in its order, everywhere: a row number means one record."""

    def part(self, batch: Tensor) -> Tensor:
        """Return this process' part of the sample."""

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums over all processes; of use in the first."""

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the first one's tensors, everywhere; elsewhere given for their shapes."""

    def number(self, value: float) -> float:
        """Return the sum of a number over all processes."""

    def part_ways(self) -> None:
        """Wait at the end: nobody leaves before everybody is done."""


class Alone:
    """A single process."""

    first = True

    def same(self, value: T | None) -> T:
        assert value is not None
        return value

    def same_records(self, batch: Batch) -> Batch:
        return batch

    def part(self, batch: Tensor) -> Tensor:
        return batch

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(sums)

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        return values

    def number(self, value: float) -> float:
        return value

    def part_ways(self) -> None:
        """Nobody waits."""


class Several:
    """Processes that torchrun started; gloo on processors, nccl on GPUs."""

    def __init__(self, device: str) -> None:
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        self.through = "cuda" if device.startswith("cuda") else "cpu"  # whose memory the processes send from
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def same(self, value: T | None) -> T:
        values: list[Any] = [value if self.first else None]
        dist.broadcast_object_list(values, 0)
        first: T = values[0]
        return first

    def same_records(self, batch: Batch) -> Batch:
        leaves, arranged = tree_flatten(batch)
        own = [(leaf.shape, leaf.dtype) for leaf in leaves], _digest(leaves)
        first = self.same(own)
        if not self.number(float(own != first)):
            return batch  # of a file, say, which may stay on the disk
        pairs = zip(leaves, first[0], strict=True)
        given = [leaf.contiguous() if self.first else torch.empty(shape, dtype=kind) for leaf, (shape, kind) in pairs]
        for leaf in given:
            for part in _parts(leaf):
                sent = part.to(self.through)
                dist.broadcast(sent, 0)
                part.copy_(sent)
        records: Batch = tree_unflatten(given, arranged)
        return records

    def part(self, batch: Tensor) -> Tensor:
        return batch[self.rank :: self.world]

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        flat = torch.cat([value.reshape(-1).double() for value in sums.values()])  # also where a process had one micro-batch
        dist.reduce(flat, 0)
        return _split(flat, sums)

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        flat = torch.cat([value.reshape(-1) for value in values.values()])
        dist.broadcast(flat, 0)
        return _split(flat, values)

    def number(self, value: float) -> float:
        numbers: list[Any] = [None] * self.world
        dist.all_gather_object(numbers, value)
        return float(sum(numbers))

    def part_ways(self) -> None:
        dist.barrier()
        dist.destroy_process_group()  # its threads must not outlive it


def _parts(leaf: Tensor) -> tuple[Tensor, ...]:
    """Return a contiguous tensor's bytes, which both kinds of groups can send whatever its type is."""
    return torch.split(leaf.view(-1).view(torch.uint8), PART) if leaf.numel() else ()


def _digest(leaves: list[Tensor]) -> bytes:
    """SHA-256 of tensors with their forms."""
    digest = hashlib.sha256()
    for leaf in leaves:
        digest.update(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
        for part in _parts(leaf.contiguous()):
            digest.update(part.numpy().data)
    return digest.digest()


def _split(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    parts = torch.split(flat, [value.numel() for value in like.values()])
    return {name: part.view(value.shape) for part, (name, value) in zip(parts, like.items(), strict=True)}


def ranks_of(device: str) -> Ranks:
    """Return the processes of this run, as the environment of torchrun says."""
    return Several(device) if several_processes() else Alone()
