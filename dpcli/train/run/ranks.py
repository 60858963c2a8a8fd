"""The processes of a run, one or several: torchrun --nproc-per-node N -m dpcli train FILE.

Each step has one sample, drawn by the first process; each process clips and sums its part; the first adds the noise, once in total, and
all step with the same noisy sum. Every process takes part in every step, also where its part is empty, or the others would wait for it.
A sample is row numbers, which mean the same records in every process: each loads the data itself, and where one of them has other
records, or another order of them, all take those of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpcli.train.engine.batches import Batch
from dpcli.train.run.processes import several_processes

T = TypeVar("T")
CHUNK_BYTES = 2**26  # of records that are hashed or sent at a time


class Ranks:
    """The processes of a run: here a single one, which shares with nobody."""

    @property
    def first(self) -> bool:
        """Return whether this process draws, charges and writes."""
        return True

    def broadcast(self, value: T | None) -> T:
        """Return the first process' value, in every process; the others may give None."""
        assert value is not None
        return value

    def broadcast_records(self, batch: Batch) -> Batch:
        """Return the first process' records in its order, in every process: a row number means one record."""
        return batch

    def part(self, batch: Tensor) -> Tensor:
        """Return this process' part of the sample."""
        return batch

    def reduce(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums over all processes; meaningful in the first process alone."""
        return dict(sums)

    def broadcast_tensors(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the first process' tensors, in every process; the others give tensors of the same shapes."""
        return values

    def total(self, value: float) -> float:
        """Return the sum of a number over all processes."""
        return value

    def finish(self) -> None:
        """Wait at the end, so that no process leaves before all are done."""


class TorchrunProcesses(Ranks):
    """Processes that torchrun started; gloo on processors, nccl on GPUs."""

    def __init__(self, device: str) -> None:
        on_gpu = device.startswith("cuda")
        if not dist.is_initialized():
            dist.init_process_group("nccl" if on_gpu else "gloo")
        self.memory = "cuda" if on_gpu else "cpu"  # from which the processes send
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def broadcast(self, value: T | None) -> T:
        values: list[Any] = [value if self.first else None]
        dist.broadcast_object_list(values, 0)
        first: T = values[0]
        return first

    def broadcast_records(self, batch: Batch) -> Batch:
        leaves, structure = tree_flatten(batch)
        own = [(leaf.shape, leaf.dtype) for leaf in leaves], _digest(leaves)
        forms_of_first, digest_of_first = self.broadcast(own)
        if not self.total(float(own != (forms_of_first, digest_of_first))):
            return batch  # of a file, say, which may stay on the disk
        if self.first:
            leaves = [leaf.contiguous() for leaf in leaves]
        else:
            leaves = [torch.empty(shape, dtype=dtype) for shape, dtype in forms_of_first]
        for leaf in leaves:
            for chunk in _byte_chunks(leaf):
                sent = chunk.to(self.memory)
                dist.broadcast(sent, 0)
                chunk.copy_(sent)
        records: Batch = tree_unflatten(leaves, structure)
        return records

    def part(self, batch: Tensor) -> Tensor:
        return batch[self.rank :: self.world]

    def reduce(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        flat = torch.cat([value.reshape(-1).double() for value in sums.values()])  # double also where a process had one micro-batch
        dist.reduce(flat, 0)
        return _split(flat, sums)

    def broadcast_tensors(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        flat = torch.cat([value.reshape(-1) for value in values.values()])
        dist.broadcast(flat, 0)
        return _split(flat, values)

    def total(self, value: float) -> float:
        numbers: list[Any] = [None] * self.world
        dist.all_gather_object(numbers, value)
        return float(sum(numbers))

    def finish(self) -> None:
        dist.barrier()
        dist.destroy_process_group()  # its threads must not outlive it


def _byte_chunks(leaf: Tensor) -> tuple[Tensor, ...]:
    """Return a contiguous tensor's bytes, which gloo and nccl can send whatever its type is."""
    return torch.split(leaf.view(-1).view(torch.uint8), CHUNK_BYTES) if leaf.numel() else ()


def _digest(leaves: list[Tensor]) -> bytes:
    """Return the SHA-256 of tensors, their types and their shapes."""
    digest = hashlib.sha256()
    for leaf in leaves:
        digest.update(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
        for chunk in _byte_chunks(leaf.contiguous()):
            digest.update(chunk.numpy().data)
    return digest.digest()


def _split(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    parts = torch.split(flat, [value.numel() for value in like.values()])
    return {name: part.view(value.shape) for part, (name, value) in zip(parts, like.items(), strict=True)}


def ranks_of(device: str) -> Ranks:
    """Return the processes of this run, as the environment of torchrun says."""
    return TorchrunProcesses(device) if several_processes() else Ranks()
