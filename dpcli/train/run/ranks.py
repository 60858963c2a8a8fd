"""The processes of a run. There is one process, or torchrun starts several: torchrun --nproc-per-node N -m dpcli train FILE.

In each step, the first process draws a sample. Each process clips and sums its part of the sample. The first process adds the noise once to
the total. All processes update their weights with the same noisy sum. A process with an empty part also takes the step, because the other
processes wait for it.

A sample consists of row numbers, which must refer to the same records in every process. Each process loads the data itself. If the records
or their order differ between processes, all processes receive the records of the first one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from dpcli.train.engine.batches import Batch
from dpcli.train.run.processes import several_processes
from dpcli.train.torch_internals import tree_flatten, tree_unflatten

T = TypeVar("T")
CHUNK_BYTES = 2**26  # records are hashed and sent in chunks of this many bytes, which limits the memory of copies; arbitrary


class Ranks:
    """The processes of a run. An instance of this base class is a single process, which sends nothing."""

    @property
    def first(self) -> bool:
        """Return whether this is the first process, which draws samples, charges the ledger and writes files."""
        return True

    def broadcast(self, value: T | None) -> T:
        """Return the value of the first process in every process. The other processes may pass None."""
        assert value is not None
        return value

    def broadcast_records(self, batch: Batch) -> Batch:
        """Return the records of the first process in every process, so that a row number refers to the same record everywhere."""
        return batch

    def part(self, batch: Tensor) -> Tensor:
        """Return the part of a sample that this process computes: (5, 7, 9) is (5, 9) for the first of two processes."""
        return batch

    def reduce(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums over all processes, by name. The result is valid in the first process only."""
        return dict(sums)

    def broadcast_tensors(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the first process in every process. The other processes pass tensors of the same shapes."""
        return values

    def total(self, value: float) -> float:
        """Return the sum of the values of all processes in every process."""
        return value

    def finish(self) -> None:
        """Wait until all processes have finished."""


class TorchrunProcesses(Ranks):
    """The processes that torchrun started. They communicate by gloo on CPUs, and by nccl on GPUs."""

    def __init__(self, device: str) -> None:
        on_gpu = device.startswith("cuda")
        if not dist.is_initialized():
            dist.init_process_group("nccl" if on_gpu else "gloo")
        self.sending_device = "cuda" if on_gpu else "cpu"  # nccl sends from GPUs, gloo from CPUs
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def broadcast(self, value: T | None) -> T:
        values: list[Any] = [value if self.first else None]
        dist.broadcast_object_list(values, 0)
        value_of_first: T = values[0]
        return value_of_first

    def broadcast_records(self, batch: Batch) -> Batch:
        leaves, structure = tree_flatten(batch)
        forms, digest = [(leaf.shape, leaf.dtype) for leaf in leaves], _digest(leaves)
        forms_of_first, digest_of_first = self.broadcast((forms, digest))
        differs = (forms, digest) != (forms_of_first, digest_of_first)
        if not self.total(float(differs)):  # all processes take the same branch, because they send and receive together
            return batch  # without a copy: the records may be mapped from a file and remain on the disk
        if self.first:
            leaves = [leaf.contiguous() for leaf in leaves]
        else:
            leaves = [torch.empty(shape, dtype=dtype) for shape, dtype in forms_of_first]
        for leaf in leaves:
            for chunk in _byte_chunks(leaf):
                sent = chunk.to(self.sending_device)
                dist.broadcast(sent, 0)
                chunk.copy_(sent)
        records: Batch = tree_unflatten(leaves, structure)
        return records

    def part(self, batch: Tensor) -> Tensor:
        return batch[self.rank :: self.world]

    def reduce(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # The sums of processes are added in double precision, even if each is the sum of a single micro-batch.
        flat = torch.cat([value.reshape(-1).double() for value in sums.values()])
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
        dist.destroy_process_group()  # ends the threads of the group


def _byte_chunks(leaf: Tensor) -> tuple[Tensor, ...]:
    """Return the bytes of a contiguous tensor in chunks. gloo and nccl can send the bytes of a tensor of any type."""
    return torch.split(leaf.view(-1).view(torch.uint8), CHUNK_BYTES) if leaf.numel() else ()


def _digest(leaves: list[Tensor]) -> bytes:
    """Return the SHA-256 of the contents, types and shapes of tensors."""
    digest = hashlib.sha256()
    for leaf in leaves:
        digest.update(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
        for chunk in _byte_chunks(leaf.contiguous()):
            digest.update(chunk.numpy().data)
    return digest.digest()


def _split(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return consecutive parts of a vector by name, in the shapes of the tensors in `like`."""
    parts = torch.split(flat, [value.numel() for value in like.values()])
    return {name: part.view(value.shape) for part, (name, value) in zip(parts, like.items(), strict=True)}


def ranks_of(device: str) -> Ranks:
    """Return the processes of this run, according to the environment that torchrun sets."""
    return TorchrunProcesses(device) if several_processes() else Ranks()
